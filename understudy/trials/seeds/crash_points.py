"""Injects a fault into a controller at each named point of its procedures, and compares how the runs end.

A procedure is run once without a fault, and every point that a controller reaches is noted. A run is determined by its
seed, so the procedure can then be run again once per noted point, identical up to that point. There the fault is
injected into the broker: before or after a write in ZooKeeper, before or after its requests are sent. Another broker
becomes controller, the faulty one returns, and the cluster must end in the same state as without the fault.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from pathlib import Path
from typing import NamedTuple

from understudy.clusters.cluster import Unsettled
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.fences import Fence
from understudy.trials.seeds.judgement import judge
from understudy.trials.seeds.procedures import Procedure
from understudy.trials.seeds.settled_state import SettledState, differences, read_settled_state
from understudy.trials.seeds.worker_processes import worker_pool

SEED = 11
SESSION_MS = 6_000
SETTLE_TIMEOUT_S = 40.0
_QUIET_MS = 2_000
_TAKEOVER_MS = 500
"""Time for another broker to become controller, before the faulty one returns."""
_DEPOSED_FOR_MS = 4_000
"""Time for which a deposed controller is paused: shorter than its session, so that it continues in the same session."""

_CONTROLLER_FENCES = (Fence.ZK_CONTROLLER_EPOCH, Fence.BROKER_CONTROLLER_EPOCH, Fence.STATE_CONTROLLER_EPOCH)
"""The fences that refuse what an old controller writes and sends."""


STOP_REPLICA_LOST = (
    "a StopReplica request in the queue of a controller is lost with that controller, and its successor does not "
    "know of the replica (BUG-15)"
)
STOP_REPLICA_NOT_SENT = (
    "a broker without a session is sent no StopReplica request for the replicas that are removed meanwhile (BUG-15)"
)


class ControllerFault(Enum):
    """The faults that are injected into a controller at a point."""

    KILL = "kill"
    """SIGKILL; its session ends by its timeout."""
    KILL_AND_EXPIRE = "kill-expire"
    """SIGKILL, and ZooKeeper ends its session at the same time."""
    BOUNCE = "bounce"
    """SIGKILL, and a restart before its session has ended."""
    ZOMBIE = "zombie"
    """SIGSTOP until its session has ended and another broker is controller; then SIGCONT."""
    DEPOSE = "depose"
    """SIGSTOP, and an operator deletes `/controller`; then SIGCONT in the same session, in the middle of its event."""


class LeftBehind(NamedTuple):
    """A znode or replica that is left behind after a fault, in Kafka as here."""

    what: str
    reason: str


class PointOccurrence(NamedTuple):
    """The n-th time (from 1) that any controller reaches a point after the trigger of a procedure."""

    point: str
    number: int

    def __str__(self) -> str:
        return f"{self.point}/{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultFreeRun:
    """The result of a run of a procedure without a fault."""

    reached: tuple[PointOccurrence, ...]
    """The points that controllers reached, in order."""
    state: SettledState
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPointOutcome:
    """The result of a run of a procedure with one fault. It is good when `problems` is empty."""

    procedure: str
    at: PointOccurrence
    fault: ControllerFault
    problems: tuple[str, ...]
    left_as_in_kafka: tuple[LeftBehind, ...]
    fenced: int
    """Number of the faulty controller's writes and requests that were refused for their old epoch after the fault."""

    @property
    def command(self) -> str:
        """The command line that repeats this run."""
        return f"understudy crash-points --procedure {self.procedure} --at {self.at} --how {self.fault.value}"

    def __str__(self) -> str:
        head = f"{self.procedure}: {self.fault.value} at {self.at}: {'FAILED' if self.problems else 'ok'}"
        if not self.problems:
            return head
        return "\n".join([head, *(f"  {problem}" for problem in self.problems), f"  repeat it: {self.command}"])


