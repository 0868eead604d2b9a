"""A controller killed at each of its named points, one after the other, and what its successor makes of it.

A procedure is played once in peace, and every point that any controller passes is noted. A run is its seed, so the
procedure can then be played again once for each passing, the same up to there, and the broker that passes is struck
exactly then: before or after a write in ZooKeeper, before or after its requests have gone out. Another takes over, the
struck one comes back, and everything has to end as it did in peace.
"""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.eventlog.fences import Fence
from understudy.cluster import Unsettled
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge
from understudy.simulator.loop import BudgetExhausted, Deadlock
from understudy.simulator.procedures import Procedure
from understudy.simulator.rest import Rest, differences, rest_of

SEED = 11
SESSION_MS = 6_000
SETTLE_TIMEOUT_S = 40.0
_QUIET_MS = 2_000
_FORGOTTEN_AFTER_MS = 500
"""A broker returns this long after its session has ended, so that another has had time to take over."""
_DEPOSED_FOR_MS = 4_000
"""Shorter than a session: who is deposed and sleeps this long wakes in the session it fell asleep in."""

_AGAINST_CONTROLLERS = (Fence.ZK_CONTROLLER_EPOCH, Fence.BROKER_CONTROLLER_EPOCH, Fence.STATE_CONTROLLER_EPOCH)


UNSENT = (
    "a StopReplica that is still in its channel dies with the controller, and nobody remembers the replica (BUG-15)"
)
ASLEEP = "a broker whose session is over is not told to stop what moves away meanwhile (BUG-15)"


class How(Enum):
    """What happens to a controller at a point."""

    KILL = "kill"
    """SIGKILL; its session ends by its timeout."""
    KILL_AND_EXPIRE = "kill-expire"
    """SIGKILL, and ZooKeeper ends its session in the same instant."""
    BOUNCE = "bounce"
    """SIGKILL, and back before its session has ended."""
    ZOMBIE = "zombie"
    """SIGSTOP until its session is over and another rules; then SIGCONT."""
    DEPOSE = "depose"
    """SIGSTOP, deposed by an operator meanwhile; it wakes in the same session and goes on with its next line."""


class LeftBehind(NamedTuple):
    """Something that lies about afterwards, in Kafka as here."""

    what: str
    reason: str


class Passing(NamedTuple):
    """The n-th time (from 1) that any controller reaches a point after the trigger."""

    point: str
    occurrence: int

    def __str__(self) -> str:
        return f"{self.point}/{self.occurrence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peace:
    """The run without an injected fault."""

    passed: tuple[Passing, ...]
    rest: Rest
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one injected fault. It is good when `problems` is empty."""

    procedure: str
    passing: Passing
    how: How
    problems: tuple[str, ...]
    left_as_in_kafka: tuple[LeftBehind, ...]
    fenced: int
    """How often the faulty controller's writes or requests were refused for their old epoch after the fault."""

    @property
    def command(self) -> str:
        """What plays this very run again."""
        return f"understudy crash-points --procedure {self.procedure} --at {self.passing} --how {self.how.value}"

    def __str__(self) -> str:
        head = f"{self.procedure}: {self.how.value} at {self.passing}: {'FAILED' if self.problems else 'ok'}"
        if not self.problems:
            return head
        return "\n".join([head, *(f"  {problem}" for problem in self.problems), f"  play it again: {self.command}"])


def play_in_peace(procedure: Procedure, *, fences_off: tuple[Fence, ...] = ()) -> Peace:
    """Play `procedure` and note every point that is passed from its trigger until the cluster is at rest."""
    run = _Run(procedure, fences_off)
    problems = run.play(None)
    problems += [what for what, reason in run.left_behind() if reason is None]
    if not any(passing.point.startswith(procedure.passes) for passing in run.passed):
        problems.append(f"no point {procedure.passes}* was passed: the scenario misses its subject")
    return Peace(passed=tuple(run.passed), rest=run.rest, problems=tuple(problems))


def strike(
    procedure: Procedure,
    peace: Peace,
    passing: Passing,
    how: How,
    *,
    fences_off: tuple[Fence, ...] = (),
    events: Path | None = None,
) -> Outcome:
    """Play `procedure` with a fault at `passing`, and compare its end with that of the run without a fault.

    Args:
        events: where to leave the event logs; None: nowhere.
    """
    run = _Run(procedure, fences_off)
    problems = run.play((passing, how), events)
    if not problems:
        problems += differences(peace.rest, run.rest)
    left = run.left_behind()
    return Outcome(
        procedure=procedure.name,
        passing=passing,
        how=how,
        problems=(*problems, *(what for what, reason in left if reason is None)),
        left_as_in_kafka=tuple(LeftBehind(what, reason) for what, reason in left if reason is not None),
        fenced=run.fenced,
    )


def play_all_in_peace(procedures: Iterable[Procedure]) -> list[Peace]:
    return [play_in_peace(procedure) for procedure in procedures]


def strike_all(
    procedures: Sequence[Procedure], peaces: Sequence[Peace], hows: Sequence[How] = tuple(How), *, workers: int = 1
) -> Iterator[Outcome]:
    """Every fault at every passing of each procedure, in order, on `workers` processes."""
    runs = [
        (procedure, peace, passing, how)
        for procedure, peace in zip(procedures, peaces, strict=True)
        for passing, how in strikes(peace, hows)
    ]
    if workers <= 1:
        yield from map(_strike, runs)
        return
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=100) as pool:
        yield from pool.imap(_strike, runs, chunksize=4)


