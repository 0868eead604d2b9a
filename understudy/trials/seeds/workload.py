"""The workload of a seed: requests of clients, and znodes that operators write, while faults are injected.

Topics are created, extended, reassigned and deleted. Like faults, the actions are values drawn before the run. The
topic, partition or brokers of an action are drawn from its seed when it is performed, among those that exist then; an
action that finds none does nothing. A request may be refused: nothing waits for its success.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from understudy.clusters.clients.topic_requests import UNCLEAN
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from understudy.foundation.wire.messages.init_producer_id import InitProducerIdRequest
from understudy.foundation.zk.admin_znodes import (
    DeleteTopicsTopicZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.client import SetData, Stat
from understudy.foundation.zk.znodes import BrokerIdZNode, TopicZNode

NAMES = ("clicks", "orders", "payments")
"""Names of topics: few, so that a topic is created while the earlier one of its name is still being deleted."""
CLIENTS_TOPICS = ("ledger", "letters", "table")
"""The topics of the producers and consumers, which `client_load` alone reassigns and deletes."""
OFFSETS_TOPIC = "__consumer_offsets"
"""Name of the topic of committed offsets. Its partitions are reassigned like any others. It is not deleted, and gets no
more partitions: groups would lose their committed offsets, as in Kafka."""
TOPIC, BROKER = 2, 4
"""Types of config resources, as on the wire."""
UNCLEAN_ELECTION = "unclean.leader.election.enable"
"""The config that a controller acts on as soon as it changes."""
MOST_PARTITIONS = 8
"""Number of partitions from which on no more are added to a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAction:
    """One action of a client or an operator."""

    at_ms: int
    kind: str
    draw: int
    """The seed for its topic, partition or brokers."""

    def __str__(self) -> str:
        return f"{self.at_ms:6d} ms  {self.kind}"


def draw_actions(source: random.Random, *, until_ms: int) -> tuple[ClientAction, ...]:
    """Draw two to five kinds of action, and one action every one to five seconds until `until_ms`."""
    kinds = sorted(source.sample(sorted(_ACTIONS), source.randint(2, 5)))
    gap_ms = source.choice((1_000, 2_500, 5_000))
    actions: list[ClientAction] = []
    now = source.randint(0, gap_ms)
    while now < until_ms - 500:
        actions.append(ClientAction(at_ms=now, kind=source.choice(kinds), draw=source.getrandbits(32)))
        now += 1 + int(source.expovariate(1 / gap_ms))
    return tuple(actions)


def schedule_actions(cluster: SimulatedCluster, actions: tuple[ClientAction, ...]) -> None:
    """Schedule every action at its time from now on. Lets no time pass."""
    for action in actions:
        cluster.after(action.at_ms, _performing(cluster, action))


def _performing(cluster: SimulatedCluster, action: ClientAction) -> Callable[[], None]:
    return lambda: _ACTIONS[action.kind](cluster, random.Random(action.draw))


_Perform: TypeAlias = Callable[[SimulatedCluster, random.Random], None]


def _create_topic(cluster: SimulatedCluster, draw: random.Random) -> None:
    name, replicas = draw.choice(NAMES), draw.randint(1, min(3, len(cluster.broker_ids)))
    cluster.begin(cluster.admin.create_topic(name, partitions=draw.randint(1, 3), replication_factor=replicas))


