"""The real world on one machine: an embedded ZooKeeper, broker processes, and what can be done to them.

`embedded_zookeeper` starts Apache ZooKeeper from the jars inside the PySpark wheel; `local_cluster` runs brokers as
child processes that die with their owner, and strikes them by name or by role; every fault is on record before it
strikes. Kafka's relatives are `EmbeddedZookeeper` and ducktape's `KafkaService`. Imports `brokers` (configuration
only), `zk` and below; never the simulator.
"""
