"""The state of a settled cluster, and the differences between two of them.

`crash_points` compares the end of a run with a fault with the end of the same run without one. Leaders, ISRs,
assignments and the configs of topics must be equal; epochs, topic ids and the order inside an ISR may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from understudy.clusters.picture import NOTIFICATION_QUEUES
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.admin_znodes import (
    ConfigEntityZNode,
    DeleteTopicsZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)

_K = TypeVar("_K")
_V = TypeVar("_V")

QUEUES = (DeleteTopicsZNode.path, *NOTIFICATION_QUEUES)
"""Znodes whose children are requests to the controller; it deletes each child when it has handled it."""
REQUESTS = (ReassignPartitionsZNode.path, PreferredReplicaElectionZNode.path)
"""Znodes that are requests to the controller themselves; it deletes them when it has handled them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledState:
    """The partitions, the topic configs and the leftovers of a settled cluster."""

    assignments: Mapping[TopicPartition, ReplicaAssignment] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, BrokerId | None] = field(default_factory=dict)
    isrs: Mapping[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    """The in-sync replicas of each partition, sorted."""
    configs: Mapping[str, bytes] = field(default_factory=dict)
    """The config of each topic, by the path of its znode."""
    leftover_znodes: tuple[str, ...] = ()
    """Paths that the controller should have deleted."""
    unassigned_replicas: tuple[tuple[BrokerId, TopicPartition], ...] = ()
    """Replicas on brokers to which ZooKeeper does not assign them."""


def read_settled_state(cluster: SimulatedCluster) -> SettledState:
    """Read the state of `cluster`, which must have settled."""
    topics = cluster.znodes.topics()
    assignments = {tp: placed for topic in topics.values() for tp, placed in sorted(topic.partitions.items())}
    return SettledState(
        assignments=assignments,
        leaders={tp: cluster.leader_id(*tp) for tp in assignments},
        isrs={tp: tuple(sorted(cluster.isr(*tp))) for tp in assignments},
        configs={path: cluster.znodes.data(path) or b"" for path in _config_paths(cluster)},
        leftover_znodes=tuple(_leftover_znodes(cluster, assignments)),
        unassigned_replicas=tuple(cluster.unassigned_replicas()),
    )


def differences(without_fault: SettledState, with_fault: SettledState) -> list[str]:
    """Describe how the state after a run with a fault differs, one sentence per difference.

    Leftover znodes and unassigned replicas are not compared.
    """
    return [
        *_differences("the assignment of {}", without_fault.assignments, with_fault.assignments),
        *_differences("the leader of {}", without_fault.leaders, with_fault.leaders),
        *_differences("the ISR of {}", without_fault.isrs, with_fault.isrs),
        *_differences("{}", without_fault.configs, with_fault.configs),
    ]


def _differences(what: str, without_fault: Mapping[_K, _V], with_fault: Mapping[_K, _V]) -> Iterator[str]:
    for key in dict.fromkeys((*without_fault, *with_fault)):
        if without_fault.get(key) != with_fault.get(key):
            yield f"{what.format(key)} is {with_fault.get(key)}, without the fault it is {without_fault.get(key)}"


def _config_paths(cluster: SimulatedCluster) -> list[str]:
    return [ConfigEntityZNode.path("topics", name) for name in cluster.znodes.children("/config/topics")]


def _leftover_znodes(
    cluster: SimulatedCluster, assignments: Mapping[TopicPartition, ReplicaAssignment]
) -> Iterator[str]:
    znodes = cluster.znodes
    for queue in QUEUES:
        yield from (f"{queue}/{name}" for name in znodes.children(queue))
    yield from (path for path in REQUESTS if znodes.data(path) is not None)
    topics = {partition.topic for partition in assignments}
    yield from (path for path in _config_paths(cluster) if path.rpartition("/")[2] not in topics)
    for topic in sorted(topics):
        partitions = f"/brokers/topics/{topic}/partitions"
        numbers = znodes.children(partitions)
        yield from (f"{partitions}/{n}" for n in numbers if TopicPartition(topic, int(n)) not in assignments)
