"""Groups of runs are compared: intervals if there are enough runs, changes if they are more than noise."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.understudy.history.compare.observations import group, incomplete, observation
from understudy.history.compare.comparison import (
    BELOW_CLOCKS,
    CHANGED,
    NOISE,
    TOO_FEW,
    WORST,
    Comparison,
    GroupSummary,
    compare,
)
from understudy.history.compare.groups import CannotCompare, Observation

BASELINE = {"session_timeout_ms": "6000"}


def two_timeouts(runs: int = 20) -> list[Observation]:
    return [
        *group("short", runs, 2_000, session_timeout_ms=2000),
        *group("long", runs, 6_000, session_timeout_ms=6000),
    ]


def results(comparison: Comparison) -> dict[str, GroupSummary]:
    return {summary.key[0]: summary for summary in comparison.groups}


def test_a_shorter_outage_is_a_change_and_the_baseline_is_not_compared_with_itself() -> None:
    comparison = compare(two_timeouts(), ("session_timeout_ms",), BASELINE)
    change = results(comparison)["2000"].changes["outage"]
    assert change.verdict == CHANGED
    assert change.difference == pytest.approx(-4_000_000, rel=0.1)
    assert change.share == pytest.approx(-2 / 3, abs=0.07)
    assert change.interval is not None
    assert change.interval[0] < change.difference < change.interval[1] < 0
    assert results(comparison)["6000"].changes == {}
    assert comparison.tests == 7


def test_groups_of_the_same_distribution_have_not_changed() -> None:
    runs = [*group("a", 15, 6_000, session_timeout_ms=2000), *group("b", 15, 6_000, session_timeout_ms=6000)]
    changes = results(compare(runs, ("session_timeout_ms",), BASELINE))["2000"].changes
    assert {change.verdict for change in changes.values()} == {NOISE}
    assert all(change.corrected_p >= change.p for change in changes.values())


def test_three_runs_against_three_are_too_few_for_any_difference() -> None:
    changes = results(compare(two_timeouts(3), ("session_timeout_ms",), BASELINE))["2000"].changes
    assert {change.verdict for change in changes.values()} == {TOO_FEW}
    assert changes["outage"].interval is None


def test_intervals_need_runs_and_not_failovers() -> None:
    many = observation("one", [float(ms) for ms in range(1, 401)], partitions=1)
    few = [observation(f"few-{number}", [1.0 + number], partitions=5) for number in range(5)]
    enough = [observation(f"enough-{number}", [1.0 + number], partitions=40) for number in range(40)]
    found = results(compare([many, *few, *enough], ("partitions",), {}))
    assert found["1"].distributions["outage"].n == 400
    assert found["1"].distributions["outage"].intervals == {50: None, 90: None, 99: None}
    assert found["5"].distributions["outage"].intervals == {50: None, 90: None, 99: None}
    assert found["5"].distributions["outage"].quantiles == {50: 3_000, 90: 5_000, 99: 5_000, 100: 5_000}
    intervals = found["40"].distributions["outage"].intervals
    assert intervals[50] is not None
    assert intervals[90] is not None
    assert intervals[99] is None


def test_the_same_runs_in_another_order_give_the_same_comparison() -> None:
    runs = two_timeouts()
    shuffled = random.Random(1).sample(runs, len(runs))
    assert compare(runs, ("session_timeout_ms",), BASELINE) == compare(shuffled, ("session_timeout_ms",), BASELINE)


def test_a_further_group_changes_no_number_of_the_others_but_the_correction() -> None:
    runs = two_timeouts()
    before = results(compare(runs, ("session_timeout_ms",), BASELINE))["2000"]
    more = [*runs, *group("third", 20, 4_000, session_timeout_ms=4000)]
    after = results(compare(more, ("session_timeout_ms",), BASELINE))["2000"]
    assert replace(after, changes={}) == replace(before, changes={})
    assert [change.p for change in after.changes.values()] == [change.p for change in before.changes.values()]
    assert after.changes["election"].corrected_p > before.changes["election"].corrected_p


def test_a_quantity_that_one_side_lacks_is_not_compared() -> None:
    runs = [
        *group("short", 8, 2_000, session_timeout_ms=2000),
        *(observation(f"none-{number}", [], leaderless_s=1, session_timeout_ms=6000) for number in range(8)),
    ]
    comparison = compare(runs, ("session_timeout_ms",), BASELINE)
    assert set(results(comparison)["2000"].changes) == {"leaderless"}
    assert results(comparison)["6000"].distributions["outage"].quantiles == {
        50: None,
        90: None,
        99: None,
        100: None,
    }


def test_the_worst_runs_are_those_with_the_largest_values() -> None:
    runs = [observation(f"run-{number}", [float(number)], leaderless_s=10 - number) for number in range(10)]
    worst = compare(runs, ("world",), {}).worst
    assert [run.run for run in worst["outage"]] == [f"run-{number}" for number in (9, 8, 7, 6, 5)][:WORST]
    assert [run.run for run in worst["leaderless"]] == [f"run-{number}" for number in range(5)][:WORST]
    assert worst["outage"][0].opened_by == "understudy replay runs/run-9"


def test_runs_with_missing_records_are_left_out_unless_they_are_asked_for() -> None:
    whole = two_timeouts()
    runs = [*whole, incomplete(observation("cut", [90_000.0], session_timeout_ms=2000), "its end is missing", 2)]
    without = compare(runs, ("session_timeout_ms",), BASELINE)
    assert replace(without, incomplete=()) == compare(whole, ("session_timeout_ms",), BASELINE)
    assert [(run.run, run.missing) for run in without.incomplete] == [("cut", "its end is missing")]
    assert (without.runs, without.uses_incomplete, without.doubtful) == (40, False, 0)
    used = compare(runs, ("session_timeout_ms",), BASELINE, incomplete=True)
    assert (used.runs, used.uses_incomplete, used.doubtful) == (41, True, 2)
    assert used.incomplete == without.incomplete
    assert used.worst["outage"][0].run == "cut"


def test_runs_that_all_have_missing_records_are_not_compared() -> None:
    runs = [incomplete(run, "its end is missing") for run in two_timeouts(2)]
    with pytest.raises(CannotCompare, match="none of the runs is complete, for example long-000: its end"):
        compare(runs, ("session_timeout_ms",), BASELINE)
    assert compare(runs, ("session_timeout_ms",), BASELINE, incomplete=True).runs == 4


def test_a_difference_below_the_uncertainty_of_the_clocks_is_not_a_change() -> None:
    """The medians of the outages differ by about 4 s, and both groups may be wrong."""

    def change_of(short_ms: float, long_ms: float) -> tuple[str, int]:
        runs = two_timeouts()
        clocks = {"2000": short_ms, "6000": long_ms}
        off = [
            replace(run, within=dict.fromkeys(run.within, int(1_000 * clocks[run.settings["session_timeout_ms"]])))
            for run in runs
        ]
        found = results(compare(off, ("session_timeout_ms",), BASELINE))
        assert found["2000"].distributions["outage"].within == 1_000 * short_ms
        change = found["2000"].changes["outage"]
        return change.verdict, change.within

    assert change_of(0, 0) == (CHANGED, 0)
    assert change_of(1_000, 1_000) == (CHANGED, 2_000_000)
    assert change_of(2_500, 2_500) == (BELOW_CLOCKS, 5_000_000)
    assert change_of(0, 5_000) == (BELOW_CLOCKS, 5_000_000)


def test_noise_stays_noise_whatever_the_clocks_are() -> None:
    runs = [*group("a", 15, 6_000, session_timeout_ms=2000), *group("b", 15, 6_000, session_timeout_ms=6000)]
    off = [replace(run, within=dict.fromkeys(run.within, 10**9)) for run in runs]
    changes = results(compare(off, ("session_timeout_ms",), BASELINE))["2000"].changes
    assert {change.verdict for change in changes.values()} == {NOISE}
