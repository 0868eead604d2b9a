"""LeaderAndIsr (key 4): the controller makes a broker leader or follower of partitions.

Versions: 1 is-new; 2 broker epoch, grouped by topic; 3 adding and removing replicas; 4 flexible; 5 topic ids and type
(KIP-516); 6 leader recovery state (KIP-704); 7 KRaft controller flag (KIP-866).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, int64, since, until


class LeaderAndIsrRequest(Message, frozen=True, kw_only=True):
    controller_id: int32 = 0
    is_kraft_controller: Annotated[bool, since(7)] = False
    """Always False from a controller in ZooKeeper mode."""
    controller_epoch: int32 = 0
    broker_epoch: Annotated[int64, since(2), ignorable] = -1
    """The czxid of the receiver's registration; -1 is not checked."""
    type: Annotated[int8, since(5)] = 0
    """0 unknown (what a controller in ZooKeeper mode sends), 1 incremental, 2 full."""
    ungrouped_partition_states: Annotated[tuple[LeaderAndIsrPartitionState, ...], until(1)] = ()
    topic_states: Annotated[tuple[LeaderAndIsrTopicState, ...], since(2)] = ()
    live_leaders: tuple[LeaderAndIsrLiveLeader, ...] = ()
    """The live brokers that lead a partition of this request, with their inter-broker endpoints."""


class LeaderAndIsrPartitionState(Message, frozen=True, kw_only=True):
    topic_name: Annotated[str, until(1), ignorable] = ""
    partition_index: int32 = 0
    controller_epoch: int32 = 0
    """Epoch of the controller that wrote this state, which may be older than the sender's."""
    leader: int32 = 0
    leader_epoch: int32 = 0
    isr: tuple[int32, ...] = ()
    partition_epoch: int32 = 0
    """The data version of the partition's state znode."""
    replicas: tuple[int32, ...] = ()
    """All replicas, those being added and removed included."""
    adding_replicas: Annotated[tuple[int32, ...], since(3), ignorable] = ()
    removing_replicas: Annotated[tuple[int32, ...], since(3), ignorable] = ()
    is_new: Annotated[bool, since(1), ignorable] = False
    """The partition is new: its replica may be created although a log directory is offline."""
    leader_recovery_state: Annotated[int8, since(6)] = 0
    """1 while the leader recovers from an unclean election."""


class LeaderAndIsrTopicState(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    topic_id: Annotated[TopicId, since(5), ignorable] = NO_TOPIC_ID
    """Zero if the topic has no id."""
    partition_states: tuple[LeaderAndIsrPartitionState, ...] = ()


class LeaderAndIsrLiveLeader(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    host_name: str = ""
    port: int32 = 0


class LeaderAndIsrResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    """Other than 0: the request as a whole was refused and nothing was done."""
    partition_errors: Annotated[tuple[LeaderAndIsrPartitionError, ...], until(4)] = ()
    topics: Annotated[tuple[LeaderAndIsrTopicError, ...], since(5)] = ()


class LeaderAndIsrPartitionError(Message, frozen=True, kw_only=True):
    topic_name: Annotated[str, until(4), ignorable] = ""
    partition_index: int32 = 0
    error_code: int16 = 0


class LeaderAndIsrTopicError(Message, frozen=True, kw_only=True):
    topic_id: TopicId = NO_TOPIC_ID
    partition_errors: tuple[LeaderAndIsrPartitionError, ...] = ()
