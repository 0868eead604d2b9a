"""Tests of `ReplicaAssignment`: adding and removing replicas of a reassignment."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.identifiers import BrokerId


def assignment(*replicas: int, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()) -> ReplicaAssignment:
    return ReplicaAssignment(ids(replicas), ids(adding), ids(removing))


def ids(brokers: tuple[int, ...] | list[int]) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


@pytest.mark.spec("CX-5")
@pytest.mark.parametrize(
    ("before", "target", "after"),
    [
        (assignment(1, 2, 3), (4, 5, 6), assignment(4, 5, 6, 1, 2, 3, adding=(4, 5, 6), removing=(1, 2, 3))),
        (assignment(1, 2, 3), (3, 4, 2), assignment(3, 4, 2, 1, adding=(4,), removing=(1,))),
        (assignment(1, 2, 3), (2, 1, 3), assignment(2, 1, 3)),
        (assignment(1, 2, 3), (1, 2), assignment(1, 2, 3, removing=(3,))),
        (assignment(1), (1, 2, 3), assignment(1, 2, 3, adding=(2, 3))),
        # An adding replica that the new target lacks is dropped; one that the new target holds stays an adding replica.
        (
            assignment(3, 4, 2, 1, adding=(4,), removing=(1,)),
            (5, 1),
            assignment(5, 1, 3, 2, adding=(5,), removing=(3, 2)),
        ),
        (
            assignment(3, 4, 2, 1, adding=(4,), removing=(1,)),
            (4, 1),
            assignment(4, 1, 3, 2, adding=(4,), removing=(3, 2)),
        ),
    ],
)
def test_reassign_to(before: ReplicaAssignment, target: tuple[int, ...], after: ReplicaAssignment) -> None:
    assert before.reassign_to(ids(target)) == after


def test_a_reassignment_to_20000_brokers_is_computed_within_a_second() -> None:
    target = tuple(map(BrokerId, range(20_000)))
    began = time.process_time()
    assert assignment(7).reassign_to(target).adding_replicas == target[:7] + target[8:]
    assert time.process_time() - began < 1, "the controller processes no event meanwhile"


@pytest.mark.spec("CX-5", "BUG-19", "RA-15")
def test_a_reassignment_back_to_the_origin_changes_the_order_of_replicas() -> None:
    moving = assignment(1, 2, 3).reassign_to(ids((3, 4, 2)))
    assert moving.origin_replicas == ids((3, 2, 1))
    assert moving.reassign_to(moving.origin_replicas) == assignment(3, 2, 1)


brokers = st.lists(st.integers(0, 6), unique=True, min_size=1, max_size=5)


@given(origin=brokers, targets=st.lists(brokers, min_size=1, max_size=3))
def test_invariants_of_any_sequence_of_reassignments(origin: list[int], targets: list[list[int]]) -> None:
    current = ReplicaAssignment(ids(origin))
    for target in targets:
        current = current.reassign_to(ids(target))
        assert current.target_replicas == ids(target)
        assert set(current.origin_replicas) == set(origin)
        assert set(current.replicas) == {*origin, *target}
        assert len(set(current.replicas)) == len(current.replicas)
        assert current.is_being_reassigned == (set(target) != set(origin))
