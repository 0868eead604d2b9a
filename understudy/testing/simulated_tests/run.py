"""Runs a test for one seed, in this operating system process, and returns its outcome."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.virtual.process_loop import ProcessLoop, waiting_line
from understudy.clusters.virtual.world import TEST, VirtualWorld
from understudy.testing.simulated_tests.arguments import SimulatedArguments
from understudy.testing.simulated_tests.cluster import SimulatedTestCluster
from understudy.testing.simulated_tests.faults import Fault, FaultInjector, draw_faults
from understudy.trials.seeds.judgement import judge

GRACE_S: Final = 300.0
"""Virtual time after the last fault in which a test must have ended."""


@dataclass(slots=True)
class Outcome:
    """What one run of a test has shown.

    Attributes:
        problems: why it has failed, the most important first; empty if it has passed.
        error: the exception of the test itself; None if it has raised none.
        faults: the faults that were injected.
        virtual_s: the time that has passed.
        digest: equal runs have the same.
    """

    seed: int
    problems: list[str] = field(default_factory=list)
    error: BaseException | None = None
    faults: tuple[Fault, ...] = ()
    virtual_s: float = 0.0
    digest: str = ""
    callbacks: int = 0


class TestRun:
    """One run of a test.

    Args:
        test: the coroutine function; it gets the cluster and `args`.
        faults: faults to inject instead of those that the seed draws.
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
    ) -> None:
        self.seed = seed
        self.arguments = arguments
        self._test, self._args, self._named = test, args, named
        drawn = draw_faults(
            derived(seed, "client faults"), arguments.kinds, seconds=arguments.seconds, brokers=arguments.brokers
        )
        self.faults = tuple(drawn if faults is None else faults)
        self.cluster = SimulatedCluster(
            seed,
            brokers=arguments.brokers,
            racks=arguments.racks or None,
            settings=dict(arguments.settings),
            reordering=derived(seed, "reordering of clients").random() < 0.5,
        )
        self.world = VirtualWorld(self.cluster)
        self.test_cluster = SimulatedTestCluster(self.world)
        self.loop: ProcessLoop = self.world.new_process(TEST)
        self.outcome = Outcome(seed)
        self.error: BaseException | None = None
        """The exception of the test itself."""

    def run(self) -> Outcome:
        """Run the test, then judge the run."""
        handler = self.world.collect_log_lines()
        logging.getLogger().addHandler(handler)
        try:
            self.cluster.start()
            self._run_test()
        except (ClusterError, Deadlock, BudgetExhausted) as error:
            self.outcome.problems.append(f"{type(error).__name__}: {error}")
        finally:
            logging.getLogger().removeHandler(handler)
            self.cluster.close()
        self._judge()
        return self.outcome

    def _run_test(self) -> None:
        outcome, kernel = self.outcome, self.cluster.loop
        began_ms = self.cluster.now_ms
        injector = FaultInjector(self.world, self.faults)
        self.test_cluster.faults = injector
        coroutine = self._test(self.test_cluster, *self._args, **self._named)
        task = self.loop.create_task(coroutine, name="test", context=self.loop.process.context.copy())
        task.add_done_callback(lambda _: kernel.interrupt(), context=self.loop.process.context.copy())
        limit_ms = began_ms + (self.arguments.seconds + GRACE_S) * 1000
        while not task.done() and self.cluster.now_ms < limit_ms:
            kernel.run_for(1.0)
        outcome.virtual_s = (self.cluster.now_ms - began_ms) / 1000
        outcome.faults = tuple(injector.injected)
        if not task.done():
            outcome.problems.append(self._not_ended(task))
        elif task.cancelled():
            outcome.problems.append("the test was cancelled")
        elif (error := task.exception()) is not None:
            outcome.error = error
            outcome.problems.append(f"{type(error).__name__}: {error}")
        outcome.problems += map(str, self.world.failures)

    def _not_ended(self, task: asyncio.Task[Any]) -> str:
        waiting = [f"  {each.get_name()}: {waiting_line(each)}" for each in asyncio.all_tasks(self.loop)]
        return (
            f"the test has not ended {GRACE_S:g} virtual seconds after the time of its faults; waiting are\n"
            + "\n".join(waiting)
        )

    def _judge(self) -> None:
        judgement = judge(self.cluster)
        self.outcome.problems += judgement.problems
        self.outcome.callbacks = self.cluster.loop.executed
        digest = hashlib.blake2b(judgement.log_digest.encode(), digest_size=16)
        for line in self.world.lines:
            digest.update(repr(line).encode())
        self.outcome.digest = digest.hexdigest()
