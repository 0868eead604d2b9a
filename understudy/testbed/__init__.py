"""The real world on one machine: an embedded ZooKeeper, broker processes, and what can be done to them.

`embedded_zookeeper` starts Apache ZooKeeper from the jars inside the PySpark wheel; `local_cluster` runs brokers as
child processes that end with their owner, and injects faults by id or by role; every fault is recorded before it is
injected. Kafka's relatives are `EmbeddedZookeeper` and ducktape's `KafkaService`. Imports `brokers` (configuration
only), `zk` and below; never the simulator.
"""
