"""UpdateMetadata (key 6): the controller sends a broker the metadata with which it answers clients.

Versions: 1 endpoints and security protocol; 2 rack; 3 listener names; 4 offline replicas; 5 broker epoch, grouped by
topic; 6 flexible; 7 topic ids; 8 KRaft controller flag and type (KIP-866).
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, int64, since, tag, until


class UpdateMetadataRequest(Message, frozen=True, kw_only=True):
    controller_id: int32 = 0
    is_kraft_controller: Annotated[bool, since(8)] = False
    """Always False from a controller in ZooKeeper mode."""
    type: Annotated[int8, since(8), tag(0)] = 0
    """0 unknown (what a controller in ZooKeeper mode sends), 1 incremental, 2 full."""
    controller_epoch: int32 = 0
    broker_epoch: Annotated[int64, since(5), ignorable] = -1
    """The czxid of the receiver's registration; -1 is not checked."""
    ungrouped_partition_states: Annotated[tuple[UpdateMetadataPartitionState, ...], until(4)] = ()
    topic_states: Annotated[tuple[UpdateMetadataTopicState, ...], since(5)] = ()
    live_brokers: tuple[UpdateMetadataBroker, ...] = ()
    """All live brokers, those that are shutting down included."""


class UpdateMetadataPartitionState(Message, frozen=True, kw_only=True):
    topic_name: Annotated[str, until(4), ignorable] = ""
    partition_index: int32 = 0
    controller_epoch: int32 = 0
    """Epoch of the controller that wrote this state, which may be older than the sender's."""
    leader: int32 = 0
    """-1: none; -2: the topic is queued for deletion."""
    leader_epoch: int32 = 0
    isr: tuple[int32, ...] = ()
    zk_version: int32 = 0
    """The data version of the partition's state znode."""
    replicas: tuple[int32, ...] = ()
    offline_replicas: Annotated[tuple[int32, ...], since(4), ignorable] = ()
    """Replicas that are not online, in the order of `replicas`."""


class UpdateMetadataTopicState(Message, frozen=True, kw_only=True):
    topic_name: str = ""
    topic_id: Annotated[TopicId, since(7), ignorable] = NO_TOPIC_ID
    partition_states: tuple[UpdateMetadataPartitionState, ...] = ()


class UpdateMetadataBroker(Message, frozen=True, kw_only=True):
    id: int32 = 0
    v0_host: Annotated[str, until(0), ignorable] = ""
    v0_port: Annotated[int32, until(0), ignorable] = 0
    endpoints: Annotated[tuple[UpdateMetadataEndpoint, ...], since(1), ignorable] = ()
    rack: Annotated[str | None, since(2), ignorable] = None


class UpdateMetadataEndpoint(Message, frozen=True, kw_only=True):
    port: int32 = 0
    host: str = ""
    listener: Annotated[str, since(3), ignorable] = ""
    security_protocol: int16 = 0
    """0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""


class UpdateMetadataResponse(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
