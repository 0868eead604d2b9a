"""What a controller can be in the middle of: scenarios that bring a small cluster to a state and set something going.

Each is a few lines in the cluster's words. `crash_points` plays them over and over, with the controller killed at another
named point each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.zk.admin_znodes import PreferredReplicaElectionZNode
from understudy.simulator.cluster import SimulatedBroker, SimulatedCluster

Verb = Callable[[SimulatedCluster], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Procedure:
    """
    Attributes:
        passes: the beginning of a point's name that a run must reach; otherwise the scenario has missed its subject.
        prepare: from an empty cluster to the state before; afterwards it comes to rest.
        trigger: sets it going; whatever the controller does from here on is attacked.
        lasts_ms: by when a run in which nobody is killed has come to its end.
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
    cluster.create_topic("orders", assignment={0: [controller, one, two], 1: [one, two, controller], 2: [one, two, three]})


def _orders_with_leaders_astray(cluster: SimulatedCluster) -> None:
    """The preferred leader of `orders-1` and `orders-2` was away, and is back."""
    _orders(cluster)
    cluster.settle()
    away = _bystander(cluster)
    away.crash()
    cluster.run_for(8_000)
    away.restart()
    cluster.run_for(3_000)


def _controller_first(cluster: SimulatedCluster) -> list[BrokerId]:
    return sorted(cluster.brokers, key=lambda broker: broker != cluster.controller())


def _bystander(cluster: SimulatedCluster) -> SimulatedBroker:
    """The first broker that is not the controller: a leader and a follower of `orders`."""
    return cluster.broker(_controller_first(cluster)[1])


def _controller(cluster: SimulatedCluster) -> SimulatedBroker:
    return cluster.broker(cluster.controller())


# ------------------------------------------------------------------ what is set going


def _create_topic(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.create_topic("payments", assignment={0: [1, 2, 3], 1: [4, 3, 2]}))


def _add_partitions(cluster: SimulatedCluster) -> None:
    brokers = _controller_first(cluster)
    cluster.begin(cluster.admin.create_partitions("orders", 5, assignment=[brokers[1:4], brokers[:3]]))


def _kill_a_broker(cluster: SimulatedCluster) -> None:
    _bystander(cluster).crash()


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


def _take_over(cluster: SimulatedCluster) -> None:
    """Much is left to the next controller: a broker is dead, a topic is new, elections are asked for."""
    controller, bystander = _controller(cluster), _bystander(cluster)
    controller.crash()
    bystander.crash()
    _elect_preferred_leaders_by_znode(cluster)
    cluster.write("/brokers/topics/payments", b'{"partitions":{"0":[1,2,3],"1":[4,3,2]},"version":1}')
    cluster.after(12_000, controller.restart)


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
        name="takeover",
        passes="failover.",
        brokers=5,
        prepare=_orders_with_leaders_astray,
        trigger=_take_over,
        lasts_ms=14_000,
    ),
)
"""Every procedure, by the name the command line knows it by."""
