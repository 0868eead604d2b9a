"""AlterPartition (key 56): a leader proposes a new ISR; the controller decides and writes it (KIP-497).

Versions: 1 leader recovery state (KIP-704); 2 topic ids; 3 a broker epoch per ISR member (KIP-903). All are flexible.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, int64, since, until


class AlterPartitionRequest(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    """The czxid of the sender's registration."""
    topics: tuple[AlterPartitionRequestTopicData, ...] = ()


class AlterPartitionRequestTopicData(Message, frozen=True, kw_only=True):
    topic_name: Annotated[str, until(1), ignorable] = ""
    topic_id: Annotated[TopicId, since(2), ignorable] = NO_TOPIC_ID
    partitions: tuple[AlterPartitionRequestPartitionData, ...] = ()


class AlterPartitionRequestPartitionData(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    leader_epoch: int32 = 0
    new_isr: Annotated[tuple[int32, ...], until(2)] = ()
    """The ISR proposed, leader included."""
    new_isr_with_epochs: Annotated[tuple[AlterPartitionBrokerState, ...], since(3)] = ()
    """The ISR proposed, each member with the broker epoch that the leader knows."""
    leader_recovery_state: Annotated[int8, since(1)] = 0
    """1 while the leader recovers from an unclean election."""
    partition_epoch: int32 = 0
    """The data version of the state znode the proposal is based on."""


class AlterPartitionBrokerState(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    broker_epoch: int64 = -1
    """The member's broker epoch; -1 if the leader does not know it, which is not checked."""


class AlterPartitionResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    """Other than 0: the request as a whole was refused."""
    topics: tuple[AlterPartitionResponseTopicData, ...] = ()


class AlterPartitionResponseTopicData(Message, frozen=True, kw_only=True):
    topic_name: Annotated[str, until(1), ignorable] = ""
    topic_id: Annotated[TopicId, since(2), ignorable] = NO_TOPIC_ID
    partitions: tuple[AlterPartitionResponsePartitionData, ...] = ()


class AlterPartitionResponsePartitionData(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    error_code: int16 = 0
    leader_id: int32 = 0
    leader_epoch: int32 = 0
    isr: tuple[int32, ...] = ()
    leader_recovery_state: Annotated[int8, since(1), ignorable] = 0
    partition_epoch: int32 = 0
    """The data version of the state znode now."""
