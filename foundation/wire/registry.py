"""The table of APIs: key, name, versions, message classes. Mirrors `org.apache.kafka.common.protocol.ApiKeys`.

Versions are Apache Kafka 3.9's. They can be encoded and decoded; a broker's handlers decide which it serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from understudy.foundation.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from understudy.foundation.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from understudy.foundation.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from understudy.foundation.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from understudy.foundation.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from understudy.foundation.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from understudy.foundation.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from understudy.foundation.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from understudy.foundation.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from understudy.foundation.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from understudy.foundation.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse
from understudy.foundation.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from understudy.foundation.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from understudy.foundation.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from understudy.foundation.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse
from understudy.foundation.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from understudy.foundation.wire.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from understudy.foundation.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from understudy.foundation.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from understudy.foundation.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from understudy.foundation.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from understudy.foundation.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from understudy.foundation.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from understudy.foundation.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from understudy.foundation.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from understudy.foundation.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from understudy.foundation.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from understudy.foundation.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from understudy.foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from understudy.foundation.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from understudy.foundation.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from understudy.foundation.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from understudy.foundation.wire.messages.fetch import FetchRequest, FetchResponse
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from understudy.foundation.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from understudy.foundation.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from understudy.foundation.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from understudy.foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from understudy.foundation.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse
from understudy.foundation.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from understudy.foundation.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from understudy.foundation.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from understudy.foundation.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from understudy.foundation.wire.messages.produce import ProduceRequest, ProduceResponse
from understudy.foundation.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from understudy.foundation.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from understudy.foundation.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from understudy.foundation.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from understudy.foundation.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from understudy.foundation.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from understudy.foundation.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from understudy.foundation.wire.schema import Message

NEVER_FLEXIBLE: Final = 1 << 15
"""First flexible version of an API that has none."""


@dataclass(frozen=True, slots=True)
class Api:
    """One API and its versions; from `flexible_from` on they have compact lengths and tagged fields (KIP-482)."""

    key: int
    name: str
    request: type[Message]
    response: type[Message]
    max_version: int
    flexible_from: int
    min_version: int = 0

    def supports(self, version: int) -> bool:
        return self.min_version <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from

    def is_read_to_the_end(self, message: type[Message]) -> bool:
        """Whether bytes after the end of `message` are an error.

        They are after a response. After a request Kafka ignores them, and librdkafka sends some.
        """
        return message is not self.request


APIS: tuple[Api, ...] = (
    Api(0, "Produce", ProduceRequest, ProduceResponse, max_version=11, flexible_from=9),
    Api(1, "Fetch", FetchRequest, FetchResponse, max_version=17, flexible_from=12),
    Api(2, "ListOffsets", ListOffsetsRequest, ListOffsetsResponse, max_version=9, flexible_from=6),
    Api(3, "Metadata", MetadataRequest, MetadataResponse, max_version=12, flexible_from=9),
    Api(4, "LeaderAndIsr", LeaderAndIsrRequest, LeaderAndIsrResponse, max_version=7, flexible_from=4),
    Api(5, "StopReplica", StopReplicaRequest, StopReplicaResponse, max_version=4, flexible_from=2),
    Api(6, "UpdateMetadata", UpdateMetadataRequest, UpdateMetadataResponse, max_version=8, flexible_from=6),
    Api(7, "ControlledShutdown", ControlledShutdownRequest, ControlledShutdownResponse, max_version=3, flexible_from=3),
    Api(8, "OffsetCommit", OffsetCommitRequest, OffsetCommitResponse, max_version=9, flexible_from=8),
    Api(9, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse, max_version=9, flexible_from=6),
    Api(10, "FindCoordinator", FindCoordinatorRequest, FindCoordinatorResponse, max_version=6, flexible_from=3),
    Api(11, "JoinGroup", JoinGroupRequest, JoinGroupResponse, max_version=9, flexible_from=6),
    Api(12, "Heartbeat", HeartbeatRequest, HeartbeatResponse, max_version=4, flexible_from=4),
    Api(13, "LeaveGroup", LeaveGroupRequest, LeaveGroupResponse, max_version=5, flexible_from=4),
    Api(14, "SyncGroup", SyncGroupRequest, SyncGroupResponse, max_version=5, flexible_from=4),
    Api(15, "DescribeGroups", DescribeGroupsRequest, DescribeGroupsResponse, max_version=5, flexible_from=5),
    Api(16, "ListGroups", ListGroupsRequest, ListGroupsResponse, max_version=5, flexible_from=3),
    Api(17, "SaslHandshake", SaslHandshakeRequest, SaslHandshakeResponse, max_version=1, flexible_from=NEVER_FLEXIBLE),
    Api(18, "ApiVersions", ApiVersionsRequest, ApiVersionsResponse, max_version=4, flexible_from=3),
    Api(19, "CreateTopics", CreateTopicsRequest, CreateTopicsResponse, max_version=7, flexible_from=5),
    Api(20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse, max_version=6, flexible_from=4),
    Api(21, "DeleteRecords", DeleteRecordsRequest, DeleteRecordsResponse, max_version=2, flexible_from=2),
    Api(22, "InitProducerId", InitProducerIdRequest, InitProducerIdResponse, max_version=5, flexible_from=2),
    Api(
        23,
        "OffsetForLeaderEpoch",
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
        max_version=4,
        flexible_from=4,
    ),
    Api(
        24, "AddPartitionsToTxn", AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, max_version=5, flexible_from=3
    ),
    Api(25, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, max_version=4, flexible_from=3),
    Api(26, "EndTxn", EndTxnRequest, EndTxnResponse, max_version=4, flexible_from=3),
    Api(27, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse, max_version=1, flexible_from=1),
    Api(28, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse, max_version=4, flexible_from=3),
    Api(29, "DescribeAcls", DescribeAclsRequest, DescribeAclsResponse, max_version=3, flexible_from=2),
    Api(30, "CreateAcls", CreateAclsRequest, CreateAclsResponse, max_version=3, flexible_from=2),
    Api(31, "DeleteAcls", DeleteAclsRequest, DeleteAclsResponse, max_version=3, flexible_from=2),
    Api(32, "DescribeConfigs", DescribeConfigsRequest, DescribeConfigsResponse, max_version=4, flexible_from=4),
    Api(33, "AlterConfigs", AlterConfigsRequest, AlterConfigsResponse, max_version=2, flexible_from=2),
    Api(
        34,
        "AlterReplicaLogDirs",
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirsResponse,
        max_version=2,
        flexible_from=2,
    ),
    Api(35, "DescribeLogDirs", DescribeLogDirsRequest, DescribeLogDirsResponse, max_version=4, flexible_from=2),
    Api(36, "SaslAuthenticate", SaslAuthenticateRequest, SaslAuthenticateResponse, max_version=2, flexible_from=2),
    Api(37, "CreatePartitions", CreatePartitionsRequest, CreatePartitionsResponse, max_version=3, flexible_from=2),
    Api(
        38,
        "CreateDelegationToken",
        CreateDelegationTokenRequest,
        CreateDelegationTokenResponse,
        max_version=3,
        flexible_from=2,
    ),
    Api(
        39,
        "RenewDelegationToken",
        RenewDelegationTokenRequest,
        RenewDelegationTokenResponse,
        max_version=2,
        flexible_from=2,
    ),
    Api(
        40,
        "ExpireDelegationToken",
        ExpireDelegationTokenRequest,
        ExpireDelegationTokenResponse,
        max_version=2,
        flexible_from=2,
    ),
    Api(
        41,
        "DescribeDelegationToken",
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
        max_version=3,
        flexible_from=2,
    ),
    Api(42, "DeleteGroups", DeleteGroupsRequest, DeleteGroupsResponse, max_version=2, flexible_from=2),
    Api(43, "ElectLeaders", ElectLeadersRequest, ElectLeadersResponse, max_version=2, flexible_from=2),
    Api(
        44,
        "IncrementalAlterConfigs",
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
        max_version=1,
        flexible_from=1,
    ),
    Api(
        45,
        "AlterPartitionReassignments",
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(
        46,
        "ListPartitionReassignments",
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(47, "OffsetDelete", OffsetDeleteRequest, OffsetDeleteResponse, max_version=0, flexible_from=NEVER_FLEXIBLE),
    Api(
        48,
        "DescribeClientQuotas",
        DescribeClientQuotasRequest,
        DescribeClientQuotasResponse,
        max_version=1,
        flexible_from=1,
    ),
    Api(49, "AlterClientQuotas", AlterClientQuotasRequest, AlterClientQuotasResponse, max_version=1, flexible_from=1),
    Api(
        50,
        "DescribeUserScramCredentials",
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(
        51,
        "AlterUserScramCredentials",
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(56, "AlterPartition", AlterPartitionRequest, AlterPartitionResponse, max_version=3, flexible_from=0),
    Api(57, "UpdateFeatures", UpdateFeaturesRequest, UpdateFeaturesResponse, max_version=1, flexible_from=0),
    Api(58, "Envelope", EnvelopeRequest, EnvelopeResponse, max_version=0, flexible_from=0),
    Api(60, "DescribeCluster", DescribeClusterRequest, DescribeClusterResponse, max_version=1, flexible_from=0),
    Api(61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse, max_version=0, flexible_from=0),
    Api(
        65,
        "DescribeTransactions",
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(66, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse, max_version=1, flexible_from=0),
    Api(
        67,
        "AllocateProducerIds",
        AllocateProducerIdsRequest,
        AllocateProducerIdsResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(
        68,
        "ConsumerGroupHeartbeat",
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        max_version=0,
        flexible_from=0,
    ),
    Api(
        69,
        "ConsumerGroupDescribe",
        ConsumerGroupDescribeRequest,
        ConsumerGroupDescribeResponse,
        max_version=0,
        flexible_from=0,
    ),
)

API_BY_NAME: Mapping[str, Api] = {api.name: api for api in APIS}
"""Every API by Kafka's name, such as `LeaderAndIsr`."""
_BY_KEY = {api.key: api for api in APIS}
_BY_MESSAGE = {message: api for api in APIS for message in (api.request, api.response)}


def api_by_key(key: int) -> Api | None:
    """Return the API with this key; None if it is unknown."""
    return _BY_KEY.get(key)


def api_of(message: Message | type[Message]) -> Api:
    """Return the API of a request or response, or of its class.

    Raises:
        KeyError: it is neither a request nor a response; a struct inside one, for example.
    """
    return _BY_MESSAGE[message if isinstance(message, type) else type(message)]
