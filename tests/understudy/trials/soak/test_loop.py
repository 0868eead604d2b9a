"""The loop of a soak, with a cluster that is made up and a clock that moves when it waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from understudy.checks.partition_clients import ClientCounts
from understudy.trials.soak.loop import (
    MINUTE_MS,
    MOST_REFUSED,
    ClusterGone,
    Ending,
    Events,
    NotInjected,
    Soak,
    SoakStatus,
    SoakWorld,
)
from understudy.trials.soak.plan import TAKING, BoundStep, PartitionSeen, Situation, too_many
from understudy.trials.soak.totals import FaultRecord, Measures, MinuteRecord, SoakTotals

START_MS = 1_500.0
"""How long a broker of the made-up cluster takes to start."""


class Due(NamedTuple):
    at_ms: float
    broker: int


class MadeUpWorld:
    """A cluster of brokers with partitions on all of them, and a clock."""

    session_ms = 3_000

    def __init__(self, brokers: int = 3) -> None:
        self.clock_ms = 5_000.0
        self.brokers = tuple(range(1, brokers + 1))
        self.away: list[Due] = []
        self.done: list[tuple[float, BoundStep]] = []
        self.undone: list[BoundStep] = []
        self.faults: list[FaultRecord] = []
        self.minutes: list[MinuteRecord] = []
        self.kept = SoakTotals(seed=0, profile="")
        self.ends_at_ms = float("inf")
        self.settles: Callable[[MadeUpWorld], str] = lambda world: ""
        self.violates: Callable[[MadeUpWorld], str] = lambda world: ""
        self.lacks: Callable[[MadeUpWorld], str] = lambda world: ""
        self.refuses: Callable[[BoundStep], str] = lambda step: ""
        self.is_gone: Callable[[MadeUpWorld], bool] = lambda world: False
        self.worst = ""
        """The worst that was done to an ISR."""

    def now_ms(self) -> float:
        return self.clock_ms

    def wait(self, ms: float) -> bool:
        self.clock_ms += ms
        self.away = [due for due in self.away if due.at_ms > self.clock_ms]
        return self.clock_ms >= self.ends_at_ms

    def situation(self) -> Situation | None:
        if self.is_gone(self):
            raise ClusterGone("the cluster has ended")
        away = frozenset(due.broker for due in self.away)
        running = tuple(broker for broker in self.brokers if broker not in away)
        isr = running or self.brokers[:1]
        partition = PartitionSeen("soak-0", self.brokers, isr, isr[0])
        return Situation(running, away, running[0] if running else None, (partition,), True, True)

    def unsettled(self) -> str:
        found = self.situation()
        assert found is not None
        return f"brokers {sorted(found.away)} are away" if found.away else self.settles(self)

    def do(self, step: BoundStep) -> None:
        if refusal := self.refuses(step):
            raise NotInjected(refusal)
        situation = self.situation()
        assert situation is not None
        self.done.append((self.clock_ms, step))
        if step.verb in TAKING and step.target.isdigit():
            self.worst = self.worst or too_many(situation, {int(step.target)})
            start_ms = START_MS if step.verb in ("kill", "stop") else 0.0
            self.away.append(Due(self.clock_ms + (step.lasts_ms or 0.0) + start_ms, int(step.target)))

    def undo(self, step: BoundStep) -> None:
        self.undone.append(step)

    def read_logs(self) -> Events:
        return Events(1, 2)

    def violation(self, *, with_end: bool) -> str:
        return self.violates(self)

    def unjudged(self) -> str:
        return self.lacks(self)

    def client_counts(self) -> ClientCounts:
        return ClientCounts(acknowledged=10, gap_ms=100.0)

    def ends(self) -> dict[str, int]:
        return {"soak-0": 7}

    def checked_ms(self) -> float:
        return self.clock_ms

    def measures(self) -> Measures:
        return Measures()

    def keep(self, record: FaultRecord | MinuteRecord) -> None:
        if isinstance(record, FaultRecord):
            self.faults.append(record)
        else:
            self.minutes.append(record)

    def keep_totals(self, totals: SoakTotals) -> None:
        self.kept = totals


def soak(
    world: MadeUpWorld, totals: SoakTotals | None = None, *, minutes: float = 10, allow_majority: bool = False
) -> tuple[Ending, SoakTotals, list[str]]:
    lines: list[str] = []
    checked: SoakWorld = world
    totals = totals or SoakTotals(seed=1, profile="evil", sessions=1)
    ending = Soak(
        checked,
        totals,
        minutes=minutes,
        settle_ms=30_000.0,
        allow_majority=allow_majority,
        report=lambda line, is_minute: lines.append(line),
    ).run()
    return ending, totals, lines


@pytest.mark.parametrize("profile", ["gentle", "rough", "evil"])
def test_faults_come_one_after_the_other_and_minutes_are_counted(profile: str) -> None:
    world = MadeUpWorld()
    ending, totals, lines = soak(world, SoakTotals(seed=3, profile=profile, sessions=1))
    assert ending == Ending(SoakStatus.HELD, "every invariant held")
    assert world.worst == ""
    assert len(world.minutes) >= 10
    assert [minute.minute for minute in world.minutes] == list(range(1, len(world.minutes) + 1))
    assert sum(sum(minute.faults.values()) for minute in world.minutes) == sum(totals.faults.values()) > 10
    assert sum(minute.clients.acknowledged for minute in world.minutes) == totals.clients.acknowledged
    assert all(fault.at_ms < 2 * MINUTE_MS for fault in world.faults)
    assert len(world.faults) == len(world.done)
    assert sum(line.startswith("minute ") for line in lines) == len(world.minutes)
    assert sum(line.startswith("  fault ") for line in lines) == len(world.faults)


def test_the_next_fault_waits_until_the_cluster_has_settled() -> None:
    world = MadeUpWorld()
    soak(world)
    for (_, step), (next_ms, _), fault, following in zip(
        world.done, world.done[1:], world.faults, world.faults[1:], strict=False
    ):
        if fault.number != following.number and step.lasts_ms is not None:
            began_ms = next(ms for ms, each in world.done if each is step)
            assert next_ms >= began_ms + step.lasts_ms


def test_the_restarted_broker_is_killed_after_it_is_back() -> None:
    world = MadeUpWorld()
    soak(world, minutes=20)
    pairs = [
        (before, after)
        for before, after, one, other in zip(world.done, world.done[1:], world.faults, world.faults[1:], strict=False)
        if one.kind == other.kind == "kill-restarted" and one.number == other.number
    ]
    assert pairs
    for (stopped_ms, stop), (killed_ms, kill) in pairs:
        assert stop.lasts_ms is not None
        assert killed_ms >= stopped_ms + stop.lasts_ms + START_MS
        assert stop.target == kill.target


def test_a_soak_that_is_resumed_draws_the_faults_that_one_without_a_break_draws() -> None:
    whole, broken = MadeUpWorld(), MadeUpWorld()
    soak(whole)
    broken.ends_at_ms = 200_000.0
    ending, totals, _ = soak(broken)
    assert ending.status is SoakStatus.INTERRUPTED
    done = len(broken.faults)
    assert 3 < done < len(whole.faults)
    broken.ends_at_ms = float("inf")
    broken.away.clear()
    totals.sessions += 1
    ending, totals, _ = soak(broken, totals)
    assert ending.status is SoakStatus.HELD
    kinds = [(fault.number, fault.kind, fault.verb) for fault in whole.faults]
    again = [(fault.number, fault.kind, fault.verb) for fault in broken.faults]
    assert [number for number, _, _ in again] == sorted(number for number, _, _ in again)
    assert len(set(kinds) & set(again)) > 0.9 * min(len(kinds), len(again))
    assert {fault.session for fault in broken.faults} == {1, 2}
    assert totals.elapsed_ms == pytest.approx(10 * MINUTE_MS, abs=MINUTE_MS / 2)


def test_ctrl_c_undoes_what_is_in_progress() -> None:
    world = MadeUpWorld()

    def interrupted(step: BoundStep) -> str:
        if step.lasts_ms is not None:
            world.ends_at_ms = world.clock_ms
        return ""

    world.refuses = interrupted
    ending, _, _ = soak(world)
    assert ending.status is SoakStatus.INTERRUPTED
    assert world.undone == [world.done[-1][1]]


def test_the_first_violation_stops_everything_and_undoes_nothing() -> None:
    world = MadeUpWorld()
    world.violates = lambda now: "R1 violated at broker-1/1#3: x" if len(now.done) == 4 else ""
    ending, totals, _ = soak(world)
    assert ending == Ending(SoakStatus.VIOLATED, "R1 violated at broker-1/1#3: x")
    assert len(world.done) == 4
    assert world.undone == []
    assert totals.violation == world.kept.violation == ending.why
    assert sum(sum(minute.faults.values()) for minute in world.minutes) >= 3


def test_a_run_whose_records_are_missing_ends_and_is_not_violated() -> None:
    world = MadeUpWorld()
    world.lacks = lambda now: "records are missing: 3 follows 1" if len(now.done) == 4 else ""
    ending, totals, _ = soak(world)
    assert ending == Ending(SoakStatus.UNJUDGED, "records are missing: 3 follows 1")
    assert totals.violation == ""


def test_a_cluster_that_does_not_settle_violates_liveness() -> None:
    world = MadeUpWorld()
    world.settles = lambda now: "soak-0 has no leader" if len(now.done) >= 3 else ""
    ending, totals, _ = soak(world)
    assert ending.status is SoakStatus.VIOLATED
    assert ending.why.startswith("the cluster has not settled within 30 s after fault ")
    assert ending.why.endswith(": soak-0 has no leader")
    assert totals.violation


def test_a_cluster_that_is_not_settled_at_the_beginning_shows_nothing() -> None:
    world = MadeUpWorld()
    world.settles = lambda now: "soak-0 has no leader"
    ending, totals, _ = soak(world)
    assert ending == Ending(
        SoakStatus.NOT_INJECTED, "the cluster has not settled within 30 s before the first fault: soak-0 has no leader"
    )
    assert (world.done, totals.violation) == ([], "")


def test_a_broker_that_ends_by_itself_is_a_violation() -> None:
    world = MadeUpWorld()

    def settles(now: MadeUpWorld) -> str:
        if len(now.done) == 5 and not now.away:
            now.away.append(Due(1e12, 2))
        return ""

    world.settles = settles
    ending, _, _ = soak(world)
    assert ending.status is SoakStatus.VIOLATED
    assert "brokers [2] are away" in ending.why


def test_a_refused_verb_is_counted_and_the_soak_goes_on() -> None:
    world = MadeUpWorld()
    world.refuses = lambda step: "broker-1 cannot be deposed" if step.verb == "depose" else ""
    ending, totals, lines = soak(world)
    assert ending.status is SoakStatus.HELD
    assert totals.missed > 0
    assert "depose" not in totals.faults
    assert any("refused: broker-1 cannot be deposed" in line for line in lines)


def test_a_cluster_that_refuses_everything_ends_the_soak() -> None:
    world = MadeUpWorld()
    world.refuses = lambda step: "no"
    ending, totals, _ = soak(world)
    assert ending == Ending(SoakStatus.NOT_INJECTED, f"{MOST_REFUSED} verbs in a row were refused: no")
    assert totals.missed == MOST_REFUSED
    assert totals.faults == {}


def test_a_cluster_that_may_not_be_touched_ends_the_soak() -> None:
    world = MadeUpWorld(brokers=1)
    ending, _, _ = soak(world, SoakTotals(seed=1, profile="gentle"))
    assert ending.status is SoakStatus.HELD, "its controller may be deposed"
    assert {step.verb for _, step in world.done} == {"depose"}


def test_the_end_of_the_cluster_ends_the_soak() -> None:
    world = MadeUpWorld()
    world.is_gone = lambda now: len(now.done) >= 3
    ending, totals, _ = soak(world)
    assert ending == Ending(SoakStatus.NOT_INJECTED, "the cluster has ended")
    assert totals.violation == ""


def test_a_majority_is_taken_only_where_that_is_allowed() -> None:
    for allow, seen in ((False, False), (True, True)):
        world = MadeUpWorld()
        soak(world, minutes=30, allow_majority=allow)
        assert bool(world.worst) is seen, world.worst
