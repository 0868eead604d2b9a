# While the new controller takes over, another broker dies. The watch fires in the middle of the takeover; the event waits its
# turn in the queue, and when it is handled the list is read anew.

cluster brokers=4 seed=6
topic orders 0:1,2,3 1:2,3,4 2:3,4,1 3:4,1,2
settle
call controller first
----

arm 1 failover.after_epoch pause 2s
arm 2 failover.after_epoch pause 2s
arm 3 failover.after_epoch pause 2s
arm 4 failover.after_epoch pause 2s
stop first
advance 1s
call controller second
expire leader(orders/2)
advance 500ms
----

advance 10s
restart first
settle
----