def _strike(run: tuple[Procedure, Peace, Passing, How]) -> Outcome:
    return strike(*run)


def strikes(peace: Peace, hows: Iterable[How] = tuple(How)) -> Iterator[tuple[Passing, How]]:
    """Everything that can be done to the controllers of `peace`."""
    kinds = tuple(hows)
    return ((passing, how) for passing in peace.passed for how in kinds)


class _Run:
    """One play of one procedure."""

    def __init__(self, procedure: Procedure, fences_off: tuple[Fence, ...]) -> None:
        self.passed: list[Passing] = []
        self.rest = _NOTHING
        self.fenced = 0
        self._procedure = procedure
        self._cluster = SimulatedCluster(
            SEED, brokers=procedure.brokers, settings=dict(procedure.settings), fences_off=fences_off
        )
        self._counted: Counter[str] = Counter()
        self._target: tuple[Passing, How] | None = None
        self._struck_until_ms: float | None = None
        self._epoch_to_end = 0
        """The epoch of the controller at which the fault is injected; 0 where the broker is not the controller yet."""
        self._asleep: BrokerId | None = None
        """The broker that is paused and resumed."""
        self._unsent: frozenset[tuple[BrokerId, TopicPartition]] = frozenset()
        """Replicas that exist without being assigned when the fault is injected."""

    def play(self, target: tuple[Passing, How] | None, events: Path | None = None) -> list[str]:
        """Play it to the end; what went wrong."""
        cluster, problems = self._cluster, []
        self._target = target
        try:
            self._play()
        except (Unsettled, Deadlock, BudgetExhausted) as finding:
            problems.append(f"{type(finding).__name__}: {finding}")
        finally:
            cluster.close()
        if events is not None:
            cluster.dump(events)
        if target is not None and not problems and self._struck_until_ms is None:
            problems.append(f"{target[0]} was not reached: the run goes another way than the one in peace")
        if cluster.znodes.controller_epoch() <= self._epoch_to_end:
            problems.append(f"nobody took over: the controller epoch is still {self._epoch_to_end}")
        self.fenced += self._controllers_refused()
        return [*problems, *judge(cluster).problems]

    def left_behind(self) -> list[tuple[str, str | None]]:
        """What lies about in the end, and why in Kafka it would, too; None where it would not."""
        left: list[tuple[str, str | None]] = [(f"{path} was left behind", None) for path in self.rest.leftovers]
        for stray in self.rest.strays:
            reason = UNSENT if stray in self._unsent else ASLEEP if stray[0] == self._asleep else None
            left.append((f"a replica of {stray[1]} was left behind on broker {stray[0]}", reason))
        return left

    def _controllers_refused(self) -> int:
        return sum(broker.node.fence_hits[fence] for broker in self._cluster.brokers for fence in _AGAINST_CONTROLLERS)

    def _play(self) -> None:
        cluster, procedure = self._cluster, self._procedure
        cluster.start()
        procedure.prepare(cluster)
        cluster.settle()
        for broker in cluster.brokers:
            broker.node.at_point = self._passing(broker)
        procedure.trigger(cluster)
        cluster.run_for(procedure.lasts_ms)
        if self._struck_until_ms is not None:
            cluster.run_for(max(0.0, self._struck_until_ms - cluster.now_ms) + _FORGOTTEN_AFTER_MS)
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        for broker in cluster.brokers:
            broker.node.at_point = None
        self._come_to_rest()

    def _come_to_rest(self) -> None:
        """Heal all faults, elect the preferred leaders, and check that the cluster stays settled."""
        cluster = self._cluster
        cluster.heal()
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        cluster.ask(cluster.admin.elect_leaders())
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        cluster.run_for(_QUIET_MS)
        cluster.settle(timeout_s=0)
        self.rest = rest_of(cluster)

    def _passing(self, broker: SimulatedBroker) -> Callable[[str], None]:
        def at_point(name: str) -> None:
            self._counted[name] += 1
            passing = Passing(name, self._counted[name])
            self.passed.append(passing)
            if self._target is not None and passing == self._target[0] and self._struck_until_ms is None:
                self._arm(broker, name, self._target[1])

        return at_point

    def _arm(self, broker: SimulatedBroker, point: str, how: How) -> None:
        cluster = self._cluster
        away_ms = {How.BOUNCE: 1_000.0, How.DEPOSE: _DEPOSED_FOR_MS}.get(how, SESSION_MS + 3_000)
        self._struck_until_ms = cluster.now_ms + away_ms
        self.fenced = -self._controllers_refused()
        self._unsent = frozenset(cluster.unassigned_replicas())
        if cluster.controller_id() == broker.id:
            self._epoch_to_end = cluster.znodes.controller_epoch()
        if how in (How.ZOMBIE, How.DEPOSE):
            self._asleep = broker.id if how is How.ZOMBIE else None
            broker.arm(point, "pause", resume_after_ms=away_ms)
            if how is How.DEPOSE:
                cluster.after(_FORGOTTEN_AFTER_MS, cluster.depose)
            return

        def kill() -> None:
            broker.kill()
            cluster.after(away_ms, broker.begin_start)

        broker.node.arm(point, "crash", kill)
        if how is How.KILL_AND_EXPIRE:
            cluster.after(0, broker.expire_session)


_NOTHING = Rest(assignments={}, leaders={}, in_sync={}, configs={}, leftovers=(), strays=())
