"""Dispatches the events of the active controller to their procedures. Mirrors `KafkaController.process`."""

from __future__ import annotations

from typing import assert_never

from understudy.controller import (
    alter_partition,
    auto_rebalance,
    broker_lifecycle,
    controlled_shutdown,
    features,
    isr_change_notification,
    producer_ids,
    replica_leader_election,
    topic_changes,
    topic_deletion,
    unclean_election,
)
from understudy.controller.events import (
    AllocateProducerIds,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    AutoPreferredReplicaLeaderElection,
    BrokerChange,
    BrokerModifications,
    ControlledShutdown,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    ListPartitionReassignments,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    ReplicaLeaderElection,
    TermEvent,
    TopicChange,
    TopicDeletion,
    TopicDeletionStopReplicaResponseReceived,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
    UpdateFeatures,
    UpdateMetadataResponseReceived,
    ZkPartitionReassignment,
)
from understudy.controller.reassignment import partition_reassignment
from understudy.controller.term import Term


async def process_term_event(term: Term, event: TermEvent) -> None:
    """Run the procedure of `event`. Exceptions reach the caller."""
    match event:
        case BrokerChange():
            await broker_lifecycle.process_broker_change(term)
        case BrokerModifications():
            await broker_lifecycle.process_broker_modifications(term, event.broker_id)
        case LogDirEventNotification():
            await broker_lifecycle.process_log_dir_event_notification(term)
        case TopicChange():
            await topic_changes.process_topic_change(term)
        case PartitionModifications():
            await topic_changes.process_partition_modifications(term, event.topic)
        case TopicDeletion():
            await topic_deletion.process_topic_deletion(term)
        case IsrChangeNotification():
            await isr_change_notification.process_isr_change_notification(term)
        case ZkPartitionReassignment():
            await partition_reassignment.process_zk_partition_reassignment(term)
        case PartitionReassignmentIsrChange():
            await partition_reassignment.process_partition_reassignment_isr_change(term, event.partition)
        case AutoPreferredReplicaLeaderElection():
            await auto_rebalance.process_auto_preferred_replica_leader_election(term, event)
        case UncleanLeaderElectionEnable():
            await unclean_election.process_unclean_leader_election_enable(term)
        case TopicUncleanLeaderElectionEnable():
            await unclean_election.process_topic_unclean_leader_election_enable(term, event.topic)
        case LeaderAndIsrResponseReceived():
            await broker_lifecycle.process_leader_and_isr_response(term, event)
        case UpdateMetadataResponseReceived():
            broker_lifecycle.process_update_metadata_response(event)
        case TopicDeletionStopReplicaResponseReceived():
            await topic_deletion.process_stop_replica_response(term, event)
        case ReplicaLeaderElection():
            await replica_leader_election.process_replica_leader_election(term, event)
        case AlterPartitionReceived():
            await alter_partition.process_alter_partition(term, event)
        case ControlledShutdown():
            await controlled_shutdown.process_controlled_shutdown(term, event)
        case ApiPartitionReassignment():
            await partition_reassignment.process_api_partition_reassignment(term, event)
        case ListPartitionReassignments():
            await partition_reassignment.process_list_partition_reassignments(term, event)
        case AllocateProducerIds():
            await producer_ids.process_allocate_producer_ids(term, event)
        case UpdateFeatures():
            features.process_update_features(term, event)
        case _:
            assert_never(event)
