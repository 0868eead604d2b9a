"""Tests of the decisions of a reassignment, as functions of values."""

from __future__ import annotations

import pytest

from tests.controller.values import ids, replicas
from understudy.controller.reassignment.decisions import (
    in_groups,
    is_complete,
    leaving_replicas,
    only_unwanted_in_sync,
    requested_by_client,
    requested_by_znode,
)
from understudy.foundation.cluster.assignment import NO_ASSIGNMENT, ReplicaAssignment
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId

LIVE = ids(1, 2, 3, 4)


def outcome(found: ReplicaAssignment | ApiError) -> ReplicaAssignment | Errors:
    return found.error if isinstance(found, ApiError) else found


@pytest.mark.spec("RA-2", "RA-3")
@pytest.mark.parametrize(
    ("current", "target", "found"),
    [
        (replicas(1, 2), (2, 3), replicas(2, 3, 1, adding=(3,), removing=(1,))),
        (replicas(1, 2), (), Errors.INVALID_REPLICA_ASSIGNMENT),
        (replicas(1, 2), (3, 3), Errors.INVALID_REPLICA_ASSIGNMENT),
        (replicas(1, 2), (3, -1), Errors.INVALID_REPLICA_ASSIGNMENT),
        (replicas(1, 2), (1, 9), Errors.INVALID_REPLICA_ASSIGNMENT),
        # existing replicas may be offline, also those being removed or added
        (replicas(8, 2), (8, 3), replicas(8, 3, 2, adding=(3,), removing=(2,))),
        (replicas(8, 2), (3,), replicas(3, 8, 2, adding=(3,), removing=(8, 2))),
        # a replica being added is not in the origin: it must be online to be requested again
        (replicas(9, 1, adding=(9,), removing=(1,)), (9,), Errors.INVALID_REPLICA_ASSIGNMENT),
        # whether the partition exists is checked later
        (NO_ASSIGNMENT, (1,), replicas(1, adding=(1,))),
        (replicas(1, 2), None, Errors.NO_REASSIGNMENT_IN_PROGRESS),
        (replicas(2, 3, 1, adding=(3,), removing=(1,)), None, replicas(2, 1)),
    ],
)
def test_requested_by_client(
    current: ReplicaAssignment, target: tuple[int, ...] | None, found: ReplicaAssignment | Errors
) -> None:
    asked = None if target is None else ids(*target)
    assert outcome(requested_by_client(current, asked, LIVE)) == found


@pytest.mark.spec("RA-2")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((2, 3, 2), "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(2, 3, 2)"),
        ((-1, 1), "Invalid broker id in replica list: ArrayBuffer(-1, 1)"),
        (
            (1, 9, 7),
            "Replica assignment has brokers that are not alive. "
            "Replica list: ArrayBuffer(9, 7), live broker list: Set(1, 2, 3, 4)",
        ),
    ],
)
def test_refusal_messages_are_kafkas(target: tuple[int, ...], message: str) -> None:
    refused = requested_by_client(replicas(1, 2), ids(*target), LIVE)
    assert isinstance(refused, ApiError)
    assert refused.message == message


@pytest.mark.spec("RA-2")
def test_refusal_prints_more_than_four_brokers_as_scala_does() -> None:
    refused = requested_by_client(replicas(1, 2), ids(9), ids(5, 4, 3, 2, 1))
    assert isinstance(refused, ApiError)
    assert refused.message.endswith("live broker list: HashSet(1, 2, 3, 4, 5)")


@pytest.mark.spec("RA-6", "BUG-19")
@pytest.mark.parametrize(
    ("target", "found"),
    [
        ((9, 1), replicas(9, 1, 2, adding=(9,), removing=(2,))),
        ((3, 3, 1), replicas(3, 1, 2, adding=(3,), removing=(2,))),
        ((), Errors.INVALID_REPLICA_ASSIGNMENT),
        ((-1, 1), Errors.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_requested_by_znode(target: tuple[int, ...], found: ReplicaAssignment | Errors) -> None:
    assert outcome(requested_by_znode(replicas(1, 2), ids(*target))) == found


@pytest.mark.spec("RA-15")
@pytest.mark.parametrize(
    ("wanted", "isr", "lost"),
    [
        (replicas(1, 2), (3,), True),
        (replicas(4, 1, 2, adding=(4,), removing=(2,)), (3,), True),
        (replicas(1, 2), (3, 1), False),
        (replicas(1, 2), (), False),
        (replicas(1, 2), (9,), False),
        (replicas(3, 1, 2, adding=(3,), removing=(2,)), (3,), False),
    ],
)
def test_only_unwanted_in_sync(wanted: ReplicaAssignment, isr: tuple[int, ...], lost: bool) -> None:
    assert only_unwanted_in_sync(replicas(3, 1, 2, adding=(3,), removing=(1, 2)), wanted, ids(*isr)) == lost


@pytest.mark.spec("RA-9")
@pytest.mark.parametrize(
    ("assignment", "isr", "complete"),
    [
        (replicas(1, 2), (1,), True),
        (replicas(1, 2), None, True),
        (replicas(3, 1, 2, adding=(3,), removing=(2,)), (1, 2), False),
        (replicas(3, 1, 2, adding=(3,), removing=(2,)), (2, 3), False),
        (replicas(3, 1, 2, adding=(3,), removing=(2,)), (2, 3, 1), True),
        (replicas(3, 1, 2, adding=(3,), removing=(2,)), (3, 1), True),
        (replicas(3, 1, 2, adding=(3,), removing=(2,)), None, False),
    ],
)
def test_is_complete(assignment: ReplicaAssignment, isr: tuple[int, ...] | None, complete: bool) -> None:
    assert is_complete(assignment, None if isr is None else ids(*isr)) == complete


def test_leaving_replicas() -> None:
    assert leaving_replicas(replicas(3, 1, 2, adding=(3,), removing=(2,)), ids(3, 1, 2)) == ids(2)
    assert leaving_replicas(replicas(1, 2), ids(4, 1, 3)) == ids(4, 3)


def test_in_groups() -> None:
    few = {BrokerId(number): "" for number in range(3)}
    assert list(in_groups(few, 20)) == [{BrokerId(0): ""}, {BrokerId(1): ""}, {BrokerId(2): ""}]
    many = dict.fromkeys(range(10_001), "")
    groups = list(in_groups(many, 20))
    assert [number for group in groups for number in group] == list(many)
    assert len(groups) == 20
    assert max(map(len, groups)) == 501
    assert list(in_groups({}, 20)) == []
