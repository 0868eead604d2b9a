"""Metadata (key 3): brokers, controller, topics and the leaders of their partitions.

Versions: 1 all topics by null, controller id, rack; 2 cluster id; 3 throttle time; 4 auto creation by choice; 5 offline
replicas; 7 leader epoch; 8 authorized operations; 9 flexible; 10 topic ids; 11 cluster operations moved to
DescribeCluster; 12 topics by id alone.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, between, ignorable, int16, int32, nullable_since, since


class MetadataRequest(Message, frozen=True, kw_only=True):
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, nullable_since(1)] = None
    """None: all topics. Empty: none from version 1 on, all in version 0, which has no null."""
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, between(8, 10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


class MetadataRequestTopic(Message, frozen=True, kw_only=True):
    topic_id: Annotated[TopicId, since(10), ignorable] = NO_TOPIC_ID
    """May be used from version 12 on; 10 and 11 have the field, but brokers never served it."""
    name: Annotated[str | None, nullable_since(10)] = None


class MetadataResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(3), ignorable] = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: Annotated[str | None, since(2), ignorable] = None
    controller_id: Annotated[int32, since(1), ignorable] = -1
    """-1: unknown."""
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: Annotated[int32, between(8, 10)] = -(2**31)
    """A bit for each operation; the default if the request did not include them."""


class MetadataResponseBroker(Message, frozen=True, kw_only=True):
    node_id: int32 = 0
    host: str = ""
    port: int32 = 0
    rack: Annotated[str | None, since(1), ignorable] = None


class MetadataResponseTopic(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    name: Annotated[str | None, nullable_since(12)] = None
    """None only for a topic that was requested by an unknown id."""
    topic_id: Annotated[TopicId, since(10), ignorable] = NO_TOPIC_ID
    is_internal: Annotated[bool, since(1), ignorable] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[int32, since(8)] = -(2**31)
    """A bit for each operation; the default if the request did not include them."""


class MetadataResponsePartition(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    partition_index: int32 = 0
    leader_id: int32 = 0
    """-1: none."""
    leader_epoch: Annotated[int32, since(7), ignorable] = -1
    replica_nodes: tuple[int32, ...] = ()
    isr_nodes: tuple[int32, ...] = ()
    offline_replicas: Annotated[tuple[int32, ...], since(5), ignorable] = ()