def run_without_fault(procedure: Procedure, *, fences_off: tuple[Fence, ...] = ()) -> FaultFreeRun:
    """Run `procedure`, and note every point that a controller reaches from the trigger until the cluster settles."""
    run = _Run(procedure, fences_off)
    problems = run.run(None)
    problems += [what for what, reason in run.left_behind() if reason is None]
    if not any(occurrence.point.startswith(procedure.point_prefix) for occurrence in run.reached):
        problems.append(f"no point {procedure.point_prefix}* was reached: the scenario does not run its procedure")
    return FaultFreeRun(reached=tuple(run.reached), state=run.state, problems=tuple(problems))


def run_with_fault(
    procedure: Procedure,
    fault_free: FaultFreeRun,
    at: PointOccurrence,
    fault: ControllerFault,
    *,
    fences_off: tuple[Fence, ...] = (),
    events: Path | None = None,
) -> CrashPointOutcome:
    """Run `procedure` with a fault at `at`, and compare its end with the end of the run without a fault.

    Args:
        events: the folder in which to leave the event logs; None for none.
    """
    run = _Run(procedure, fences_off)
    problems = run.run((at, fault), events)
    if not problems:
        problems += differences(fault_free.state, run.state)
    left = run.left_behind()
    return CrashPointOutcome(
        procedure=procedure.name,
        at=at,
        fault=fault,
        problems=(*problems, *(what for what, reason in left if reason is None)),
        left_as_in_kafka=tuple(LeftBehind(what, reason) for what, reason in left if reason is not None),
        fenced=run.fenced,
    )


def run_all_with_faults(
    procedures: Sequence[Procedure],
    fault_free_runs: Sequence[FaultFreeRun],
    faults: Sequence[ControllerFault],
    *,
    workers: int,
) -> Iterator[CrashPointOutcome]:
    """Run each procedure once per point and fault, in order, on `workers` processes."""
    runs = [
        (procedure, fault_free, at, fault)
        for procedure, fault_free in zip(procedures, fault_free_runs, strict=True)
        for at, fault in product(fault_free.reached, faults)
    ]
    if workers <= 1:
        yield from map(_run_with_fault, runs)
        return
    with worker_pool(workers, runs_per_process=100) as pool:
        yield from pool.imap(_run_with_fault, runs, chunksize=4)


def _run_with_fault(run: tuple[Procedure, FaultFreeRun, PointOccurrence, ControllerFault]) -> CrashPointOutcome:
    return run_with_fault(*run)


