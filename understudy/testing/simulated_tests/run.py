"""Runs a test for one seed, in this operating system process, and returns its outcome."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.virtual.current import current_loop
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.world import TEST, CrashPoint, VirtualWorld
from understudy.foundation.eventlog.fences import SWITCHES
from understudy.foundation.times import moment
from understudy.testing.simulated_tests.arguments import SimulatedArguments
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.faults.fault_injector import FaultInjector
from understudy.testing.simulated_tests.faults.faults import Fault, draw_faults
from understudy.testing.simulated_tests.history.cluster_history import Caller, ClusterHistory
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.outcome import FailureKind, Outcome, Problem
from understudy.testing.simulated_tests.report.client_logs import ClientLog, NoPage, client_logs, write_run
from understudy.testing.simulated_tests.report.evidence import link_of
from understudy.testing.simulated_tests.report.story import story_of
from understudy.testing.simulated_tests.report.trace import traced
from understudy.testing.simulated_tests.verdict import verdict
from understudy.testing.simulated_tests.verdict.leader_logs import leader_logs
from understudy.testing.simulated_tests.verdict.watch import RunWatch
from understudy.trials.seeds.judgement import judge

GRACE_S: Final = 300.0
"""Virtual time after the last fault in which a test must have ended."""

_POWER: Final = ("lose-power", "lose_power", "power_loss")
"""Names of the fault whose effects only the records of logs show."""


class TestRun:
    """One run of a test.

    Args:
        test: the coroutine function; it gets the cluster and `args`.
        faults: faults to inject instead of those that the seed draws.
        crash_point: the place at which a service is killed; with number 0 its places are only counted.
        with_story: whether the outcome has the story and the log lines.
        with_trace: whether it has the trace.
        page: the folder for the event logs and the page of the run; None for none.

    Attributes:
        error: the exception that the test has raised; None if it has raised none.
    """

    __test__ = False

    def __init__(
        self,
        test: Callable[..., Any],
        args: tuple[Any, ...],
        named: dict[str, Any],
        arguments: SimulatedArguments,
        seed: int,
        *,
        faults: Sequence[Fault] | None = None,
        crash_point: CrashPoint | None = None,
        with_story: bool = False,
        with_trace: bool = False,
        page: Path | None = None,
    ) -> None:
        self.seed = seed
        self.arguments = arguments
        self.error: BaseException | None = None
        self._test, self._args, self._named = test, args, named
        self.faults = schedule(arguments, seed) if faults is None else tuple(faults)
        loses_power = any(name in kind for name in _POWER for kind in arguments.kinds)
        settings = {"understudy.events.logs": "true"} if loses_power or page is not None else {}
        self.cluster = SimulatedCluster(
            seed,
            brokers=arguments.brokers,
            racks=list(itertools.islice(itertools.cycle(arguments.racks), arguments.brokers)) or None,
            settings=settings | dict(arguments.settings),
            fences_off=tuple(SWITCHES[name] for name in arguments.without),
            reordering=derived(seed, "reordering of clients").random() < 0.5,
        )
        self.wire = WireHistory()
        self.world = VirtualWorld(self.cluster, self.wire, crash_point=crash_point)
        self.test_cluster = SimulatedTestCluster(self.world)
        self.test_cluster.history = ClusterHistory(self.wire, lambda: leader_logs(self.cluster), self._caller)
        self.loop: ProcessLoop = self.world.new_process(TEST)
        self.outcome = Outcome(seed)
        self._with_story = with_story
        self._with_trace = with_trace
        self._page = page
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._story_records: int | None = None
        """Number of records in the story: those until the test has ended; None for all."""
        self._watch = RunWatch(self.world)

    def run(self) -> Outcome:
        """Run the test, then judge the run."""
        trace: list[str] = []
        handler = self.world.collect_log_lines()
        logging.getLogger().addHandler(handler)
        try:
            self.cluster.start()
            with traced(trace) if self._with_trace else nullcontext():
                injector = self._run_test()
            self._judge_clients(injector)
        except (ClusterError, Deadlock, BudgetExhausted) as error:
            self._add(Problem(FailureKind.ENVIRONMENT, self.cluster.now_ms, f"{type(error).__name__}: {error}"))
        finally:
            logging.getLogger().removeHandler(handler)
            lines = list(self.world.lines)
            logs = () if self._page is None else self._client_logs()
            self.cluster.close()
        self._judge_brokers()
        outcome = self.outcome
        outcome.problems = verdict.in_order(self._problems)
        digest = hashlib.blake2b(outcome.digest.encode(), digest_size=16)
        for line in lines:
            digest.update(repr(line).encode())
        outcome.digest, outcome.trace = digest.hexdigest(), tuple(trace)
        if self._with_story:
            records = self.cluster.records()[: self._story_records]
            story = story_of(records, lines, self.wire, outcome.problems)
            outcome.story, outcome.left_out = story.cut()
            outcome.log_lines = tuple(f"{moment(line.at_ms):>11}  {line.process}  {line.text}" for line in lines)
        if self._page is not None:
            self._write_page(self._page, logs)
        return outcome

    def _write_page(self, folder: Path, logs: Sequence[ClientLog]) -> None:
        """Write the event logs and the page, and find where the page shows each problem."""
        from understudy.history.reading.reader import read  # noqa: PLC0415  for a failure alone

        outcome = self.outcome
        try:
            outcome.page = str(write_run(self.world, logs, folder))
        except NoPage as error:
            outcome.notes = (*outcome.notes, f"note: {error}")
            return
        records = read([folder]).records
        outcome.problems = [replace(each, link=link_of(each, records)) for each in outcome.problems]

    def _client_logs(self) -> tuple[ClientLog, ...]:
        """Return the event logs of the user's processes, after the simulator has recorded how long they are."""
        logs = client_logs(self.world, self.wire, self._problems)
        for log in {log.node: log for log in logs}.values():
            self.cluster.record_log(log.node, log.incarnation, len(log.lines))
        return logs

    def _add(self, *problems: Problem) -> None:
        self._problems += problems

    def _caller(self) -> Caller:
        loop = current_loop()
        if loop is None:
            return Caller("", 0, self.cluster.now_ms)
        return Caller(loop.process.name, loop.process.incarnation, self.cluster.now_ms)

    # ------------------------------------------------------------------ the test

    def _run_test(self) -> FaultInjector:
        """Run the test to its end, and note how it has ended."""
        outcome = self.outcome
        outcome.began_ms = began_ms = self.cluster.now_ms
        injector = FaultInjector(self.world, self.faults)
        self.test_cluster.begin_test(injector)
        context = self.loop.process.context
        coroutine = self._test(self.test_cluster, *self._args, **self._named)
        task = self.loop.create_task(coroutine, name="test", context=context.copy())
        task.add_done_callback(lambda _: self.cluster.loop.interrupt(), context=context.copy())
        stuck = self._watch.run_until_done(task, began_ms + (self.arguments.seconds + GRACE_S) * 1000)
        ended_ms = self.cluster.now_ms
        outcome.virtual_s = (ended_ms - began_ms) / 1000
        if stuck is not None:
            self._add(stuck)
        else:
            self.error = _error_of(task)
        if self.error is not None:
            self._add(verdict.of_test(self.error, self.world, ended_ms))
        elif stuck is None:
            self._add(*verdict.left_over(self._watch, self.loop, task, ended_ms))
            missed = self.test_cluster.not_injected()
            self._add(
                *(
                    Problem(FailureKind.TEST, ended_ms, f"what the test has armed has not happened: {each}")
                    for each in missed
                )
            )
        return injector

    # ------------------------------------------------------------------ the verdict

    def _judge_clients(self, injector: FaultInjector) -> None:
        self._add(*verdict.unhandled(self.world))
        self._notes += verdict.restarted(self.world)
        self._story_records = len(self.cluster.log_lines)
        injector.stop()
        if not any(problem.kind is FailureKind.SPIN for problem in self._problems):
            unsettled = verdict.not_settled(self.cluster)
            self._add(*unsettled)
            if unsettled:
                self._story_records = None
            else:
                self._add(*verdict.lost_records(self.cluster, self.wire))
                if self._problems:
                    self._notes += verdict.lost_with_acks_1(self.cluster, self.wire)
        injected = injector.injected
        self.outcome.injected = tuple(place for place, fault in enumerate(self.faults) if fault in injected)
        self.outcome.faults = tuple(f"{moment(each.injected_ms):>11}  {each.words}" for each in injected)
        self.outcome.missed = tuple(injector.missed)
        self.outcome.notes = tuple(self._notes)
        if self.world.crash_point is not None:
            self._judge_crash_point(self.world.crash_point)

    def _judge_crash_point(self, at: CrashPoint) -> None:
        """Note the places of a service, or the one at which it was killed, and a place that was not reached."""
        service = self.world.services.get(at.service)
        if service is None:
            started = ", ".join(self.world.services) or "none"
            words = f"crash_points names the service {at.service!r}, and the test has started {started}"
            self._add(Problem(FailureKind.ENVIRONMENT, self.cluster.now_ms, words))
        elif not at.number:
            self.outcome.places = tuple((place.number, place.words) for place in service.strikes.places)
        elif service.strikes.at_place:
            words = f"the crash point was not reached: {at}"
            self._add(Problem(FailureKind.ENVIRONMENT, self.cluster.now_ms, words))
        self.outcome.crash_point = str(at) if at.number else ""

    def _judge_brokers(self) -> None:
        judgement = judge(self.cluster)
        self._add(*verdict.violations(judgement, self.cluster.now_ms))
        outcome = self.outcome
        outcome.callbacks, outcome.records = self.cluster.loop.executed, judgement.records
        outcome.digest = judgement.log_digest


def _error_of(task: asyncio.Task[object]) -> BaseException | None:
    """Return what a task has raised. A CancelledError has the lines that were cancelled."""
    if not task.cancelled():
        return task.exception()
    try:
        task.result()
    except asyncio.CancelledError as error:
        return error
    raise AssertionError(f"{task} is cancelled and has a result")


def schedule(arguments: SimulatedArguments, seed: int) -> tuple[Fault, ...]:
    """Return the faults that a seed draws for a test."""
    source = derived(seed, "client faults")
    return draw_faults(source, arguments.kinds, seconds=arguments.seconds, brokers=arguments.brokers)
