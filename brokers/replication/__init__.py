"""The partitions a broker hosts: leaders and followers, the fetching of followers, the ISR of leaders.

Mirrors `kafka.server.ReplicaManager`, `kafka.cluster.Partition`, the fetcher threads and `AlterPartitionManager`.
"""