def _delete_topic(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (name := _some_topic(cluster, draw)) is not None:
        cluster.begin(cluster.admin.delete_topics(name))


def _delete_topic_by_marker(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Write the znode that marks a topic for deletion; the topic may not exist."""
    cluster.write(DeleteTopicsTopicZNode.path(draw.choice(NAMES)))


def _create_topic_again(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Delete a topic and create it again, with three attempts while the deletion may be in progress."""
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


def _reassign(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (partition := _some_partition(cluster, draw)) is not None:
        cluster.begin(cluster.admin.alter_partition_reassignments({partition: _some_brokers(cluster, draw)}))


def _reassign_again(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Reassign a partition twice, the second time before the first reassignment can have ended."""
    if (partition := _some_partition(cluster, draw)) is not None:
        for later_ms in (0, draw.choice((5, 50, 500))):
            cluster.after(later_ms, _reassigning(cluster, partition, _some_brokers(cluster, draw)))


def _reassign_and_cancel(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (partition := _some_partition(cluster, draw)) is not None:
        _reassigning(cluster, partition, _some_brokers(cluster, draw))()
        cluster.after(draw.choice((5, 50, 500, 5_000)), _reassigning(cluster, partition, None))


def _reassign_by_znode(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Request reassignments by znode, to brokers that may be down: such a request is not validated (BUG-19)."""
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
    """Write a topic's znode with the data it has: its version increases, and its watches fire."""
    if (name := _some_topic(cluster, draw)) is not None and (
        data := cluster.znodes.data(TopicZNode.path(name))
    ) is not None:
        cluster.zookeeper.operate([SetData(TopicZNode.path(name), data)])


def _alter_topic_config(cluster: SimulatedCluster, draw: random.Random) -> None:
    if (name := _some_topic(cluster, draw)) is not None:
        cluster.begin(cluster.admin.alter_config(TOPIC, name, {UNCLEAN_ELECTION: draw.choice(("true", "false", None))}))


def _alter_cluster_config(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Alter the default config of all brokers."""
    cluster.begin(cluster.admin.alter_config(BROKER, "", {UNCLEAN_ELECTION: draw.choice(("true", "false", None))}))


def _write_isr_change_notification(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Write an ISR change notification, as leaders before AlterPartition did, for an ISR that has not changed."""
    if (partition := _some_partition(cluster, draw)) is not None:
        cluster.write(
            IsrChangeNotificationZNode.sequence_path, IsrChangeNotificationZNode.encode([partition]), sequential=True
        )


def _write_log_dir_event_notification(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Report a failed log directory of a broker by znode; the broker itself answers that its replicas are online."""
    broker = draw.choice(list(cluster.broker_ids))
    cluster.write(
        LogDirEventNotificationZNode.sequence_path, LogDirEventNotificationZNode.encode(broker), sequential=True
    )


def _allocate_producer_ids(cluster: SimulatedCluster, draw: random.Random) -> None:
    """Send InitProducerId to each broker, and AllocateProducerIds twice for each broker, as after a lost response."""
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


def _reassigning(cluster: SimulatedCluster, partition: TopicPartition, to: list[BrokerId] | None) -> Callable[[], None]:
    return lambda: cluster.begin(cluster.admin.alter_partition_reassignments({partition: to}))


def _some_topic(cluster: SimulatedCluster, draw: random.Random) -> str | None:
    topics = sorted(set(cluster.znodes.topics()) - {*CLIENTS_TOPICS, OFFSETS_TOPIC})
    return draw.choice(topics) if topics else None


def _some_partition(cluster: SimulatedCluster, draw: random.Random) -> TopicPartition | None:
    partitions = sorted(
        partition
        for name, topic in cluster.znodes.topics().items()
        for partition in topic.partitions
        if name not in CLIENTS_TOPICS
    )
    return draw.choice(partitions) if partitions else None


def _some_brokers(cluster: SimulatedCluster, draw: random.Random) -> list[BrokerId]:
    brokers = list(cluster.broker_ids)
    return draw.sample(brokers, draw.randint(1, min(3, len(brokers))))


_ACTIONS: dict[str, _Perform] = {
    "create-topic": _create_topic,
    "delete-topic": _delete_topic,
    "delete-topic-by-marker": _delete_topic_by_marker,
    "create-topic-again": _create_topic_again,
    "add-partitions": _add_partitions,
    "move": _reassign,
    "move-again": _reassign_again,
    "move-and-cancel": _reassign_and_cancel,
    "move-by-znode": _reassign_by_znode,
    "elect-preferred-leaders": _elect_preferred_leaders,
    "elect-preferred-leaders-by-znode": _elect_preferred_leaders_by_znode,
    "elect-unclean-leaders": _elect_unclean_leaders,
    "touch-topic": _touch_topic,
    "alter-topic-config": _alter_topic_config,
    "alter-cluster-config": _alter_cluster_config,
    "notify-of-isr-by-hand": _write_isr_change_notification,
    "notify-of-log-dir-by-hand": _write_log_dir_event_notification,
    "allocate-producer-ids": _allocate_producer_ids,
}
KINDS = frozenset(_ACTIONS)
"""The kinds of action that can be drawn."""
