"""A broker: its registration, its server, its request handlers, its replicas. Mirrors `kafka.server`.

A broker runs over a `World` (ZooKeeper, network, clock, random source, disk, event log), so that the same code runs
in a real process and in the simulator. Imports `controller` and `foundation`.
"""
