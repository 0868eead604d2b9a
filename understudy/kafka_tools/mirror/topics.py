"""Chooses the topics to copy, and creates and grows their copies. Mirrors `MirrorSourceConnector`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from understudy.brokers.metadata.topic_names import is_internal, why_invalid
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.config_requests import DYNAMIC_TOPIC_CONFIG, TOPIC
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.metadata import MetadataResponseTopic
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.mirror import progress
from understudy.kafka_tools.mirror.errors import MirrorError

NEVER_COPIED: Final = re.compile(r".*[-.]internal|.*\.replica|__.*")
"""The default of `topics.exclude` of Kafka's `DefaultTopicFilter`."""
OWN_CONFIGS: Final = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "unclean.leader.election.enable",
        "min.insync.replicas",
    }
)
"""Configs that are not copied: the default of `config.properties.exclude`. Mirrors `DefaultConfigPropertyFilter`."""


@dataclass(frozen=True)
class Selection:
    """The topics to copy, and the names of their copies.

    Attributes:
        prefix: the beginning of the name of each copy.
        renames: patterns of whole names, and what a name becomes; the first that matches decides.
    """

    include: re.Pattern[str]
    exclude: re.Pattern[str] | None = None
    prefix: str = ""
    renames: Sequence[tuple[re.Pattern[str], str]] = field(default=())

    def chooses(self, topic: str) -> bool:
        if is_internal(topic) or NEVER_COPIED.fullmatch(topic) or not self.include.fullmatch(topic):
            return False
        return self.exclude is None or not self.exclude.fullmatch(topic)

    def name_of_copy(self, topic: str) -> str:
        """Return the name of a topic's copy; raises MirrorError if it is no name of a topic."""
        name = topic
        for pattern, replacement in self.renames:
            if found := pattern.fullmatch(topic):
                name = found.expand(replacement)
                break
        name = self.prefix + name
        if (reason := why_invalid(name)) is not None:
            raise MirrorError(f"the copy of {topic} cannot be named {name!r}; change --prefix or --rename: {reason}")
        return name


class TopicCopy(NamedTuple):
    """A topic and its copy.

    Attributes:
        topic_id: the id of the source's topic.
        replication_factor: the copy's, if it is created.
        existing: the number of partitions that the copy has already; None if it does not exist.
        configs: what was set for the topic at the source, but for `OWN_CONFIGS`.
        changes: the `configs` of which an existing copy has another value.
    """

    topic: str
    copy: str
    topic_id: str
    partitions: int
    replication_factor: int
    existing: int | None
    configs: Mapping[str, str]
    changes: Mapping[str, str]

    @property
    def in_words(self) -> str:
        """The changes at the target, for a person."""
        name = self.topic if self.copy == self.topic else f"{self.topic} as {self.copy}"
        shown = ", ".join(f"{key}={value}" for key, value in self.configs.items())
        if self.existing is None:
            settings = f", {shown}" if shown else ""
            return f"{name}: create {self.partitions} partitions × {self.replication_factor} replicas{settings}"
        parts = (
            [] if self.existing == self.partitions else [f"grow from {self.existing} to {self.partitions} partitions"]
        )
        parts += [f"set {key}={value}" for key, value in self.changes.items()]
        return f"{name}: {', '.join(parts) or 'is there'}"


async def find_copies(
    source: KafkaCluster,
    target: KafkaCluster,
    selection: Selection,
    *,
    replication_factor: int | None = None,
    is_same_cluster: bool = False,
) -> list[TopicCopy]:
    """Return the topics to copy by name, with the changes to make at the target.

    Args:
        replication_factor: of copies that are created; by default as at the source, but no more than the target has
            brokers.
        is_same_cluster: whether both are one cluster, so that a copy needs another name.

    Raises:
        MirrorError: two topics have one copy, or a copy has more partitions than its topic.
        ToolError: a cluster does not answer.
    """
    topics = {name: found for name, found in (await source.topics()).items() if selection.chooses(name)}
    metadata = await target.metadata()
    existing = {found.name: found for found in metadata.topics if found.name is not None}
    names = {topic: selection.name_of_copy(topic) for topic in topics}
    if is_same_cluster:
        copied = {copy for topic, copy in names.items() if copy != topic}
        topics = {name: found for name, found in topics.items() if name not in copied}
    _check_names({name: names[name] for name in topics}, is_same_cluster)
    copies = []
    for name, found in topics.items():
        copy = existing.get(names[name])
        partitions = len(found.partitions)
        if copy is not None and len(copy.partitions) > partitions:
            raise MirrorError(
                f"{names[name]} has {len(copy.partitions)} partitions at the target, {name} has {partitions} at the "
                f"source, and partitions cannot be removed; delete the copy, --exclude the topic, or --rename its copy"
            )
        configs = await _configs(source, name)
        held = {} if copy is None else await _configs(target, names[name])
        wanted_replicas = replication_factor or _replicas(found)
        copies.append(
            TopicCopy(
                topic=name,
                copy=names[name],
                topic_id=str(found.topic_id),
                partitions=partitions,
                replication_factor=min(wanted_replicas, len(metadata.brokers)),
                existing=None if copy is None else len(copy.partitions),
                configs=configs,
                changes={key: value for key, value in configs.items() if held.get(key) != value},
            )
        )
    return copies


async def make_copies(target: AdminClient, copies: Iterable[TopicCopy]) -> None:
    """Create, grow and configure the copies at the target.

    Raises:
        MirrorError: the target refuses it.
        NoBrokerAnswers: it does not answer.
    """
    for copy in copies:
        try:
            if copy.existing is None:
                await target.create_topic(
                    copy.copy,
                    partitions=copy.partitions,
                    replication_factor=copy.replication_factor,
                    configs=copy.configs,
                )
                continue
            if copy.existing < copy.partitions:
                await target.create_partitions(copy.copy, copy.partitions)
            if copy.changes:
                await target.alter_config(TOPIC, copy.copy, dict(copy.changes))
        except ApiError as error:
            if error.error is not Errors.TOPIC_ALREADY_EXISTS:
                raise MirrorError(f"the target refuses {copy.in_words}: {error}") from None


async def make_progress_topic(target: AdminClient, brokers: int) -> None:
    """Create the topic of the progress if it does not exist; raises as `make_copies`."""
    try:
        await target.create_topic(
            progress.TOPIC, partitions=1, replication_factor=min(3, brokers), configs=progress.CONFIGS
        )
    except ApiError as error:
        if error.error is not Errors.TOPIC_ALREADY_EXISTS:
            raise MirrorError(f"the target refuses to create {progress.TOPIC}: {error}") from None


def _check_names(names: Mapping[str, str], is_same_cluster: bool) -> None:
    topic_of: dict[str, str] = {}
    for topic, copy in names.items():
        if copy in topic_of:
            raise MirrorError(f"{topic_of[copy]} and {topic} would have one copy, {copy}; change --rename or --exclude")
        if is_same_cluster and copy == topic:
            raise MirrorError(f"source and target are one cluster, so {topic} needs another name: give --prefix")
        topic_of[copy] = topic


def _replicas(topic: MetadataResponseTopic) -> int:
    return max((len(partition.replica_nodes) for partition in topic.partitions), default=1)


async def _configs(cluster: KafkaCluster, topic: str) -> dict[str, str]:
    return {
        entry.name: entry.value
        for entry in (await cluster.describe_config(TOPIC, topic)).values()
        if entry.config_source == DYNAMIC_TOPIC_CONFIG and entry.value is not None and entry.name not in OWN_CONFIGS
    }
