"""Control requests as small values, so that a test can compare what brokers received with what it expects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from understudy.controller.channels.request_shapes import ControlMessage
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSent:
    """The state of one partition in a LeaderAndIsr or an UpdateMetadata."""

    partition: str
    leader: int
    isr: tuple[int, ...]
    epoch: int = 0
    """The leader epoch."""
    version: int = 0
    """The partition epoch."""
    by: int = 1
    """The epoch of the controller that wrote the state."""
    is_new: bool = False
    """Only in a LeaderAndIsr."""
    offline: tuple[int, ...] = ()
    """The replicas that are offline; only in an UpdateMetadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStopped:
    """One replica in a StopReplica."""

    partition: str
    epoch: int
    """The leader epoch."""
    delete: bool = False


@dataclass(frozen=True, slots=True)
class LeaderAndIsrSent:
    """A LeaderAndIsr: its states, sorted by partition, and the ids of the leaders whose addresses it carries."""

    states: list[StateSent]
    live_leaders: list[int]
    controller_epoch: int = 1


@dataclass(frozen=True, slots=True)
class UpdateMetadataSent:
    """An UpdateMetadata: its states, sorted by partition, and the ids of the brokers that are alive."""

    states: list[StateSent]
    live_brokers: list[int]
    controller_epoch: int = 1


@dataclass(frozen=True, slots=True)
class StopReplicaSent:
    """A StopReplica: its replicas, sorted by partition."""

    replicas: list[ReplicaStopped]
    controller_epoch: int = 1


RequestSent: TypeAlias = LeaderAndIsrSent | UpdateMetadataSent | StopReplicaSent


def sent(message: ControlMessage) -> RequestSent:
    """The request as a small value."""
    match message:
        case LeaderAndIsrRequest():
            states = [
                StateSent(
                    partition=f"{topic.topic_name}-{state.partition_index}",
                    leader=state.leader,
                    isr=state.isr,
                    epoch=state.leader_epoch,
                    version=state.partition_epoch,
                    by=state.controller_epoch,
                    is_new=state.is_new,
                )
                for topic in message.topic_states
                for state in topic.partition_states
            ]
            leaders = [leader.broker_id for leader in message.live_leaders]
            return LeaderAndIsrSent(_sorted(states), leaders, message.controller_epoch)
        case UpdateMetadataRequest():
            states = [
                StateSent(
                    partition=f"{topic.topic_name}-{state.partition_index}",
                    leader=state.leader,
                    isr=state.isr,
                    epoch=state.leader_epoch,
                    version=state.zk_version,
                    by=state.controller_epoch,
                    offline=state.offline_replicas,
                )
                for topic in message.topic_states
                for state in topic.partition_states
            ]
            return UpdateMetadataSent(
                _sorted(states), [broker.id for broker in message.live_brokers], message.controller_epoch
            )
        case StopReplicaRequest():
            replicas = [
                ReplicaStopped(
                    partition=f"{topic.topic_name}-{state.partition_index}",
                    epoch=state.leader_epoch,
                    delete=state.delete_partition,
                )
                for topic in message.topic_states
                for state in topic.partition_states
            ]
            return StopReplicaSent(sorted(replicas, key=lambda replica: replica.partition), message.controller_epoch)


def partitions_of(request: RequestSent) -> list[str]:
    """The partitions that a request names."""
    if isinstance(request, StopReplicaSent):
        return [replica.partition for replica in request.replicas]
    return [state.partition for state in request.states]


def _sorted(states: list[StateSent]) -> list[StateSent]:
    return sorted(states, key=lambda state: state.partition)
