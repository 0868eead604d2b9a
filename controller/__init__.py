"""Kafka's ZooKeeper-mode controller. Mirrors `kafka.controller`.

The controller election, one event queue, the partition and replica state machines, fenced writes, and one ordered
channel to every broker. Procedures are coroutines over ports; every decision is a plain function over values. Imports
`foundation` only, not the broker that runs it.
"""
