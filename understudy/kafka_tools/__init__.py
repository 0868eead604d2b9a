"""Kafka's command-line tools in Python: the flags, output and exit codes of `bin/kafka-*.sh`, one module per tool.

Each works against any Kafka, ours or Apache's, over the `Network` port; `zookeeper/` has what tools do with
`--zookeeper`, over the `ZooKeeper` port.
"""
