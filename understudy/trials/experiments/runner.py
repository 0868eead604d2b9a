"""Runs the steps of an experiment on an engine, and measures how soon the cluster recovers after the last fault."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.targets import DRAWN, Resolver
from understudy.clusters.values import Target
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.eventlog.records import ControllerElected, Envelope, LeadershipWritten
from understudy.trials.experiments.engine import ExperimentEngine, RunData
from understudy.trials.experiments.injecting import CannotInject, Undo
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.actions import Action, Settle
from understudy.trials.experiments.language.document import Step
from understudy.trials.experiments.language.expectations import LIVENESS, STEADY
from understudy.trials.experiments.language.frozen import FrozenPlan
from understudy.trials.experiments.report.explain import step_text
from understudy.trials.experiments.report.verdict import StepDone
from understudy.trials.experiments.triggers import TriggerState, ids_of_argument

SAMPLE_MS: Final = 100.0
"""Time between two checks of whether the cluster has recovered."""
PATIENCE_MS: Final = 60_000.0
"""Time for which a step's event is awaited beyond the time that the experiment lasts."""
STEADY_TIMEOUT_MS: Final = 15_000.0
SETTLE_TIMEOUT_S: Final = 60.0
_STAYS_MS: Final = 1_000.0
"""Time that a state must last to count as reached."""
_QUIET_MS: Final = 5_000.0
"""Time without a change that counts as quiet (L7)."""
RATE_WINDOW_MS: Final = 2_000.0
RATE_PART: Final = 0.8
"""Part of the rate before the first fault at which producers must be acknowledged again (L5)."""

_NO_ANSWER: Final = "ZooKeeper does not answer"
_NOT_POSSIBLE = (CannotInject, ClusterError, ApiError, NoBrokerAnswers)


@dataclass(slots=True, kw_only=True)
class RunOutcome:
    """The observations of the runner; the judgement compares them with the expectations."""

    plan: FrozenPlan
    engine: str
    steps: list[StepDone]
    steady_failures: tuple[str, ...] = ()
    not_injected: tuple[str, ...] = ()
    """Faults that were prepared and have not happened."""
    last_fault_ms: float = 0.0
    reached_ms: dict[str, float | None] = field(default_factory=dict)
    """Time after the last fault until a liveness bound was reached for good, by id; None if it was not reached."""
    left: dict[str, str] = field(default_factory=dict)
    """Last finding that contradicted a liveness bound, by id."""
    unsettled: str = ""
    """Why the cluster has not settled after the end of all faults; empty if it has settled."""
    data: RunData | None = None

    def rate_reached_ms(self, acknowledged_ms: Sequence[float]) -> float | None:
        """Return how long after the last fault producers are acknowledged at the rate of L5; None if they are not.

        Args:
            acknowledged_ms: when each batch was acknowledged.
        """
        times = sorted(acknowledged_ms)
        steps = zip(self.plan.experiment.steps, self.steps, strict=True)
        done = [result.done_ms for step, result in steps if result.done_ms is not None and _is_fault(step)]
        first_ms = min(done, default=0.0)
        before = bisect_left(times, first_ms)
        if first_ms < RATE_WINDOW_MS / 2 or not before:
            return None if not times else 0.0
        wanted = RATE_PART * before / first_ms * RATE_WINDOW_MS
        for time in [self.last_fault_ms, *(each for each in times if each >= self.last_fault_ms)]:
            if bisect_right(times, time + RATE_WINDOW_MS) - bisect_left(times, time) >= wanted:
                return time - self.last_fault_ms
        return None


class _Pending(NamedTuple):
    """A step whose condition is met."""

    due_ms: float
    number: int


