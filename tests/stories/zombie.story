# A controller stands still between its write and its requests, longer than its session lasts. When it wakes, its successor
# rules: what the zombie still sends is refused by every broker, what it still writes by ZooKeeper.

cluster brokers=3 seed=2
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
call controller zombie
----

arm zombie partition.after_write pause 14s
bounce leader(orders/0) 8s
advance 9s
----

advance 8s
settle
----
