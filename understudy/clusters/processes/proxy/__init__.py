"""A TCP proxy between the brokers of a local cluster, their clients and ZooKeeper, which injects network faults.

It needs no root. Each broker binds its outgoing connections to its own loopback address and advertises an address of
the proxy, so that the proxy can identify both brokers of a connection.
"""
