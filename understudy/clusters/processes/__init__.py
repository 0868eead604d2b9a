"""Clusters of processes on one machine: an embedded ZooKeeper, broker processes, and faults injected into them.

`embedded_zookeeper` starts Apache ZooKeeper from jars of the wheel, or of PySpark in a checkout, `zookeeper_ensemble`
one server or several for a cluster; `local_cluster` runs brokers as child processes that end with their owner, and
injects faults into a broker by its id or role. Every fault is recorded before it is injected. Kafka's counterparts are
`EmbeddedZookeeper` and ducktape's `KafkaService`. Imports the configuration of `brokers` and the layers below it, never
`simulated`.
"""
