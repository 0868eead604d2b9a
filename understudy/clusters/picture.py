"""`ClusterPicture` and `BrokerMemory`: the state in ZooKeeper and in running brokers at one moment, as values.

`processes.cluster_view` reads a picture from a real ZooKeeper, `simulated.znode_view` from the simulated one.
`findings` lists the problems that a picture shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from understudy.foundation.zk.admin_znodes import IsrChangeNotificationZNode, LogDirEventNotificationZNode

if TYPE_CHECKING:
    from understudy.brokers.metadata.metadata_cache import MetadataSnapshot
    from understudy.brokers.replication.partition import Partition

NOTIFICATION_QUEUES = (IsrChangeNotificationZNode.path, LogDirEventNotificationZNode.path)
"""The znodes whose children notify the controller, which deletes each child after it has handled it."""


class PartitionPicture(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's assignment and its state in ZooKeeper."""

    assignment: ReplicaAssignment
    state: LeaderIsrAndControllerEpoch | None
    """State in the partition's state znode; None if there is no such znode yet, or it cannot be decoded."""


class ClusterPicture(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster in ZooKeeper.

    The znodes are read one after the other, so during a failover they may contradict each other.
    """

    controller: BrokerId | None
    controller_epoch: int
    """The value of `/controller_epoch`; 0 if no controller has ever been elected."""
    brokers: Mapping[BrokerId, BrokerAndEpoch]
    partitions: Mapping[TopicPartition, PartitionPicture]
    topic_ids: Mapping[str, TopicId | None] = msgspec.field(default_factory=dict)
    """The id of each topic; None for a topic that has none."""
    topics_to_delete: tuple[str, ...] = ()
    """The topics with a marker in `/admin/delete_topics`, whether they exist or not."""
    requested_moves: tuple[TopicPartition, ...] = ()
    """The partitions that `/admin/reassign_partitions` names."""
    controller_requests: tuple[str, ...] = ()
    """The paths of the znodes that ask the controller for something and that it deletes after it has handled them: ISR
    change notifications, log dir event notifications and `/admin/preferred_replica_election`."""


class BrokerMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a running broker holds in memory; only the simulator can read it."""

    metadata: MetadataSnapshot
    hosted: Mapping[TopicPartition, Partition]
    """The partitions of which it has a replica."""
    topic_ids_on_disk: Mapping[TopicPartition, TopicId]
    """The topic id of every log in its directory, also of logs without a replica."""
    fetched: Mapping[TopicPartition, int]
    """The partitions that it fetches, each with the broker that it fetches from."""
    controller_assignments: Mapping[TopicPartition, ReplicaAssignment] | None
    """The assignments in the controller's context; None if the broker is not the active controller."""
