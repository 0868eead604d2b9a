from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.cluster.assignment import ReplicaAssignment
from foundation.cluster.identifiers import BrokerId


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
        # a replica that was being added and is wanted no more just goes; one that is wanted still is still being added
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


def test_a_target_of_more_brokers_than_there_are_is_looked_at_in_no_time() -> None:
    target = tuple(map(BrokerId, range(20_000)))
    began = time.process_time()
    assert assignment(7).reassign_to(target).adding_replicas == target[:7] + target[8:]
    assert time.process_time() - began < 1, "the controller, and with it the cluster, stood still meanwhile"


@pytest.mark.spec("CX-5", "BUG-19", "RA-15")
def test_who_moves_and_turns_back_has_another_order() -> None:
    moving = assignment(1, 2, 3).reassign_to(ids((3, 4, 2)))
    assert moving.origin_replicas == ids((3, 2, 1))
    assert moving.reassign_to(moving.origin_replicas) == assignment(3, 2, 1)


brokers = st.lists(st.integers(0, 6), unique=True, min_size=1, max_size=5)


@given(origin=brokers, targets=st.lists(brokers, min_size=1, max_size=3))
def test_what_holds_of_every_move(origin: list[int], targets: list[list[int]]) -> None:
    current = ReplicaAssignment(ids(origin))
    for target in targets:
        current = current.reassign_to(ids(target))
        assert current.target_replicas == ids(target)
        assert set(current.origin_replicas) == set(origin)
        assert set(current.replicas) == {*origin, *target}
        assert len(set(current.replicas)) == len(current.replicas)
        assert current.is_being_reassigned == (set(target) != set(origin))
