"""Maps watch notifications of ZooKeeper to controller events. Pure. Mirrors the handlers at the end of
`KafkaController.scala`.

Watches are armed by the reads of the procedures. One that fires after its controller has resigned becomes an event like
any other, which an inactive controller ignores.
"""

from __future__ import annotations

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
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.client import WatchFired, WatchKind


def event_of(notification: WatchFired) -> ControllerEvent | None:
    """Return the event to queue, or None if the notification does not concern the controller."""
    match notification.path, notification.kind:
        case "/controller", WatchKind.CREATED | WatchKind.CHANGED:
            return ControllerChange()
        case "/controller", WatchKind.DELETED:
            return Reelect()
        case "/brokers/ids", WatchKind.CHILDREN:
            return BrokerChange()
        case "/brokers/topics", WatchKind.CHILDREN:
            return TopicChange()
        case "/log_dir_event_notification", WatchKind.CHILDREN:
            return LogDirEventNotification()
        case "/isr_change_notification", WatchKind.CHILDREN:
            return IsrChangeNotification()
        case "/admin/delete_topics", WatchKind.CHILDREN:
            return TopicDeletion()
        case "/admin/reassign_partitions", WatchKind.CREATED:
            return ZkPartitionReassignment()
        case "/admin/preferred_replica_election", WatchKind.CREATED:
            return ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER)
        case path, WatchKind.CHANGED:
            return _child_changed(path)
        case _:
            return None


def _child_changed(path: str) -> ControllerEvent | None:
    parent, _, child = path.rpartition("/")
    if parent == "/brokers/ids" and child.isdigit():
        return BrokerModifications(BrokerId(int(child)))
    if parent == "/brokers/topics":
        return PartitionModifications(child)
    match path.split("/"):
        case ["", "brokers", "topics", topic, "partitions", partition, "state"] if partition.isdigit():
            return PartitionReassignmentIsrChange(TopicPartition(topic, int(partition)))
    return None
