"""Histories of KRaft clusters that checks Q1 to Q7 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, leadership, rejects
from understudy.foundation.eventlog.records import (
    Assignment,
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    Leadership,
    LeadershipWritten,
    PartitionsAssigned,
    RunDescribed,
    TopicsChanged,
)


def elect(history: History, node: int, epoch: int, at_ms: float = 0.0) -> None:
    history.epoch_version = epoch
    history.log(node, ControllerElected(broker_id=node, epoch=epoch, epoch_zk_version=-1, session_id=0), at_ms=at_ms)


def changed(live: tuple[int, ...], *, new: tuple[int, ...] = (), dead: tuple[int, ...] = ()) -> BrokersChanged:
    return BrokersChanged(new=new, dead=dead, bounced=(), live=live)


def assigned(*replicas: int, eligible: tuple[int, ...] = ()) -> PartitionsAssigned:
    return PartitionsAssigned(partitions=(Assignment("t", 0, replicas, eligible),))


def written(why: str, *states: Leadership) -> LeadershipWritten:
    return LeadershipWritten(why=why, partitions=states)


def quorum(*, is_kraft: bool = True) -> History:
    """Node 1 leads the quorum at epoch 1, three brokers are live, and `t-0` is on all of them."""
    history = History()
    history.log(1, RunDescribed(is_kraft=is_kraft))
    elect(history, 1, 1)
    for broker in (1, 2, 3):
        history.log(broker, BrokerRegistered(broker_id=broker, broker_epoch=broker, session_id=0))
    history.log(1, changed((1, 2, 3), new=(1, 2, 3)), TopicsChanged(new=("t",), deleted=()))
    history.log(1, assigned(1, 2, 3), written("initialise", leadership(1, 0)))
    return history


def then(*states: Leadership, why: str = "offline") -> History:
    history = quorum()
    history.log(1, written(why, *states))
    return history


@accepts("Q1")
@accepts("Q2")
@accepts("Q3")
@accepts("Q4")
@accepts("Q5")
@accepts("Q6")
@accepts("Q7")
@accepts("C8")
def failovers() -> History:
    """Nodes 1 and 2 lead in turns, epochs have gaps, the leader is lost, and its broker comes back as leader."""
    history = quorum()
    elect(history, 2, 4, at_ms=1_000.0)
    history.log(2, changed((2, 3), dead=(1,)), written("offline", leadership(2, 1, (2, 3), 1)), at_ms=2_000.0)
    history.log(1, BrokerRegistered(broker_id=1, broker_epoch=40, session_id=0), incarnation=2, at_ms=3_000.0)
    history.log(
        2, changed((1, 2, 3), new=(1,)), written("alter-partition", leadership(2, 1, (2, 3, 1), 2)), at_ms=3_500.0
    )
    elect(history, 1, 5, at_ms=4_000.0)
    history.log(1, written("preferred", leadership(1, 2, (2, 3, 1), 3)), at_ms=4_500.0)
    elect(history, 1, 6, at_ms=5_000.0)
    return history


@accepts("Q4")
def a_topic_that_is_created_again() -> History:
    history = quorum()
    history.log(1, written("offline", leadership(2, 1, (2, 3), 1)), TopicsChanged(new=(), deleted=("t",)))
    history.log(1, TopicsChanged(new=("t",), deleted=()), written("initialise", leadership(3, 0, (3,))))
    return history


@accepts("Q4")
def states_of_a_snapshot() -> History:
    history = History()
    history.epoch_version = 7
    loaded = ContextLoaded(epoch=7, live_brokers=((1, 5),), partitions=(leadership(1, 3, (1, 2), 9),), took_ms=0.0)
    history.log(1, RunDescribed(is_kraft=True), loaded, written("offline", leadership(1, 4, (1,), 10)))
    return history


@accepts("Q5")
def no_leader_and_an_empty_isr() -> History:
    return then(leadership(-1, 1, (), 1))


@accepts("Q6")
def an_eligible_leader_replica_is_elected() -> History:
    history = quorum()
    history.log(1, assigned(1, 2, 3, eligible=(2,)), written("offline", leadership(-1, 1, (), 1)))
    history.log(1, assigned(1, 2, 3), written("offline", leadership(2, 2, (2,), 2)))
    return history


@accepts("Q6")
def an_unclean_election_that_is_marked() -> History:
    history = quorum()
    history.log(1, written("offline", leadership(-1, 1, (1,), 1)))
    history.log(1, written("unclean", Leadership("t", 0, 2, 2, (2,), 2, 1, 1)))
    return history


@accepts("Q4")
@accepts("Q5")
def a_run_in_zookeeper_mode_is_not_checked() -> History:
    history = quorum(is_kraft=False)
    history.log(1, written("offline", leadership(7, 0, (2,), 0)))
    return history


@rejects("Q1", "broker-2 and broker-1 are elected for epoch 1")
def two_controllers_of_an_epoch() -> History:
    history = quorum()
    elect(history, 2, 1)
    return history


@rejects("Q1", "broker-2 and broker-1 are elected for epoch 1")
def two_controllers_of_a_sweeps_run() -> History:
    """`understudy sweep` describes the runs of KRaft clusters that it imports, with their world."""
    history = quorum()
    history.log(1, RunDescribed(world="processes", is_kraft=True))
    elect(history, 2, 1)
    return history


@rejects("Q1", "broker-3 writes in epoch 1, which is broker-1's")
def another_node_writes_in_an_epoch() -> History:
    history = quorum()
    history.log(3, written("offline", leadership(2, 1, (2, 3), 1)))
    return history


@rejects("Q2", "begins before the end of the epoch before 2")
def a_deposed_controller_writes() -> History:
    history = quorum()
    history.log(1, written("offline", leadership(2, 1, (2, 3), 1)), at_ms=5_000.0)
    elect(history, 2, 2, at_ms=4_000.0)
    return history


@rejects("Q3", "broker 2 registers at epoch 1 after 2")
def a_broker_epoch_goes_back() -> History:
    history = quorum()
    history.log(2, BrokerRegistered(broker_id=2, broker_epoch=1, session_id=0), incarnation=2)
    return history


@rejects("Q4", "partition epoch 0 after 0")
def a_change_without_a_new_partition_epoch() -> History:
    return then(leadership(1, 0, (1, 2), 0), why="alter-partition")


@rejects("Q4", "leader 1 at epoch 0 became leader 2 at epoch 0")
def a_new_leader_at_the_same_epoch() -> History:
    return then(leadership(2, 0, (2, 3), 1))


@rejects("Q4", "leader 1 at epoch 0 became leader 2 at epoch 3")
def a_leader_epoch_that_skips() -> History:
    return then(leadership(2, 3, (2, 3), 1))


@rejects("Q5", "leader 1 is not in ISR [2, 3]")
def a_leader_outside_the_isr() -> History:
    return then(leadership(1, 1, (2, 3), 1))


@rejects("Q5", "ISR [1, 9] holds 9, which is not assigned")
def a_member_that_is_not_assigned() -> History:
    return then(leadership(1, 0, (1, 9), 1), why="alter-partition")


@rejects("Q5", "ISR [1, 1] names a replica twice")
def a_member_twice() -> History:
    return then(leadership(1, 0, (1, 1), 1), why="alter-partition")


@rejects("Q6", "3 became leader from outside ISR [1, 2]")
def an_election_from_outside_the_isr() -> History:
    return then(leadership(1, 0, (1, 2), 1), leadership(3, 1, (3,), 2))


@rejects("Q7", "1 joins the ISR or leads, and is fenced; live are [2, 3]")
def a_fenced_leader() -> History:
    history = quorum()
    history.log(1, changed((2, 3), dead=(1,)), written("offline", leadership(2, 1, (2, 3), 1)))
    history.log(1, written("preferred", leadership(1, 2, (2, 3, 1), 2)))
    return history
