"""Coalesces the requests that wait for one broker into few, when its channel exceeds its bound (D14). Pure.

Without a bound, requests to a broker that does not respond would accumulate, most of them outdated by later ones. Only
the newest state of a partition counts, so requests of one API become one. The order of different APIs is kept for each
partition: a replica that is stopped and then started must receive both requests in that order. This happens rarely, so
a few layers (start, stop, start …) hold everything:

    LeaderAndIsr{a1 b1}  UpdateMetadata{a1 b1}  StopReplica{a}  LeaderAndIsr{b2 c1}  UpdateMetadata{b2 c1}
    →  UpdateMetadata{}  LeaderAndIsr{b2 c1 a1}  StopReplica{a}  UpdateMetadata{a1 b2 c1}

The first UpdateMetadata carries the live brokers and no partition, as after a takeover: a broker must know a leader
before LeaderAndIsr names it (KAFKA-4443). Kafka has no such bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar, assert_never

import msgspec

from understudy.controller.channels.request_batch import ControlRequest
from understudy.controller.channels.request_shapes import ControlMessage, split_by_deletion
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

_State = TypeVar("_State")
_Key: TypeAlias = tuple[str, TopicId, int]
"""(topic, its id, partition): a topic that was created again is another topic. StopReplica has no id."""


def coalesce(requests: Sequence[ControlRequest]) -> list[ControlRequest]:
    """Return requests that leave the broker in the state in which `requests`, in order, would leave it.

    All must be for the same registration of the same broker, by the same controller.
    """
    if len(requests) < 2:
        return list(requests)
    coalesced = _Coalesced()
    for request in requests:
        coalesced.add(request.message)
    first = requests[0]
    version_of = {type(request.message): request.version for request in requests}
    return [
        ControlRequest(
            broker_id=first.broker_id,
            broker_epoch=first.broker_epoch,
            message=part,
            version=version_of[type(part)],
            partitions=sum(len(topic.partition_states) for topic in part.topic_states),
        )
        for message in coalesced.messages()
        for part in _parts(message, version_of[type(message)])
    ]


def _parts(message: ControlMessage, version: int) -> Sequence[ControlMessage]:
    return split_by_deletion(message, version) if isinstance(message, StopReplicaRequest) else (message,)


@dataclass(slots=True)
class _Coalesced:
    """The newest states: `starts[0]`, `stops[0]`, `starts[1]`, … in this order, each with the partitions whose state it
    holds."""

    starts: list[dict[_Key, LeaderAndIsrPartitionState]] = field(default_factory=list)
    stops: list[dict[_Key, StopReplicaPartitionState]] = field(default_factory=list)
    turn_of: dict[tuple[str, int], int] = field(default_factory=dict)
    """Place of the newest state of a partition: 2n in `starts[n]`, 2n + 1 in `stops[n]`."""
    metadata: dict[_Key, UpdateMetadataPartitionState] = field(default_factory=dict)
    leaders: dict[int, LeaderAndIsrLiveLeader] = field(default_factory=dict)
    last_start: LeaderAndIsrRequest | None = None
    last_stop: StopReplicaRequest | None = None
    last_metadata: UpdateMetadataRequest | None = None

    def add(self, message: ControlMessage) -> None:
        match message:
            case LeaderAndIsrRequest():
                self._start(message)
            case StopReplicaRequest():
                self._stop(message)
            case UpdateMetadataRequest():
                self.last_metadata = message
                for topic in message.topic_states:
                    for state in topic.partition_states:
                        self.metadata[topic.topic_name, topic.topic_id, state.partition_index] = state
            case _:
                assert_never(message)

    def _start(self, message: LeaderAndIsrRequest) -> None:
        self.last_start = message
        self.leaders |= {leader.broker_id: leader for leader in message.live_leaders}
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = (topic.topic_name, state.partition_index)
                turn = self.turn_of.get(partition, 0)
                turn = self.turn_of[partition] = turn + turn % 2
                states = _at(self.starts, turn // 2)
                key = (topic.topic_name, topic.topic_id, state.partition_index)
                # The request that said that the partition is new has not been sent, so this one has to.
                is_new = state.is_new or (key in states and states[key].is_new)
                states[key] = msgspec.structs.replace(state, is_new=is_new)

    def _stop(self, message: StopReplicaRequest) -> None:
        self.last_stop = message
        for topic in message.topic_states:
            for state in topic.partition_states:
                partition = (topic.topic_name, state.partition_index)
                turn = self.turn_of.get(partition, 0)
                turn = self.turn_of[partition] = turn + 1 - turn % 2
                states = _at(self.stops, turn // 2)
                key = (topic.topic_name, NO_TOPIC_ID, state.partition_index)
                delete = state.delete_partition or (key in states and states[key].delete_partition)
                states[key] = msgspec.structs.replace(state, delete_partition=delete)

    def messages(self) -> list[ControlMessage]:
        made: list[ControlMessage] = []
        if self.last_metadata is not None and self.last_start is not None:
            made.append(msgspec.structs.replace(self.last_metadata, topic_states=()))
        for turn in range(max(len(self.starts), len(self.stops))):
            if self.last_start is not None and turn < len(self.starts) and self.starts[turn]:
                made.append(self._leader_and_isr(self.last_start, self.starts[turn]))
            if self.last_stop is not None and turn < len(self.stops) and self.stops[turn]:
                made.append(_stop_replica(self.last_stop, self.stops[turn]))
        if self.last_metadata is not None and (self.metadata or not made):
            made.append(_update_metadata(self.last_metadata, self.metadata))
        return made

    def _leader_and_isr(
        self, header: LeaderAndIsrRequest, states: Mapping[_Key, LeaderAndIsrPartitionState]
    ) -> LeaderAndIsrRequest:
        topics = tuple(
            LeaderAndIsrTopicState(topic_name=topic, topic_id=topic_id, partition_states=of_topic)
            for (topic, topic_id), of_topic in _by_topic(states).items()
        )
        return msgspec.structs.replace(header, topic_states=topics, live_leaders=tuple(self.leaders.values()))


def _stop_replica(header: StopReplicaRequest, states: Mapping[_Key, StopReplicaPartitionState]) -> StopReplicaRequest:
    topics = tuple(
        StopReplicaTopicState(topic_name=topic, partition_states=of_topic)
        for (topic, _), of_topic in _by_topic(states).items()
    )
    return msgspec.structs.replace(header, topic_states=topics)


def _update_metadata(
    header: UpdateMetadataRequest, states: Mapping[_Key, UpdateMetadataPartitionState]
) -> UpdateMetadataRequest:
    topics = tuple(
        UpdateMetadataTopicState(topic_name=topic, topic_id=topic_id, partition_states=of_topic)
        for (topic, topic_id), of_topic in _by_topic(states).items()
    )
    return msgspec.structs.replace(header, topic_states=topics)


def _at(turns: list[dict[_Key, _State]], turn: int) -> dict[_Key, _State]:
    while len(turns) <= turn:
        turns.append({})
    return turns[turn]


def _by_topic(states: Mapping[_Key, _State]) -> dict[tuple[str, TopicId], tuple[_State, ...]]:
    return grouped(((topic, topic_id), state) for (topic, topic_id, _), state in states.items())
