"""What a broker knows of the cluster from the controller's UpdateMetadata requests. Mirrors `kafka.server.metadata`."""
