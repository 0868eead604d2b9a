# A broker is gone and back before its session ends. Its id never left /brokers/ids for long, but its epoch changed: the
# controller treats it as new, and orders meant for its former life are refused.

cluster brokers=3 seed=4
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----

bounce leader(orders/1) 300ms
advance 3s
----

advance 9s
settle
----
