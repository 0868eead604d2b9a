"""What a cluster at rest holds, to compare two of them: one whose controller was left in peace, one whose was not.

Epochs, topic ids and the order inside an ISR may differ between them; who leads, who is in sync, where replicas belong
and what lies about in ZooKeeper may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.zk.admin_znodes import (
    ConfigEntityZNode,
    DeleteTopicsZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.simulator.cluster import SimulatedCluster

_K = TypeVar("_K")
_V = TypeVar("_V")

QUEUES = (DeleteTopicsZNode.path, IsrChangeNotificationZNode.path, LogDirEventNotificationZNode.path)
"""Whose children ask the controller for something, and vanish when it is done."""
REQUESTS = (ReassignPartitionsZNode.path, PreferredReplicaElectionZNode.path)
"""What asks by its existence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    assignments: Mapping[TopicPartition, ReplicaAssignment]
    leaders: Mapping[TopicPartition, BrokerId | None]
    in_sync: Mapping[TopicPartition, tuple[BrokerId, ...]]
    """Sorted."""
    configs: Mapping[str, bytes]
    """Of topics, by path."""
    leftovers: tuple[str, ...]
    """Znodes that should have been removed."""
    strays: tuple[tuple[BrokerId, TopicPartition], ...]
    """Replicas on brokers that should have none."""


def rest_of(cluster: SimulatedCluster) -> Rest:
    """What `cluster` holds now; it should be at rest."""
    topics = cluster.znodes.topics()
    assignments = {tp: placed for topic in topics.values() for tp, placed in sorted(topic.partitions.items())}
    return Rest(
        assignments=assignments,
        leaders={tp: cluster.leader_id(*tp) for tp in assignments},
        in_sync={tp: tuple(sorted(cluster.isr(*tp))) for tp in assignments},
        configs={path: cluster.znodes.data(path) or b"" for path in _configs(cluster)},
        leftovers=tuple(_leftovers(cluster, assignments)),
        strays=tuple(cluster.unassigned_replicas()),
    )


def differences(calm: Rest, disturbed: Rest) -> list[str]:
    """How the end differs from that of the run without a fault, one sentence each. Leftovers and strays are not
    compared."""
    return [
        *_differences("the assignment of {}", calm.assignments, disturbed.assignments),
        *_differences("the leader of {}", calm.leaders, disturbed.leaders),
        *_differences("the ISR of {}", calm.in_sync, disturbed.in_sync),
        *_differences("{}", calm.configs, disturbed.configs),
    ]


def _differences(what: str, calm: Mapping[_K, _V], disturbed: Mapping[_K, _V]) -> Iterator[str]:
    for key in dict.fromkeys((*calm, *disturbed)):
        if calm.get(key) != disturbed.get(key):
            yield f"{what.format(key)} is {disturbed.get(key)}, without the fault it is {calm.get(key)}"


def _configs(cluster: SimulatedCluster) -> list[str]:
    return [ConfigEntityZNode.path("topics", name) for name in cluster.znodes.children("/config/topics")]


def _leftovers(cluster: SimulatedCluster, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> Iterator[str]:
    znodes = cluster.znodes
    for queue in QUEUES:
        yield from (f"{queue}/{name}" for name in znodes.children(queue))
    yield from (path for path in REQUESTS if znodes.data(path) is not None)
    topics = {partition.topic for partition in assignments}
    yield from (path for path in _configs(cluster) if path.rpartition("/")[2] not in topics)
    for topic in sorted(topics):
        partitions = f"/brokers/topics/{topic}/partitions"
        numbers = znodes.children(partitions)
        yield from (f"{partitions}/{n}" for n in numbers if TopicPartition(topic, int(n)) not in assignments)
