"""The names of the tools, with Kafka's scripts; a separate module, so that `understudy --help` imports little."""

from __future__ import annotations

from typing import Final

NAMES: Final[dict[str, tuple[str, str]]] = {
    "topics": ("kafka-topics.sh", "list, describe, create, alter and delete topics"),
    "configs": ("kafka-configs.sh", "show and change configs of topics, brokers and loggers"),
    "groups": ("kafka-consumer-groups.sh", "show and delete consumer groups, reset their offsets"),
    "reassign": ("kafka-reassign-partitions.sh", "move partitions to other brokers"),
    "leader-election": ("kafka-leader-election.sh", "elect preferred or unclean leaders"),
    "preferred-leaders": (
        "kafka-preferred-replica-election.sh",
        "elect preferred leaders, as up to Kafka 2.8",
    ),
    "delete-records": ("kafka-delete-records.sh", "delete the records of partitions before an offset"),
    "get-offsets": ("kafka-get-offsets.sh", "show the offsets of partitions"),
    "log-dirs": ("kafka-log-dirs.sh", "show the log directories of brokers"),
    "dump-log": ("kafka-dump-log.sh", "print log segments, indexes and producer snapshots"),
    "produce": ("kafka-console-producer.sh", "send lines to a topic"),
    "consume": ("kafka-console-consumer.sh", "print the records of topics"),
    "api-versions": ("kafka-broker-api-versions.sh", "show the APIs that brokers serve"),
    "cluster": ("kafka-cluster.sh", "show the id of a cluster"),
    "zookeeper-shell": ("zookeeper-shell.sh", "read and write znodes"),
    "producer-perf": ("kafka-producer-perf-test.sh", "measure how fast records are sent"),
    "consumer-perf": ("kafka-consumer-perf-test.sh", "measure how fast records are read"),
}
"""Kafka's script and what the tool does, by the verb."""
