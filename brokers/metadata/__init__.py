"""Keeps what UpdateMetadata requests say about the cluster. Mirrors `kafka.server.metadata`."""