class _Run:
    """One run of one procedure on one cluster."""

    def __init__(self, procedure: Procedure, fences_off: tuple[Fence, ...]) -> None:
        self.reached: list[PointOccurrence] = []
        self.state = SettledState()
        self.fenced = 0
        self._procedure = procedure
        self._cluster = SimulatedCluster(SEED, brokers=procedure.brokers, fences_off=fences_off)
        self._times_reached: Counter[str] = Counter()
        self._target: tuple[PointOccurrence, ControllerFault] | None = None
        self._faulty_until_ms: float | None = None
        """When the faulty broker returns; None before the fault is injected."""
        self._epoch_at_fault = 0
        """The epoch of the controller at which the fault is injected; 0 if the broker is not the controller yet."""
        self._paused: BrokerId | None = None
        """The broker that is paused and resumed."""
        self._unassigned_at_fault: frozenset[tuple[BrokerId, TopicPartition]] = frozenset()
        """Replicas that exist without being assigned when the fault is injected."""

    def run(self, target: tuple[PointOccurrence, ControllerFault] | None, events: Path | None = None) -> list[str]:
        """Run the procedure to its end, with a fault at `target`; return the problems."""
        cluster, problems = self._cluster, []
        self._target = target
        try:
            self._run()
        except (Unsettled, Deadlock, BudgetExhausted) as finding:
            problems.append(f"{type(finding).__name__}: {finding}")
        finally:
            cluster.close()
        if events is not None:
            cluster.dump(events)
        if target is not None and not problems and self._faulty_until_ms is None:
            problems.append(f"{target[0]} was not reached: the run differs from the one without a fault")
        if cluster.znodes.controller_epoch() <= self._epoch_at_fault:
            problems.append(f"no broker became controller: the controller epoch is still {self._epoch_at_fault}")
        self.fenced += self._controllers_refused()
        return [*problems, *judge(cluster).problems]

    def left_behind(self) -> list[tuple[str, str | None]]:
        """Describe the znodes and replicas that are left behind at the end, each with the reason why Kafka also leaves
        it; None if Kafka does not."""
        left: list[tuple[str, str | None]] = [(f"{path} was left behind", None) for path in self.state.leftover_znodes]
        for replica in self.state.unassigned_replicas:
            broker_id, partition = replica
            reason = None
            if replica in self._unassigned_at_fault:
                reason = STOP_REPLICA_LOST
            elif broker_id == self._paused:
                reason = STOP_REPLICA_NOT_SENT
            left.append((f"a replica of {partition} was left behind on broker {broker_id}", reason))
        return left

    def _controllers_refused(self) -> int:
        return sum(broker.node.fence_hits[fence] for broker in self._cluster.brokers for fence in _CONTROLLER_FENCES)

    def _run(self) -> None:
        cluster, procedure = self._cluster, self._procedure
        cluster.start()
        procedure.prepare(cluster)
        cluster.settle()
        for broker in cluster.brokers:
            broker.node.at_point = self._point_listener(broker)
        procedure.trigger(cluster)
        cluster.run_for(procedure.lasts_ms)
        if self._faulty_until_ms is not None:
            cluster.run_for(max(0.0, self._faulty_until_ms - cluster.now_ms) + _TAKEOVER_MS)
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        for broker in cluster.brokers:
            broker.node.at_point = None
        self._settle_for_good()

    def _settle_for_good(self) -> None:
        """Heal all faults, elect the preferred leaders, check that the cluster stays settled, and read its state."""
        cluster = self._cluster
        cluster.heal()
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        cluster.ask(cluster.admin.elect_leaders())
        cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        cluster.run_for(_QUIET_MS)
        cluster.settle(timeout_s=0)
        self.state = read_settled_state(cluster)

    def _point_listener(self, broker: SimulatedBroker) -> Callable[[str], None]:
        """Return the callback that notes each point which `broker` reaches, and arms the fault at the target."""

        def at_point(name: str) -> None:
            self._times_reached[name] += 1
            occurrence = PointOccurrence(name, self._times_reached[name])
            self.reached.append(occurrence)
            if self._target is not None and occurrence == self._target[0] and self._faulty_until_ms is None:
                self._arm(broker, name, self._target[1])

        return at_point

    def _arm(self, broker: SimulatedBroker, point: str, fault: ControllerFault) -> None:
        cluster = self._cluster
        away_ms = {ControllerFault.BOUNCE: 1_000.0, ControllerFault.DEPOSE: _DEPOSED_FOR_MS}.get(
            fault, SESSION_MS + 3_000
        )
        self._faulty_until_ms = cluster.now_ms + away_ms
        self.fenced = -self._controllers_refused()
        self._unassigned_at_fault = frozenset(cluster.unassigned_replicas())
        if cluster.controller_id() == broker.id:
            self._epoch_at_fault = cluster.znodes.controller_epoch()
        if fault in (ControllerFault.ZOMBIE, ControllerFault.DEPOSE):
            self._paused = broker.id if fault is ControllerFault.ZOMBIE else None
            broker.arm(point, "pause", resume_after_ms=away_ms)
            if fault is ControllerFault.DEPOSE:
                cluster.after(_TAKEOVER_MS, cluster.depose)
            return
        broker.arm(point, "crash", start_after_ms=away_ms)
        if fault is ControllerFault.KILL_AND_EXPIRE:
            cluster.after(0, broker.expire_session)
