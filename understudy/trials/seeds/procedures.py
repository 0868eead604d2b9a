"""The scenarios of `crash_points`: each prepares a small cluster and triggers one procedure of the controller.

`crash_points` runs each scenario many times, with a fault at another named point of the controller each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from understudy.clusters.clients.topic_requests import UNCLEAN
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.zk.admin_znodes import (
    DeleteTopicsTopicZNode,
    PreferredReplicaElectionZNode,
    ReassignPartitionsZNode,
)
from understudy.foundation.zk.znodes import TopicZNode

ORDERS_0 = TopicPartition("orders", 0)

Step = Callable[[SimulatedCluster], None]


class Procedure(NamedTuple):
    """A scenario that makes the controller run one procedure.

    Attributes:
        point_prefix: how the names of the procedure's points begin. A run that reaches none of them does not run the
            procedure.
        prepare: creates what the procedure needs; the cluster settles afterwards.
        trigger: starts the procedure; faults are injected at the points that controllers reach from here on.
        lasts_ms: how long the procedure takes without a fault.
    """

    name: str
    point_prefix: str
    prepare: Step
    trigger: Step
    brokers: int
    lasts_ms: float


PROCEDURES: list[Procedure] = []
"""Every scenario; `name` is the argument of `understudy crash-points --procedure`."""


def _procedure(
    point_prefix: str, prepare: Step, *, brokers: int = 4, lasts_ms: float = 3_000
) -> Callable[[Step], Step]:
    """Decorate the trigger of a procedure, after which the procedure is named."""

    def add(trigger: Step) -> Step:
        name = trigger.__name__.replace("_", "-")
        PROCEDURES.append(Procedure(name, point_prefix, prepare, trigger, brokers, lasts_ms))
        return trigger

    return add


# ------------------------------------------------------------------ preparing a cluster


def _orders(cluster: SimulatedCluster) -> None:
    """Create `orders`: partition 0 is led by the controller, 1 has it as a follower, 2 has no replica on it."""
    controller, one, two, three = _controller_first(cluster)[:4]
    cluster.create_topic(
        "orders", assignment={0: [controller, one, two], 1: [one, two, controller], 2: [one, two, three]}
    )


def _orders_with_other_leaders(cluster: SimulatedCluster) -> None:
    """Create `orders`, and restart the preferred leader of partitions 1 and 2: they are led by other replicas now."""
    _orders(cluster)
    cluster.settle()
    preferred = _first_follower(cluster)
    preferred.kill()
    cluster.run_for(8_000)
    preferred.begin_start()
    cluster.run_for(3_000)


def _payments_without_a_leader(cluster: SimulatedCluster) -> None:
    """Create `payments`, and kill its only in-sync replica; the other replica is live but not in the ISR."""
    _, one, two, *_ = _controller_first(cluster)
    cluster.create_topic("payments", assignment={0: [one, two]})
    cluster.settle()
    cluster.broker(two).kill()
    cluster.run_for(8_000)
    cluster.broker(one).kill()
    cluster.run_for(8_000)
    cluster.broker(two).begin_start()
    cluster.run_for(2_000)


def _orders_being_reassigned(cluster: SimulatedCluster) -> None:
    """Create `orders`, and reassign `orders-0` to a broker that is down, so that the reassignment cannot end.

    The request is a znode: Kafka does not validate its replicas (BUG-19).
    """
    _orders(cluster)
    cluster.settle()
    controller, one, _, _, dead = _controller_first(cluster)
    cluster.broker(dead).kill()
    cluster.run_for(8_000)
    moves = {ORDERS_0: [controller, one, dead]}
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(moves))
    cluster.run_for(1_000)


def _orders_with_other_leaders_and_clicks(cluster: SimulatedCluster) -> None:
    cluster.create_topic("clicks", assignment={0: _controller_first(cluster)[:3]})
    _orders_with_other_leaders(cluster)


def _controller_first(cluster: SimulatedCluster) -> list[BrokerId]:
    """The ids of all brokers: the controller's, then the others in order."""
    return sorted(cluster.broker_ids, key=lambda broker: broker != cluster.controller_id())


def _first_follower(cluster: SimulatedCluster) -> SimulatedBroker:
    """The first broker that is not the controller: it leads and follows partitions of `orders`."""
    return cluster.broker(_controller_first(cluster)[1])


# ------------------------------------------------------------------ triggering a procedure, of the same name


@_procedure("partition.", _orders)
def topic_creation(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.create_topic("payments", assignment={0: [1, 2, 3], 1: [4, 3, 2]}))


@_procedure("partition.", _orders)
def partition_addition(cluster: SimulatedCluster) -> None:
    brokers = _controller_first(cluster)
    cluster.begin(cluster.admin.create_partitions("orders", 5, assignment=[brokers[1:4], brokers[:3]]))


