"""Tests of the choice of a replica for a consumer (KIP-392)."""

from __future__ import annotations

import pytest

from tests.brokers.log.parts import log_with
from tests.brokers.parts import ORDERS_0
from understudy.brokers.replication.partition import FollowerState, LocalPartitionState, Partition, Role
from understudy.brokers.replication.replica_selector import preferred_read_replica

NOW_MS = 10_000.0
RACKS: dict[int, str | None] = {1: "a", 2: "b", 3: "b", 4: "c"}


def choose(
    followers: dict[int, FollowerState],
    *,
    rack: str = "b",
    offset: int = 5,
    isr: tuple[int, ...] = (1, 2, 3),
    racks: dict[int, str | None] = RACKS,
) -> int | None:
    """The replica that is chosen by broker 1, which leads with an end offset of 9."""
    state = LocalPartitionState(
        topic_partition=ORDERS_0, role=Role.LEADER, leader=1, isr=isr, replicas=(1, 2, 3, 4), leader_epoch=1
    )
    partition = Partition(state, log_with(log_end_offset=9))
    for follower, known in followers.items():
        partition.update_follower(follower, known)
    return preferred_read_replica(partition, rack=rack, fetch_offset=offset, rack_of=racks.get, now_ms=NOW_MS)


def follower(end: int = 9, *, caught_up_ms: float = NOW_MS, start: int = 0) -> FollowerState:
    return FollowerState(end, caught_up_ms, caught_up_ms, log_start_offset=start)


@pytest.mark.parametrize(
    ("followers", "chosen"),
    [
        ({2: follower()}, 2),
        ({2: follower(8), 3: follower(9)}, 3),
        ({2: follower(9), 3: follower(8)}, 2),
        ({2: follower(caught_up_ms=9_000), 3: follower(caught_up_ms=8_000)}, 2),
        ({2: follower(), 3: follower()}, 3),
        ({2: follower(4)}, None),
        ({2: follower(5)}, 2),
        ({2: follower(start=6)}, None),
        ({2: follower(start=5)}, 2),
        ({}, None),
    ],
)
def test_follower_in_the_rack_that_is_caught_up_most_is_chosen(
    followers: dict[int, FollowerState], chosen: int | None
) -> None:
    assert choose(followers) == chosen


def test_follower_outside_the_isr_is_not_chosen() -> None:
    assert choose({2: follower()}, isr=(1, 3)) is None


@pytest.mark.parametrize("rack", ["", "a", "c", "elsewhere"])
def test_leader_is_read_where_it_is_in_the_rack_or_no_follower_is(rack: str) -> None:
    racks = {**RACKS, 3: "a"}
    assert choose({2: follower(), 3: follower()}, rack=rack, racks=racks) is None


def test_follower_that_the_consumer_cannot_reach_is_not_chosen() -> None:
    assert choose({2: follower(), 3: follower(8)}, racks={**RACKS, 2: None}) == 3
