"""What a controller can be in the middle of: scenarios that bring a small cluster to a state and set something going.

Each is a few lines in the cluster's words. `crash_points` plays them over and over, with the controller killed at
another named point each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.zk.admin_znodes import DeleteTopicsTopicZNode, PreferredReplicaElectionZNode, ReassignPartitionsZNode
from foundation.zk.znodes import TopicZNode
from understudy.admin_client import UNCLEAN
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import SimulatedCluster

ORDERS_0 = TopicPartition("orders", 0)

Verb = Callable[[SimulatedCluster], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """A scenario that brings the controller into the middle of one procedure.

    Attributes:
        passes: the beginning of a point's name that a run must reach; otherwise the scenario has missed its subject.
        prepare: from an empty cluster to the state before; afterwards it comes to rest.
        trigger: sets it going; whatever the controller does from here on is attacked.
        lasts_ms: by when a run without an injected fault has ended.
    """

    name: str
    passes: str
    prepare: Verb
    trigger: Verb
    brokers: int = 4
    lasts_ms: float = 3_000
    settings: Mapping[str, str] = field(default_factory=dict)


# ------------------------------------------------------------------ clusters to begin with


def _orders(cluster: SimulatedCluster) -> None:
    """A partition led by the controller, one led by a follower of it, and one that has nothing to do with it."""
    controller, one, two, three = _controller_first(cluster)[:4]
    cluster.create_topic(
        "orders", assignment={0: [controller, one, two], 1: [one, two, controller], 2: [one, two, three]}
    )


def _orders_with_leaders_astray(cluster: SimulatedCluster) -> None:
    """The preferred leader of `orders-1` and `orders-2` was away, and is back."""
    _orders(cluster)
    cluster.settle()
    away = _bystander(cluster)
    away.kill()
    cluster.run_for(8_000)
    away.begin_start()
    cluster.run_for(3_000)


def _payments_without_a_leader(cluster: SimulatedCluster) -> None:
    """The only replica in sync is dead; the other one lives, and lacks what it has not fetched."""
    _, one, two, *_ = _controller_first(cluster)
    cluster.create_topic("payments", assignment={0: [one, two]})
    cluster.settle()
    cluster.broker(two).kill()
    cluster.run_for(8_000)
    cluster.broker(one).kill()
    cluster.run_for(8_000)
    cluster.broker(two).begin_start()
    cluster.run_for(2_000)


def _orders_on_the_move(cluster: SimulatedCluster) -> None:
    """`orders-0` moves to a broker that is down: requested by znode, which Kafka does not validate (BUG-19)."""
    _orders(cluster)
    cluster.settle()
    controller, one, _, _, dead = _controller_first(cluster)
    cluster.broker(dead).kill()
    cluster.run_for(8_000)
    moves = {ORDERS_0: [controller, one, dead]}
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(moves))
    cluster.run_for(1_000)


def _orders_astray_and_a_doomed_topic(cluster: SimulatedCluster) -> None:
    cluster.create_topic("doomed", assignment={0: _controller_first(cluster)[:3]})
    _orders_with_leaders_astray(cluster)


def _controller_first(cluster: SimulatedCluster) -> list[BrokerId]:
    return sorted(cluster.broker_ids, key=lambda broker: broker != cluster.controller_id())


def _bystander(cluster: SimulatedCluster) -> SimulatedBroker:
    """The first broker that is not the controller: a leader and a follower of `orders`."""
    return cluster.broker(_controller_first(cluster)[1])


def _controller(cluster: SimulatedCluster) -> SimulatedBroker:
    return cluster.controller()


# ------------------------------------------------------------------ what is set going


def _create_topic(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.create_topic("payments", assignment={0: [1, 2, 3], 1: [4, 3, 2]}))


def _add_partitions(cluster: SimulatedCluster) -> None:
    brokers = _controller_first(cluster)
    cluster.begin(cluster.admin.create_partitions("orders", 5, assignment=[brokers[1:4], brokers[:3]]))


def _kill_a_broker(cluster: SimulatedCluster) -> None:
    _bystander(cluster).kill()


def _bounce_a_broker(cluster: SimulatedCluster) -> None:
    """Gone and back before anybody reads `/brokers/ids`: its session is ended at once."""
    broker = _bystander(cluster)
    session = broker.session_id
    broker.bounce(300)
    if session is not None:
        cluster.zookeeper.expire(session)


def _stop_a_broker(cluster: SimulatedCluster) -> None:
    _bystander(cluster).stop()


def _stop_the_controller(cluster: SimulatedCluster) -> None:
    _controller(cluster).stop()


def _elect_preferred_leaders(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.elect_leaders())


def _elect_preferred_leaders_by_znode(cluster: SimulatedCluster) -> None:
    partitions = [TopicPartition("orders", number) for number in range(3)]
    cluster.write(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode(partitions))


def _elect_an_unclean_leader(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.elect_leaders([TopicPartition("payments", 0)], election_type=UNCLEAN))


def _delete_a_topic(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.delete_topics("orders"))


def _delete_a_topic_by_marker(cluster: SimulatedCluster) -> None:
    cluster.write(DeleteTopicsTopicZNode.path("orders"))


def _delete_a_topic_with_a_dead_replica(cluster: SimulatedCluster) -> None:
    """It begins, has to wait, and goes on when the broker is back."""
    dead = _bystander(cluster)
    dead.kill()
    cluster.after(500, lambda: _delete_a_topic_by_marker(cluster))
    cluster.after(9_000, dead.begin_start)


def _move_a_partition(cluster: SimulatedCluster) -> None:
    """To three brokers of which one has it already and another leads it from now on."""
    *_, one, two, three = _controller_first(cluster)
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: [three, two, one]}))


def _move_partitions_by_znode(cluster: SimulatedCluster) -> None:
    controller, one, *_, two, three = _controller_first(cluster)
    moves = {ORDERS_0: [three, two, one], TopicPartition("orders", 1): [controller, two, three]}
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(moves))


def _reorder_replicas(cluster: SimulatedCluster) -> None:
    controller, one, two, *_ = _controller_first(cluster)
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: [two, one, controller]}))


def _cancel_the_move(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: None}))


def _override_the_move(cluster: SimulatedCluster) -> None:
    _, one, two, three, _ = _controller_first(cluster)
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: [one, three, two]}))


def _delete_a_topic_on_the_move(cluster: SimulatedCluster) -> None:
    """The move waits for a dead broker, and so does the deletion."""
    _delete_a_topic_by_marker(cluster)
    cluster.after(4_000, cluster.broker(_controller_first(cluster)[4]).begin_start)


def _wait(cluster: SimulatedCluster) -> None:
    """What the controller does by itself."""


def _take_over(cluster: SimulatedCluster) -> None:
    """All is left to the next controller: a broker is dead, a topic new, elections, a move and a deletion are asked
    for."""
    controller, bystander = _controller(cluster), _bystander(cluster)
    controller.kill()
    bystander.kill()
    _elect_preferred_leaders_by_znode(cluster)
    _move_partitions_by_znode(cluster)
    cluster.write(DeleteTopicsTopicZNode.path("doomed"))
    cluster.write(TopicZNode.path("payments"), b'{"partitions":{"0":[1,2,3],"1":[4,3,2]},"version":1}')
    cluster.after(12_000, controller.begin_start)


PROCEDURES: tuple[Procedure, ...] = (
    Procedure(name="topic-creation", passes="partition.", prepare=_orders, trigger=_create_topic),
    Procedure(name="partition-addition", passes="partition.", prepare=_orders, trigger=_add_partitions),
    Procedure(name="broker-death", passes="replica.", prepare=_orders, trigger=_kill_a_broker, lasts_ms=8_000),
    Procedure(name="broker-bounce", passes="partition.", prepare=_orders, trigger=_bounce_a_broker, lasts_ms=8_000),
    Procedure(name="controlled-shutdown", passes="controlled_shutdown.", prepare=_orders, trigger=_stop_a_broker),
    Procedure(
        name="controlled-shutdown-of-the-controller",
        passes="controlled_shutdown.",
        prepare=_orders,
        trigger=_stop_the_controller,
    ),
    Procedure(
        name="preferred-election",
        passes="partition.",
        prepare=_orders_with_leaders_astray,
        trigger=_elect_preferred_leaders,
    ),
    Procedure(
        name="preferred-election-by-znode",
        passes="preferred_election.",
        prepare=_orders_with_leaders_astray,
        trigger=_elect_preferred_leaders_by_znode,
    ),
    Procedure(
        name="auto-rebalance",
        passes="partition.",
        prepare=_orders_with_leaders_astray,
        trigger=_wait,
        lasts_ms=25_000,
    ),
    Procedure(
        name="unclean-election",
        passes="partition.",
        prepare=_payments_without_a_leader,
        trigger=_elect_an_unclean_leader,
    ),
    Procedure(name="topic-deletion", passes="deletion.", prepare=_orders, trigger=_delete_a_topic),
    Procedure(name="topic-deletion-by-marker", passes="deletion.", prepare=_orders, trigger=_delete_a_topic_by_marker),
    Procedure(
        name="topic-deletion-with-a-dead-replica",
        passes="deletion.",
        prepare=_orders,
        trigger=_delete_a_topic_with_a_dead_replica,
        lasts_ms=12_000,
    ),
    Procedure(name="reassignment", passes="reassignment.", brokers=5, prepare=_orders, trigger=_move_a_partition),
    Procedure(
        name="reassignment-by-znode",
        passes="reassignment.znode.",
        brokers=5,
        prepare=_orders,
        trigger=_move_partitions_by_znode,
    ),
    Procedure(name="reassignment-reorder", passes="reassignment.", prepare=_orders, trigger=_reorder_replicas),
    Procedure(
        name="reassignment-cancel",
        passes="reassignment.",
        brokers=5,
        prepare=_orders_on_the_move,
        trigger=_cancel_the_move,
    ),
    Procedure(
        name="reassignment-override",
        passes="reassignment.",
        brokers=5,
        prepare=_orders_on_the_move,
        trigger=_override_the_move,
    ),
    Procedure(
        name="reassignment-and-deletion",
        passes="deletion.",
        brokers=5,
        prepare=_orders_on_the_move,
        trigger=_delete_a_topic_on_the_move,
        lasts_ms=8_000,
    ),
    Procedure(
        name="takeover",
        passes="failover.",
        brokers=5,
        prepare=_orders_astray_and_a_doomed_topic,
        trigger=_take_over,
        lasts_ms=14_000,
    ),
)
"""Every procedure, by the name the command line knows it by."""
