"""`Soak`: the loop of a soak. It waits until the cluster has settled, injects a fault, and judges the run meanwhile.

It uses the cluster, its clients and the clock only through `SoakWorld`; `understudy.trials.soak.live` implements it,
and tests have another implementation.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from understudy.checks.partition_clients import ClientCounts
from understudy.foundation.times import duration
from understudy.trials.soak.plan import BoundStep, PlannedFault, Situation, next_fault
from understudy.trials.soak.profiles import PROFILES
from understudy.trials.soak.totals import FaultRecord, Measures, MinuteRecord, SoakTotals, minute_line

MINUTE_MS: Final = 60_000.0
TICK_MS: Final = 500.0
CHECK_EVERY_MS: Final = 5_000.0
LAST_MS: Final = 3_000.0
"""Time before the last check, because the event logs are judged only up to a moment ago."""
SHORTEST_MS: Final = 1_000.0
"""Minimum length of the last part of a minute in a session; a shorter one without a fault is not counted."""
MOST_REFUSED: Final = 20
"""Number of refused verbs in a row after which the soak ends."""


class NotInjected(Exception):
    """The cluster has refused a verb. The message is the cluster's."""


class ClusterGone(Exception):
    """The cluster has ended, its control port does not answer, or its logs cannot be read."""


class Events(NamedTuple):
    """Numbers of events that the event logs show since the last reading."""

    controller_changes: int
    leader_elections: int


class SoakWorld(Protocol):
    """The cluster, its clients, its event logs and the clock. Methods that ask the cluster may raise `ClusterGone`."""

    session_ms: int

    def now_ms(self) -> float:
        """Return the time of a clock that never goes back."""

    def wait(self, ms: float) -> bool:
        """Wait; return whether the soak is to end."""

    def situation(self) -> Situation | None:
        """Return the state of the cluster now; None if ZooKeeper does not answer."""

    def unsettled(self) -> str:
        """Return why the cluster and its clients have not settled; empty if they have."""

    def do(self, step: BoundStep) -> None:
        """Do a verb. Raises NotInjected."""

    def undo(self, step: BoundStep) -> None:
        """Undo a verb at once, if it was not undone yet."""

    def read_logs(self) -> Events:
        """Read the new records of the event logs, and check them. Raises ClusterGone if that is not possible."""

    def violation(self, *, with_end: bool) -> str:
        """Return the first violated invariant, with its witness; empty if all hold.

        Args:
            with_end: whether to also judge what only the end of the known records can show; that takes longer.
        """

    def unjudged(self) -> str:
        """Return why the run cannot be judged, because records are missing; empty if it can."""

    def client_counts(self) -> ClientCounts:
        """Return the counts of clients since the last call."""

    def ends(self) -> dict[str, int]:
        """Return the offset after the last acknowledged record of each partition."""

    def checked_ms(self) -> float:
        """Return the time up to which the event logs were judged."""

    def measures(self) -> Measures: ...

    def keep(self, record: FaultRecord | MinuteRecord) -> None:
        """Write down a minute, or a fault before it is injected."""

    def keep_totals(self, totals: SoakTotals) -> None: ...


class SoakStatus(Enum):
    HELD = "held"
    VIOLATED = "violated"
    UNJUDGED = "cannot be judged"
    NOT_INJECTED = "not injected"
    INTERRUPTED = "interrupted"


class Ending(NamedTuple):
    """How a soak has ended, and why."""

    status: SoakStatus
    why: str


class _Ended(Exception):
    def __init__(self, status: SoakStatus, why: str) -> None:
        super().__init__(why)
        self.ending = Ending(status, why)


