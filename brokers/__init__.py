"""The process: registration, server, request handlers, its view of the partitions.

One broker over a `World` (ZooKeeper, network, clock, random source, storage, event log): the same code in a real
process and in the simulator. Mirrors `kafka.server`. Imports `controller` and `foundation`.
"""
