"""The logs of partitions. Mirrors `kafka.log`. May import `brokers.world` and below; no replica and no request."""
