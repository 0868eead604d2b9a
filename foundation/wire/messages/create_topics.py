"""CreateTopics (key 19): create topics, with replicas chosen by the client or the broker.

Versions: 1 validate only, error messages; 2 throttle time; 4 defaults by -1 (KIP-464); 5 flexible, the resulting
configuration (KIP-525); 6 throttling as an error (KIP-599); 7 topic ids.
"""

from __future__ import annotations

from typing import Annotated

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import Message, ignorable, int8, int16, int32, since, tag


class CreateTopicsRequest(Message, frozen=True, kw_only=True):
    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int32 = 60000
    """How long the answer waits for leaders of the topics; they are created also after a timeout."""
    validate_only: Annotated[bool, since(1)] = False


class CreatableTopic(Message, frozen=True, kw_only=True):
    name: str = ""
    num_partitions: int32 = 0
    """-1 with assignments, or for the broker's default."""
    replication_factor: int16 = 0
    """-1 with assignments, or for the broker's default."""
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


class CreatableReplicaAssignment(Message, frozen=True, kw_only=True):
    partition_index: int32 = 0
    broker_ids: tuple[int32, ...] = ()
    """The replicas, the preferred leader first."""


class CreatableTopicConfig(Message, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None


class CreateTopicsResponse(Message, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[int32, since(2), ignorable] = 0
    topics: tuple[CreatableTopicResult, ...] = ()


class CreatableTopicResult(Message, frozen=True, kw_only=True):
    name: str = ""
    topic_id: Annotated[TopicId, since(7), ignorable] = NO_TOPIC_ID
    error_code: int16 = 0
    error_message: Annotated[str | None, since(1), ignorable] = None
    topic_config_error_code: Annotated[int16, since(5), tag(0), ignorable] = 0
    """The error because of which `configs` is missing."""
    num_partitions: Annotated[int32, since(5), ignorable] = -1
    replication_factor: Annotated[int16, since(5), ignorable] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, since(5), ignorable] = None


class CreatableTopicConfigs(Message, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: Annotated[int8, ignorable] = -1
    """1 topic, 2 broker, 3 cluster default of brokers, 4 static, 5 default."""
    is_sensitive: bool = False
