"""Coordinators: which broker coordinates a group or a transaction, and where producer ids come from.

Mirrors `kafka.coordinator.group` and `kafka.coordinator.transaction`. May import replication, membership, metadata and
config; no request handler.
"""
