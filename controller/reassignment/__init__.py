"""Partitions move to other brokers (KIP-455): who asks for it, what becomes of the assignment, and the phases of the
move.

Mirrors the reassignment half of `KafkaController`.
"""
