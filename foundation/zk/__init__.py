"""ZooKeeper as Kafka uses it.

The `ZooKeeperClient` port (`client`), the znodes and their bytes (`znodes`, `admin_znodes`), the typed and fenced store
(`kafka_zk_client`, whose parts use `transactions`), and the adapter to real ensembles: `kazoo_client` on the loop,
`kazoo_connection` in kazoo's thread (the only file that imports kazoo), `jute` for ZooKeeper's wire format. Mirrors
`kafka.zk` and `kafka.zookeeper`. Imports `cluster` and `eventlog`.
"""
