"""The code of a user in virtual time: an event loop for each of its processes, transports, clocks and randomness.

The user's processes share the kernel and the network of `understudy.clusters.simulated` with the brokers.
"""
