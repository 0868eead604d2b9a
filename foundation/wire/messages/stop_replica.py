"""StopReplica (key 5): the controller makes a broker stop replicas, and delete them if requested.

Versions: 1 broker epoch, grouped by topic; 2 flexible; 3 leader epoch and deletion per partition; 4 KRaft controller
flag (KIP-866).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.wire.schema import Message, between, ignorable, int16, int32, int64, since, until


class StopReplicaRequest(Message, frozen=True, kw_only=True):
    controller_id: int32 = 0
    is_kraft_controller: Annotated[bool, since(4)] = False
    """Always False from a controller in ZooKeeper mode."""
    controller_epoch: int32 = 0
    broker_epoch: Annotated[int64, since(1), ignorable] = -1
    """The czxid of the receiver's registration; -1 is not checked."""
    delete_partitions: Annotated[bool, until(2)] = False
    """For all partitions of the request; later versions have a flag for each."""
    ungrouped_partitions: Annotated[tuple[StopReplicaPartitionV0, ...], until(0)] = ()
    topics: Annotated[tuple[StopReplicaTopicV1, ...], between(1, 2)] = ()
    topic_states: Annotated[tuple[StopReplicaTopicState, ...], since(3)] = ()


class StopReplicaPartitionV0(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    partition_index: int32 = 0


class StopReplicaTopicV1(Message, frozen=True, kw_only=True):
    name: str = ""
    partition_indexes: tuple[int32, ...] = ()


class StopReplicaTopicState(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    partition_states: tuple[StopReplicaPartitionState, ...] = ()


class StopReplicaPartitionState(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    leader_epoch: int32 = -1
    """-1: not checked; -2: the topic is being deleted."""
    delete_partition: bool = False


class StopReplicaResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    partition_errors: tuple[StopReplicaPartitionError, ...] = ()


class StopReplicaPartitionError(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    partition_index: int32 = 0
    error_code: int16 = 0
