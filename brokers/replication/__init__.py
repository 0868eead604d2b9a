"""The partitions a broker holds: leader or follower, fetching, and who is in sync.

Mirrors `kafka.server.ReplicaManager`, `kafka.cluster.Partition`, the fetcher threads and `AlterPartitionManager`.
"""
