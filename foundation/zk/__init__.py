"""ZooKeeper as Kafka uses it.

The `ZooKeeperClient` port (`client.py`), the znodes and their bytes (`znodes.py`), the typed and fenced store
(`kafka_zk_client.py`), and the kazoo adapter (`kazoo_client.py`, the only file that imports kazoo). Mirrors `kafka.zk` and
`kafka.zookeeper`. Imports `cluster` and `eventlog`.
"""
