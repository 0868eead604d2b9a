"""Prints topics with their configuration and their partitions, for `understudy topics --describe`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from understudy.clusters.clients.config_requests import DEFAULT_CONFIG, TOPIC
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicPartition
from understudy.foundation.cluster.java_order import strings
from understudy.foundation.wire.messages.describe_configs import DescribeConfigsResourceResult
from understudy.foundation.wire.messages.list_partition_reassignments import OngoingPartitionReassignment
from understudy.foundation.wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from understudy.foundation.wire.nested_topics import by_partition
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console
from understudy.kafka_tools.errors import ToolError, error_of, illegal_argument
from understudy.kafka_tools.java_uuid import parse_uuid
from understudy.kafka_tools.options import Options
from understudy.kafka_tools.topic_filter import existing_topics

REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
"""The flags that select partitions."""
NEED_CONFIGS = ("under-min-isr-partitions", "at-min-isr-partitions")
"""Those that compare with a configuration, whose default only brokers have."""


class _Partition(NamedTuple):
    """A partition with the values by which flags select it."""

    state: MetadataResponsePartition
    min_isr: int
    live_brokers: frozenset[int]
    moving: OngoingPartitionReassignment | None

    @property
    def has_leader(self) -> bool:
        return self.state.leader_id in self.live_brokers

    @property
    def replication_factor(self) -> int:
        """Number of its replicas; while it is reassigned, the number before."""
        replicas = self.state.replica_nodes
        if self.moving is None or not set(replicas) & {*self.moving.adding_replicas, *self.moving.removing_replicas}:
            return len(replicas)
        return len(self.moving.replicas) - len(self.moving.adding_replicas)

    def is_in(self, report: str) -> bool:
        """Whether a flag selects it."""
        in_sync = len(self.state.isr_nodes)
        match report:
            case "under-replicated-partitions":
                return self.replication_factor > in_sync
            case "under-min-isr-partitions":
                return not self.has_leader or in_sync < self.min_isr
            case "at-min-isr-partitions":
                return in_sync == self.min_isr
        return not self.has_leader

    def shown(self, topic: str) -> str:
        state = self.state
        fields = {
            "Topic": topic,
            "Partition": state.partition_index,
            "Leader": state.leader_id if self.has_leader else "none",
            "Replicas": _ids(state.replica_nodes),
            "Isr": _ids(state.isr_nodes),
        }
        if self.moving is not None:
            fields["Adding Replicas"] = _ids(self.moving.adding_replicas)
            fields["Removing Replicas"] = _ids(self.moving.removing_replicas)
        # Eligible leader replicas exist in KRaft mode only (KIP-966).
        fields |= {"Elr": "N/A", "LastKnownElr": "N/A"}
        return "".join(f"\t{name}: {value}" for name, value in fields.items())


async def describe_topics(options: Options, cluster: KafkaCluster, console: Console) -> None:
    """Print the topics that the flags select. Raises ToolError if a topic that they name does not exist."""
    names = await _described(options, cluster)
    # The order of the two hash maps through which Kafka's client passes the descriptions.
    names = strings(strings(names, len(names)), len(names))
    metadata = await cluster.metadata(names, call="describeTopics")
    topics = {topic.name: topic for topic in metadata.topics}
    for topic in topics.values():
        if topic.error_code:
            raise error_of(topic.error_code)
    configs = await cluster.describe_configs(TOPIC, names)
    live = frozenset(broker.node_id for broker in metadata.brokers)
    reassignments = await _reassignments(cluster, [topics[name] for name in names]) if names else {}
    for name in names:
        min_isr = int(configs[name]["min.insync.replicas"].value or 1)
        partitions = [
            _Partition(state, min_isr, live, reassignments.get(TopicPartition(name, state.partition_index)))
            for state in sorted(topics[name].partitions, key=lambda partition: partition.partition_index)
        ]
        _print_topic(options, console, topics[name], partitions, configs[name])


def _print_topic(
    options: Options,
    console: Console,
    topic: MetadataResponseTopic,
    partitions: list[_Partition],
    configs: Mapping[str, DescribeConfigsResourceResult],
) -> None:
    ordered = [configs[key] for key in strings(configs)]
    overrides = [f"{each.name}={each.value}" for each in ordered if each.config_source != DEFAULT_CONFIG]
    reports = [report for report in REPORTS if options.has(report)]
    only_overridden = options.has("topics-with-overrides")
    if not reports and (overrides or not only_overridden):
        id_field = "" if topic.topic_id == NO_TOPIC_ID else f"\tTopicId: {topic.topic_id}"
        console.print(
            f"Topic: {topic.name}{id_field}\tPartitionCount: {len(partitions)}"
            f"\tReplicationFactor: {partitions[0].replication_factor}\tConfigs: {','.join(overrides)}"
        )
    if not only_overridden:
        for partition in partitions:
            if not reports or any(map(partition.is_in, reports)):
                console.print(partition.shown(topic.name or ""))


async def _described(options: Options, cluster: KafkaCluster) -> list[str]:
    text = options.value("topic-id")
    topic_id = NO_TOPIC_ID if text is None else parse_uuid(text)
    if topic_id == NO_TOPIC_ID:
        names = await existing_topics(options, cluster)
        if names:
            options.number("partition-size-limit-per-response")
        return names
    topics = await cluster.topics(with_internal=not options.has("exclude-internal"))
    names = [name for name, topic in topics.items() if topic.topic_id == topic_id]
    if not names and not options.has("if-exists"):
        raise illegal_argument(f"TopicId '{topic_id}' does not exist as expected")
    return names


async def _reassignments(
    cluster: KafkaCluster, topics: list[MetadataResponseTopic]
) -> Mapping[TopicPartition, OngoingPartitionReassignment]:
    """Return the reassignments in progress; none if the broker does not know the request."""
    try:
        return await cluster.list_partition_reassignments(by_partition(topics))
    except ToolError as error:
        if error.is_a("UnsupportedVersionException", "ClusterAuthorizationException"):
            return {}
        raise


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
