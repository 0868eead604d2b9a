# The controller leaves politely, its ephemeral vanishes at once, and the other two race for /controller: one multi creates it
# and raises the epoch, the other's is refused as a whole.

cluster brokers=3 seed=5
topic orders 0:1,2,3
settle
call controller leaving
----

stop leaving
advance 3s
----

restart leaving
settle
----
