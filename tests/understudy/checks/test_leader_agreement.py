"""Tests of the comparison of a log with a leader's epochs."""

from __future__ import annotations

import pytest

from understudy.checks.leader_agreement import first_difference, hidden_parts
from understudy.checks.replica_logs import EpochRange


@pytest.mark.parametrize(
    ("ranges", "cache", "offset"),
    [
        pytest.param([(0, 5, 0)], ((0, 0),), None, id="equal"),
        pytest.param([(0, 5, 0), (5, 9, 1)], ((0, 0), (2, 5)), 5, id="an epoch that the leader lacks"),
        pytest.param([(0, 7, 0)], ((0, 0), (1, 5)), 5, id="an epoch that is longer than the leader's"),
        pytest.param([(0, 5, 0)], (), None, id="a leader that has not noted its own epoch"),
    ],
)
def test_a_log_is_compared_with_the_epochs_of_a_leader(
    ranges: list[tuple[int, int, int]], cache: tuple[tuple[int, int], ...], offset: int | None
) -> None:
    known = [EpochRange(start_offset=start, end_offset=end, epoch=epoch) for start, end, epoch in ranges]
    assert first_difference(known, cache) == offset


def test_hidden_parts_are_between_the_beginnings_of_an_epoch_in_which_a_leader_led_again() -> None:
    follower, leader = ((0, 0), (1, 7), (2, 9), (4, 20)), ((0, 0), (1, 6), (2, 14), (5, 20))
    assert hidden_parts(follower, leader, {1}) == [(6, 7)]
    assert hidden_parts(leader, follower, {1, 2}) == [(6, 7), (9, 14)]
    assert hidden_parts(follower, leader, {0, 4, 5}) == []


@pytest.mark.parametrize(
    ("ranges", "offset"),
    [
        pytest.param([(0, 7, 0), (7, 14, 1)], None, id="the difference is hidden"),
        pytest.param([(0, 7, 0), (7, 15, 1)], 14, id="a later one is not"),
        pytest.param([(0, 3, 0), (3, 4, 3), (4, 7, 0), (7, 14, 1)], 3, id="an earlier one is not"),
        pytest.param([(0, 6, 0), (6, 7, 3), (7, 14, 1)], None, id="the hidden part is a range"),
    ],
)
def test_hidden_parts_are_left_out(ranges: list[tuple[int, int, int]], offset: int | None) -> None:
    known = [EpochRange(start_offset=start, end_offset=end, epoch=epoch) for start, end, epoch in ranges]
    assert first_difference(known, ((0, 0), (1, 6), (2, 14)), [(6, 7)]) == offset
