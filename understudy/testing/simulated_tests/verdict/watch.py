"""`RunWatch`: lets a test run until it is done, and finds why it never will be: a deadlock, a spin, or its limit."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from understudy.clusters.simulated.loop import BudgetExhausted
from understudy.clusters.virtual.world import VirtualWorld
from understudy.testing.simulated_tests.outcome import FailureKind, Problem
from understudy.testing.simulated_tests.verdict.code_lines import waiting_lines, waits_at
from understudy.testing.simulated_tests.verdict.waiting_tasks import listed

STEP_S: Final = 0.1
"""Virtual time between two looks at the run."""
MOST_CALLBACKS: Final = 200_000
"""Number of callbacks that may run in `STEP_S`: an ordinary run takes some hundreds."""
IDLE_S: Final = 5.0
"""Time for which no callback of the user's processes has run in a deadlock: more than a packet is on its way."""

_SAMPLES: Final = 400
"""Number of callbacks of a spin that are looked at."""
_MOST_SPINNING: Final = 3


class RunWatch:
    """Watches the run of one test.

    Args:
        world: its processes.
    """

    def __init__(self, world: VirtualWorld) -> None:
        self._world = world
        self._cluster = world.cluster
        self._kernel = world.cluster.loop
        self._executed = -1
        self._idle_since_ms = 0.0

    def run_until_done(self, task: asyncio.Future[Any], limit_ms: float) -> Problem | None:
        """Let time pass until a task is done; return why it is not, or None if it is.

        Args:
            limit_ms: the virtual time at which it must be done.
        """
        while not task.done():
            if self._cluster.now_ms >= limit_ms:
                return self._problem(FailureKind.LIMIT, "the test has not ended; waiting are", self._cluster.now_ms)
            if (spin := self.step()) is not None:
                return spin
            if self._is_deadlocked():
                return self._problem(FailureKind.DEADLOCK, "nothing can run; waiting are", self._idle_since_ms)
        return None

    def step(self, seconds: float = STEP_S) -> Problem | None:
        """Let time pass; return the problem if a process does not wait meanwhile."""
        self._kernel.allow(MOST_CALLBACKS)
        try:
            self._kernel.run_for(seconds)
        except BudgetExhausted:
            return self._spin()
        return None

    def _problem(self, kind: FailureKind, text: str, at_ms: float) -> Problem:
        return Problem(kind, at_ms, text, listed(self._world.loops))

    # ------------------------------------------------------------------ deadlock

    def _is_deadlocked(self) -> bool:
        """Whether no process of the user has anything left that could let it continue."""
        now_ms = self._cluster.now_ms
        executed = sum(loop.executed for loop in self._world.loops)
        if executed != self._executed:
            self._executed, self._idle_since_ms = executed, now_ms
            return False
        if now_ms < max(self._idle_since_ms + IDLE_S * 1000, self._world.last_action_ms + IDLE_S * 1000):
            return False
        processes = [loop.process for loop in self._world.loops if loop.process.alive]
        simulator = self._cluster.simulator.process
        if simulator is not None and self._kernel.has_unfinished_tasks(simulator):
            return False  # the test waits for a call of the admin client
        if any(self._cluster.network.has_connections(process) for process in processes):
            return False
        return self._kernel.processes_with_callbacks().isdisjoint(processes)

    # ------------------------------------------------------------------ spin

    def _spin(self) -> Problem:
        """Look at the next callbacks, and describe whose they are."""
        at_ms = self._cluster.now_ms
        seen: Counter[tuple[str, str]] = Counter(self._sampled())
        frequent = seen.most_common(_MOST_SPINNING)
        name = frequent[0][0][0] if frequent else "a process"
        text = (
            f"{name} does not wait: more than {MOST_CALLBACKS:,} callbacks have run within {STEP_S:g} virtual seconds; "
            "most of them continue"
        )
        return Problem(FailureKind.SPIN, at_ms, text, tuple(f"{process}: {line}" for (process, line), _ in frequent))

    def _sampled(self) -> Iterator[tuple[str, str]]:
        """Run some callbacks one after the other, and yield the process and the line of each."""
        for _ in range(_SAMPLES):
            handle = self._kernel.next_callback
            if handle is None:
                return
            process = handle.process
            task = _task_of((handle._callback, handle._args))
            line = waits_at(waiting_lines(task)) if task is not None else repr(handle._callback)
            yield "no process" if process is None else process.name, line
            self._kernel.allow(1)
            try:
                self._kernel.run_for(STEP_S)
            except BudgetExhausted:
                continue
            return


def _task_of(parts: Iterable[object]) -> asyncio.Task[Any] | None:
    """Return the task that a callback continues, or wakes up; None for a callback of no task."""
    for part in parts:
        if isinstance(part, tuple):
            found = _task_of(part)
        else:
            owner = getattr(part, "__self__", None)
            found = owner if isinstance(owner, asyncio.Task) else None
        if found is not None:
            return found
    return None