@_procedure("replica.", _orders, lasts_ms=8_000)
def broker_death(cluster: SimulatedCluster) -> None:
    _first_follower(cluster).kill()


@_procedure("partition.", _orders, lasts_ms=8_000)
def broker_bounce(cluster: SimulatedCluster) -> None:
    """Restart a broker and expire its old session: it registers again before the controller reads `/brokers/ids`."""
    broker = _first_follower(cluster)
    session = broker.session_id
    broker.bounce(300)
    if session is not None:
        cluster.zookeeper.expire(session)


@_procedure("controlled_shutdown.", _orders)
def controlled_shutdown(cluster: SimulatedCluster) -> None:
    _first_follower(cluster).stop()


@_procedure("controlled_shutdown.", _orders)
def controlled_shutdown_of_the_controller(cluster: SimulatedCluster) -> None:
    cluster.controller().stop()


@_procedure("partition.", _orders_with_other_leaders)
def preferred_election(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.elect_leaders())


@_procedure("preferred_election.", _orders_with_other_leaders)
def preferred_election_by_znode(cluster: SimulatedCluster) -> None:
    partitions = [TopicPartition("orders", number) for number in range(3)]
    cluster.write(PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.encode(partitions))


@_procedure("partition.", _orders_with_other_leaders, lasts_ms=25_000)
def auto_rebalance(cluster: SimulatedCluster) -> None:
    """Do nothing: the controller starts the procedure by itself."""


@_procedure("partition.", _payments_without_a_leader)
def unclean_election(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.elect_leaders([TopicPartition("payments", 0)], election_type=UNCLEAN))


@_procedure("deletion.", _orders)
def topic_deletion(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.delete_topics("orders"))


@_procedure("deletion.", _orders)
def topic_deletion_by_marker(cluster: SimulatedCluster) -> None:
    cluster.write(DeleteTopicsTopicZNode.path("orders"))


@_procedure("deletion.", _orders, lasts_ms=12_000)
def topic_deletion_with_a_dead_replica(cluster: SimulatedCluster) -> None:
    """Delete a topic of which one replica is on a dead broker: the deletion waits until that broker returns."""
    dead = _first_follower(cluster)
    dead.kill()
    cluster.after(500, lambda: topic_deletion_by_marker(cluster))
    cluster.after(9_000, dead.begin_start)


@_procedure("reassignment.", _orders, brokers=5)
def reassignment(cluster: SimulatedCluster) -> None:
    """Reassign `orders-0` to three brokers: one has a replica already, another becomes the leader."""
    *_, one, two, three = _controller_first(cluster)
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: [three, two, one]}))


@_procedure("reassignment.znode.", _orders, brokers=5)
def reassignment_by_znode(cluster: SimulatedCluster) -> None:
    controller, one, *_, two, three = _controller_first(cluster)
    moves = {ORDERS_0: [three, two, one], TopicPartition("orders", 1): [controller, two, three]}
    cluster.write(ReassignPartitionsZNode.path, ReassignPartitionsZNode.encode(moves))


@_procedure("reassignment.", _orders)
def reassignment_reorder(cluster: SimulatedCluster) -> None:
    controller, one, two, *_ = _controller_first(cluster)
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: [two, one, controller]}))


@_procedure("reassignment.", _orders_being_reassigned, brokers=5)
def reassignment_cancel(cluster: SimulatedCluster) -> None:
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: None}))


@_procedure("reassignment.", _orders_being_reassigned, brokers=5)
def reassignment_override(cluster: SimulatedCluster) -> None:
    _, one, two, three, _ = _controller_first(cluster)
    cluster.begin(cluster.admin.alter_partition_reassignments({ORDERS_0: [one, three, two]}))


@_procedure("deletion.", _orders_being_reassigned, brokers=5, lasts_ms=8_000)
def reassignment_and_deletion(cluster: SimulatedCluster) -> None:
    """Delete a topic whose reassignment and deletion both wait for a dead broker."""
    topic_deletion_by_marker(cluster)
    cluster.after(4_000, cluster.broker(_controller_first(cluster)[4]).begin_start)


@_procedure("failover.", _orders_with_other_leaders_and_clicks, brokers=5, lasts_ms=14_000)
def takeover(cluster: SimulatedCluster) -> None:
    """Kill the controller and a broker, and write a new topic and requests for an election, a reassignment and a
    deletion.

    All of them are left to the next controller.
    """
    controller, follower = cluster.controller(), _first_follower(cluster)
    controller.kill()
    follower.kill()
    preferred_election_by_znode(cluster)
    reassignment_by_znode(cluster)
    cluster.write(DeleteTopicsTopicZNode.path("clicks"))
    cluster.write(TopicZNode.path("payments"), b'{"partitions":{"0":[1,2,3],"1":[4,3,2]},"version":1}')
    cluster.after(12_000, controller.begin_start)
