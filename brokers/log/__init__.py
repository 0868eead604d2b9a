"""The logs of partitions. Mirrors `kafka.log`. May import `understudy.brokers.world` and below; no replica and no
request.
"""