class Runner:
    """One run of a plan."""

    def __init__(self, plan: FrozenPlan, engine: ExperimentEngine) -> None:
        self._plan = plan
        self._engine = engine
        self._steps = {step.number: step for step in plan.experiment.steps}
        self._results = {
            step.number: StepDone(number=step.number, line=step.line, text=step_text(step))
            for step in plan.experiment.steps
        }
        self._due: list[_Pending] = []
        self._undos: dict[int, tuple[float, Undo]] = {}
        """The time at which the fault of a step ends, and the function that ends it, by step."""
        self._settling: dict[int, float] = {}
        self._bound: dict[str, tuple[int, ...]] = {}
        self._triggers = {
            number: TriggerState(step.when, lambda name: ids_of_argument(name, self._bound))
            for number, step in self._steps.items()
            if step.when is not None
        }
        self._last_fault_ms = 0.0
        self._event_brokers: dict[int, int] = {}
        self._changed_ms = 0.0
        """When a controller was last elected, or has last written a partition state."""

    def run(self) -> RunOutcome:
        """Run the steps, let the cluster recover, heal it, and collect what was recorded."""
        outcome = RunOutcome(plan=self._plan, engine=self._engine.name, steps=list(self._results.values()))
        outcome.steady_failures = self._steady_failures()
        if not outcome.steady_failures:
            self._schedule_first()
            self._run_steps()
            self._recover(outcome)
            outcome.not_injected = self._engine.not_injected()
        self._engine.heal()
        try:
            self._engine.cluster.settle(timeout_s=SETTLE_TIMEOUT_S)
        except ClusterError as failure:
            # Further lines of the message are the ends of the brokers' logs, which stay in the folder of the run.
            outcome.unsettled = str(failure).partition("\n")[0]
        outcome.data = self._engine.finish()
        return outcome

    # ------------------------------------------------------------------ the steady state

    def _steady_failures(self) -> tuple[str, ...]:
        """Wait until the conditions of the steady state hold; return those that do not."""
        deadline_ms = self._engine.now_ms + STEADY_TIMEOUT_MS
        while True:
            failures = tuple(filter(None, map(self._steady_failure, self._plan.experiment.steady)))
            if not failures or self._engine.now_ms >= deadline_ms:
                return failures
            self._engine.advance(self._engine.now_ms + SAMPLE_MS, self._on_record)

    def _steady_failure(self, condition: str) -> str:
        if condition == "producers-acknowledged":
            return "" if self._engine.load.acknowledged_ms else f"{condition}: no producer has been acknowledged"
        found = self._engine.findings()
        if found is None:
            return f"{condition}: {_NO_ANSWER}"
        wrong = [str(each) for each in found.found if each.kind in STEADY[condition].contradicted_by]
        return f"{condition}: {wrong[0]}" if wrong else ""

    # ------------------------------------------------------------------ steps

    def _schedule_first(self) -> None:
        for step in self._steps.values():
            if step.at is not None:
                self._schedule(step, step.at.ms)
        self._schedule_next_of(0)

    def _schedule(self, step: Step, met_ms: float) -> None:
        self._due.append(_Pending(met_ms + step.wait.ms, step.number))

    def _schedule_next_of(self, number: int) -> None:
        """Schedule the step after one that is done, if it waits for nothing else, and those that name its mark."""
        now_ms = self._engine.now_ms
        done = self._steps.get(number)
        for step in self._steps.values():
            follows = step.number == number + 1 and step.at is None and step.when is None and not step.after
            is_named = done is not None and step.after != "" and step.after in (done.mark, done.bind_as)
            if follows or is_named:
                self._schedule(step, now_ms)

    def _run_steps(self) -> None:
        times_ms = [step.at.ms for step in self._steps.values() if step.at is not None]
        limit_ms = max([self._plan.experiment.lasts.ms, *times_ms]) + PATIENCE_MS
        while self._is_unfinished and self._engine.now_ms < limit_ms:
            self._do_what_is_due()
            times = [pending.due_ms for pending in self._due] + [due_ms for due_ms, _ in self._undos.values()]
            if self._settling:
                times.append(self._engine.now_ms + SAMPLE_MS)
            if self._is_unfinished:
                self._engine.advance(min([limit_ms, *times]), self._on_record)
        for result in self._results.values():
            if result.done_ms is None and not result.failure:
                result.failure = _never_due(self._steps[result.number])

    @property
    def _is_unfinished(self) -> bool:
        is_awaited = any(
            self._results[number].done_ms is None and not self._results[number].failure for number in self._triggers
        )
        has_failed = any(result.failure for result in self._results.values())
        return not has_failed and bool(self._due or self._undos or self._settling or is_awaited)

    def _do_what_is_due(self) -> None:
        self._look_at_settling()
        while ready := [pending for pending in self._due if pending.due_ms <= self._engine.now_ms]:
            # Several steps are due if the machine is busy. A role is bound first, before other steps need it.
            first = min(ready, key=lambda each: (not self._binds_at_once(each.number), each))
            self._due.remove(first)
            self._do(self._results[first.number])
        for number, (due_ms, undo) in sorted(self._undos.items(), key=lambda each: (each[1][0], each[0])):
            if due_ms <= self._engine.now_ms:
                del self._undos[number]
                self._end(number, undo)

    def _binds_at_once(self, number: int) -> bool:
        """Whether a step does no more than bind a role, as soon as the step before it is done."""
        step = self._steps[number]
        is_conditional = step.at is not None or step.when is not None or bool(step.after) or step.wait.ms > 0
        return step.action is not None and step.action.name == "bind" and not is_conditional

    def _do(self, result: StepDone) -> None:
        number = result.number
        step = self._steps[number]
        try:
            result.brokers = self._brokers_of(step)
            if step.bind_as:
                self._bound[step.bind_as] = result.brokers
            if isinstance(step.action, Settle):
                self._settling[number] = self._engine.now_ms + step.action.at_most.ms
                return
            if step.action is not None and step.action.name != "bind":
                self._perform(step, step.action, result.brokers)
        except _NOT_POSSIBLE as failure:
            result.failure = str(failure)
            return
        result.done_ms = self._engine.now_ms
        self._schedule_next_of(number)

    def _perform(self, step: Step, action: Action, brokers: tuple[int, ...]) -> None:
        if action.name not in self._engine.able:
            raise CannotInject(f"the engine {self._engine.name} cannot do {action.name}")
        peers = self._resolve_all([each for each in action.peers if each.role != "zookeeper"], step, ())
        undo = self._engine.perform(step.number, action, brokers, peers)
        if _is_fault(step):
            self._last_fault_ms = self._engine.now_ms
        if undo is not None and action.lasts is not None:
            self._undos[step.number] = (self._engine.now_ms + action.lasts.ms, undo)

    def _end(self, number: int, undo: Undo) -> None:
        result = self._results[number]
        try:
            undo()
        except _NOT_POSSIBLE as failure:
            result.failure = f"it was not ended: {failure}"
        result.ended_ms = self._last_fault_ms = self._engine.now_ms

    def _look_at_settling(self) -> None:
        for number, deadline_ms in list(self._settling.items()):
            found = self._engine.findings()
            left = (_NO_ANSWER,) if found is None else tuple(map(str, found.unresolved))
            if left and self._engine.now_ms < deadline_ms:
                continue
            del self._settling[number]
            if left:
                self._results[number].failure = f"not settled: {left[0]}"
            else:
                self._results[number].done_ms = self._engine.now_ms
                self._schedule_next_of(number)

    def _on_record(self, record: Envelope) -> bool:
        """Schedule the steps that wait for the event of a record; return whether there are any."""
        is_due = False
        if isinstance(record.data, ControllerElected | LeadershipWritten):
            self._changed_ms = self._engine.now_ms
        for number, state in self._triggers.items():
            step, is_done = self._steps[number], self._results[number].done_ms is not None
            if not state.matches(record, self._excluded(step)) or state.count != step.nth.low or is_done:
                continue
            self._event_brokers[number] = int(record.node.rpartition("-")[2]) if record.node[-1].isdigit() else -1
            self._schedule(step, self._engine.now_ms)
            is_due = True
        return is_due

    # ------------------------------------------------------------------ targets

    def _brokers_of(self, step: Step) -> tuple[int, ...]:
        """Bind the targets of a step now, and return its brokers."""
        found = () if step.action is None else step.action.brokers
        if not found:
            event_broker = self._event_brokers.get(step.number)
            return () if event_broker is None else (event_broker,)
        brokers = self._resolve_all(found, step, self._excluded(step))
        if not brokers:
            raise CannotInject(f"no broker is left for {', '.join(map(str, found))}")
        return brokers

    def _resolve_all(self, targets: Sequence[Target], step: Step, excluded: Collection[int]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for place, target in enumerate(targets):
            source = derived(self._plan.seed, "target", step.number, place)
            candidates = [each for each in self._candidates(target) if each not in excluded and each not in found]
            if target.role in DRAWN and candidates:
                candidates = [source.choice(candidates)]
            found.update(dict.fromkeys(candidates))
        return tuple(found)

    def _excluded(self, step: Step) -> list[int]:
        """Return the brokers that the target of a step must not be; a name that is not bound yet stands for none."""
        excluded: list[int] = []
        for each in step.exclude:
            excluded += self._bound.get(each.name, ()) if each.role == "bound" else self._candidates(each)
        return excluded

    def _candidates(self, target: Target) -> tuple[int, ...]:
        """Return every broker that a target may stand for now. Raises CannotInject if there is none."""
        if target.role == "zookeeper":
            raise CannotInject(f"{target} is no broker")
        if target.role == "bound":
            if target.name not in self._bound:
                raise CannotInject(f"{target.name} is not bound yet")
            return self._bound[target.name]
        cluster, racks = self._engine.cluster, self._plan.experiment.cluster.racks or (None,)
        resolver = Resolver(
            cluster.broker_ids,
            lambda broker_id: racks[cluster.broker_ids.index(broker_id) % len(racks)],
            lambda: [broker.id for broker in cluster.brokers if broker.is_running and not broker.is_paused],
            cluster.controller_id,
            lambda partition: cluster.leader_id(*partition),
            lambda partition: cluster.isr(*partition),
        )
        found = resolver.candidates(target)
        if not found and target.role == "controller":
            raise CannotInject("there is no controller at this moment")
        if target.partition is not None and cluster.leader_id(*target.partition) is None:
            raise CannotInject(f"{target.partition} has no leader at this moment")
        return tuple(sorted(found)) if target.role == "follower" else found

    # ------------------------------------------------------------------ recovery

    def _recover(self, outcome: RunOutcome) -> None:
        """Let the cluster recover from the last fault, and note when each liveness bound is reached for good."""
        outcome.last_fault_ms = self._last_fault_ms
        contradicted_ms = dict.fromkeys(LIVENESS, self._last_fault_ms)
        within, lasts_ms = self._plan.experiment.expect.within, self._plan.experiment.lasts.ms
        longest_ms = max([0.0, *(bound.ms for bound in within.values())])
        until_ms = max(lasts_ms, self._last_fault_ms + longest_ms + max(map(_stays_ms, within), default=0.0))
        while True:
            now_ms = self._engine.now_ms
            found = self._engine.findings()
            for name, (_, kinds) in LIVENESS.items():
                contradicting = (
                    [_NO_ANSWER] if found is None else [str(each) for each in found.unresolved if each.kind in kinds]
                )
                if contradicting:
                    contradicted_ms[name] = now_ms
                    outcome.left[name] = contradicting[0]
            contradicted_ms["L7"] = max(self._changed_ms, self._last_fault_ms)
            has_stayed = all(now_ms - contradicted_ms[name] >= _stays_ms(name) for name in within)
            if has_stayed and "L5" in within:
                has_stayed = outcome.rate_reached_ms(self._engine.load.acknowledged_ms) is not None
            if now_ms >= until_ms or (has_stayed and now_ms >= lasts_ms):
                break
            self._engine.advance(now_ms + SAMPLE_MS, self._on_record)
        for name in LIVENESS:
            is_reached = self._engine.now_ms - contradicted_ms[name] >= _stays_ms(name)
            after_ms = contradicted_ms[name] - self._last_fault_ms
            outcome.reached_ms[name] = (after_ms + SAMPLE_MS if after_ms else 0.0) if is_reached else None


def _is_fault(step: Step) -> bool:
    return step.action is not None and ACTIONS[step.action.name].is_fault


def _stays_ms(name: str) -> float:
    return {"L5": RATE_WINDOW_MS, "L7": _QUIET_MS}.get(name, _STAYS_MS)


def _never_due(step: Step) -> str:
    if step.when is not None:
        return f"its event did not happen: {step.when}" + (f", {step.nth} times" if step.nth.low > 1 else "")
    if step.after:
        return f"the step with the mark {step.after} was not done"
    return "the step before it was not done"
