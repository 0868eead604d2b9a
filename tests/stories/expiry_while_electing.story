# The session of a candidate expires while it reads the cluster: elected, and at once no longer. Its own writes fail, it
# resigns, opens another session, registers again and joins the next race as anybody else.

cluster brokers=3 seed=3
topic orders 0:1,2,3 1:2,3,1
settle
call controller first
----

arm 1 failover.after_epoch pause 9s
arm 2 failover.after_epoch pause 9s
arm 3 failover.after_epoch pause 9s
expire first
advance 4s
----

advance 10s
settle
----
