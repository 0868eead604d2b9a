"""The records of `__cluster_metadata`, the log of a KRaft quorum: the controller's and the quorum's own.

All versions are flexible. A record of the controller begins with its type and version (`MetadataRecordSerde`), the type
of a record of the quorum is in its key (`ControlRecordType`). Versions that Kafka 3.3 to 4.2 write: RegisterBroker 1
controlled shutdown, 2 migration, 3 directories; BrokerRegistrationChange 1 controlled shutdown, 2 directories;
Partition and PartitionChange 1 directories, 2 eligible leader replicas (KIP-966); LeaderChange 1 directories of voters.
"""

from __future__ import annotations

from typing import Annotated, Final

from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.wire.schema import (
    Message,
    ignorable,
    int8,
    int16,
    int32,
    int64,
    nullable_since,
    since,
    tag,
    uint16,
)

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_STATE_CHANGE: Final = -1


class MetadataEndpoint(Message, frozen=True, kw_only=True):
    name: str = ""
    host: str = ""
    port: uint16 = 0
    security_protocol: int16 = 0


class MetadataFeature(Message, frozen=True, kw_only=True):
    name: str = ""
    min_supported_version: int16 = 0
    max_supported_version: int16 = 0


class RegisterBrokerRecord(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    is_migrating_zk_broker: Annotated[bool, since(2)] = False
    incarnation_id: TopicId = NO_TOPIC_ID
    broker_epoch: int64 = 0
    end_points: tuple[MetadataEndpoint, ...] = ()
    features: tuple[MetadataFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, since(1)] = False
    log_dirs: Annotated[tuple[TopicId, ...], since(3), tag(0)] = ()


class UnregisterBrokerRecord(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    broker_epoch: int64 = 0


class TopicRecord(Message, frozen=True, kw_only=True):
    name: str = ""
    topic_id: TopicId = NO_TOPIC_ID


class PartitionRecord(Message, frozen=True, kw_only=True):
    partition_id: int32 = -1
    topic_id: TopicId = NO_TOPIC_ID
    replicas: tuple[int32, ...] = ()
    isr: tuple[int32, ...] = ()
    removing_replicas: tuple[int32, ...] = ()
    adding_replicas: tuple[int32, ...] = ()
    leader: int32 = NO_LEADER
    leader_recovery_state: Annotated[int8, tag(0)] = 0
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: Annotated[tuple[TopicId, ...], since(1)] = ()
    eligible_leader_replicas: Annotated[tuple[int32, ...] | None, since(2), nullable_since(2), tag(1)] = None
    last_known_elr: Annotated[tuple[int32, ...] | None, since(2), nullable_since(2), tag(2)] = None


class PartitionChangeRecord(Message, frozen=True, kw_only=True):
    """A change of a partition; fields without a change have their default."""

    partition_id: int32 = -1
    topic_id: TopicId = NO_TOPIC_ID
    isr: Annotated[tuple[int32, ...] | None, tag(0)] = None
    leader: Annotated[int32, tag(1)] = NO_LEADER_CHANGE
    replicas: Annotated[tuple[int32, ...] | None, tag(2)] = None
    removing_replicas: Annotated[tuple[int32, ...] | None, tag(3)] = None
    adding_replicas: Annotated[tuple[int32, ...] | None, tag(4)] = None
    leader_recovery_state: Annotated[int8, tag(5)] = NO_RECOVERY_STATE_CHANGE
    directories: Annotated[tuple[TopicId, ...] | None, since(1), nullable_since(1), tag(8)] = None
    eligible_leader_replicas: Annotated[tuple[int32, ...] | None, since(2), nullable_since(2), tag(6)] = None
    last_known_elr: Annotated[tuple[int32, ...] | None, since(2), nullable_since(2), tag(7)] = None


class FenceBrokerRecord(Message, frozen=True, kw_only=True):
    id: int32 = 0
    epoch: int64 = 0


class UnfenceBrokerRecord(Message, frozen=True, kw_only=True):
    id: int32 = 0
    epoch: int64 = 0


class RemoveTopicRecord(Message, frozen=True, kw_only=True):
    topic_id: TopicId = NO_TOPIC_ID


class FeatureLevelRecord(Message, frozen=True, kw_only=True):
    name: str = ""
    feature_level: int16 = 0


class BrokerRegistrationChangeRecord(Message, frozen=True, kw_only=True):
    broker_id: int32 = 0
    broker_epoch: int64 = 0
    fenced: Annotated[int8, tag(0)] = 0
    """-1 unfenced, 0 no change, 1 fenced."""
    in_controlled_shutdown: Annotated[int8, since(1), tag(1)] = 0
    log_dirs: Annotated[tuple[TopicId, ...], since(2), tag(2)] = ()


class NoOpRecord(Message, frozen=True, kw_only=True):
    pass


class BeginTransactionRecord(Message, frozen=True, kw_only=True):
    name: Annotated[str | None, tag(0)] = None


class EndTransactionRecord(Message, frozen=True, kw_only=True):
    pass


class AbortTransactionRecord(Message, frozen=True, kw_only=True):
    reason: Annotated[str | None, tag(0)] = None


class RegisterControllerRecord(Message, frozen=True, kw_only=True):
    controller_id: int32 = 0
    incarnation_id: TopicId = NO_TOPIC_ID
    zk_migration_ready: bool = False
    end_points: tuple[MetadataEndpoint, ...] = ()
    features: tuple[MetadataFeature, ...] = ()


# ------------------------------------------------------------------ records of the quorum


class QuorumVoter(Message, frozen=True, kw_only=True):
    voter_id: int32 = 0
    voter_directory_id: Annotated[TopicId, since(1), ignorable] = NO_TOPIC_ID


class LeaderChangeMessage(Message, frozen=True, kw_only=True):
    """The first record of a leader's epoch."""

    version: int16 = 0
    leader_id: int32 = 0
    voters: tuple[QuorumVoter, ...] = ()
    granting_voters: tuple[QuorumVoter, ...] = ()


class SnapshotHeaderRecord(Message, frozen=True, kw_only=True):
    version: int16 = 0
    last_contained_log_timestamp: int64 = 0
