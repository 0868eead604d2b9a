"""What brokers and controller are built on.

`cluster` has the values (brokers, partitions, assignments), `eventlog` the records of what happened, `metrics` the
instruments for operators, `wire` Kafka's protocol and `zk` ZooKeeper as Kafka uses it. Nothing here imports a broker or
the controller; only `zk.kazoo_client` and `eventlog.files` reach outside the process.
"""
