"""`understudy topics --zookeeper`: topics by their znodes, as `kafka-topics.sh` up to 2.8 had it.

The controller does the rest: it is notified of a new znode, gives the topic an id and its partitions leaders, and
deletes topics that are marked. Mirrors `ZookeeperTopicService` and the parts of `AdminZkClient` that it calls.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from understudy.brokers.metadata.topic_names import has_collision_characters, is_internal
from understudy.brokers.metadata.topic_validation import validate_topic_create
from understudy.controller.replica_placement import assign_replicas_to_brokers
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.java_order import strings
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, TopicAssignment
from understudy.foundation.zk.transactions import MAX_ROUNDS
from understudy.kafka_tools.console import Console
from understudy.kafka_tools.errors import (
    OPERATION_FAILED,
    ToolError,
    error_of,
    illegal_argument,
)
from understudy.kafka_tools.options import Options
from understudy.kafka_tools.topic_filter import include_list
from understudy.kafka_tools.zookeeper.changes import change_config, check_topic_config

LOGGER = "kafka.admin.TopicCommand$"

Replicas = tuple[BrokerId, ...]


class Wanted(NamedTuple):
    """What the flags ask for.

    Attributes:
        assignment: the brokers of each partition; empty without `--replica-assignment`.
        configs: the configuration that `--config` sets.
        deleted_configs: the names that `--delete-config` gives.
    """

    assignment: Sequence[Sequence[int]]
    configs: Mapping[str, str]
    deleted_configs: Sequence[str]


class ZooKeeperTopics:
    """The actions of the tool.

    All raise ToolError, and what `KafkaZkClient` raises.

    Args:
        source: places the replicas of new topics.
    """

    def __init__(self, zk: KafkaZkClient, options: Options, console: Console, source: random.Random) -> None:
        self._zk = zk
        self._options = options
        self._console = console
        self._random = source

    # ------------------------------------------------------------------ create

    async def create(self, wanted: Wanted) -> None:
        """Create the topic."""
        name = self._options.value("topic") or ""
        if has_collision_characters(name):
            self._console.print(
                "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
                "collide. To avoid issues it is best to use either, but not both."
            )
        try:
            await self._create(name, wanted)
        except ApiError as error:
            if error.error == Errors.TOPIC_ALREADY_EXISTS and self._options.has("if-not-exists"):
                return
            raise error_of(error.error, error.message) from None
        self._console.print(f"Created topic {name}.")

    async def _create(self, name: str, wanted: Wanted) -> None:
        """Write the config, then the topic. Raises ApiError if the topic cannot be created."""
        if wanted.assignment:
            assignment = {index: tuple(map(BrokerId, brokers)) for index, brokers in enumerate(wanted.assignment)}
        else:
            assignment = assign_replicas_to_brokers(
                await self._racks(is_rack_aware=not self._options.has("disable-rack-aware")),
                self._options.number("partitions") or 0,
                self._options.number("replication-factor") or 0,
                self._random,
            )
        validate_topic_create(name, assignment, await self._zk.topics.names())
        await self._zk.configs.write("topics", name, wanted.configs, checks_controller=False)
        # Without an id, which the controller adds.
        failure = await self._zk.topics.create(name, None, {p: ReplicaAssignment(r) for p, r in assignment.items()})
        if failure is Failure.NODE_EXISTS:
            raise ApiError(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if failure is not None:
            raise ToolError(OPERATION_FAILED, f"Topic '{name}' could not be written to ZooKeeper: {failure.value}")

    async def _racks(self, *, is_rack_aware: bool = True) -> dict[BrokerId, str | None]:
        """Return the rack of each registered broker, in order of id. Raises ToolError if only some have one."""
        brokers = await self._zk.brokers.all()
        racks = {broker: brokers[broker].broker.rack if is_rack_aware else None for broker in sorted(brokers)}
        if None in racks.values() and any(rack is not None for rack in racks.values()):
            raise ToolError(
                OPERATION_FAILED,
                "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
                "assignment without rack information.",
            )
        return racks

    # ------------------------------------------------------------------ list, describe, delete

    async def list(self, wanted: Wanted) -> None:
        """Print the names of topics."""
        for name in await self._matching():
            marked = " - marked for deletion" if await self._zk.topic_deletions.is_marked(name) else ""
            self._console.print(name + marked)

    async def describe(self, wanted: Wanted) -> None:
        """Print topics and their partitions."""
        for name in await self._existing():
            found = (await self._zk.topics.assignments([name])).get(name)
            if found is None or not found.partitions:
                self._console.print(f"Topic {name} doesn't exist!")
            else:
                await self._describe(name, found)

    async def _describe(self, name: str, found: TopicAssignment) -> None:
        options = self._options
        mark = "\tMarkedForDeletion: true" if await self._zk.topic_deletions.is_marked(name) else ""
        config = (await self._zk.configs.read("topics", name)).config
        reports = [report for report in _REPORTS if options.has(report)]
        only_overridden = options.has("topics-with-overrides")
        if not reports and (config or not only_overridden):
            id_field = "" if found.topic_id is None else f"\tTopicId: {found.topic_id}"
            factor = len(next(iter(found.partitions.values())).replicas)
            configs = ",".join(f"{key}={config[key]}" for key in strings(config))
            self._console.print(
                f"Topic: {name}{id_field}\tPartitionCount: {len(found.partitions)}\tReplicationFactor: {factor}"
                f"\tConfigs: {configs}{mark}"
            )
        if only_overridden:
            return
        states = await self._zk.states.read(sorted(found.partitions))
        live = set(await self._zk.brokers.all())
        for partition in sorted(found.partitions):
            state = states[partition]
            led = None if isinstance(state, Failure) else state.leader_and_isr
            described = _Partition(partition, found.partitions[partition].replicas, led)
            if not reports or any(described.is_in(report, live) for report in reports):
                self._console.print(described.shown + mark)

    async def delete(self, wanted: Wanted) -> None:
        """Mark topics for deletion."""
        for name in await self._existing():
            if is_internal(name):
                raise ToolError(
                    OPERATION_FAILED,
                    f"Topic {name} is a kafka internal topic and is not allowed to be marked for deletion.",
                )
            if await self._zk.topic_deletions.mark(name):
                self._console.print(f"Topic {name} is marked for deletion.")
                self._console.print("Note: This will have no impact if delete.topic.enable is not set to true.")
            else:
                self._console.print(f"Topic {name} is already marked for deletion.")

    # ------------------------------------------------------------------ alter

    async def alter(self, wanted: Wanted) -> None:
        """Change the configuration of topics, add partitions, or both."""
        for name in await self._existing():
            if self._options.has("config") or self._options.has("delete-config"):
                await self._change_config(name, wanted)
            if self._options.has("partitions"):
                await self._add_partitions(name, wanted)

    async def _change_config(self, name: str, wanted: Wanted) -> None:
        self._console.print(
            "WARNING: Altering topic configuration from this script has been deprecated and may be removed in future "
            "releases.\n         Going forward, please use kafka-configs.sh for this functionality"
        )
        configs, deleted = wanted.configs, wanted.deleted_configs
        await change_config(self._zk, "topics", name, configs, deleted, check_topic_config)
        self._console.print(f"Updated config for topic {name}.")

    async def _add_partitions(self, name: str, wanted: Wanted) -> None:
        if is_internal(name):
            raise illegal_argument(f"The number of partitions for the internal topic {name} cannot be changed.")
        self._console.print(
            "WARNING: If partitions are increased for a topic that has a key, the partition logic or ordering of the "
            "messages will be affected"
        )
        for _ in range(MAX_ROUNDS):
            found = (await self._zk.topics.assignments([name])).get(name)
            if found is None or not found.partitions:
                raise error_of(Errors.INVALID_TOPIC_EXCEPTION, f"The topic {name} does not exist")
            added = await self._new_partitions(name, found, wanted.assignment[len(found.partitions) :])
            grown = found.partitions | added
            if await self._zk.topics.add_partitions(name, found.topic_id, grown, over=found.partitions):
                self._console.print("Adding partitions succeeded!")
                return
        raise ToolError(OPERATION_FAILED, f"The topic {name} kept changing; nothing was added.")

    async def _new_partitions(
        self, name: str, found: TopicAssignment, assignment: Sequence[Sequence[int]]
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """Return the partitions to add.

        Args:
            assignment: the brokers of each; empty if they are to be chosen.
        """
        existing, count = len(found.partitions), self._options.number("partitions") or 0
        model = found.partitions.get(TopicPartition(name, 0))
        if model is None:
            raise ToolError(
                OPERATION_FAILED,
                f"Unexpected existing replica assignment for topic '{name}', partition id 0 is missing.",
            )
        if count <= existing:
            raise error_of(
                Errors.INVALID_PARTITIONS,
                f"The number of partitions for a topic can only be increased. Topic {name} currently has {existing} "
                f"partitions, {count} would not be an increase.",
            )
        racks = await self._racks()
        if assignment:
            placed = {existing + index: tuple(map(BrokerId, brokers)) for index, brokers in enumerate(assignment)}
            _check_replicas(placed, len(model.replicas), racks)
        else:
            start = next((place for place, broker in enumerate(racks) if broker >= model.replicas[0]), 0)
            try:
                placed = assign_replicas_to_brokers(
                    racks,
                    count - existing,
                    len(model.replicas),
                    self._random,
                    fixed_start_index=start,
                    start_partition_id=existing,
                )
            except ApiError as error:
                raise error_of(error.error, error.message) from None
        return {TopicPartition(name, index): ReplicaAssignment(replicas) for index, replicas in placed.items()}

    # ------------------------------------------------------------------ which topics

    async def _matching(self) -> Sequence[str]:
        """Return the topics that `--topic` and `--exclude-internal` leave, sorted."""
        text = self._options.value("topic")
        pattern = include_list(".*" if text is None else text)
        leaves_out_internal = self._options.has("exclude-internal")
        return [
            name
            for name in await self._zk.topics.names()
            if pattern.fullmatch(name) and not (leaves_out_internal and is_internal(name))
        ]

    async def _existing(self) -> Sequence[str]:
        names, wanted = await self._matching(), self._options.value("topic")
        if wanted is not None and not names and not self._options.has("if-exists"):
            raise illegal_argument(f"Topic '{wanted}' does not exist as expected")
        return names


_REPORTS = ("under-replicated-partitions", "unavailable-partitions")


class _Partition(NamedTuple):
    """A partition with its assigned replicas, and the state that the controller has written; None without one."""

    partition: TopicPartition
    replicas: Replicas
    state: LeaderAndIsr | None

    @property
    def leader(self) -> int | None:
        return None if self.state is None or self.state.leader < 0 else self.state.leader

    @property
    def isr(self) -> Replicas:
        return () if self.state is None else self.state.isr

    def is_in(self, report: str, live: set[BrokerId]) -> bool:
        """Whether a flag selects it."""
        if report == "unavailable-partitions":
            return self.leader is None or self.leader not in live
        return len(self.replicas) > len(self.isr)

    @property
    def shown(self) -> str:
        fields = {
            "Topic": self.partition.topic,
            "Partition": self.partition.partition,
            "Leader": "none" if self.leader is None else self.leader,
            "Replicas": ",".join(map(str, self.replicas)),
            "Isr": ",".join(map(str, self.isr)),
        }
        return "".join(f"\t{name}: {value}" for name, value in fields.items())


def _check_replicas(placed: Mapping[int, Replicas], factor: int, brokers: Mapping[BrokerId, str | None]) -> None:
    """Raise ToolError for replicas that the user names and that a topic cannot have."""
    for partition, replicas in placed.items():
        if len(set(replicas)) < len(replicas):
            raise error_of(
                Errors.INVALID_REPLICA_ASSIGNMENT,
                "Duplicate brokers not allowed in replica assignment: "
                f"{_listed(replicas)} for partition id {partition}.",
            )
        if not brokers.keys() >= set(replicas):
            raise error_of(
                Errors.BROKER_NOT_AVAILABLE,
                f"Some brokers specified for partition id {partition} are not available. Specified brokers: "
                f"{_listed(replicas)}, available brokers: {_listed(brokers)}.",
            )
    odd = {partition: len(replicas) for partition, replicas in placed.items() if len(replicas) != factor}
    if odd:
        raise error_of(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            f"Inconsistent replication factor between partitions, partition 0 has {factor} while partitions "
            f"[{_listed(odd)}] have replication factors [{_listed(odd.values())}], respectively.",
        )


def _listed(items: Iterable[int]) -> str:
    return ", ".join(map(str, items))
