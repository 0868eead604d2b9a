"""Runs are observed and grouped by their settings, and each group finds its baseline."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.history.compare.observations import incomplete, observation
from understudy.foundation.eventlog.records import Payload, RunDescribed, StepReached
from understudy.history.compare.groups import (
    SETTINGS,
    CannotCompare,
    Observation,
    baseline_keys,
    check_runs,
    group_runs,
    incomplete_of,
    observe,
)
from understudy.history.metrics.metric_tables import Missing, RunMetrics
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read_lines

A_LOG_IS_MISSING = Missing(
    node="broker-4",
    incarnation=None,
    from_ms=0.0,
    until_ms=8_100.0,
    kind="no log",
    evidence="broker-2 sent it a request",
    witness="broker-2/1#7",
)


def measured(logs: Logs) -> RunMetrics:
    return replace(measure(logs.run, read_lines(logs.lines).records), missing=())


def observed(logs: Logs, *payloads: Payload) -> Observation:
    for number, payload in enumerate(payloads):
        logs.at(20_000 + number, "testbed", payload)
    return observe(measured(logs), "understudy replay x")


def test_a_run_is_observed_with_its_phases_settings_and_cause() -> None:
    run = observed(killed_controller(), RunDescribed(world="simulator", session_timeout_ms=6000))
    assert (run.run, run.failovers, run.cause, run.opened_by) == ("run-1", 1, "kill", "understudy replay x")
    assert run.values["detection"] == (3_000_000,)
    assert run.values["outage"] == (3_050_000,)
    assert run.phases == ((3_000_000, 10_000, 40_000, 30_000),)
    # orders-0 was led by the killed broker for 3030 ms.
    assert run.values["leaderless"] == (3_030_000,)
    assert tuple(run.settings) == SETTINGS
    assert (run.settings["world"], run.settings["brokers"], run.settings["seed"]) == ("simulator", "3", "unknown")


def test_a_run_without_a_failover_has_only_its_leaderless_time() -> None:
    logs = Logs()
    run = observed(logs, StepReached(step="nothing"))
    assert (run.failovers, run.cause, run.phases) == (0, "no failover", ())
    assert {name for name, values in run.values.items() if values} == {"leaderless"}


def test_groups_are_ordered_by_their_values_numbers_by_size() -> None:
    settings: list[tuple[int | str, str]] = [(1000, "kill"), (90, "pause"), (90, "kill"), ("unknown", "kill")]
    runs = [
        observation(f"run-{number}", [1.0], fault=fault, partitions=partitions)
        for number, (partitions, fault) in enumerate(settings)
    ]
    keys = [group.key for group in group_runs(runs, ("partitions", "fault"))]
    assert keys == [("90", "kill"), ("90", "pause"), ("1000", "kill"), ("unknown", "kill")]


def test_each_group_is_compared_with_the_one_that_differs_only_in_the_baselines_settings() -> None:
    runs = [
        observation(f"{timeout}-{partitions}", [1.0], session_timeout_ms=timeout, partitions=partitions)
        for timeout, partitions in [(2000, 10), (2000, 100), (6000, 10), (9000, 10)]
    ]
    by = ("session_timeout_ms", "partitions")
    keys = [group.key for group in group_runs(runs, by)]
    assert baseline_keys(keys, by, {"session_timeout_ms": "6000"}) == {
        ("2000", "10"): ("6000", "10"),
        ("9000", "10"): ("6000", "10"),
    }


@pytest.mark.parametrize(
    ("by", "baseline", "message"),
    [
        (("color",), {}, "--by: color is no setting; the settings are world, brokers, partitions, session_timeout_ms"),
        (("seed", "seed"), {}, "--by: a setting is given twice"),
        (("seed",), {"color": "1"}, "--baseline: color is no setting"),
        (("seed",), {"fault": "kill"}, "--baseline names fault, by which the runs are not grouped; add it to --by"),
        (("seed",), {"seed": "3"}, "--baseline seed=3 matches no run: seed is 1, 2"),
    ],
)
def test_what_cannot_be_compared_is_named(by: tuple[str, ...], baseline: dict[str, str], message: str) -> None:
    runs = [observation("a", [1.0], seed=1), observation("b", [1.0], seed=2)]
    with pytest.raises(CannotCompare, match=message):
        baseline_keys([group.key for group in group_runs(runs, by)], by, baseline)


def test_runs_without_any_failover_are_refused() -> None:
    with pytest.raises(CannotCompare, match=r"none of the runs has a failover, and only failovers can be compared$"):
        check_runs(2, 0, ())
    left_out = incomplete_of([incomplete(observation("a", [1.0]), "broker-4 has no log (broker-1/1#9)")])
    with pytest.raises(CannotCompare, match="compared; 1 other is left out, because records are missing: --incomplete"):
        check_runs(2, 0, left_out)


def test_runs_that_all_have_missing_records_are_refused_with_the_advice_to_bring_them() -> None:
    left_out = incomplete_of(incomplete(observation(name, [1.0]), f"{name} has no log (broker-1/1#9)") for name in "ba")
    with pytest.raises(CannotCompare) as refusal:
        check_runs(0, 0, left_out)
    assert str(refusal.value) == (
        "none of the runs is complete, for example a: a has no log (broker-1/1#9); `understudy replay runs/a` "
        "lists all. Bring the missing event logs; --incomplete also uses runs with missing records"
    )


def test_values_in_doubt_are_left_out_and_counted() -> None:
    run = measured(killed_controller())
    (failover,) = run.failovers
    damaged = replace(
        run,
        failovers=(replace(failover, doubt=("cause", "detection_ms", "outage_ms")),),
        totals=replace(run.totals, doubt=("leaderless_ms",)),
        missing=(A_LOG_IS_MISSING,),
    )
    seen = observe(damaged, "")
    assert seen.missing == "broker-4 lacks records: broker-2 sent it a request (broker-2/1#7)"
    sound = {name for name, values in seen.values.items() if values}
    assert sound == {"election", "takeover", "reading", "propagation"}
    assert (seen.doubtful, seen.phases, seen.cause) == (3, (), "unknown")
    assert (observe(run, "").doubtful, observe(run, "").missing) == (0, "")


def test_the_uncertainty_of_clocks_is_the_largest_one_of_the_values() -> None:
    run = measured(killed_controller())
    (failover,) = run.failovers
    others = [
        replace(failover, detection_within_ms=1.5),
        replace(failover, detection_within_ms=2.25, outage_within_ms=9),
    ]
    within = observe(replace(run, failovers=tuple(others)), "").within
    assert (within["detection"], within["outage"], within["takeover"]) == (2_250, 9_000, 0)


def test_means_are_those_of_failovers_with_all_phases_and_causes_those_of_runs() -> None:
    runs = [
        observation("a", [100.0, 300.0], cause="kill", leaderless_s=4),
        observation("b", [], cause="no failover", leaderless_s=1),
        observation("c", [200.0], cause="kill", leaderless_s=2),
    ]
    (group,) = group_runs(runs, ("world",))
    assert group.mean_phases_ms() == {"detection": 140.0, "election": 20.0, "takeover": 20.0, "propagation": 20.0}
    assert group.leaderless_s_by_cause() == {"kill": (3.0, 2), "no failover": (1.0, 1)}
    assert group.values("outage") == [100_000, 200_000, 300_000]
    assert group.failovers == 3
