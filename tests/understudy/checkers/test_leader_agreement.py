"""Tests of the comparison of a log with a leader's epochs."""

from __future__ import annotations

import pytest

from understudy.checkers.leader_agreement import first_difference
from understudy.checkers.replica_logs import EpochRange


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
