"""Keeps the cluster's metadata as UpdateMetadata requests brought it. Mirrors `kafka.server.metadata.ZkMetadataCache`.

`updated` is a plain function: snapshot and UpdateMetadata to new snapshot and deleted partitions. `MetadataCache` keeps
the newest snapshot and lets handlers wait for one. Before the first UpdateMetadata it is empty; a broker without a
controller keeps the last one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from understudy.foundation.cluster.broker import SecurityProtocol
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import LEADER_DURING_DELETE
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

PartitionStates = Mapping[int, UpdateMetadataPartitionState]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """The cluster as of one UpdateMetadata. It never changes: the next request makes another one."""

    controller_id: BrokerId | None = None
    live_brokers: Mapping[int, UpdateMetadataBroker] = field(default_factory=dict)
    topics: Mapping[str, PartitionStates] = field(default_factory=dict)
    topic_ids: Mapping[str, TopicId] = field(default_factory=dict)
    topic_names: Mapping[TopicId, str] = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> UpdateMetadataPartitionState | None:
        return self.topics.get(topic, {}).get(partition)

    def topic_id(self, topic: str) -> TopicId:
        """Return the topic's id; the zero id if none is known."""
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def is_alive(self, broker: int) -> bool:
        return broker in self.live_brokers

    def endpoint(self, broker: int, listener: str) -> UpdateMetadataEndpoint | None:
        """Return the address of `broker` on `listener`; None if it is not alive or has no such listener."""
        alive = self.live_brokers.get(broker)
        if alive is None:
            return None
        return next((endpoint for endpoint in alive.endpoints if endpoint.listener == listener), None)

    def differing_listeners(self, broker: int) -> dict[int, tuple[str, ...]]:
        """Return every live broker's listeners if they are not all the same, and `broker` is alive (MC-4).

        Clients of a listener that some brokers lack see only a part of the cluster.
        """
        offered = {
            number: tuple(endpoint.listener for endpoint in self.live_brokers[number].endpoints)
            for number in sorted(self.live_brokers)
        }
        if broker not in offered or all(set(names) == set(offered[broker]) for names in offered.values()):
            return {}
        return offered


class MetadataUpdate(NamedTuple):
    """The new snapshot, and the partitions that it no longer has."""

    snapshot: MetadataSnapshot
    deleted: tuple[TopicPartition, ...]


def updated(snapshot: MetadataSnapshot, request: UpdateMetadataRequest) -> MetadataUpdate:
    """Replace live brokers and controller, merge partitions, and remove those with leader −2 (MC-1).

    The cost is a copy of the mapping of topics and of each topic in the request; the request's structs are not copied.
    """
    topics = dict(snapshot.topics)
    topic_ids = dict(snapshot.topic_ids)
    deleted: list[TopicPartition] = []
    for topic, topic_id, states in _by_topic(request):
        partitions = dict(topics.get(topic, {}))
        for state in states:
            if state.leader != LEADER_DURING_DELETE:
                partitions[state.partition_index] = state
            elif partitions.pop(state.partition_index, None) is not None:
                deleted.append(TopicPartition(topic, state.partition_index))
        if partitions:
            topics[topic] = partitions
        else:
            topics.pop(topic, None)
        if topic_id == NO_TOPIC_ID or not partitions:
            topic_ids.pop(topic, None)
        elif topic_id is not None:
            topic_ids[topic] = topic_id
    renamed = topic_ids != snapshot.topic_ids
    return MetadataUpdate(
        MetadataSnapshot(
            controller_id=BrokerId(request.controller_id) if request.controller_id >= 0 else None,
            live_brokers={broker.id: _with_listeners(broker) for broker in request.live_brokers},
            topics=topics,
            topic_ids=topic_ids if renamed else snapshot.topic_ids,
            topic_names={topic_id: topic for topic, topic_id in topic_ids.items()} if renamed else snapshot.topic_names,
        ),
        tuple(deleted),
    )


def _with_listeners(broker: UpdateMetadataBroker) -> UpdateMetadataBroker:
    """Name the listeners of versions 0 to 2 after their protocols: version 0 has one address, 1 and 2 have no names."""
    if not broker.endpoints and broker.v0_host:
        plain = SecurityProtocol.PLAINTEXT
        address = UpdateMetadataEndpoint(
            host=broker.v0_host, port=broker.v0_port, listener=plain.name, security_protocol=plain.value
        )
        return replace(broker, endpoints=(address,))
    if all(endpoint.listener for endpoint in broker.endpoints):
        return broker
    return replace(broker, endpoints=tuple(_with_listener(endpoint) for endpoint in broker.endpoints))


def _with_listener(endpoint: UpdateMetadataEndpoint) -> UpdateMetadataEndpoint:
    protocol = next((known for known in SecurityProtocol if known.value == endpoint.security_protocol), None)
    return endpoint if endpoint.listener or protocol is None else replace(endpoint, listener=protocol.name)


def _by_topic(
    request: UpdateMetadataRequest,
) -> list[tuple[str, TopicId | None, tuple[UpdateMetadataPartitionState, ...]]]:
    """Group the partitions by topic, with its id. Version 4 and older carry no ids (None): the topic keeps the one it
    has."""
    ungrouped = grouped((state.topic_name, state) for state in request.ungrouped_partition_states)
    return [
        *((topic.topic_name, topic.topic_id, topic.partition_states) for topic in request.topic_states),
        *((topic, None, states) for topic, states in ungrouped.items()),
    ]


class MetadataCache:
    """Keeps the newest snapshot, and waits for one that fulfils a condition."""

    def __init__(self) -> None:
        self.snapshot = MetadataSnapshot()
        self._replaced = asyncio.Event()

    def update(self, request: UpdateMetadataRequest) -> tuple[TopicPartition, ...]:
        """Apply `request`, wake the handlers that wait, and return the partitions it deleted."""
        self.snapshot, deleted = updated(self.snapshot, request)
        self._replaced.set()
        self._replaced = asyncio.Event()
        return deleted

    async def wait_until(self, condition: Callable[[MetadataSnapshot], bool], *, timeout_ms: float) -> bool:
        """Return whether a snapshot, the current one included, fulfilled `condition` within `timeout_ms`."""
        if condition(self.snapshot):
            return True
        if timeout_ms <= 0:
            return False
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not condition(self.snapshot):
                    await self._replaced.wait()
        except TimeoutError:
            return condition(self.snapshot)
        return True
