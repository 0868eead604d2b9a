"""Runs clusters of processes on one machine: an embedded ZooKeeper, broker processes, and faults injected into them.

`embedded_zookeeper` starts Apache ZooKeeper from the jars inside the PySpark wheel; `local_cluster` runs brokers as
child processes that end with their owner, and injects faults into a broker by its id or role. Every fault is recorded
before it is injected. `containers` runs the same cluster in containers of a compose project. Kafka's counterparts are
`EmbeddedZookeeper` and ducktape's `KafkaService`. The package imports `brokers` (the configuration only), `zk` and what
is below; never the simulator.
"""
