# A candidate's multi is applied, but the answer never arrives: it does not know that it has won. It looks before it acts,
# finds its own session on /controller, and takes over.

cluster brokers=2 seed=7
topic orders 0:1,2 1:2,1
settle
----

lose-answer 1 /controller applied
lose-answer 2 /controller applied
kill controller
advance 9s
----

restart 1
restart 2
settle
----
