"""Finds the broker that coordinates a group or a transaction, and allocates producer ids.

Mirrors `kafka.coordinator.group` and `kafka.coordinator.transaction`. May import replication, membership, metadata and
config; no request handler.
"""
