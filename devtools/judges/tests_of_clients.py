"""Which tests of stock clients are run against our brokers, and which are not, and why.

docs/inside/fidelity.md has the same lists; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Left(Enum):
    """Why a test is not run; the value is how docs/inside/fidelity.md names it."""

    NEW_GROUPS = "New protocols of groups"
    TRANSACTIONS = "Transactions"
    ACLS = "ACLs"
    SEVERAL_DIRECTORIES = "Several log directories"
    SECURITY = "SASL and TLS"
    MOCK = "Mock brokers"
    QUOTAS = "Client quotas"
    PROXIES = "Faults in a proxy"
    CONTAINERS = "Containers"
    OTHER_SETTINGS = "Other settings"


@dataclass(frozen=True, slots=True)
class ClientTests:
    """The tests of a client that send requests to brokers.

    Args:
        client: the client's name.
        version: the version of its sources, as its package registry has it.
        brokers: how many brokers the tests expect.
        run: the names of the tests that have to pass.
        left: the names of the tests that are not run, by the reason.
        properties: what the tests expect of the brokers' settings.
        racks: the brokers' racks in order; None for none.
    """

    client: str
    version: str
    brokers: int
    run: tuple[str, ...]
    left: Mapping[Left, tuple[str, ...]]
    properties: Mapping[str, str] = field(default_factory=dict)
    racks: Sequence[str] | None = None

    def all_left(self) -> tuple[str, ...]:
        return tuple(name for names in self.left.values() for name in names)


FRANZ_GO = ClientTests(
    client="franz-go",
    version="1.22.2",
    brokers=3,
    run=(
        "TestAddRemovePartitions",
        "TestClient_Produce",
        "TestClient_ProduceLargeMessages",
        "TestConsumeMaxDecompressBatchBytes",
        "TestConsumeRegex",
        "TestConsumeTopicRetrieval",
        "TestConsumeTopicRetrieval_Many",
        "TestDirectPartitionPurge",
        "TestGroupETL",
        "TestGroupSimple",
        "TestHookPollStart",
        "TestIssue1034",
        "TestIssue325",
        "TestIssue337",
        "TestIssue434",
        "TestIssue523",
        "TestIssue648",
        "TestIssue769",
        "TestIssue810",
        "TestIssue831",
        "TestIssue865",
        "TestIssueFetchLargerThanBrokerMaxReadBytes",
        "TestIssueProduceSyncManualPartitionNegativeDoesNotPanic",
        "TestPauseIssue489",
        "TestPauseIssueOct2023",
        "TestPing",
        "TestPooling",
        "TestUnknownGroupOffsetFetchPinned",
    ),
    left={
        Left.NEW_GROUPS: (
            "Test848RegexBrokerResolves",
            "TestConsumeRegexShareSkipsInternal",
            "TestShareGroup",
            "TestShareGroupAckOnClose",
            "TestShareGroupETL",
            "TestShareGroupOffsetsAdmin",
        ),
        Left.TRANSACTIONS: ("TestTxnEtl",),
        Left.SECURITY: (
            "TestSCRAMAuth",
            "TestSCRAMAuthBadCredentials",
        ),
        Left.OTHER_SETTINGS: ("TestIssueProduceBrokerTooOldFailsRecords",),
    },
)

SARAMA = ClientTests(
    client="sarama",
    version="1.61.1",
    brokers=5,
    run=(
        "TestAsyncProducerRemoteBrokerClosed",
        "TestConsumerGroupDeadlock",
        "TestConsumerHighWaterMarkOffset",
        "TestConsumerPartialBatchRecovery",
        "TestFuncAdminAlterConfig",
        "TestFuncAdminAlterConsumerGroupOffsets",
        "TestFuncAdminAlterPartitionReassignments",
        "TestFuncAdminDeleteGroup",
        "TestFuncAdminDeleteRecords",
        "TestFuncAdminDeleteTopic",
        "TestFuncAdminDescribeConfig",
        "TestFuncAdminDescribeGroups",
        "TestFuncAdminDescribeLogDirs",
        "TestFuncAdminElectLeadersV1",
        "TestFuncAdminIncrementalAlterConfigs",
        "TestFuncAdminListConsumerGroupOffsetsBatch",
        "TestFuncAdminListConsumerGroups",
        "TestFuncAdminListOffsets",
        "TestFuncClientCoordinator",
        "TestFuncClientMetadata",
        "TestFuncConnectionFailure",
        "TestFuncConsumerGroupCooperative",
        "TestFuncConsumerGroupExcessConsumers",
        "TestFuncConsumerGroupFuzzy",
        "TestFuncConsumerGroupOffsetDeletion",
        "TestFuncConsumerGroupPartitioning",
        "TestFuncConsumerGroupPartitioningStateful",
        "TestFuncConsumerGroupRebalanceAfterAddingPartitions",
        "TestFuncConsumerGroupStaticMembership_Basic",
        "TestFuncConsumerGroupStaticMembership_Fenced",
        "TestFuncConsumerGroupStaticMembership_RejoinAndLeave",
        "TestFuncConsumerOffsetOutOfRange",
        "TestFuncDescribeProducers",
        "TestFuncJoinGroupVersionSelection",
        "TestFuncMultiPartitionProduce",
        "TestFuncOffsetManager",
        "TestFuncProducingNoResponse",
        "TestFuncProducingToInvalidTopic",
        "TestInterceptors",
        "TestVersionMatrix",
        "TestVersionMatrixIdempotent",
        "TestVersionMatrixLZ4",
        "TestVersionMatrixZstd",
    ),
    left={
        Left.TRANSACTIONS: (
            "TestFuncDescribeTransactions",
            "TestFuncInitProducerId3",
            "TestFuncListTransactions",
            "TestFuncTxnAbortedProduce",
            "TestFuncTxnCommitNoMessages",
            "TestFuncTxnProduce",
            "TestFuncTxnProduceAndCommitOffset",
            "TestFuncTxnProduceEpochBump",
            "TestFuncTxnProduceMultiTxn",
            "TestFuncTxnProduceNoBegin",
            "TestFuncTxnProduceWithBrokerFailure",
            "TestReadOnlyAndAllCommittedMessages",
        ),
        Left.QUOTAS: ("TestFuncAdminQuotas",),
        Left.PROXIES: (
            "TestFuncAdminNetworkErrorClosesControllerConnection",
            "TestFuncProducing",
            "TestFuncProducingFlushing",
            "TestFuncProducingGzip",
            "TestFuncProducingIdempotentWithBrokerFailure",
            "TestFuncProducingSnappy",
            "TestFuncProducingZstd",
        ),
        Left.CONTAINERS: (
            "TestConsumerFetchFollowerFailover",
            "TestFuncAdminListConsumerGroupOffsets",
            "TestFuncIdempotentBufferedSequence",
            "TestFuncJavaInteropCooperativeRebalance",
            "TestJavaConsumerCompressionRoundTrip",
            "TestJavaMurmur2PartitionerInterop",
            "TestJavaProducerCompressionRoundTrip",
        ),
        Left.OTHER_SETTINGS: ("TestFuncAdminUpdateFeatures",),
    },
    properties={
        "auto.create.topics.enable": "false",
        "default.replication.factor": "2",
        "offsets.topic.replication.factor": "2",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    },
    racks=("1", "2", "3", "4", "5"),
)

LIBRDKAFKA = ClientTests(
    client="librdkafka",
    version="2.12.1",
    brokers=3,
    run=(
        "0001_multiobj",
        "0002_unkpart",
        "0003_msgmaxsize",
        "0005_order",
        "0007_autotopic",
        "0008_reqacks",
        "0011_produce_batch",
        "0012_produce_consume",
        "0013_null_msgs",
        "0014_reconsume_191",
        "0015_offsets_seek",
        "0016_client_swname",
        "0017_compression",
        "0018_cgrp_term",
        "0019_list_groups",
        "0020_destroy_hang",
        "0021_rkt_destroy",
        "0022_consume_batch",
        "0026_consume_pause",
        "0029_assign_offset",
        "0030_offset_commit",
        "0031_get_offsets",
        "0033_regex_subscribe",
        "0034_offset_reset",
        "0035_api_version",
        "0036_partial_fetch",
        "0038_performance",
        "0039_event_dr",
        "0040_io_event",
        "0041_fetch_max_bytes",
        "0042_many_topics",
        "0044_partition_cnt",
        "0045_resubscribe_with_regex",
        "0045_subscribe_many_updates",
        "0045_subscribe_update",
        "0048_partitioner",
        "0049_consume_conn_close",
        "0050_subscribe_adds",
        "0051_assign_adds",
        "0054_offset_time",
        "0056_balanced_group_mt",
        "0057_invalid_topic",
        "0059_bsearch",
        "0060_op_prio",
        "0063_clusterid",
        "0064_interceptors",
        "0065_yield",
        "0067_empty_topic",
        "0068_produce_timeout",
        "0069_consumer_add_parts",
        "0070_null_empty",
        "0073_headers",
        "0075_retry",
        "0076_produce_retry",
        "0081_admin/do_test_AlterConfigs",
        "0081_admin/do_test_AlterConsumerGroupOffsets",
        "0081_admin/do_test_CreatePartitions",
        "0081_admin/do_test_CreateTopics",
        "0081_admin/do_test_DeleteConsumerGroupOffsets",
        "0081_admin/do_test_DeleteGroups",
        "0081_admin/do_test_DeleteRecords",
        "0081_admin/do_test_DeleteTopics",
        "0081_admin/do_test_DescribeCluster",
        "0081_admin/do_test_DescribeConfigs",
        "0081_admin/do_test_DescribeConsumerGroups",
        "0081_admin/do_test_DescribeTopics",
        "0081_admin/do_test_IncrementalAlterConfigs",
        "0081_admin/do_test_ListConsumerGroupOffsets",
        "0081_admin/do_test_ListConsumerGroups",
        "0081_admin/do_test_ListOffsets",
        "0081_admin/do_test_unclean_destroy",
        "0082_fetch_max_bytes",
        "0083_cb_event",
        "0084_destroy_flags",
        "0085_headers",
        "0086_purge_remote",
        "0088_produce_metadata_timeout",
        "0089_max_poll_interval",
        "0090_idempotence",
        "0091_max_poll_interval_timeout",
        "0092_mixed_msgver",
        "0093_holb_consumer",
        "0094_idempotence_msg_timeout",
        "0099_commit_metadata",
        "0102_static_group_rebalance",
        "0112_assign_unknown_part",
        "0114_sticky_partitioning",
        "0118_commit_rebalance",
        "0122_buffer_cleaning_after_rebalance",
        "0123_connections_max_idle",
        "0125_immediate_flush",
        "0127_fetch_queue_backoff",
        "0130_store_offsets",
        "0132_strategy_ordering",
        "0140_commit_metadata",
    ),
    left={
        Left.TRANSACTIONS: (
            "0055_producer_latency",
            "0061_consumer_lag",
            "0098_consumer_txn",
            "0103_transactions",
            "0129_fetch_aborted_msgs",
            "0137_barrier_batch_consume",
        ),
        Left.ACLS: (
            "0081_admin/do_test_CreateAcls",
            "0081_admin/do_test_DeleteAcls",
            "0081_admin/do_test_DescribeAcls",
            "0109_auto_create_topics",
            "0115_producer_auth",
            "0119_consumer_auth",
        ),
        Left.SECURITY: (
            "0081_admin/do_test_UserScramCredentials",
            "0097_ssl_verify",
            "0126_oauthbearer_oidc",
            "0135_sasl_credentials",
            "0142_reauthentication",
        ),
        Left.MOCK: (
            "0139_offset_validation_mock",
            "0150_telemetry_mock",
        ),
        Left.OTHER_SETTINGS: (
            "0045_subscribe_update_non_exist_and_partchange",
            "0045_subscribe_update_topic_remove",
            "0052_msg_timestamps",
            "0053_stats",
            "0077_compaction",
            "0101_fetch_from_follower",
            "0107_topic_recreate",
            "0110_batch_size",
            "0111_delay_create_topics",
            "0113_cooperative_rebalance",
            "0153_memberid",
        ),
    },
)

KAFKA_PYTHON = ClientTests(
    client="kafka-python",
    version="3.0.12",
    brokers=1,
    run=(
        "test_alter_partition_reassignments",
        "test_consumer",
        "test_consumer_topics",
        "test_create_delete_topics",
        "test_delete_groups",
        "test_delete_groups_with_errors",
        "test_delete_records",
        "test_delete_records_with_errors",
        "test_describe_configs_broker_resource_returns_configs",
        "test_describe_configs_invalid_broker_id_raises",
        "test_describe_configs_mixed_resources_returns_configs",
        "test_describe_configs_topic_resource_returns_configs",
        "test_describe_group_exists",
        "test_describe_log_dirs",
        "test_elect_leaders",
        "test_end_to_end",
        "test_group",
        "test_heartbeat_thread",
        "test_idempotent_producer",
        "test_idempotent_producer_high_throughput",
        "test_idempotent_producer_max_in_flight",
        "test_kafka_consumer",
        "test_kafka_consumer__blocking",
        "test_kafka_consumer__offset_commit_resume",
        "test_kafka_consumer_max_bytes_one_msg",
        "test_kafka_consumer_max_bytes_simple",
        "test_kafka_consumer_offsets_for_time",
        "test_kafka_consumer_offsets_for_times_errors",
        "test_kafka_consumer_offsets_search_many_partitions",
        "test_kafka_consumer_position_after_seek_to_end",
        "test_kafka_consumer_unsupported_encoding",
        "test_kafka_producer_proper_record_metadata",
        "test_kafka_version_infer",
        "test_list_partition_offsets",
        "test_list_partition_reassignments",
        "test_paused",
    ),
    left={
        Left.TRANSACTIONS: (
            "test_transactional_producer_messages",
            "test_transactional_producer_offsets",
        ),
        Left.ACLS: ("test_create_describe_delete_acls",),
        Left.SEVERAL_DIRECTORIES: ("test_alter_replica_log_dirs",),
        Left.SECURITY: (
            "test_admin",
            "test_client",
            "test_legacy_kafka_client_ssl",
            "test_produce_and_consume",
            "test_ssl_handshake",
        ),
        Left.OTHER_SETTINGS: (
            "test_create_partitions",
            "test_describe_metadata_quorum",
            "test_describe_topic_partitions",
            "test_describe_topic_partitions_pagination",
            "test_kafka_consumer_offsets_for_time_old",
            "test_list_config_resources",
        ),
    },
)
