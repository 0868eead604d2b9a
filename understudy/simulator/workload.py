"""What people do to a cluster while it is in trouble: topics come, grow, move and go, by request and by hand.

Like faults, deeds are values drawn before the run; what a deed is about (which topic, which brokers) is drawn when its
time comes, from its own source, among what there is then. People bear being refused: a deed that finds nothing to do
does nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from foundation.wire.messages.init_producer_id import InitProducerIdRequest
from foundation.zk.admin_znodes import (
    DeleteTopicsTopicZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from foundation.zk.client import SetData, Stat
from foundation.zk.znodes import BrokerIdZNode, TopicZNode
from understudy.admin_client import UNCLEAN
from understudy.simulator.cluster import PORT, SimulatedCluster

NAMES = ("clicks", "orders", "payments")
"""Few, so that a topic is created again while its predecessor is still going."""
TOPIC, BROKER = 2, 4
"""Types of config resources, as on the wire."""
UNCLEAN_ELECTION = "unclean.leader.election.enable"
"""The one key that makes a controller act at once."""
MOST_PARTITIONS = 8
"""Of a topic: it grows no further."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """One action of a client or an operator."""

    at_ms: int
    kind: str
    draw: int
    """The seed of what it is about."""

    def __str__(self) -> str:
        return f"{self.at_ms:6d} ms  {self.kind}"


def draw_deeds(source: random.Random, *, until_ms: int) -> tuple[Deed, ...]:
    """A few kinds per run, every one to five seconds."""
    kinds = sorted(source.sample(sorted(_DEEDS), source.randint(2, 5)))
    gap_ms = source.choice((1_000, 2_500, 5_000))
    deeds: list[Deed] = []
    now = source.randint(0, gap_ms)
    while now < until_ms - 500:
        deeds.append(Deed(at_ms=now, kind=source.choice(kinds), draw=source.getrandbits(32)))
        now += 1 + int(source.expovariate(1 / gap_ms))
    return tuple(deeds)


def run_deeds(cluster: SimulatedCluster, deeds: tuple[Deed, ...]) -> None:
    """Set every deed to be done at its time, beginning now. Lets no time pass."""
    for deed in deeds:
        cluster.after(deed.at_ms, _doing(cluster, deed))


def _doing(cluster: SimulatedCluster, deed: Deed) -> Callable[[], None]:
    return lambda: _DEEDS[deed.kind](cluster, random.Random(deed.draw))


_Do: TypeAlias = Callable[[SimulatedCluster, random.Random], None]


def _create_topic(cluster: SimulatedCluster, draw: random.Random) -> None:
    name, replicas = draw.choice(NAMES), draw.randint(1, min(3, len(cluster.broker_ids)))
    cluster.begin(cluster.admin.create_topic(name, partitions=draw.randint(1, 3), replication_factor=replicas))


def _delete_topic(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (name := _some_topic(cluster, draw)) is not None:
        cluster.begin(cluster.admin.delete_topics(name))


def _delete_topic_by_marker(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Also of a topic that does not exist."""
    cluster.write(DeleteTopicsTopicZNode.path(draw.choice(NAMES)))


def _create_topic_again(cluster: SimulatedCluster, draw: random.Random) -> None:
    """As soon as it can be: the client tries again while the old one is still there."""
    if (name := _some_topic(cluster, draw)) is not None:
        cluster.begin(cluster.admin.delete_topics(name))
        for later_ms in (100, 400, 1_500):
            cluster.after(
                later_ms, lambda: cluster.begin(cluster.admin.create_topic(name, partitions=2, replication_factor=2))
            )


def _add_partitions(cluster: SimulatedCluster, draw: random.Random) -> None:
    name = _some_topic(cluster, draw)
    if name is not None and (count := len(cluster.znodes.topics()[name].partitions)) < MOST_PARTITIONS:
        cluster.begin(cluster.admin.create_partitions(name, count + draw.randint(1, 2)))


