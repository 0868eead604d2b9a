"""A cluster at one moment, as values: what ZooKeeper holds, and what running brokers hold in memory.

`testbed.cluster_view` reads a picture from a real ZooKeeper, `simulator.znode_view` from the simulated one.
`findings` lists what is wrong with a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.broker import BrokerAndEpoch
from foundation.cluster.identifiers import BrokerId, TopicId, TopicPartition
from foundation.cluster.leadership import LeaderIsrAndControllerEpoch
from foundation.zk.admin_znodes import IsrChangeNotificationZNode, LogDirEventNotificationZNode

if TYPE_CHECKING:
    from brokers.metadata.metadata_cache import MetadataSnapshot
    from brokers.replication.partition import Partition

NOTIFICATION_QUEUES = (IsrChangeNotificationZNode.path, LogDirEventNotificationZNode.path)
"""Znodes whose children notify the controller, which deletes each child once it has handled it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPicture:
    """A partition's assignment and its state in ZooKeeper."""

    assignment: ReplicaAssignment
    state: LeaderIsrAndControllerEpoch | None
    """None where the partition has no state znode yet, or one that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPicture:
    """What one reading of ZooKeeper found.

    The parts are read one after the other: during a failover they may contradict each other.
    """

    controller: BrokerId | None
    controller_epoch: int
    """0 where no controller has ever been elected."""
    brokers: Mapping[BrokerId, BrokerAndEpoch]
    partitions: Mapping[TopicPartition, PartitionPicture]
    topic_ids: Mapping[str, TopicId | None] = field(default_factory=dict)
    """The id of each topic; None for a topic that was created without one."""
    topics_to_delete: tuple[str, ...] = ()
    """Topics with a marker in `/admin/delete_topics`, whether they exist or not."""
    requested_moves: tuple[TopicPartition, ...] = ()
    """Partitions named in `/admin/reassign_partitions`."""
    controller_requests: tuple[str, ...] = ()
    """Paths of the znodes by which brokers and tools send the controller a request, and which it deletes when it has
    handled them: ISR change and log dir event notifications, and the preferred replica election."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMemory:
    """What a running broker holds in memory. Only the simulator can read it."""

    metadata: MetadataSnapshot
    hosted: Mapping[TopicPartition, Partition]
    """The partitions it has a replica of."""
    fetched: Mapping[TopicPartition, int]
    """The partitions it fetches, and the broker it fetches each from."""
    controller_assignments: Mapping[TopicPartition, ReplicaAssignment] | None
    """The assignments in the context of the active controller; None for a broker that is not the active controller."""
