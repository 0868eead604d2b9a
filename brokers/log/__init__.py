"""Logs of partitions. Mirrors `kafka.log`. May import config; it knows no replica and no request."""
