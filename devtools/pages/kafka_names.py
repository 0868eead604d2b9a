"""Generates docs/reference/kafka-names.md: which of Kafka's classes and methods is which module here, both ways.

The table stands here. tests/test_pages.py compares it with the sources: every path and name of ours exists, and what a
module's docstring says it mirrors is in the table.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import groupby, takewhile
from typing import NamedTuple

from devtools.pages.source import parse, path_of, product_files
from devtools.pages.text import bullet
from understudy.foundation.wire.registry import APIS

NAME = "reference/kafka-names.md"

HEAD = """\
# Kafka's names and ours

If Kafka has a word for something, this code uses it, in Python's case: `processBrokerChange` is
`process_broker_change`, `OnlinePartition` is `PartitionState.ONLINE`. So Kafka's source can be read beside ours; the
names are from Apache Kafka 3.9, the last release with ZooKeeper mode. `python -m devtools.pages` writes this page; a
test checks that every module and name of ours exists, and that each class a docstring says it mirrors is listed.

- [From Kafka to here](#from-kafka-to-here)
- [From here to Kafka](#from-here-to-kafka)
- [Modules without a counterpart in Kafka](#modules-without-a-counterpart-in-kafka)
"""

TABLE = """
foundation/cluster/
  kafka.api
  org.apache.kafka.common
  kafka.cluster
foundation/cluster/assignment.py
  kafka.controller.ReplicaAssignment ReplicaAssignment
foundation/cluster/broker.py
  kafka.cluster.Broker Broker
  kafka.cluster.EndPoint EndPoint
foundation/cluster/errors.py
  org.apache.kafka.common.protocol.Errors Errors
  org.apache.kafka.common.protocol.Errors.forCode error_for_code
foundation/cluster/features.py
  kafka.server.BrokerFeatures
foundation/cluster/identifiers.py
  org.apache.kafka.common.TopicPartition TopicPartition
  org.apache.kafka.common.Uuid TopicId
foundation/cluster/leadership.py
  kafka.controller.LeaderIsrAndControllerEpoch LeaderIsrAndControllerEpoch
  kafka.api.LeaderAndIsr LeaderAndIsr
  org.apache.kafka.metadata.LeaderRecoveryState LeaderRecoveryState
foundation/cluster/metadata_version.py
  kafka.controller.ControllerChannelManager
  kafka.server.KafkaServer
  kafka.zk.ZkData
  org.apache.kafka.server.common.MetadataVersion MetadataVersion
foundation/records/
  org.apache.kafka.common.record
foundation/records/compaction.py
  org.apache.kafka.common.record.MemoryRecords.filterTo rebuilt
  org.apache.kafka.common.record.DefaultRecordBatch.writeEmptyHeader emptied
foundation/records/batch.py
  org.apache.kafka.common.record.DefaultRecordBatch RecordBatch
  org.apache.kafka.common.record.DefaultRecordBatch.setMaxTimestamp set_max_timestamp
foundation/records/compression.py
  org.apache.kafka.common.compress
  org.apache.kafka.common.record.CompressionType Compression
foundation/records/lz4_frame.py
  org.apache.kafka.common.compress.Lz4BlockInputStream checked_frame
foundation/records/errors.py
  org.apache.kafka.common.errors.CorruptRecordException CorruptRecord
  org.apache.kafka.common.KafkaException NotDecompressed
  org.apache.kafka.common.InvalidRecordException InvalidRecord
  org.apache.kafka.common.errors.UnsupportedVersionException UnsupportedMagic
foundation/records/down_conversion.py
  org.apache.kafka.common.record.RecordsUtil.downConvert down_convert
  org.apache.kafka.common.errors.UnsupportedCompressionTypeException NotConvertible
foundation/records/message_set.py
  org.apache.kafka.common.record.AbstractLegacyRecordBatch LegacyMessage
  org.apache.kafka.common.record.LegacyRecord LegacyMessage
foundation/records/record.py
  org.apache.kafka.common.record.DefaultRecord Record
foundation/records/varint.py
  org.apache.kafka.common.utils.ByteUtils
foundation/metrics/instruments.py
  com.yammer.metrics.core.Meter Meter
  com.yammer.metrics.core.Histogram Histogram
  com.yammer.metrics.core.Timer Timer
foundation/metrics/sampled.py
  org.apache.kafka.common.metrics.stats.SampledStat SampledStat
  org.apache.kafka.common.metrics.stats.Rate SampledStat
foundation/wire/
  org.apache.kafka.common.protocol
foundation/wire/codec.py
  org.apache.kafka.common.protocol.MessageUtil
foundation/wire/error_answers.py
  org.apache.kafka.common.requests.AbstractRequest.getErrorResponse error_answer
foundation/wire/errors.py
  org.apache.kafka.common.errors.UnsupportedVersionException UnsupportedVersion
  org.apache.kafka.common.network.InvalidReceiveException InvalidReceive
  org.apache.kafka.common.protocol.types.SchemaException MalformedMessage
foundation/wire/framing.py
  org.apache.kafka.common.network.NetworkReceive FrameReader
foundation/wire/headers.py
  org.apache.kafka.common.protocol.ApiKeys.requestHeaderVersion request_header_version
  org.apache.kafka.common.requests.RequestHeader RequestHeader
  org.apache.kafka.common.requests.ResponseHeader decode_response
foundation/wire/messages/
  org.apache.kafka.common.message
foundation/wire/primitives.py
  org.apache.kafka.common.protocol.Readable
  org.apache.kafka.common.protocol.Writable
  org.apache.kafka.common.utils.ByteUtils
foundation/wire/registry.py
  org.apache.kafka.common.protocol.ApiKeys
foundation/wire/request_channel.py
  org.apache.kafka.clients.NetworkClientUtils.sendAndReceive RequestChannel
foundation/zk/
  kafka.zk
  kafka.zookeeper
foundation/zk/admin_requests.py
  kafka.zk.KafkaZkClient.createDeleteTopicPath TopicDeletions
  kafka.zk.KafkaZkClient.getTopicDeletions TopicDeletions
  kafka.zk.KafkaZkClient.getPreferredReplicaElection PreferredElections
  kafka.zk.KafkaZkClient.getPartitionReassignment Reassignments
  kafka.zk.KafkaZkClient.setOrCreatePartitionReassignment Reassignments
foundation/zk/admin_znodes.py
  java.net.URLEncoder desanitized
  kafka.zk.ZkData
  org.apache.kafka.common.utils.Sanitizer desanitized
  org.apache.kafka.server.common.ProducerIdsBlock ProducerIdBlock
foundation/zk/broker_registrations.py
  kafka.zk.KafkaZkClient.registerBroker BrokerRegistrations
  kafka.zk.KafkaZkClient.CheckedEphemeral BrokerRegistrations
  kafka.zk.KafkaZkClient.getAllBrokerAndEpochsInCluster BrokerRegistrations
  kafka.zk.KafkaZkClient.generateBrokerSequenceId BrokerRegistrations
foundation/zk/client.py
  kafka.zookeeper.ZooKeeperClient ZooKeeperClient
foundation/zk/cluster_znodes.py
  kafka.coordinator.transaction.ZkProducerIdManager ProducerIdBlocks
  kafka.zk.KafkaZkClient.createFeatureZNode FeatureZNodes
  kafka.zk.KafkaZkClient.updateFeatureZNode FeatureZNodes
foundation/wire/version_prefixed.py
  org.apache.kafka.common.protocol.MessageUtil.toVersionPrefixedBytes encode_prefixed
  org.apache.kafka.clients.consumer.internals.ConsumerProtocol decode_prefixed
  kafka.coordinator.group.GroupMetadataManager decode_prefixed
foundation/zk/consumer_offsets.py
  kafka.zk.KafkaZkClient.setOrCreateConsumerOffset ConsumerOffsets
  kafka.zk.KafkaZkClient.getConsumerOffset ConsumerOffsets
foundation/zk/controller_registration.py
  kafka.zk.KafkaZkClient.registerControllerAndIncrementControllerEpoch ControllerRegistration
foundation/zk/entity_configs.py
  kafka.zk.KafkaZkClient EntityConfigs
  kafka.zk.AdminZkClient.changeEntityConfig EntityConfigs
foundation/zk/isr_changes.py
  kafka.utils.ReplicationUtils.updateLeaderAndIsr IsrChanges
  kafka.zk.KafkaZkClient.propagateIsrChanges IsrChanges
foundation/zk/jute.py
  org.apache.zookeeper.proto
foundation/zk/kafka_zk_client.py
  kafka.zk.KafkaZkClient KafkaZkClient
foundation/zk/kazoo_client.py
  kafka.zookeeper.ZooKeeperClient KazooSession
foundation/zk/log_dir_events.py
  kafka.zk.KafkaZkClient.getAllLogDirEventNotifications LogDirEvents
  kafka.zk.KafkaZkClient.deleteLogDirEventNotifications LogDirEvents
foundation/zk/partition_states.py
  kafka.zk.KafkaZkClient.getTopicPartitionStates PartitionStates
  kafka.zk.KafkaZkClient.createTopicPartitionStatesRaw PartitionStates
  kafka.zk.KafkaZkClient.updateLeaderAndIsr PartitionStates
foundation/zk/topic_removal.py
  kafka.zk.KafkaZkClient.deleteTopicZNode delete_topics
foundation/zk/topics.py
  kafka.zk.KafkaZkClient.setTopicIds Topics
  kafka.zk.KafkaZkClient.setTopicAssignmentRaw Topics
  kafka.zk.AdminZkClient.writeTopicPartitionAssignment Topics
foundation/zk/transactions.py
  kafka.zk.KafkaZkClient.retryRequestsUntilConnected Transactions
foundation/zk/znodes.py
  kafka.zk.ZkData
controller/
  kafka.controller
controller/alter_partition.py
  kafka.controller.KafkaController.processAlterPartition process_alter_partition
controller/auto_rebalance.py
  kafka.controller.KafkaController.checkAndTriggerAutoLeaderRebalance process_auto_preferred_replica_leader_election
controller/broker_changes.py
  kafka.controller.KafkaController.processBrokerChange broker_changes
controller/broker_lifecycle.py
  kafka.controller.KafkaController.processBrokerChange process_broker_change
  kafka.controller.KafkaController.processBrokerModification process_broker_modifications
  kafka.controller.KafkaController.processLogDirEventNotification process_log_dir_event_notification
  kafka.controller.KafkaController.onBrokerStartup on_broker_startup
  kafka.controller.KafkaController.onBrokerFailure on_broker_failure
  kafka.controller.KafkaController.onReplicasBecomeOffline on_replicas_become_offline
  kafka.controller.KafkaController.processLeaderAndIsrResponseReceived process_leader_and_isr_response
controller/channels/channel_manager.py
  kafka.controller.ControllerChannelManager ControllerChannelManager
  kafka.controller.RequestSendThread BrokerChannel
controller/channels/request_batch.py
  kafka.controller.ControllerBrokerRequestBatch RequestBatch
  kafka.controller.AbstractControllerBrokerRequestBatch RequestBatch
controller/channels/request_shapes.py
  org.apache.kafka.common.requests.LeaderAndIsrRequest in_version
  org.apache.kafka.common.requests.StopReplicaRequest in_version
  org.apache.kafka.common.requests.UpdateMetadataRequest in_version
controller/context.py
  kafka.controller.ControllerContext ControllerContext
controller/controlled_shutdown.py
  kafka.controller.KafkaController.doControlledShutdown process_controlled_shutdown
controller/controller_election.py
  kafka.controller.KafkaController.elect ControllerElection
  kafka.controller.KafkaController.maybeResign ControllerElection
  kafka.controller.KafkaController.triggerControllerMove ControllerElection
controller/controller_metrics.py
  kafka.controller.ControllerStats ControllerStats
controller/controller_state.py
  kafka.controller.ControllerState ControllerState
controller/event_manager.py
  kafka.controller.ControllerEventManager ControllerEventManager
  kafka.controller.QueuedEvent QueuedEvent
controller/events.py
  kafka.controller.ControllerEvent ControllerEvent
  org.apache.kafka.clients.admin.FeatureUpdate.UpgradeType UpgradeType
  org.apache.kafka.common.ElectionType ElectionType
controller/failover.py
  kafka.controller.KafkaController.onControllerFailover on_controller_failover
  kafka.controller.KafkaController.initializeControllerContext initialize_controller_context
controller/failure_classes.py
  org.apache.kafka.controller.errors.EventHandlerExceptionInfo classify
controller/feature_cache.py
  kafka.server.metadata.ZkFinalizedFeatureCache FinalizedFeatureCache
controller/features.py
  kafka.controller.KafkaController.maybeSetupFeatureVersioning setup_feature_versioning
  kafka.controller.KafkaController.processFeatureUpdates process_update_features
controller/isr_change_notification.py
  kafka.controller.KafkaController.processIsrChangeNotification process_isr_change_notification
controller/kafka_controller.py
  kafka.controller.KafkaController KafkaController
controller/leader_election.py
  kafka.controller.PartitionLeaderElectionAlgorithms
  kafka.controller.Election
controller/partition_state_machine.py
  kafka.controller.PartitionStateMachine
  kafka.controller.ZkPartitionStateMachine
  kafka.controller.PartitionLeaderElectionStrategy Strategy
controller/producer_ids.py
  kafka.controller.KafkaController.processAllocateProducerIds process_allocate_producer_ids
  kafka.coordinator.transaction.ZkProducerIdManager next_block
controller/reassignment/decisions.py
  kafka.controller.KafkaController.validateReplicas
  kafka.controller.KafkaController.maybeBuildReassignment
  kafka.controller.KafkaController.isReassignmentComplete is_complete
controller/reassignment/partition_reassignment.py
  kafka.controller.KafkaController.processApiPartitionReassignment process_api_partition_reassignment
  kafka.controller.KafkaController.processZkPartitionReassignment process_zk_partition_reassignment
  kafka.controller.KafkaController.processListPartitionReassignments process_list_partition_reassignments
  kafka.controller.KafkaController.processPartitionReassignmentIsrChange process_partition_reassignment_isr_change
controller/reassignment/phases.py
  kafka.controller.KafkaController.onPartitionReassignment on_partition_reassignment
controller/reassignment/znode.py
  kafka.controller.KafkaController.maybeRemoveFromZkReassignment remove_from_znode
controller/replica_leader_election.py
  kafka.controller.KafkaController.processReplicaLeaderElection process_replica_leader_election
  kafka.controller.KafkaController.onReplicaElection on_replica_election
controller/replica_placement.py
  org.apache.kafka.admin.AdminUtils assign_replicas_to_brokers
controller/replica_state_machine.py
  kafka.controller.ReplicaStateMachine
  kafka.controller.ZkReplicaStateMachine
controller/state_change_log.py
  kafka.controller.StateChangeLogger StateChangeLog
controller/state_writes.py
  kafka.controller.KafkaController.updateLeaderEpoch StateWrites
  kafka.controller.ZkPartitionStateMachine.doElectLeaderForPartitions StateWrites
  kafka.controller.ZkReplicaStateMachine.doRemoveReplicasFromIsr StateWrites
controller/term_events.py
  kafka.controller.KafkaController.process process_term_event
controller/topic_changes.py
  kafka.controller.KafkaController.processTopicChange process_topic_change
  kafka.controller.KafkaController.processPartitionModifications process_partition_modifications
  kafka.controller.KafkaController.onNewPartitionCreation on_new_partition_creation
controller/topic_deletion.py
  kafka.controller.KafkaController.processTopicDeletion process_topic_deletion
  kafka.controller.TopicDeletionManager
controller/transitions.py
  kafka.controller.PartitionState PartitionState
  kafka.controller.ReplicaState ReplicaState
controller/unclean_election.py
  kafka.controller.KafkaController.processUncleanLeaderElectionEnable process_unclean_leader_election_enable
  kafka.controller.KafkaController.processTopicUncleanLeaderElectionEnable process_topic_unclean_leader_election_enable
brokers/
  kafka.server
controller/watches.py
  kafka.controller.ControllerChangeHandler event_of
  kafka.controller.BrokerChangeHandler event_of
  kafka.controller.BrokerModificationsHandler event_of
  kafka.controller.LogDirEventNotificationHandler event_of
  kafka.controller.IsrChangeNotificationHandler event_of
  kafka.controller.TopicChangeHandler event_of
  kafka.controller.PartitionModificationsHandler event_of
  kafka.controller.TopicDeletionHandler event_of
  kafka.controller.PartitionReassignmentHandler event_of
  kafka.controller.PartitionReassignmentIsrChangeHandler event_of
  kafka.controller.PreferredReplicaElectionHandler event_of
brokers/apis/add_offsets_to_txn.py
  kafka.server.KafkaApis.handleAddOffsetsToTxnRequest handle
brokers/apis/add_partitions_to_txn.py
  kafka.server.KafkaApis.handleAddPartitionsToTxnRequest handle
brokers/apis/alter_client_quotas.py
  kafka.server.KafkaApis.handleAlterClientQuotasRequest handle
brokers/apis/alter_replica_log_dirs.py
  kafka.server.KafkaApis.handleAlterReplicaLogDirsRequest handle
  kafka.server.ReplicaManager.alterReplicaLogDirs handle
brokers/apis/alter_user_scram_credentials.py
  kafka.server.KafkaApis.handleAlterUserScramCredentialsRequest handle
brokers/apis/consumer_group_describe.py
  kafka.server.KafkaApis.handleConsumerGroupDescribe handle
brokers/apis/consumer_group_heartbeat.py
  kafka.server.KafkaApis.handleConsumerGroupHeartbeat handle
brokers/apis/create_acls.py
  kafka.server.AclApis.handleCreateAcls handle
brokers/apis/delete_acls.py
  kafka.server.AclApis.handleDeleteAcls handle
brokers/apis/describe_acls.py
  kafka.server.AclApis.handleDescribeAcls handle
brokers/apis/create_delegation_token.py
  kafka.server.KafkaApis.handleCreateTokenRequest handle
brokers/apis/renew_delegation_token.py
  kafka.server.KafkaApis.handleRenewTokenRequest handle
brokers/apis/expire_delegation_token.py
  kafka.server.KafkaApis.handleExpireTokenRequest handle
brokers/apis/describe_delegation_token.py
  kafka.server.KafkaApis.handleDescribeTokensRequest handle
brokers/apis/describe_client_quotas.py
  kafka.server.KafkaApis.handleDescribeClientQuotasRequest handle
  kafka.server.ZkAdminManager.describeClientQuotas error_of
brokers/apis/describe_user_scram_credentials.py
  kafka.server.KafkaApis.handleDescribeUserScramCredentialsRequest handle
  kafka.server.ZkAdminManager.describeUserScramCredentials error_of
brokers/apis/describe_transactions.py
  kafka.server.KafkaApis.handleDescribeTransactionsRequest handle
brokers/apis/list_transactions.py
  kafka.server.KafkaApis.handleListTransactionsRequest handle
  kafka.coordinator.transaction.TransactionCoordinator.handleListTransactions handle
brokers/apis/end_txn.py
  kafka.server.KafkaApis.handleEndTxnRequest handle
brokers/apis/envelope.py
  kafka.server.KafkaApis.handleEnvelope handle
brokers/apis/no_authorizer.py
  kafka.server.AclApis NO_AUTHORIZER
  kafka.server.KafkaApis.allowTokenRequests NO_TOKENS
brokers/apis/no_transactions.py
  kafka.coordinator.transaction.TransactionCoordinator coordinator_error
brokers/apis/sasl_authenticate.py
  kafka.server.KafkaApis.handleSaslAuthenticateRequest handle
brokers/apis/sasl_handshake.py
  kafka.server.KafkaApis.handleSaslHandshakeRequest handle
brokers/apis/txn_offset_commit.py
  kafka.server.KafkaApis.handleTxnOffsetCommitRequest handle
brokers/apis/write_txn_markers.py
  kafka.server.KafkaApis.handleWriteTxnMarkersRequest handle
brokers/apis/allocate_producer_ids.py
  kafka.server.KafkaApis.handleAllocateProducerIdsRequest handle
brokers/apis/alter_configs.py
  kafka.server.KafkaApis.handleAlterConfigsRequest handle
brokers/apis/alter_partition.py
  kafka.server.KafkaApis.handleAlterPartitionRequest handle
brokers/apis/alter_partition_reassignments.py
  kafka.server.KafkaApis.handleAlterPartitionReassignmentsRequest handle
brokers/apis/api_versions.py
  kafka.server.KafkaApis.handleApiVersionsRequest answer
brokers/apis/authorized_operations.py
  kafka.server.AuthHelper.authorizedOperations
brokers/apis/auto_creation.py
  kafka.server.AutoTopicCreationManager
brokers/apis/config_admin_manager.py
  kafka.server.ConfigAdminManager
  kafka.server.ZkAdminManager
  org.apache.kafka.common.config.ConfigResource.Type ResourceType
brokers/apis/control_request_log.py
  kafka.server.ReplicaManager ControlRequestLog
brokers/apis/controlled_shutdown.py
  kafka.server.KafkaApis.handleControlledShutdownRequest handle
brokers/apis/create_partitions.py
  kafka.server.KafkaApis.handleCreatePartitionsRequest handle
brokers/apis/create_topics.py
  kafka.server.KafkaApis.handleCreateTopicsRequest handle
  kafka.server.ZkAdminManager.createTopics create
brokers/apis/delete_topics.py
  kafka.server.KafkaApis.handleDeleteTopicsRequest handle
brokers/apis/describe_cluster.py
  kafka.server.KafkaApis.handleDescribeCluster handle
brokers/apis/describe_configs.py
  kafka.server.KafkaApis.handleDescribeConfigsRequest handle
brokers/apis/delete_records.py
  kafka.cluster.Partition.deleteRecordsOnLeader handle
  kafka.server.DelayedDeleteRecords
brokers/apis/describe_log_dirs.py
  kafka.server.KafkaApis.handleDescribeLogDirsRequest handle
brokers/apis/describe_producers.py
  kafka.server.KafkaApis.handleDescribeProducersRequest handle
brokers/apis/elect_leaders.py
  kafka.server.KafkaApis.handleElectLeaders handle
brokers/apis/fencing.py
  kafka.server.KafkaApis.isBrokerEpochStale epoch_error
brokers/apis/fetch.py
  kafka.server.KafkaApis.handleFetchRequest handle
  kafka.server.DelayedFetch
  org.apache.kafka.common.requests.FetchRequest.getErrorResponse
brokers/apis/fetch_reading.py
  kafka.server.ReplicaManager.readFromLog FetchReading
brokers/apis/leader_hints.py
  kafka.server.KafkaApis.getCurrentLeader current_leader
brokers/apis/list_offsets.py
  kafka.cluster.Partition.fetchOffsetForTimestamp offset_for_timestamp
  kafka.log.UnifiedLog.legacyFetchOffsetsBefore segment_offsets
brokers/apis/offset_for_leader_epoch.py
  kafka.server.KafkaApis.handleOffsetForLeaderEpochRequest handle
brokers/apis/partition_access.py
  kafka.cluster.Partition.getLocalLog readable_partition
brokers/apis/produce.py
  kafka.server.KafkaApis.handleProduceRequest handle
  org.apache.kafka.common.requests.ProduceRequest.validateRecords check_records_of
brokers/apis/find_coordinator.py
  kafka.server.KafkaApis.handleFindCoordinatorRequest handle
brokers/apis/incremental_alter_configs.py
  kafka.server.KafkaApis.handleIncrementalAlterConfigsRequest handle
brokers/apis/init_producer_id.py
  kafka.server.KafkaApis.handleInitProducerIdRequest handle
  kafka.coordinator.transaction.TransactionCoordinator.handleInitProducerId handle
brokers/apis/leader_and_isr.py
  kafka.server.KafkaApis.handleLeaderAndIsrRequest handle
brokers/apis/list_partition_reassignments.py
  kafka.server.KafkaApis.handleListPartitionReassignmentsRequest handle
brokers/apis/metadata.py
  kafka.server.KafkaApis.handleTopicMetadataRequest handle
brokers/apis/stop_replica.py
  kafka.server.KafkaApis.handleStopReplicaRequest handle
brokers/apis/update_features.py
  kafka.server.KafkaApis.handleUpdateFeatures handle
brokers/apis/update_metadata.py
  kafka.server.KafkaApis.handleUpdateMetadataRequest handle
brokers/apis/delete_groups.py
  kafka.server.KafkaApis.handleDeleteGroupsRequest handle
brokers/apis/describe_groups.py
  kafka.server.KafkaApis.handleDescribeGroupsRequest handle
brokers/apis/heartbeat.py
  kafka.server.KafkaApis.handleHeartbeatRequest handle
brokers/apis/join_group.py
  kafka.server.KafkaApis.handleJoinGroupRequest handle
  kafka.coordinator.group.GroupCoordinatorAdapter.joinGroup handle
brokers/apis/leave_group.py
  kafka.server.KafkaApis.handleLeaveGroupRequest handle
brokers/apis/list_groups.py
  kafka.server.KafkaApis.handleListGroupsRequest handle
brokers/apis/offset_commit.py
  kafka.server.KafkaApis.handleOffsetCommitRequest handle
brokers/apis/offset_delete.py
  kafka.server.KafkaApis.handleOffsetDeleteRequest handle
brokers/apis/offset_fetch.py
  kafka.server.KafkaApis.handleOffsetFetchRequest handle
brokers/apis/sync_group.py
  kafka.server.KafkaApis.handleSyncGroupRequest handle
brokers/broker.py
  kafka.server.KafkaServer KafkaBroker
brokers/config/changes.py
  kafka.server.ZkConfigManager ConfigChangeListener
  kafka.common.ZkNodeChangeNotificationListener ConfigChangeListener
brokers/config/config_checks.py
  kafka.server.KafkaConfig.validateValues check_config
brokers/config/config_def.py
  org.apache.kafka.common.config.ConfigDef
  org.apache.kafka.common.config.ConfigException ConfigError
  org.apache.kafka.common.errors.InvalidConfigurationException InvalidConfiguration
brokers/config/description.py
  kafka.server.ConfigHelper
  org.apache.kafka.common.requests.DescribeConfigsResponse.ConfigSource ConfigSource
brokers/config/dynamic_broker_config.py
  kafka.server.DynamicBrokerConfig DynamicBrokerConfig
brokers/config/dynamic_keys.py
  kafka.server.DynamicBrokerConfig.AllDynamicConfigs
  kafka.server.DynamicBrokerConfig.brokerConfigSynonyms synonyms
  kafka.server.DynamicConfig.Broker
  org.apache.kafka.server.config.ServerTopicConfigSynonyms
brokers/config/handlers.py
  kafka.server.ConfigHandler ConfigHandler
  kafka.server.TopicConfigHandler TopicConfigHandler
  kafka.server.BrokerConfigHandler BrokerConfigHandler
brokers/config/reading.py
  kafka.server.KafkaConfig.fromProps read_config
brokers/config/kafka_config.py
  kafka.server.KafkaConfig KafkaConfig
  org.apache.kafka.common.config.ConfigDef
brokers/config/listeners.py
  kafka.server.KafkaConfig.validateValues Listeners
  kafka.utils.CoreUtils.listenerListToEndPoints Listeners
brokers/config/log_config.py
  org.apache.kafka.storage.internals.log.LogConfig LogConfig
  org.apache.kafka.storage.internals.log.LogConfig.fromProps log_config
brokers/config/logger_levels.py
  kafka.server.logger.RuntimeLoggerManager LoggerLevels
  kafka.utils.Log4jController LoggerLevels
brokers/config/operations.py
  kafka.server.ConfigAdminManager.prepareIncrementalConfigs altered
  org.apache.kafka.clients.admin.AlterConfigOp.OpType AlterConfigOperation
brokers/config/properties.py
  java.util.Properties.load parse_properties
  java.util.Properties.store format_properties
brokers/config/reconfiguration.py
  kafka.server.DynamicThreadPool.validateReconfiguration check_reconfiguration
  kafka.server.DynamicLogConfig check_reconfiguration
  kafka.log.LogCleaner.validateReconfiguration check_reconfiguration
brokers/config/topic_config.py
  org.apache.kafka.storage.internals.log.LogConfig
brokers/coordinator/
  kafka.coordinator.group
  kafka.coordinator.transaction
brokers/coordinator/coordinators.py
  kafka.coordinator.group.GroupMetadataManager.partitionFor partition_for
  kafka.coordinator.transaction.TransactionStateManager.partitionFor partition_for
  org.apache.kafka.common.requests.FindCoordinatorRequest.CoordinatorType CoordinatorType
brokers/coordinator/group/expirations.py
  kafka.server.DelayedOperationPurgatory.ExpiredOperationReaper Expirations
brokers/coordinator/group/group_administration.py
  kafka.coordinator.group.GroupCoordinator GroupAdministration
brokers/coordinator/group/group_coordinator.py
  kafka.coordinator.group.GroupCoordinator GroupCoordinator
brokers/coordinator/group/group_loading.py
  kafka.coordinator.group.GroupMetadataManager.doLoadGroupsAndOffsets GroupLoader
brokers/coordinator/group/group_metadata.py
  kafka.coordinator.group.GroupMetadata GroupMetadata
brokers/coordinator/group/group_metadata_manager.py
  kafka.coordinator.group.GroupMetadataManager GroupMetadataManager
brokers/coordinator/group/group_metrics.py
  kafka.coordinator.group.GroupMetadataManager group_readings
  kafka.coordinator.group.GroupMetadataManager.offsetCommitsSensor GroupMeters
  kafka.coordinator.group.GroupCoordinator.groupCompletedRebalanceSensor GroupMeters
brokers/coordinator/group/group_offsets.py
  kafka.coordinator.group.GroupMetadata GroupOffsets
  kafka.common.OffsetAndMetadata OffsetAndMetadata
  kafka.coordinator.group.CommitRecordMetadataAndOffset CommittedOffset
brokers/coordinator/group/group_records.py
  kafka.coordinator.group.GroupMetadataManager.offsetCommitValue offset_value
  kafka.coordinator.group.GroupMetadataManager.groupMetadataValue group_value
  kafka.coordinator.group.GroupMetadataManager.readMessageKey read_stored
  kafka.coordinator.group.GroupMetadata.loadGroup loaded_group
brokers/coordinator/group/group_state.py
  kafka.coordinator.group.GroupState GroupState
brokers/coordinator/group/group_writer.py
  org.apache.kafka.coordinator.group.runtime.CoordinatorRuntime.CoordinatorContext.flushCurrentBatch GroupWriter
brokers/coordinator/group/member_metadata.py
  kafka.coordinator.group.MemberMetadata MemberMetadata
  kafka.coordinator.group.JoinGroupResult JoinGroupResult
  kafka.coordinator.group.SyncGroupResult SyncGroupResult
brokers/coordinator/group/rebalances.py
  kafka.coordinator.group.GroupCoordinator Rebalances
  kafka.coordinator.group.DelayedJoin Rebalances
  kafka.coordinator.group.InitialDelayedJoin Rebalances
  kafka.coordinator.group.DelayedSync Rebalances
  kafka.coordinator.group.DelayedHeartbeat Rebalances
brokers/coordinator/group/timer.py
  kafka.utils.timer.SystemTimer TaskTimer
  kafka.utils.timer.TimerTask TimerTask
brokers/coordinator/producer_id_manager.py
  kafka.coordinator.transaction.ProducerIdManager ProducerIdManager
  kafka.coordinator.transaction.RPCProducerIdManager RPCProducerIdManager
  kafka.coordinator.transaction.ZkProducerIdManager ZkProducerIdManager
  org.apache.kafka.server.common.ProducerIdsBlock BlockOfIds
brokers/log/
  kafka.log
brokers/log/partition_log.py
  kafka.log.UnifiedLog PartitionLog
brokers/log/append_info.py
  org.apache.kafka.storage.internals.log.LogAppendInfo LogAppendInfo
brokers/log/batch_retention.py
  kafka.log.Cleaner.cleanInto retained
  org.apache.kafka.common.record.MemoryRecords.filterTo retained
brokers/log/cleanable.py
  kafka.log.LogCleanerManager dirt_of
  kafka.log.LogToClean Dirt
brokers/log/cleaned_transactions.py
  kafka.log.CleanedTransactionMetadata CleanedTransactions
brokers/log/cleaner_metrics.py
  kafka.log.LogCleaner CleanerMetrics
  kafka.log.LogCleanerManager CleanerMetrics
brokers/log/cleaning.py
  kafka.log.Cleaner Cleaning
  kafka.log.CleanerStats CleaningStats
brokers/log/io_throttle.py
  org.apache.kafka.storage.internals.utils.Throttler IoThrottle
brokers/log/log_checks.py
  kafka.log.UnifiedLog
brokers/log/log_cleaner.py
  kafka.log.LogCleaner LogCleaner
brokers/log/offset_map.py
  org.apache.kafka.storage.internals.log.SkimpyOffsetMap OffsetMap
brokers/log/log_segments.py
  org.apache.kafka.storage.internals.log.LogSegments
  kafka.log.LocalLog.replaceSegments swap_in
brokers/log/checkpoint_file.py
  org.apache.kafka.server.common.CheckpointFile
  org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile
  org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile
brokers/log/log_files.py
  org.apache.kafka.storage.internals.log.LogFileUtils
  kafka.log.UnifiedLog
  kafka.log.LocalLog
brokers/log/log_loader.py
  kafka.log.LogLoader LogLoader
brokers/log/log_manager.py
  kafka.log.LogManager LogManager
brokers/log/offsets_by_time.py
  kafka.log.UnifiedLog.fetchOffsetByTimestamp first_at_or_after
brokers/log/partition_metadata.py
  org.apache.kafka.storage.internals.checkpoint.PartitionMetadataFile
brokers/log/producer_snapshots.py
  org.apache.kafka.storage.internals.log.ProducerStateManager ProducerSnapshots
brokers/log/segment.py
  org.apache.kafka.storage.internals.log.LogSegment LogSegment
brokers/log/indexes.py
  org.apache.kafka.storage.internals.log.CorruptIndexException CorruptIndex
  org.apache.kafka.storage.internals.log.OffsetIndex OffsetIndex
  org.apache.kafka.storage.internals.log.TimeIndex TimeIndex
brokers/log/leader_epoch_cache.py
  org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache LeaderEpochCache
brokers/log/log_validator.py
  kafka.log.UnifiedLog.analyzeAndValidateRecords validate
  kafka.common.OffsetsOutOfOrderException OffsetsOutOfOrder
  kafka.common.UnexpectedAppendOffsetException UnexpectedAppendOffset
  org.apache.kafka.common.requests.ProduceResponse.RecordError RecordError
  org.apache.kafka.storage.internals.log.LogValidator validate
  org.apache.kafka.storage.internals.log.LogValidator.buildRecordsAndAssignOffsets validate
  org.apache.kafka.storage.internals.log.LogValidator.convertAndAssignOffsetsNonCompressed validate
  org.apache.kafka.storage.internals.log.LogValidator.ValidationResult ValidatedBatches
  org.apache.kafka.storage.internals.log.RecordValidationException RecordValidationError
brokers/log/record_errors.py
  org.apache.kafka.common.protocol.Errors.forException api_error
brokers/log/producer_snapshot.py
  org.apache.kafka.storage.internals.log.ProducerStateManager
brokers/log/producer_state.py
  org.apache.kafka.common.record.EndTransactionMarker
  org.apache.kafka.storage.internals.log.BatchMetadata AppendedBatch
  org.apache.kafka.storage.internals.log.ProducerAppendInfo ProducerStateManager
  org.apache.kafka.storage.internals.log.ProducerStateEntry
  org.apache.kafka.storage.internals.log.ProducerStateManager ProducerStateManager
brokers/membership/controlled_shutdown.py
  kafka.server.KafkaServer.controlledShutdown controlled_shutdown
brokers/membership/controller_channel.py
  org.apache.kafka.clients.NodeApiVersions.latestUsableVersion ControllerChannel
  kafka.server.NodeToControllerChannelManager ControllerChannel
  kafka.server.NodeToControllerChannelManagerImpl ControllerChannel
brokers/membership/finalized_features.py
  kafka.server.FinalizedFeatureChangeListener FinalizedFeatureChangeListener
brokers/membership/broker_identity.py
  kafka.server.KafkaServer.getOrGenerateBrokerId identify
brokers/membership/meta_properties.py
  org.apache.kafka.metadata.properties.MetaProperties MetaProperties
brokers/membership/registration.py
  kafka.zk.KafkaZkClient.registerBroker Registration
brokers/membership/session.py
  kafka.zookeeper.ZooKeeperClient.reinitialize BrokerSession
  kafka.zookeeper.StateChangeHandler Listener
brokers/metadata/
  kafka.server.metadata
brokers/metadata/metadata_cache.py
  kafka.server.metadata.ZkMetadataCache MetadataCache
brokers/metadata/topic_names.py
  org.apache.kafka.common.internals.Topic
brokers/metadata/topic_validation.py
  kafka.zk.AdminZkClient.validateTopicCreate validate_topic_create
brokers/metrics/broker_state.py
  org.apache.kafka.metadata.BrokerState BrokerState
brokers/metrics/metered_zookeeper.py
  org.apache.zookeeper.ZooKeeper.States SessionState
  kafka.zookeeper.ZooKeeperClient MeteredZooKeeperClient
brokers/network/
  kafka.network
brokers/network/kafka_apis.py
  kafka.server.KafkaApis KafkaApis
brokers/network/socket_server.py
  kafka.network.SocketServer SocketServer
brokers/replication/alter_partition_manager.py
  kafka.server.AlterPartitionItem IsrChange
  kafka.server.AlterPartitionManager AlterPartitionManager
  kafka.server.DefaultAlterPartitionManager AlterPartitionManager
brokers/replication/delayed_operations.py
  kafka.server.DelayedOperation DelayedOperation
  kafka.server.DelayedOperationPurgatory DelayedOperationPurgatory
brokers/replication/fetch_session.py
  kafka.server.FetchSession FetchSession
  kafka.server.CachedPartition CachedPartition
brokers/replication/fetch_session_cache.py
  kafka.server.FetchManager FetchSessionCache
  kafka.server.FetchSessionCacheShard FetchSessionCache
  kafka.server.SessionlessFetchContext FetchContext
  kafka.server.FullFetchContext FullFetchContext
  kafka.server.IncrementalFetchContext IncrementalFetchContext
brokers/replication/fetch_session_handler.py
  org.apache.kafka.clients.FetchSessionHandler FetchSessionHandler
brokers/replication/fetch_session_metrics.py
  kafka.server.FetchSessionCache
brokers/replication/isr.py
  kafka.cluster.Partition.maybeExpandIsr expansion
  kafka.cluster.Partition.maybeShrinkIsr shrinkage
brokers/replication/isr_manager.py
  kafka.cluster.Partition.submitAlterPartition IsrManager
  kafka.server.ReplicaManager.maybeShrinkIsr IsrManager
  kafka.cluster.Partition.maybeExpandIsr IsrManager
  kafka.cluster.Partition.maybeShrinkIsr IsrManager
brokers/replication/partition.py
  kafka.cluster.PartitionState LocalPartitionState
  kafka.cluster.PendingPartitionChange IsrProposal
  kafka.cluster.ReplicaState FollowerState
  kafka.cluster.Partition Partition
brokers/replication/replica_fetcher_manager.py
  kafka.server.ReplicaFetcherManager ReplicaFetcherManager
brokers/replication/replica_fetcher.py
  kafka.server.ReplicaFetcherThread ReplicaFetcher
brokers/replication/replica_manager.py
  kafka.server.ReplicaManager ReplicaManager
  kafka.server.ReplicaManager.appendRecords ReplicaManager
  kafka.server.DelayedProduce ReplicaManager
  kafka.cluster.Partition.appendRecordsToLeader ReplicaManager
  kafka.cluster.Partition.checkEnoughReplicasReachOffset ReplicaManager
brokers/replication/replica_selector.py
  org.apache.kafka.common.replica.RackAwareReplicaSelector preferred_read_replica
  org.apache.kafka.common.replica.ReplicaView ReplicaView
  kafka.server.ReplicaManager.findPreferredReadReplica preferred_read_replica
brokers/replication/follower_append.py
  kafka.cluster.Partition.appendRecordsToFollowerOrFutureReplica append_to_follower
brokers/replication/leader_and_isr_step.py
  kafka.server.ReplicaManager.makeLeaders leader_and_isr_step
  kafka.server.ReplicaManager.makeFollowers leader_and_isr_step
brokers/replication/stop_replica_step.py
  kafka.server.ReplicaManager.stopReplicas stop_replica_step
brokers/replication/truncation.py
  kafka.server.AbstractFetcherThread
  kafka.server.AbstractFetcherThread.getOffsetTruncationState truncation_offset
brokers/replication/replica_metrics.py
  kafka.server.ReplicaManager
brokers/replication/zk_alter_partition_manager.py
  kafka.server.ZkAlterPartitionManager ZkAlterPartitionManager
understudy/clusters/clients/admin_client.py
  org.apache.kafka.clients.admin.KafkaAdminClient AdminClient
understudy/clusters/clients/assignors/eager.py
  org.apache.kafka.clients.consumer.RangeAssignor assign_range
  org.apache.kafka.clients.consumer.RangeAssignor.TopicAssignmentState
  org.apache.kafka.clients.consumer.RoundRobinAssignor assign_round_robin
understudy/clusters/clients/assignors/previous_owners.py
  org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.RackInfo Racks
  org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.allSubscriptionsEqual previous_owners
understudy/clusters/clients/assignors/sticky.py
  org.apache.kafka.clients.consumer.CooperativeStickyAssignor assign_cooperative_sticky
  org.apache.kafka.clients.consumer.StickyAssignor assign_sticky
understudy/clusters/clients/assignors/sticky_equal.py
  org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.ConstrainedAssignmentBuilder EqualAssignment
understudy/clusters/clients/assignors/sticky_general.py
  org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.GeneralAssignmentBuilder GeneralAssignment
  org.apache.kafka.clients.consumer.internals.AbstractStickyAssignor.PartitionMovements
understudy/clusters/clients/assignors/subscriptions.py
  org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription Subscription
  org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.assign Assignor
  org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor.MemberInfo in_member_order
  org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor.useRackAwareAssignment use_racks
understudy/clusters/clients/assignors/protocol.py
  org.apache.kafka.clients.consumer.CooperativeStickyAssignor
  org.apache.kafka.clients.consumer.StickyAssignor
  org.apache.kafka.clients.consumer.internals.ConsumerProtocol
understudy/clusters/clients/group_member.py
  org.apache.kafka.clients.consumer.internals.AbstractCoordinator GroupMember
  org.apache.kafka.clients.consumer.internals.ConsumerCoordinator GroupMember
understudy/clusters/clients/partitioner.py
  org.apache.kafka.clients.producer.internals.BuiltInPartitioner
  org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey partition_for_key
  org.apache.kafka.common.utils.Utils.murmur2 murmur2
  org.apache.kafka.common.utils.Utils.toPositive to_positive
understudy/kafka_tools/mirror/groups.py
  org.apache.kafka.connect.mirror.MirrorCheckpointTask
understudy/kafka_tools/mirror/mirror.py
  org.apache.kafka.connect.mirror.MirrorSourceTask Mirror
understudy/kafka_tools/mirror/offset_map.py
  org.apache.kafka.connect.mirror.OffsetSyncStore MirroredOffsets
understudy/kafka_tools/mirror/topics.py
  org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter OWN_CONFIGS
  org.apache.kafka.connect.mirror.DefaultTopicFilter NEVER_COPIED
  org.apache.kafka.connect.mirror.MirrorSourceConnector find_copies
understudy/kafka_tools/planning/historic.py
  kafka.consumer.RoundRobinAssignor
understudy/clusters/clients/batching_producer.py
  org.apache.kafka.clients.producer.KafkaProducer BatchingProducer
  org.apache.kafka.clients.producer.internals.RecordAccumulator
  org.apache.kafka.clients.producer.internals.Sender
understudy/clusters/clients/cluster_requests.py
  org.apache.kafka.clients.admin.KafkaAdminClient ClusterRequests
understudy/clusters/clients/config_requests.py
  org.apache.kafka.clients.admin.ConfigEntry.ConfigSource
understudy/clusters/clients/group_requests.py
  org.apache.kafka.clients.admin.KafkaAdminClient GroupRequests
understudy/clusters/clients/record_requests.py
  org.apache.kafka.clients.admin.internals.ListOffsetsHandler
understudy/clusters/clients/consumer.py
  org.apache.kafka.clients.consumer.internals.CompletedFetch.nextFetchedRecord committed
understudy/clusters/clients/group_consumer.py
  org.apache.kafka.clients.consumer.KafkaConsumer GroupConsumer
understudy/cli/image/cub.py
  confluent.docker_utils.cub
  io.confluent.admin.utils.ClusterStatus
  io.confluent.admin.utils.TopicEnsure
understudy/kafka_tools/zookeeper/changes.py
  kafka.zk.AdminZkClient.changeConfigs change_config
understudy/kafka_tools/zookeeper/configs.py
  kafka.admin.ConfigCommand.alterConfigWithZk ZooKeeperConfigs
  kafka.admin.ConfigCommand.describeConfigWithZk ZooKeeperConfigs
understudy/kafka_tools/zookeeper/groups.py
  kafka.admin.ConsumerGroupCommand.ZkConsumerGroupService ZooKeeperGroups
understudy/kafka_tools/zookeeper/scram.py
  org.apache.kafka.common.security.scram.internals.ScramFormatter credential
  org.apache.kafka.common.security.scram.internals.ScramCredentialUtils stored
understudy/kafka_tools/zookeeper/shell.py
  org.apache.zookeeper.ZooKeeperMain Shell
  org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka Shell
understudy/kafka_tools/zookeeper/shell_arguments.py
  org.apache.zookeeper.ZooKeeperMain.MyCommandOptions words_of
  org.apache.commons.cli.DefaultParser Arguments
  org.apache.zookeeper.common.PathUtils check_path
understudy/kafka_tools/zookeeper/shell_commands.py
  org.apache.zookeeper.cli
understudy/kafka_tools/zookeeper/topics.py
  kafka.admin.TopicCommand.ZookeeperTopicService ZooKeeperTopics
  kafka.zk.AdminZkClient ZooKeeperTopics
understudy/kafka_tools/zookeeper/tree.py
  org.apache.zookeeper.ZKUtil delete_tree
understudy/kafka_tools/api_keys.py
  org.apache.kafka.common.protocol.ApiKeys API_KEYS
understudy/kafka_tools/broker_api_versions.py
  kafka.admin.BrokerApiVersionsCommand
  org.apache.kafka.clients.NodeApiVersions api_list
understudy/kafka_tools/client_properties.py
  org.apache.kafka.server.util.CommandLineUtils.parseKeyValueArgs key_values
  org.apache.kafka.common.config.AbstractConfig
understudy/kafka_tools/cluster_tool.py
  org.apache.kafka.tools.ClusterTool
understudy/kafka_tools/configs.py
  kafka.admin.ConfigCommand
  org.apache.kafka.clients.admin.ConfigEntry.ConfigSource SOURCES
understudy/kafka_tools/consume.py
  org.apache.kafka.tools.consumer.ConsoleConsumer
understudy/kafka_tools/consumer_perf.py
  org.apache.kafka.tools.ConsumerPerformance
understudy/kafka_tools/delete_records.py
  org.apache.kafka.tools.DeleteRecordsCommand
understudy/kafka_tools/dump_log.py
  kafka.tools.DumpLogSegments
understudy/kafka_tools/errors.py
  org.apache.kafka.common.protocol.Errors error_of
understudy/kafka_tools/get_offsets.py
  org.apache.kafka.tools.GetOffsetShell
understudy/kafka_tools/groups.py
  org.apache.kafka.tools.consumer.group.ConsumerGroupCommand
understudy/kafka_tools/index_dumps.py
  kafka.tools.DumpLogSegments.dumpIndex dump_offset_index
  kafka.tools.DumpLogSegments.dumpTimeIndex dump_time_index
  kafka.tools.DumpLogSegments.dumpTxnIndex dump_transaction_index
  kafka.tools.DumpLogSegments.dumpProducerIdSnapshot dump_producers
understudy/kafka_tools/latencies.py
  org.apache.kafka.tools.ProducerPerformance.Stats Latencies
understudy/kafka_tools/leader_election.py
  org.apache.kafka.tools.LeaderElectionCommand
understudy/kafka_tools/line_reader.py
  kafka.tools.ConsoleProducer.LineMessageReader LineReader
understudy/kafka_tools/log_dirs.py
  org.apache.kafka.tools.LogDirsCommand
understudy/kafka_tools/message_formatters.py
  org.apache.kafka.tools.consumer.DefaultMessageFormatter DefaultFormatter
understudy/kafka_tools/options.py
  joptsimple.OptionParser parse
  org.apache.kafka.server.util.CommandLineUtils Options
understudy/kafka_tools/preferred_replica_election.py
  kafka.admin.PreferredReplicaLeaderElectionCommand
understudy/kafka_tools/produce.py
  kafka.tools.ConsoleProducer
understudy/kafka_tools/producer_perf.py
  org.apache.kafka.tools.ProducerPerformance
understudy/kafka_tools/reassign.py
  org.apache.kafka.tools.reassign.ReassignPartitionsCommand
understudy/kafka_tools/reassignment_plan.py
  org.apache.kafka.tools.reassign.ReassignPartitionsCommand
understudy/kafka_tools/record_decoders.py
  org.apache.kafka.tools.api.Decoder Decoder
  kafka.tools.DumpLogSegments.OffsetsMessageParser parse_offsets
understudy/kafka_tools/topic_filter.py
  org.apache.kafka.server.util.TopicFilter.IncludeList include_list
understudy/kafka_tools/topics.py
  org.apache.kafka.tools.TopicCommand
understudy/clusters/simulated/znode_tree.py
  org.apache.zookeeper.server.DataTree ZnodeTree
  org.apache.zookeeper.server.PrepRequestProcessor ZnodeTree
understudy/clusters/processes/embedded_zookeeper.py
  kafka.zk.EmbeddedZookeeper EmbeddedZooKeeper
understudy/history/kraft_logs/cluster_image.py
  org.apache.kafka.image.ClusterImage ClusterImage
  org.apache.kafka.image.TopicsImage ClusterImage
  org.apache.kafka.metadata.PartitionRegistration PartitionState
understudy/history/kraft_logs/metadata_records.py
  org.apache.kafka.metadata.MetadataRecordSerde decode_metadata
  org.apache.kafka.common.record.ControlRecordUtils decode_control
understudy/history/reading/transaction_log.py
  org.apache.zookeeper.server.persistence.FileTxnLog read_transaction_logs
"""
"""Names of Kafka with their packages for each module or folder of ours, each followed by our name for it; without one
it is the whole module or folder."""


class Counterpart(NamedTuple):
    """One name of Kafka's, and where the same thing is here. `name` is empty for a whole module or folder."""

    kafka: str
    path: str
    name: str

    @property
    def package(self) -> str:
        """The part of Kafka's name in front of the class."""
        return ".".join(takewhile(str.islower, self.kafka.split(".")))

    @property
    def short(self) -> str:
        """Kafka's name without its package."""
        return self.kafka.removeprefix(self.package).removeprefix(".")


def counterparts() -> list[Counterpart]:
    """The table and, from the sources, the classes of requests and responses."""
    return [*_table(), *_messages()]


def _table() -> Iterator[Counterpart]:
    path = ""
    for line in TABLE.strip().splitlines():
        if line.startswith(" "):
            kafka, name = (*line.split(), "")[:2]
            yield Counterpart(kafka, path, name)
        else:
            path = line


def _messages() -> Iterator[Counterpart]:
    """Kafka generates a class for each request and response; here both are in one module."""
    for api in APIS:
        for message in (api.request, api.response):
            name, path = message.__name__, path_of(message.__module__)
            yield Counterpart(f"org.apache.kafka.common.message.{name}Data", path, name)


def names_in(path: str) -> set[str]:
    """The names defined at the top of a module."""
    found: set[str] = set()
    for node in parse(path).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(target.id for target in targets if isinstance(target, ast.Name))
    return found


def page() -> str:
    rows = counterparts()
    return "\n".join([HEAD, *_from_kafka(rows), *_from_here(rows), *_alone(rows), ""])


def _from_kafka(rows: Iterable[Counterpart]) -> Iterator[str]:
    yield "## From Kafka to here"
    for package, group in groupby(sorted(rows, key=lambda row: (row.package, row.short)), key=lambda row: row.package):
        yield f"\n### {package}\n"
        for kafka, same in groupby(group, key=lambda row: row.short):
            yield bullet(f"{f'`{kafka}`' if kafka else 'the package'} → {', '.join(map(_here, same))}")
    yield ""


def _here(row: Counterpart) -> str:
    return f"`{row.name}` in `{row.path}`" if row.name else f"`{row.path}`"


def _from_here(rows: Iterable[Counterpart]) -> Iterator[str]:
    yield "## From here to Kafka"
    for room, group in groupby(sorted(rows, key=lambda row: (_room(row.path), row.path)), lambda row: _room(row.path)):
        yield f"\n### {room}\n"
        for path, same in groupby(group, key=lambda row: row.path):
            names = dict.fromkeys(row.kafka for row in same)
            yield bullet(f"{_in_room(path)} ← {', '.join(f'`{name}`' for name in names)}")
    yield ""


def _alone(rows: Iterable[Counterpart]) -> Iterator[str]:
    yield "## Modules without a counterpart in Kafka\n"
    mirrored = {row.path for row in rows}
    alone = [path for path in product_files() if path not in mirrored and not path.endswith("__init__.py")]
    for room, group in groupby(sorted(alone, key=lambda path: (_room(path), path)), key=_room):
        yield bullet(f"`{room}` {', '.join(map(_in_room, group))}")


def _room(path: str) -> str:
    """The folder a module is in; a folder is its own."""
    return path[: path.rindex("/") + 1]


def _in_room(path: str) -> str:
    return f"`{path.removeprefix(_room(path))}`" if path.endswith(".py") else "the folder"
