# The controller is killed. Nobody notices for the length of its session; then ZooKeeper deletes what it owned, both others
# race for /controller, one wins, reads the cluster, and finds its first work: the dead broker led a partition.

cluster brokers=3 seed=1
topic orders 0:1,2,3 1:2,3,1 2:3,1,2
settle
----

kill controller
advance 4s
----

advance 6s
----

restart 1
restart 2
restart 3
settle
----
