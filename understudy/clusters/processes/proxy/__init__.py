"""A TCP proxy between the brokers of a local cluster, their clients and ZooKeeper, which injects faults of networks.

It needs no root. Each broker binds its outgoing connections to a loopback address of its own and advertises an address
of the proxy, so that the proxy can tell which broker has opened a connection, and to which one.
"""