def _move(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (partition := _some_partition(cluster, draw)) is not None:
        cluster.begin(cluster.admin.alter_partition_reassignments({partition: _some_brokers(cluster, draw)}))


def _move_again(cluster: SimulatedCluster, draw: random.Random) -> None:
    """One move over the other, the second before the first can be over."""
    if (partition := _some_partition(cluster, draw)) is not None:
        for later_ms in (0, draw.choice((5, 50, 500))):
            cluster.after(later_ms, _moving(cluster, partition, _some_brokers(cluster, draw)))


def _move_and_cancel(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (partition := _some_partition(cluster, draw)) is not None:
        _moving(cluster, partition, _some_brokers(cluster, draw))()
        cluster.after(draw.choice((5, 50, 500, 5_000)), _moving(cluster, partition, None))


def _move_by_znode(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Move to brokers that may be down; a request by znode is not validated (BUG-19)."""
    partitions = {_some_partition(cluster, draw) for _ in range(draw.randint(1, 3))}
    moves = {partition: _some_brokers(cluster, draw) for partition in sorted(p for p in partitions if p is not None)}
    if moves:
        cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(moves))


def _elect_preferred_leaders(cluster: SimulatedCluster, draw: random.Random) -> None:
    cluster.begin(cluster.admin.elect_leaders())


def _elect_preferred_leaders_by_znode(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (partition := _some_partition(cluster, draw)) is not None:
        cluster.write(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode([partition]))


def _elect_unclean_leaders(cluster: SimulatedCluster, draw: random.Random) -> None:
    cluster.begin(cluster.admin.elect_leaders(election_type=UNCLEAN))


def _touch_topic(cluster: SimulatedCluster, draw: random.Random) -> None:
    """An operator writes a topic's znode as it is: its version moves on, and its watches fire."""
    if (name := _some_topic(cluster, draw)) is not None and (
        data := cluster.znodes.data(TopicZNode.path(name))
    ) is not None:
        cluster.zookeeper.operate([SetData(TopicZNode.path(name), data)])


def _alter_topic_config(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (name := _some_topic(cluster, draw)) is not None:
        cluster.begin(cluster.admin.alter_config(TOPIC, name, {UNCLEAN_ELECTION: draw.choice(("true", "false", None))}))


def _alter_cluster_config(cluster: SimulatedCluster, draw: random.Random) -> None:
    """The default of all brokers."""
    cluster.begin(cluster.admin.alter_config(BROKER, "", {UNCLEAN_ELECTION: draw.choice(("true", "false", None))}))


def _notify_of_isr_by_hand(cluster: SimulatedCluster, draw: random.Random) -> None:
    """As a leader older than AlterPartition does, of an ISR that has not changed."""
    if (partition := _some_partition(cluster, draw)) is not None:
        cluster.write(
            IsrChangeNotificationZNode.sequence_path, IsrChangeNotificationZNode.encode([partition]), sequential=True
        )


def _notify_of_log_dir_by_hand(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Report a failed disk of a broker by znode; the broker itself answers that its replicas are fine."""
    broker = draw.choice(list(cluster.broker_ids))
    cluster.write(
        LogDirEventNotificationZNode.sequence_path, LogDirEventNotificationZNode.encode(broker), sequential=True
    )


def _allocate_producer_ids(cluster: SimulatedCluster, draw: random.Random) -> None:
    """A producer asks each broker, and every broker for a block, and asks again: the answer has been lost."""
    for broker in cluster.brokers:
        cluster.begin(cluster.admin.ask(broker.node.name, PORT, InitProducerIdRequest()))
    controller = cluster.controller_id()
    if controller is None:
        return
    for broker_id in cluster.broker_ids:
        registered = cluster.zookeeper.tree.exists(BrokerIdZNode.path(broker_id))
        if isinstance(registered, Stat):
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=registered.czxid)
            for _ in range(2):
                cluster.begin(cluster.admin.ask(cluster.broker(controller).node.name, PORT, request))


def _moving(cluster: SimulatedCluster, partition: TopicPartition, to: list[BrokerId] | None) -> Callable[[], None]:
    return lambda: cluster.begin(cluster.admin.alter_partition_reassignments({partition: to}))


def _some_topic(cluster: SimulatedCluster, draw: random.Random) -> str | None:
    topics = sorted(cluster.znodes.topics())
    return draw.choice(topics) if topics else None


def _some_partition(cluster: SimulatedCluster, draw: random.Random) -> TopicPartition | None:
    partitions = sorted(partition for topic in cluster.znodes.topics().values() for partition in topic.partitions)
    return draw.choice(partitions) if partitions else None


def _some_brokers(cluster: SimulatedCluster, draw: random.Random) -> list[BrokerId]:
    brokers = list(cluster.broker_ids)
    return draw.sample(brokers, draw.randint(1, min(3, len(brokers))))


_DEEDS: dict[str, _Do] = {
    "create-topic": _create_topic,
    "delete-topic": _delete_topic,
    "delete-topic-by-marker": _delete_topic_by_marker,
    "create-topic-again": _create_topic_again,
    "add-partitions": _add_partitions,
    "move": _move,
    "move-again": _move_again,
    "move-and-cancel": _move_and_cancel,
    "move-by-znode": _move_by_znode,
    "elect-preferred-leaders": _elect_preferred_leaders,
    "elect-preferred-leaders-by-znode": _elect_preferred_leaders_by_znode,
    "elect-unclean-leaders": _elect_unclean_leaders,
    "touch-topic": _touch_topic,
    "alter-topic-config": _alter_topic_config,
    "alter-cluster-config": _alter_cluster_config,
    "notify-of-isr-by-hand": _notify_of_isr_by_hand,
    "notify-of-log-dir-by-hand": _notify_of_log_dir_by_hand,
    "allocate-producer-ids": _allocate_producer_ids,
}
KINDS = frozenset(_DEEDS)
