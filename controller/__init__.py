"""The brain that one broker at a time wears.

Kafka's ZooKeeper-mode controller: the race for `/controller`, one event queue, the partition and replica state
machines, fenced writes, and one ordered channel to every broker. Mirrors `kafka.controller`. Procedures are coroutines
over ports; every choice is a plain function over values. Imports `foundation` only: it never knows the broker that
hosts it.
"""
