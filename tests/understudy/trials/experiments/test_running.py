"""Experiments from their file to their verdict, in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import pytest

from tests.understudy.trials.experiments.simulated import HEAD, run, run_text
from understudy.brokers.coordinator.group.group_offsets import GroupOffsets
from understudy.trials.experiments.language.frozen import FrozenPlan, freeze
from understudy.trials.experiments.language.library import find
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.report.verdict import Status, StepDone, Verdict
from understudy.trials.experiments.running import run_once
from understudy.trials.experiments.simulated.engine import SimulatedEngine

SMALL = "cluster: {brokers: 3, session: 3s, topics: [{name: orders, partitions: 1, assignment: [1, 2, 3]}]}\n"


def step(verdict: Verdict, number: int) -> StepDone:
    return verdict.steps[number - 1]


def seen(verdict: Verdict, name: str) -> Status:
    return next(each.status for each in verdict.expected if each.name == name)


def test_a_failover_holds_and_has_its_numbers(tmp_path: Path) -> None:
    verdict = run(
        SMALL + "steps:\n  - {at: 2s, as: C, kill: controller}\n  - {when: elected, not: C, mark: next}\n"
        "  - {after: next, wait: 500ms, start: C}\n"
        "expect: {within: {L1: 6s, L2: 6s, L3: 10s, L4: 10s, L5: 10s},\n"
        "         sometimes: [elected], never: [unclean-election]}\n",
        tmp_path,
    )
    assert verdict.status is Status.HELD, verdict.why
    (killed,) = step(verdict, 1).brokers
    (elected,) = step(verdict, 2).brokers
    assert killed != elected
    begun_ms = verdict.timeline.from_ms
    assert begun_ms > 0, "the cluster has started up before"
    assert step(verdict, 1).done_ms == pytest.approx(begun_ms + 2_000)
    assert step(verdict, 3).done_ms == pytest.approx((step(verdict, 2).done_ms or 0) + 500)
    (failover,) = verdict.failovers
    assert (failover.previous_broker, failover.broker) == (killed, elected)
    assert failover.detection_ms is not None
    assert failover.detection_ms > 1_500, "mostly the session timeout"
    assert verdict.clients.acknowledged > 50
    assert [each.name for each in verdict.expected if each.status is Status.VIOLATED] == []


GROUP = (
    "cluster: {brokers: 4, session: 3s, set: {offsets.topic.num.partitions: '1'}}\n"
    "load: {producers: 1, consumers: 0, members: 1}\n"
    "steps:\n  - {at: 5s, join: 1}\n  - {at: 14s, kill: leader(__consumer_offsets/0), for: 6s}\n"
    "lasts: 26s\nexpect: {always: [G1, G2, G3, G4], within: {L2: 6s}}\n"
)


def test_members_of_a_group_are_judged(tmp_path: Path) -> None:
    verdict = run(GROUP, tmp_path)
    assert verdict.status is Status.HELD, verdict.why
    assert {each.name: each.status for each in verdict.expected if each.name.startswith("G")} == dict.fromkeys(
        ("G1", "G2", "G3", "G4"), Status.HELD
    )
    assert step(verdict, 1).text.endswith("that `members` are in: 1")


def test_a_coordinator_that_loads_no_offsets_violates_the_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GroupOffsets, "load", lambda self, offsets: None)
    verdict = run(GROUP, tmp_path)
    assert verdict.status is Status.VIOLATED
    assert seen(verdict, "G1") is Status.VIOLATED


def test_the_end_of_all_changes_is_awaited_and_has_a_bound(tmp_path: Path) -> None:
    """The controller is elected and writes states some seconds after the kill; five quiet seconds follow."""
    steps = SMALL + "steps:\n  - {at: 2s, kill: controller}\nlasts: 4s\n"
    quiet = run(steps + "expect: {within: {L7: 8s}}\n", tmp_path / "quiet")
    assert quiet.status is Status.HELD, quiet.why
    reached_ms = quiet.reached_ms["L7"]
    assert reached_ms is not None
    assert reached_ms > 1_500, "the session timeout comes first"
    assert quiet.timeline.to_ms - quiet.timeline.from_ms >= 2_000 + reached_ms + 4_900
    early = run(steps + "expect: {within: {L7: 500ms}}\n", tmp_path / "early")
    assert seen(early, "L7") is Status.VIOLATED
    assert early.why == "L7: not reached", "it was not observed for long enough"


def test_the_same_seed_gives_the_same_verdict_and_logs(tmp_path: Path) -> None:
    text = SMALL + "steps:\n  - {at: 1s..3s, kill: random, for: 2s..6s}\n  - {at: 2s..5s, pause: random, for: 1s..4s}\n"
    one, two = (run(text, tmp_path / name, seed=5) for name in ("one", "two"))
    other = run(text, tmp_path / "other", seed=6)
    assert one == two
    assert other.steps != one.steps

    def logs(name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")}

    assert logs("one") == logs("two")
    assert len(logs("one")) >= 4


def test_a_fault_without_an_end_lasts_to_the_end(tmp_path: Path) -> None:
    verdict = run(SMALL + "steps:\n  - {at: 1s, pause: 1}\nlasts: 6s\nexpect: {within: {L1: 8s, L2: 8s}}\n", tmp_path)
    assert verdict.status is Status.HELD, verdict.why
    assert step(verdict, 1).ended_ms is None
    states = {span.state for span in verdict.timeline.states["broker-1"] if span.from_ms < 6_000}
    assert states == {"running", "paused"}


def test_a_fault_with_an_end_ends(tmp_path: Path) -> None:
    verdict = run(SMALL + "steps:\n  - {at: 1s, pause: 1, for: 700ms}\n", tmp_path)
    begun_ms = verdict.timeline.from_ms
    assert step(verdict, 1).ended_ms == pytest.approx(begun_ms + 1_700)
    paused = [span for span in verdict.timeline.states["broker-1"] if span.state == "paused"]
    assert [(round(span.from_ms - begun_ms), round(span.to_ms - begun_ms)) for span in paused] == [(1_000, 1_700)]
    assert verdict.last_fault_ms == pytest.approx(begun_ms + 1_700)


def test_a_bound_that_is_too_short_is_violated_and_says_how_long_it_took(tmp_path: Path) -> None:
    verdict = run(SMALL + "steps:\n  - {at: 1s, kill: controller}\nexpect: {within: {L1: 500ms}}\n", tmp_path)
    assert verdict.status is Status.VIOLATED
    assert verdict.exit_code == 1
    assert verdict.why.startswith("L1: ")
    assert "controller" in verdict.why


def test_a_run_goes_on_until_producers_are_acknowledged_as_before(tmp_path: Path) -> None:
    """With this seed all else is reached before two seconds have passed, in which their rate is measured."""
    verdict = run_text(find("swizzle").read_text(encoding="utf-8"), tmp_path, seed=2)
    assert seen(verdict, "L5") is Status.HELD, [each.seen for each in verdict.expected]


def test_the_rate_to_be_reached_again_is_that_before_the_first_fault(tmp_path: Path) -> None:
    """What comes before the fault here is none: a broker is remembered, and a topic created."""
    steps = (
        "steps:\n  - {as: C, bind: controller}\n  - {at: 500ms, create-topic: news}\n  - {at: 3s, cut-clients: all}\n"
    )
    verdict = run(SMALL + steps + "lasts: 6s\nexpect: {within: {L5: 3s}}\n", tmp_path)
    assert seen(verdict, "L5") is Status.VIOLATED, "no broker is reached"


def test_marks_that_must_and_must_not_be_reached(tmp_path: Path) -> None:
    kill = SMALL + "steps:\n  - {at: 1s, as: C, kill: controller}\n  - {when: elected, not: C, mark: next}\n"
    assert seen(run(kill + "expect: {sometimes: [elected]}\n", tmp_path / "1"), "elected") is Status.HELD
    assert seen(run(kill + "expect: {never: [elected]}\n", tmp_path / "2"), "elected") is Status.VIOLATED
    missed = run(kill + "expect: {sometimes: [unclean-election]}\n", tmp_path / "3")
    assert (missed.status, missed.exit_code) == (Status.VIOLATED, 1)


class LateEngine(SimulatedEngine):
    """A machine that is so busy that the first step is late."""

    @classmethod
    def begin(cls, plan: FrozenPlan, folder: Path) -> Self:
        engine = super().begin(plan, folder)
        engine.cluster.run_for(700)
        return engine


def test_a_role_is_bound_before_what_is_due_later_also_where_both_are_late(tmp_path: Path) -> None:
    steps = "steps:\n  - {as: C, bind: controller}\n  - {as: B, not: C, bind: random}\n  - {at: 500ms, kill: B}\n"
    text = HEAD + SMALL + steps + "lasts: 2s\nexpect: {within: {L1: 8s}}\n"
    verdict = run_once(freeze(read_experiment(text, "f"), 1), LateEngine, tmp_path, command="")
    assert verdict.status is Status.HELD, verdict.why
    assert step(verdict, 3).brokers == step(verdict, 2).brokers


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("  - {at: 2s, kill: 1}\n  - {at: 3s, kill: 1}\n", "broker-1 is not running"),
        ("  - {at: 1s, resume: 1}\n", "broker-1 cannot be resumed"),
        ("  - {at: 1s, start: 1}\n", "broker-1 cannot be started"),
        ("  - {when: resigned, kill: 1}\n", "its event did not happen: resigned"),
        ("  - {when: resigned, mark: x}\n  - {after: x, kill: 1}\n", "did not happen"),
        ("  - {at: 1s, delete: /nothing}\n", "/nothing cannot be deleted"),
        ("  - {at: 1s, kill: [1, 2, 3]}\n  - {at: 9s, pause: random}\n", "no broker is left for random"),
        ("  - {kill: 1}\n  - {settle: 100ms}\n", "not settled"),
        ("  - {arm: all, point: deletion.after_write, action: crash}\n", "did not reach deletion.after_write"),
        ("  - {lose-answer: 1, path: /nowhere}\n", "broker-1 did not write below /nowhere"),
    ],
)
def test_what_was_not_injected_is_never_passed(tmp_path: Path, steps: str, why: str) -> None:
    verdict = run(SMALL + "lasts: 2s\nsteps:\n" + steps + "expect: {always: [C1]}\n", tmp_path)
    assert (verdict.status, verdict.exit_code) == (Status.NOT_INJECTED, 2)
    assert why in verdict.why, verdict.why


def test_a_steady_state_that_is_not_reached_injects_nothing(tmp_path: Path) -> None:
    verdict = run("cluster: {topics: []}\nsteady: [producers-acknowledged]\nsteps:\n  - {kill: controller}\n", tmp_path)
    assert (verdict.status, verdict.exit_code) == (Status.NOT_STARTED, 2)
    assert step(verdict, 1).done_ms is None
    assert not [moment for moment in verdict.timeline.moments if moment.text == "kill"]


def test_settling_waits_until_the_cluster_has_settled(tmp_path: Path) -> None:
    verdict = run(
        SMALL + "steps:\n  - {at: 1s, bounce: controller, for: 100ms}\n  - {settle: 20s}\n  - {mark: done, kill: 2}\n",
        tmp_path,
    )
    settled = step(verdict, 2).done_ms
    assert settled is not None
    assert settled > 3_500, "the session of the killed broker lasts"
    assert step(verdict, 3).done_ms == settled


def test_an_operators_write_is_no_violation_of_the_brokers(tmp_path: Path) -> None:
    verdict = run(
        SMALL + "steps:\n  - {at: 1s, write: /controller_epoch, data: '7'}\n  - {at: 2s, depose: controller}\n"
        "lasts: 8s\nexpect: {always: [C1, C2, Z6], within: {L1: 8s}}\n",
        tmp_path,
    )
    assert [seen(verdict, name) for name in ("C1", "C2", "Z6")] == [Status.HELD] * 3
    assert verdict.failovers[-1].epoch == 8


def test_records_of_steps_are_in_the_history(tmp_path: Path) -> None:
    verdict = run(
        SMALL + "load: {producers: 0, consumers: 0}\nsteady: [one-controller]\n"
        "steps:\n  - {produce: orders/0, count: 5}\n  - {produce: orders/0, count: 2, acks: '1'}\nlasts: 3s\n",
        tmp_path,
    )
    assert verdict.status is Status.HELD, verdict.why
    assert (verdict.clients.sent, verdict.clients.acknowledged, verdict.clients.read) == (7, 7, 7)


def test_a_broker_with_a_full_disk_may_end(tmp_path: Path) -> None:
    verdict = run(
        SMALL.replace("1, 2, 3]", "1, 2]") + "steps:\n  - {at: 1s, fill-disk: 2, for: 3s}\nlasts: 12s\n", tmp_path
    )
    assert verdict.status is Status.HELD, verdict.why