class Soak:
    """One session of a soak.

    Args:
        totals: the totals of earlier sessions, which this session updates and keeps.
        minutes: how many minutes the soak lasts, including earlier sessions.
        settle_ms: the time in which the cluster must settle after the last verb of a fault has ended.
        report: is called with each line, and with whether it is about a minute rather than about one fault.
    """

    def __init__(
        self,
        world: SoakWorld,
        totals: SoakTotals,
        *,
        minutes: float,
        settle_ms: float,
        allow_majority: bool = False,
        report: Callable[[str, bool], None],
    ) -> None:
        self._world = world
        self._totals = totals
        self._ends_ms = minutes * MINUTE_MS
        self._settle_ms = settle_ms
        self._allow_majority = allow_majority
        self._report = report
        self._minute_began_ms = world.now_ms()
        self._next_check_ms = 0.0
        self._minute = self._new_minute()
        self._to_undo: list[tuple[float, BoundStep]] = []
        """The steps that the cluster has still to undo, with the time at which it undoes them."""
        self._refused_in_a_row = 0

    def run(self) -> Ending:
        """Run until the time is over, an invariant is violated or cannot be judged, or the soak is interrupted."""
        try:
            ending = self._run()
        except _Ended as ended:
            ending = ended.ending
        except ClusterGone as gone:
            ending = Ending(SoakStatus.NOT_INJECTED, str(gone))
        if ending.status is SoakStatus.VIOLATED:
            self._totals.violation = ending.why
        if ending.status is SoakStatus.INTERRUPTED:
            for _, step in self._to_undo:
                self._world.undo(step)
        self._end_minute()
        return ending

    def _run(self) -> Ending:
        self._await_settled(SoakStatus.NOT_INJECTED, "before the first fault")
        source = self._source()
        self._tick_for(PROFILES[self._totals.profile].rest.draw(source, self._world.session_ms))
        while self._elapsed_ms() < self._ends_ms:
            rest_ms = self._one_fault()
            self._tick_for(min(rest_ms, max(0.0, self._ends_ms - self._elapsed_ms())))
        self._tick_for(LAST_MS)
        self._check(with_end=True)
        return Ending(SoakStatus.HELD, "every invariant held")

    # ------------------------------------------------------------------ faults

    def _one_fault(self) -> float:
        """Inject a fault, and wait until it has ended and the cluster has settled; return how long to rest."""
        situation = self._world.situation()
        if situation is None or situation.away:
            self._await_settled(SoakStatus.VIOLATED, "while nothing was injected")
            return TICK_MS
        planned = next_fault(
            PROFILES[self._totals.profile],
            situation,
            self._source(),
            session_ms=self._world.session_ms,
            allow_majority=self._allow_majority,
        )
        if isinstance(planned, str):
            raise _Ended(SoakStatus.NOT_INJECTED, f"no fault may be injected: {planned}")
        self._inject(planned)
        self._await_settled(SoakStatus.VIOLATED, f"after fault {self._totals.fault_number} ({planned.kind})")
        return planned.rest_ms

    def _source(self) -> random.Random:
        return source_of(self._totals.seed, self._totals.fault_number + 1)

    def _inject(self, planned: PlannedFault) -> None:
        self._totals.fault_number += 1
        done = 0
        for step in planned.steps:
            if step.after_end:
                self._tick_until_undone()
            self._tick_for(step.wait_ms)
            done += self._do(planned.kind, step)
        if done:
            for counted in (self._minute, self._totals):
                counted.faults[planned.kind] = counted.faults.get(planned.kind, 0) + 1
        self._tick_until_undone()

    def _do(self, kind: str, step: BoundStep) -> bool:
        totals = self._totals
        fault = FaultRecord(
            number=totals.fault_number,
            kind=kind,
            session=totals.sessions,
            minute=self._minute.minute,
            at_ms=self._world.now_ms() - self._minute_began_ms,
            verb=step.verb,
            target=step.target,
            role=step.role,
            lasts_ms=step.lasts_ms,
        )
        self._world.keep(fault)
        self._world.keep_totals(totals)
        try:
            self._world.do(step)
        except NotInjected as refusal:
            totals.missed += 1
            self._refused_in_a_row += 1
            self._report(f"  fault {totals.fault_number}: {step.verb} {_target(step)} refused: {refusal}", False)
            if self._refused_in_a_row >= MOST_REFUSED:
                raise _Ended(
                    SoakStatus.NOT_INJECTED, f"{MOST_REFUSED} verbs in a row were refused: {refusal}"
                ) from None
            return False
        self._refused_in_a_row = 0
        lasts = "" if step.lasts_ms is None else f" for {duration(step.lasts_ms)}"
        self._report(f"  fault {totals.fault_number}: {step.verb} {_target(step)}{lasts}", False)
        if step.lasts_ms is not None:
            self._to_undo.append((self._world.now_ms() + step.lasts_ms, step))
        return True

    # ------------------------------------------------------------------ waiting

    def _tick_until_undone(self) -> None:
        """Wait until the cluster has undone every verb whose time is over, and brokers that were ended are back."""
        end_ms = max((due for due, _ in self._to_undo), default=0.0)
        self._tick_for(end_ms - self._world.now_ms())
        deadline_ms = self._world.now_ms() + self._settle_ms
        while self._to_undo and self._world.now_ms() < deadline_ms:
            situation = self._world.situation()
            if situation is not None and not situation.away:
                break
            self._tick()
        self._to_undo.clear()

    def _await_settled(self, otherwise: SoakStatus, when: str) -> None:
        deadline_ms = self._world.now_ms() + self._settle_ms
        while why := self._world.unsettled():
            if self._world.now_ms() >= deadline_ms:
                bound = f"within {duration(self._settle_ms)}"
                raise _Ended(otherwise, f"the cluster has not settled {bound} {when}: {why}")
            self._tick()

    def _tick_for(self, ms: float) -> None:
        end_ms = self._world.now_ms() + ms
        while (left_ms := end_ms - self._world.now_ms()) > 0:
            self._tick(min(left_ms, TICK_MS))

    def _tick(self, ms: float = TICK_MS) -> None:
        if self._world.wait(ms):
            raise _Ended(SoakStatus.INTERRUPTED, "interrupted")
        if self._world.now_ms() >= self._next_check_ms:
            self._check(with_end=False)
        if self._world.now_ms() - self._minute_began_ms >= MINUTE_MS:
            self._check(with_end=True)
            self._end_minute()

    # ------------------------------------------------------------------ judging, minute by minute

    def _elapsed_ms(self) -> float:
        return self._totals.elapsed_ms + self._world.now_ms() - self._minute_began_ms

    def _check(self, *, with_end: bool) -> None:
        self._next_check_ms = self._world.now_ms() + CHECK_EVERY_MS
        self._read()
        if found := self._world.violation(with_end=with_end):
            raise _Ended(SoakStatus.VIOLATED, found)
        if why := self._world.unjudged():
            raise _Ended(SoakStatus.UNJUDGED, why)

    def _read(self) -> None:
        """Read the new records and the counts of clients, and keep the totals."""
        events, counts, totals = self._world.read_logs(), self._world.client_counts(), self._totals
        for counted in (self._minute, totals):
            counted.clients.add(counts)
            counted.controller_changes += events.controller_changes
            counted.leader_elections += events.leader_elections
        totals.ends = self._world.ends()
        totals.checked_ms = self._world.checked_ms()
        self._world.keep_totals(totals)

    def _end_minute(self) -> None:
        now_ms, minute = self._world.now_ms(), self._minute
        if not minute.faults and now_ms - self._minute_began_ms < SHORTEST_MS:
            return
        minute.lasted_ms = now_ms - self._minute_began_ms
        minute.measures = self._world.measures()
        self._world.keep(minute)
        self._report(minute_line(minute), True)
        self._totals.minutes += 1
        self._totals.elapsed_ms += minute.lasted_ms
        self._world.keep_totals(self._totals)
        self._minute_began_ms = now_ms
        self._minute = self._new_minute()

    def _new_minute(self) -> MinuteRecord:
        return MinuteRecord(minute=self._totals.minutes + 1, session=self._totals.sessions)


def source_of(seed: int, fault_number: int) -> random.Random:
    """Return the random source of a fault, from 1: the same, however often the soak was interrupted before it."""
    return random.Random(f"soak {seed} {fault_number - 1}")


def _target(step: BoundStep) -> str:
    name = step.target if not step.target.isdigit() else f"broker {step.target}"
    return f"{name} ({step.role})" if step.role else name
