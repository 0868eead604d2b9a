"""Partition reassignment (KIP-455): requests, decisions and phases. Mirrors that half of `KafkaController`."""
