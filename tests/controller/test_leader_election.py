"""Tests of leader election algorithms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.controller.leader_election import (
    controlled_shutdown_leader,
    elect_for_controlled_shutdown,
    elect_for_offline_partition,
    elect_for_reassigned_partition,
    elect_preferred_replica,
    offline_partition_leader,
    preferred_replica_leader,
    reassigned_partition_leader,
)
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderRecoveryState

RECOVERED, RECOVERING = LeaderRecoveryState.RECOVERED, LeaderRecoveryState.RECOVERING


def alive(*brokers: int) -> frozenset[BrokerId]:
    return frozenset(ids(*brokers))


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


def state(
    leader: int, isr: tuple[int, ...], *, epoch: int = 7, recovery: LeaderRecoveryState = RECOVERED
) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), epoch, ids(*isr), recovery, 3)


# ------------------------------------------------------------------ the leader


@pytest.mark.spec("PSM-12")
@pytest.mark.parametrize(
    ("replicas", "isr", "online", "unclean", "leader"),
    [
        # the first of the assignment that is alive and in sync
        ((2, 4), (2, 4), (4,), False, 4),
        ((2, 4), (4, 2), (2, 4), False, 2),
        ((2, 4), (4,), (2, 4), False, 4),
        # none is: no leader …
        ((2, 4), (2,), (4,), False, None),
        ((2, 4), (2,), (), False, None),
        ((2, 4), (), (2, 4), False, None),
        # … unless unclean election is allowed: then the first online
        ((2, 4), (2,), (4,), True, 4),
        ((2, 4), (), (2, 4), True, 2),
        ((2, 4), (2,), (), True, None),
        # a replica in sync comes first although unclean election is allowed
        ((2, 4), (4,), (2, 4), True, 4),
        # not assigned, not electable
        ((2, 4), (6,), (6,), True, None),
        ((), (2,), (2,), True, None),
    ],
)
def test_offline_partition_leader(
    replicas: tuple[int, ...], isr: tuple[int, ...], online: tuple[int, ...], unclean: bool, leader: int | None
) -> None:
    assert offline_partition_leader(ids(*replicas), ids(*isr), ids(*online), unclean_allowed=unclean) == leader


@pytest.mark.spec("PSM-13")
@pytest.mark.parametrize(
    ("target", "isr", "online", "leader"),
    [
        ((2, 4), (2, 4), (2, 4), 2),
        ((2, 4), (4, 2), (4,), 4),
        ((2, 4), (2, 4), (), None),
        ((2, 4), (), (2, 4), None),
        ((2, 4), (2,), (4,), None),
        ((), (2,), (2,), None),
    ],
)
def test_reassigned_partition_leader(
    target: tuple[int, ...], isr: tuple[int, ...], online: tuple[int, ...], leader: int | None
) -> None:
    assert reassigned_partition_leader(ids(*target), ids(*isr), ids(*online)) == leader


@pytest.mark.spec("PSM-14")
@pytest.mark.parametrize(
    ("replicas", "isr", "online", "leader"),
    [
        ((2, 4), (2, 4), (2, 4), 2),
        ((2, 4), (4, 2), (2,), 2),
        ((2, 4), (4,), (2, 4), None),
        ((2, 4), (2, 4), (4,), None),
        ((), (2,), (2,), None),
    ],
)
def test_preferred_replica_leader(
    replicas: tuple[int, ...], isr: tuple[int, ...], online: tuple[int, ...], leader: int | None
) -> None:
    assert preferred_replica_leader(ids(*replicas), ids(*isr), ids(*online)) == leader


@pytest.mark.spec("PSM-15")
@pytest.mark.parametrize(
    ("replicas", "isr", "online", "leaving", "leader"),
    [
        ((2, 4), (2, 4), (2, 4), (2,), 4),
        ((2, 4), (2, 4), (2, 4), (), 2),
        ((2, 4), (2,), (2, 4), (2,), None),
        ((2, 4), (2, 4), (2,), (2,), None),
        ((2, 4), (4, 2), (2, 4), (2, 4), None),
        ((2, 4, 6), (6, 2), (2, 4, 6), (2,), 6),
    ],
)
def test_controlled_shutdown_leader(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    online: tuple[int, ...],
    leaving: tuple[int, ...],
    leader: int | None,
) -> None:
    assert controlled_shutdown_leader(ids(*replicas), ids(*isr), ids(*online), set(ids(*leaving))) == leader


# ------------------------------------------------------------------ the new state


@pytest.mark.spec("PSM-12", "PSM-16")
def test_clean_election_removes_offline_replicas_from_the_isr() -> None:
    election = elect_for_offline_partition(
        state(1, (3, 1, 2)), ReplicaAssignment(ids(1, 2, 3)), alive(2, 3), unclean_allowed=False
    )
    assert election is not None
    assert election.leader_and_isr == LeaderAndIsr(BrokerId(2), 8, ids(3, 2), RECOVERED, 3)
    assert election.recipients == ids(2, 3)
    assert not election.unclean


@pytest.mark.spec("PSM-18")
def test_unclean_leader_is_the_only_isr_member_and_recovers() -> None:
    election = elect_for_offline_partition(
        state(1, (1,)), ReplicaAssignment(ids(1, 2, 3)), alive(2, 3), unclean_allowed=True
    )
    assert election is not None
    assert election.leader_and_isr == LeaderAndIsr(BrokerId(2), 8, ids(2), RECOVERING, 3)
    assert election.recipients == ids(2, 3)
    assert election.unclean


@pytest.mark.spec("PSM-17")
def test_no_unclean_election_while_an_unassigned_isr_member_is_online() -> None:
    assigned = ReplicaAssignment(ids(2, 4))
    assert elect_for_offline_partition(state(2, (2, 6)), assigned, alive(4, 6), unclean_allowed=True) is None
    election = elect_for_offline_partition(state(2, (2, 6)), assigned, alive(4), unclean_allowed=True)
    assert election is not None
    assert election.unclean


@pytest.mark.spec("PSM-18")
@pytest.mark.parametrize("before", [RECOVERED, RECOVERING])
def test_recovery_state_is_not_set_for_old_brokers(before: LeaderRecoveryState) -> None:
    election = elect_for_offline_partition(
        state(1, (1,), recovery=before),
        ReplicaAssignment(ids(1, 2, 3)),
        alive(2, 3),
        unclean_allowed=True,
        leader_recovery_supported=False,
    )
    assert election is not None
    assert election.leader_and_isr == LeaderAndIsr(BrokerId(2), 8, ids(2), before, 3)
    assert election.unclean


@pytest.mark.spec("PSM-18")
def test_clean_election_keeps_the_recovery_state() -> None:
    election = elect_for_offline_partition(
        state(1, (1, 2), recovery=RECOVERING), ReplicaAssignment(ids(1, 2)), alive(2), unclean_allowed=True
    )
    assert election is not None
    assert election.leader_and_isr.leader_recovery_state is RECOVERING
    assert not election.unclean


@pytest.mark.spec("PSM-16")
def test_election_of_the_same_leader_raises_the_epoch() -> None:
    election = elect_for_offline_partition(
        state(1, (1, 2)), ReplicaAssignment(ids(1, 2)), alive(1, 2), unclean_allowed=False
    )
    assert election is not None
    assert election.leader_and_isr == state(1, (1, 2), epoch=8)


@pytest.mark.spec("PSM-13")
def test_reassignment_election_keeps_the_isr_and_sends_to_all_target_replicas() -> None:
    assignment = ReplicaAssignment(ids(4, 5, 1, 2), adding_replicas=ids(4, 5), removing_replicas=ids(1, 2))
    election = elect_for_reassigned_partition(state(1, (1, 2, 5)), assignment, ids(1, 2, 5))
    assert election is not None
    assert election.leader_and_isr == state(5, (1, 2, 5), epoch=8)
    assert election.recipients == ids(4, 5)
    assert elect_for_reassigned_partition(state(1, (1, 2)), assignment, ids(1, 2, 4, 5)) is None


@pytest.mark.spec("PSM-14")
def test_preferred_election_keeps_the_isr_and_sends_to_every_replica() -> None:
    election = elect_preferred_replica(state(2, (3, 2, 1)), ReplicaAssignment(ids(1, 2, 3)), ids(1, 2))
    assert election is not None
    assert election.leader_and_isr == state(1, (3, 2, 1), epoch=8)
    assert election.recipients == ids(1, 2, 3)
    assert elect_preferred_replica(state(2, (3, 2)), ReplicaAssignment(ids(1, 2, 3)), ids(1, 2, 3)) is None


@pytest.mark.spec("PSM-15")
def test_controlled_shutdown_election_removes_the_broker_and_sends_to_it() -> None:
    election = elect_for_controlled_shutdown(
        state(1, (1, 3, 2)), ReplicaAssignment(ids(1, 2, 3)), alive(1, 2, 3), alive(1)
    )
    assert election is not None
    assert election.leader_and_isr == state(2, (3, 2), epoch=8)
    assert election.recipients == ids(1, 2, 3)
    assert elect_for_controlled_shutdown(state(1, (1,)), ReplicaAssignment(ids(1, 2)), alive(1, 2), alive(1)) is None


broker_lists = st.lists(st.integers(0, 5), unique=True, max_size=5).map(lambda brokers: ids(*brokers))


@given(replicas=broker_lists, isr=broker_lists.filter(bool), online=broker_lists.map(frozenset), unclean=st.booleans())
def test_properties_of_offline_partition_elections(
    replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], online: frozenset[BrokerId], unclean: bool
) -> None:
    current = state(isr[0], isr)
    election = elect_for_offline_partition(current, ReplicaAssignment(replicas), online, unclean_allowed=unclean)
    if election is None:
        return
    chosen = election.leader_and_isr
    assert chosen.leader in chosen.isr
    assert chosen.leader in online
    assert chosen.leader in replicas
    assert chosen.leader_epoch == current.leader_epoch + 1
    assert chosen.partition_epoch == current.partition_epoch
    assert election.unclean == (chosen.leader not in current.isr)
    assert not election.unclean or (unclean and online.isdisjoint(isr))
