"""Tests of the event that a watch notification queues."""

from __future__ import annotations

import pytest

from understudy.controller.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    ControllerEvent,
    ElectionTrigger,
    ElectionType,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Reelect,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from understudy.controller.watches import event_of
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.client import WatchFired, WatchKind

CREATED, CHANGED, DELETED, CHILDREN = WatchKind.CREATED, WatchKind.CHANGED, WatchKind.DELETED, WatchKind.CHILDREN


@pytest.mark.spec("EL-11", "BR-16", "PE-6", "LD-2", "RA-6", "TD-1", "IS-18")
@pytest.mark.parametrize(
    ("path", "kind", "event"),
    [
        ("/controller", CREATED, ControllerChange()),
        ("/controller", CHANGED, ControllerChange()),
        ("/controller", DELETED, Reelect()),
        ("/brokers/ids", CHILDREN, BrokerChange()),
        ("/brokers/ids/12", CHANGED, BrokerModifications(BrokerId(12))),
        ("/brokers/ids/seed", CHANGED, None),
        ("/brokers/ids/12", DELETED, None),
        ("/brokers/ids/12", CREATED, None),
        ("/brokers/topics", CHILDREN, TopicChange()),
        ("/brokers/topics/a.b-c_1", CHANGED, PartitionModifications("a.b-c_1")),
        ("/brokers/topics/12", CHANGED, PartitionModifications("12")),
        ("/brokers/topics/a", DELETED, None),
        ("/brokers/topics/a/partitions/7/state", CHANGED, PartitionReassignmentIsrChange(TopicPartition("a", 7))),
        ("/brokers/topics/a/partitions/7/state", DELETED, None),
        ("/admin/delete_topics", CHILDREN, TopicDeletion()),
        ("/admin/reassign_partitions", CREATED, ZkPartitionReassignment()),
        ("/admin/reassign_partitions", CHANGED, None),
        ("/admin/reassign_partitions", DELETED, None),
        (
            "/admin/preferred_replica_election",
            CREATED,
            ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER),
        ),
        ("/admin/preferred_replica_election", CHANGED, None),
        ("/admin/preferred_replica_election", DELETED, None),
        ("/log_dir_event_notification", CHILDREN, LogDirEventNotification()),
        ("/isr_change_notification", CHILDREN, IsrChangeNotification()),
        ("/config/changes", CHILDREN, None),
        ("/controller_epoch", CHANGED, None),
    ],
)
def test_event_of_watch(path: str, kind: WatchKind, event: ControllerEvent | None) -> None:
    assert event_of(WatchFired(path, kind)) == event
