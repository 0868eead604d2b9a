"""Tests of the assignment of replicas to brokers."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.controller.replica_placement import IncompleteRacks, assign_replicas_to_brokers, rack_alternated
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId


class Draws(random.Random):
    """A random source that returns given numbers: first the start, then the shift."""

    def __init__(self, start: int, shift: int) -> None:
        super().__init__(0)
        self.draws = [start, shift]

    def randrange(self, *_: object, **__: object) -> int:
        return self.draws.pop(0)


def no_racks(*brokers: int) -> dict[BrokerId, str | None]:
    return {BrokerId(broker): None for broker in brokers}


def racks(text: str) -> dict[BrokerId, str | None]:
    """`0:r1 1:r3` as a mapping."""
    return {BrokerId(int(broker)): rack for broker, rack in (pair.split(":") for pair in text.split())}


def assigned(text: str) -> dict[int, tuple[int, ...]]:
    """`p0 [0,1,2] p1 [1,2,3]` as a mapping."""
    words = text.split()
    return {
        int(name[1:]): tuple(int(broker) for broker in replicas.strip("[]").split(","))
        for name, replicas in zip(words[::2], words[1::2], strict=True)
    }


SIX_RACKED = "0:r1 1:r3 2:r3 3:r2 4:r2 5:r1"
TWO_RACKS = "1:a 2:a 3:b 4:b"
UNEVEN_RACKS = "0:a 1:a 2:a 3:b 4:c"

WORKED_EXAMPLES = [
    (no_racks(*range(5)), 3, 3, 0, 0, "p0 [0,1,2] p1 [1,2,3] p2 [2,3,4]"),
    (
        no_racks(*range(5)),
        10,
        3,
        0,
        0,
        "p0 [0,1,2] p1 [1,2,3] p2 [2,3,4] p3 [3,4,0] p4 [4,0,1] p5 [0,2,3] p6 [1,3,4] p7 [2,4,0] p8 [3,0,1] p9 [4,1,2]",
    ),
    (no_racks(*range(5)), 3, 2, 2, 1, "p0 [2,4] p1 [3,0] p2 [4,1]"),
    (no_racks(*range(5)), 3, 3, 4, 3, "p0 [4,3,0] p1 [0,4,1] p2 [1,0,2]"),
    (no_racks(0, 1, 2), 6, 3, 2, 0, "p0 [2,0,1] p1 [0,1,2] p2 [1,2,0] p3 [2,1,0] p4 [0,2,1] p5 [1,0,2]"),
    (
        no_racks(*range(2, 8)),
        10,
        2,
        3,
        0,
        "p0 [5,6] p1 [6,7] p2 [7,2] p3 [2,3] p4 [3,4] p5 [4,5] p6 [5,7] p7 [6,2] p8 [7,3] p9 [2,4]",
    ),
    (
        no_racks(*range(2, 8)),
        10,
        2,
        0,
        4,
        "p0 [2,7] p1 [3,2] p2 [4,3] p3 [5,4] p4 [6,5] p5 [7,6] p6 [2,3] p7 [3,4] p8 [4,5] p9 [5,6]",
    ),
    (no_racks(1, 2, 3), 6, 3, 0, 0, "p0 [1,2,3] p1 [2,3,1] p2 [3,1,2] p3 [1,3,2] p4 [2,1,3] p5 [3,2,1]"),
    (no_racks(1, 2, 3), 4, 2, 2, 0, "p0 [3,1] p1 [1,2] p2 [2,3] p3 [3,2]"),
    (
        racks(SIX_RACKED),
        7,
        3,
        0,
        0,
        "p0 [0,3,1] p1 [3,1,5] p2 [1,5,4] p3 [5,4,2] p4 [4,2,0] p5 [2,0,3] p6 [0,4,2]",
    ),
    (racks(TWO_RACKS), 4, 3, 0, 0, "p0 [1,3,2] p1 [3,2,4] p2 [2,4,1] p3 [4,1,3]"),
    (racks(TWO_RACKS), 4, 2, 1, 2, "p0 [3,1] p1 [2,3] p2 [4,2] p3 [1,4]"),
    (racks(UNEVEN_RACKS), 5, 2, 0, 0, "p0 [0,3] p1 [3,4] p2 [4,1] p3 [1,3] p4 [2,3]"),
    (racks(UNEVEN_RACKS), 5, 4, 0, 0, "p0 [0,3,4,1] p1 [3,4,1,2] p2 [4,1,3,2] p3 [1,3,4,2] p4 [2,3,4,1]"),
]


@pytest.mark.spec("AS-2", "AS-3", "AS-5")
@pytest.mark.parametrize(("brokers", "partitions", "factor", "start", "shift", "expected"), WORKED_EXAMPLES)
def test_worked_examples_of_assignments(
    brokers: dict[BrokerId, str | None], partitions: int, factor: int, start: int, shift: int, expected: str
) -> None:
    assert assign_replicas_to_brokers(brokers, partitions, factor, Draws(start, shift)) == assigned(expected)


@pytest.mark.spec("AS-6")
@pytest.mark.parametrize(
    ("brokers", "added", "factor", "start", "existing", "expected"),
    [
        (no_racks(*range(5)), 3, 3, 2, 3, "p3 [0,3,4] p4 [1,4,0] p5 [2,1,3]"),
        (no_racks(1, 2, 3), 2, 2, 1, 2, "p2 [1,3] p3 [2,3]"),
        (no_racks(1, 2, 3), 2, 2, 0, 2, "p2 [3,1] p3 [1,3]"),
    ],
)
def test_added_partitions_continue_from_the_fixed_start_index(
    brokers: dict[BrokerId, str | None], added: int, factor: int, start: int, existing: int, expected: str
) -> None:
    placed = assign_replicas_to_brokers(
        brokers, added, factor, random.Random(1), fixed_start_index=start, start_partition_id=existing
    )
    assert placed == assigned(expected)


@pytest.mark.spec("AS-4")
@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (SIX_RACKED, [0, 3, 1, 5, 4, 2]),
        ("0:r1 1:r3 2:r3 3:r2 4:r2", [0, 3, 1, 4, 2]),
        (TWO_RACKS, [1, 3, 2, 4]),
        (UNEVEN_RACKS, [0, 3, 4, 1, 2]),
        ("0:r1 1:r1 2:r1 3:r2 4:r2 5:r2 6:r3 7:r3 8:r3", [0, 3, 6, 1, 4, 7, 2, 5, 8]),
    ],
)
def test_rack_alternated(layout: str, expected: list[int]) -> None:
    assert rack_alternated({broker: rack for broker, rack in racks(layout).items() if rack}) == expected


@pytest.mark.spec("AS-1")
@pytest.mark.parametrize(
    ("partitions", "factor", "error", "message"),
    [
        (0, 1, Errors.INVALID_PARTITIONS, "larger than 0"),
        (-1, 1, Errors.INVALID_PARTITIONS, "larger than 0"),
        (1, 0, Errors.INVALID_REPLICATION_FACTOR, "larger than 0"),
        (1, 4, Errors.INVALID_REPLICATION_FACTOR, "4 larger than available brokers: 3"),
    ],
)
def test_invalid_partitions_and_replication_factor(partitions: int, factor: int, error: Errors, message: str) -> None:
    with pytest.raises(ApiError, match=message) as refused:
        assign_replicas_to_brokers(no_racks(1, 2, 3), partitions, factor, random.Random(1))
    assert refused.value.error is error


@pytest.mark.spec("AS-1")
def test_racks_on_some_brokers_only_are_refused() -> None:
    with pytest.raises(IncompleteRacks, match=r"brokers \[2\] have no rack, brokers \[1\] have one"):
        assign_replicas_to_brokers({BrokerId(1): "a", BrokerId(2): None}, 1, 1, random.Random(1))


def test_one_broker() -> None:
    assert assign_replicas_to_brokers(no_racks(7), 3, 1, random.Random(1)) == {0: (7,), 1: (7,), 2: (7,)}


@given(
    brokers=st.integers(1, 8),
    rounds=st.integers(1, 4),
    factor=st.integers(1, 8),
    rack_count=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_assignment_is_balanced_spread_and_rack_aware(
    brokers: int, rounds: int, factor: int, rack_count: int, seed: int
) -> None:
    factor = min(factor, brokers)
    layout = {BrokerId(n): f"r{n % rack_count}" if rack_count else None for n in range(brokers)}
    placed = assign_replicas_to_brokers(layout, brokers * rounds, factor, random.Random(seed))

    leaders = Counter(replicas[0] for replicas in placed.values())
    assert set(leaders.values()) == {rounds}
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        if rack_count:
            used, there_are = len({layout[replica] for replica in replicas}), len(set(layout.values()))
            assert used == min(factor, there_are)
