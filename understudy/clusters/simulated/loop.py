"""An asyncio event loop whose time is virtual and whose processes can be killed, paused and resumed.

Callbacks that are ready run first-in first-out; when none is ready, time advances to the next timer. `asyncio.sleep`,
`timeout`, `wait_for`, `Queue`, `Event`, `gather` and `TaskGroup` work on it unchanged, because they use only
`call_soon`, `call_at` and `time` of a loop.

Every callback belongs to a `Process`, one incarnation of one node. The process is part of the callback's context, so a
task keeps its own process whatever resumes it: a response from another node cannot run a task of an incarnation
that was killed. Killing a process skips all its later callbacks, as SIGKILL does: no `finally:` runs, because
unfinished tasks are kept until the loop is closed. Pausing (SIGSTOP) collects them in order, timers included, and
resuming (SIGCONT) makes them ready.

The loop raises `Deadlock` when nothing is left to run, and `BudgetExhausted` after too many callbacks. Exceptions of
tasks that were never awaited are collected in `failures`.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import struct
import zlib
from collections import deque
from collections.abc import Callable, Coroutine
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar, TypeVarTuple

from understudy.foundation.times import moment

_Future = asyncio.Future
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_process: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)

_TRACED = struct.Struct("<dqq")
_MIN_CANCELLED_TIMERS = 500
_FIRST_SWEEP = 2_000


class Deadlock(Exception):
    """The awaited future can never be done: no callback is ready and no timer is set."""


class BudgetExhausted(Exception):
    """The run took more callbacks than it may: a task loops without waiting, or the run is longer than planned."""


class Process:
    """One incarnation of one node; it can be killed, paused and resumed. Created by `SimulatedLoop.process`."""

    def __init__(self, loop: SimulatedLoop, name: str, incarnation: int, number: int) -> None:
        self.name = name
        self.incarnation = incarnation
        self.number = number
        self.alive = True
        self.context = contextvars.Context()
        self.context.run(_process.set, self)
        self.paused = False
        self._loop = loop
        self._collected: list[_Handle] | None = None
        self._stalled_until = -1.0
        self._on_kill: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        state = "killed" if not self.alive else "paused" if self.paused else "running"
        return f"<{self.name}#{self.incarnation} {state}>"

    def spawn(self, coroutine: Coroutine[Any, Any, _T], *, name: str | None = None) -> asyncio.Task[_T]:
        """Start a task that belongs to this process."""
        return self._loop.create_task(coroutine, name=name, context=self.context.copy())

    def on_kill(self, callback: Callable[[], None]) -> None:
        """Call `callback` when the process is killed, for the work of the operating system such as closing sockets."""
        self._on_kill.append(callback)

    def kill(self) -> None:
        """End the process as SIGKILL does. Harmless if it has been killed."""
        if not self.alive:
            return
        self.alive = self.paused = False
        self._collected = None
        callbacks, self._on_kill = self._on_kill, []
        for callback in callbacks:
            callback()

    def pause(self) -> None:
        """Collect its callbacks from now on, as SIGSTOP does. Harmless if it is paused or has been killed."""
        if self.alive:
            self.paused = True
            self._collected = self._collected or []

    def resume(self) -> None:
        """Make the collected callbacks ready in their order, as SIGCONT does."""
        self.paused = False
        self._release()

    def stall(self, ms: float) -> None:
        """Collect its callbacks for `ms` milliseconds, after the one that runs now, as if it waited for its disk."""
        if self.alive:
            self._stalled_until = max(self._stalled_until, self._loop.time()) + ms / 1000
            self._collected = self._collected or []
            self._loop.call_at(self._stalled_until, self._release, context=contextvars.Context())

    def _release(self) -> None:
        if not self.paused and self._loop.time() >= self._stalled_until:
            collected, self._collected = self._collected, None
            if collected is not None:
                self._loop.make_ready(collected)


class _Handle(asyncio.TimerHandle):
    """A callback and its process. It is both the `Handle` and the `TimerHandle`, whose methods are the same."""

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: contextvars.Context,
    ) -> None:
        # Without super().__init__ the loop is a fifth faster: the base class keeps a traceback and computes a repr.
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = context
        self._cancelled = False
        self._scheduled = False
        self.process: Process | None = context.get(_process)

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = None
            if self._scheduled:
                self._loop.timer_cancelled()

    def __repr__(self) -> str:
        return f"<{self._callback} of {self.process} at {self._when:.6f}>"

    _callback: Callable[..., object] | None
    _args: Any
    _loop: SimulatedLoop
    _when: float
    _cancelled: bool
    _scheduled: bool
    _context: contextvars.Context


class _Task(asyncio.Task[_T]):
    """A task with its process, which decides whether an exception that was never retrieved is a failure."""

    process: Process | None = None


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one run.

    Args:
        reordering: decides at random when the callbacks of one process run after all others. The callbacks of one
            process always keep their order, because asyncio guarantees it. None: all keep their order.
        budget: the number of callbacks that the whole run may take.
        trace: compute a checksum over every callback's time, process and number, to compare two runs of a seed.
    """

    def __init__(
        self, *, reordering: random.Random | None = None, budget: int = 50_000_000, trace: bool = False
    ) -> None:
        self.executed = 0
        self.failures: list[str] = []
        self.trace_checksum = 0
        self._budget = budget
        self._trace = trace
        self._reordering = reordering
        self.now = 0.0
        """The value that `time` returns, without the cost of a call."""
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[float, int, _Handle]] = []
        self._sequence = 0
        self._cancelled_timers = 0
        self._processes = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._sweep_at = _FIRST_SWEEP
        self._closed = False
        self._running = False
        self._dropping = False
        self._until: asyncio.Future[None] | None = None
        """The end of the last `run_for`."""

    # ------------------------------------------------------------------ processes

    def process(self, name: str, incarnation: int = 1) -> Process:
        """Create an incarnation of node `name`."""
        self._processes += 1
        return Process(self, name, incarnation, self._processes)

    def make_ready(self, handles: list[_Handle]) -> None:
        self._ready.extend(handles)

    # ------------------------------------------------------------------ scheduling

    def time(self) -> float:
        """Seconds since the run began."""
        return self.now

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = _Handle(self.now, callback, args, self, contextvars.copy_context() if context is None else context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _Handle(when, callback, args, self, contextvars.copy_context() if context is None else context)
        if not self._dropping:
            handle._scheduled = True
            self._sequence += 1
            heappush(self._timers, (when, self._sequence, handle))
        return handle

    def timer_cancelled(self) -> None:
        self._cancelled_timers += 1
        if self._cancelled_timers > _MIN_CANCELLED_TIMERS and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2]._cancelled]
            heapify(self._timers)
            self._cancelled_timers = 0

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task: _Task[Any] = _Task(coro, loop=self, name=None if name is None else str(name), context=context)
        task.process = _process.get() if context is None else context.get(_process)
        self.keep(task)
        return task

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Keep a task until it is done: no `finally:` of a killed process runs because its tasks are collected."""
        self._tasks.append(task)
        if len(self._tasks) > self._sweep_at:
            self._sweep()

    def _sweep(self) -> None:
        """Drop finished tasks; one with an exception that was never retrieved reports it now, through its finaliser."""
        self._tasks = [task for task in self._tasks if not task.done()]
        self._sweep_at = max(_FIRST_SWEEP, 2 * len(self._tasks))

    # ------------------------------------------------------------------ running

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future` is done.

        Raises:
            Deadlock: nothing can run and no timer is set.
            BudgetExhausted: more callbacks than allowed.
        """
        awaited = asyncio.ensure_future(future, loop=self)
        self._run(awaited)
        return awaited.result()

    def run_for(self, seconds: float) -> None:
        """Run everything that is due within the next `seconds`, and advance the time by them; or until `interrupt`."""
        self._until = until = self.create_future()
        timer = self.call_later(seconds, self.interrupt)
        self._run(until)
        timer.cancel()

    def allow(self, callbacks: int) -> None:
        """Let the run take this number of callbacks from now on, before it raises BudgetExhausted."""
        self._budget = self.executed + callbacks

    @property
    def next_callback(self) -> _Handle | None:
        """The callback that is run next; None if none is ready."""
        return self._ready[0] if self._ready else None

    def processes_with_callbacks(self) -> set[Process]:
        """Return the processes that have a timer or a callback that is ready."""
        handles = (*self._ready, *(timer[2] for timer in self._timers))
        return {handle.process for handle in handles if handle.process is not None and handle._callback is not None}

    def has_unfinished_tasks(self, process: Process) -> bool:
        """Whether a task that the process has spawned is not done."""
        return any(getattr(task, "process", None) is process and not task.done() for task in self._tasks)

    def report_lost_exceptions(self) -> None:
        """Drop finished tasks: those with an exception that was never retrieved report it now."""
        self._sweep()

    def interrupt(self) -> None:
        """End the `run_for` in progress once the callback that runs now has returned. Harmless otherwise."""
        if self._until is not None and not self._until.done():
            self._until.set_result(None)

    def _run(self, awaited: asyncio.Future[Any]) -> None:
        if self._closed:
            raise RuntimeError("the simulated loop is closed")
        previous = asyncio._get_running_loop()
        if previous is not None:
            raise RuntimeError("another event loop is running in this thread")
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not awaited.done():
                if not self._ready and not self._advance():
                    raise Deadlock(
                        f"at {moment(self.now * 1000)} nothing can run and no timer is set; awaited: {awaited!r}"
                    )
                self._run_ready(awaited)
        finally:
            self._running = False
            asyncio._set_running_loop(None)

    def _advance(self) -> bool:
        """Move time to the next timer and make all due timers ready; return False if there is none."""
        timers, ready = self._timers, self._ready
        while timers and (not ready or timers[0][0] <= self.now):
            when, _, handle = heappop(timers)
            handle._scheduled = False
            if handle._cancelled:
                self._cancelled_timers -= 1
                continue
            if when > self.now:
                self.now = when
            ready.append(handle)
        return bool(ready)

    def _run_ready(self, awaited: asyncio.Future[Any]) -> None:
        """Run ready callbacks, also those that become ready meanwhile, until none is left or `awaited` is done."""
        ready = self._ready
        if self._reordering is not None and len(ready) > 1:
            self._reorder(self._reordering)
        while ready:
            handle = ready.popleft()
            callback = handle._callback
            if callback is None:
                continue
            process = handle.process
            if process is not None:
                if not process.alive:
                    continue
                if process._collected is not None:
                    process._collected.append(handle)
                    continue
            self.executed = executed = self.executed + 1
            if executed > self._budget:
                self.executed -= 1
                ready.appendleft(handle)
                raise BudgetExhausted(f"{self._budget} callbacks were run by {moment(self.now * 1000)}")
            if self._trace:
                fields = _TRACED.pack(self.now, 0 if process is None else process.number, self._sequence)
                self.trace_checksum = zlib.crc32(fields, self.trace_checksum)
            try:
                handle._context.run(callback, *handle._args)
            except Exception as error:  # noqa: BLE001  a callback's exception is reported; the run continues
                self.failures.append(f"{process}: {handle!r} raised {error!r}")
            if awaited.done():
                return

    def _reorder(self, source: random.Random) -> None:
        """Move the callbacks of the first process behind all others, with a probability of 0.1."""
        if source.random() < 0.1:
            first = self._ready[0].process
            of_first = [handle for handle in self._ready if handle.process is first]
            of_others = [handle for handle in self._ready if handle.process is not first]
            self._ready.clear()
            self._ready.extend(of_others)
            self._ready.extend(of_first)

    # ------------------------------------------------------------------ the end

    def close(self) -> None:
        """End the run: close unfinished tasks, and add the exceptions that were never retrieved to `failures`."""
        if self._closed:
            return
        self._sweep()
        self._closed = True
        self._dropping = True
        self._ready.clear()
        self._timers.clear()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio itself does
            _close_coroutine(task.get_coro())
        self._ready.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Collect the errors that asyncio reports, except for killed processes."""
        task = context.get("task") or context.get("future")
        process = getattr(task, "process", None)
        if self._dropping or (process is not None and not process.alive):
            return
        self.failures.append(f"{process}: {context.get('message')}: {context.get('exception')!r} in {task!r}")

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def get_debug(self) -> bool:
        return False


def current_process() -> Process | None:
    """The process whose callback is running; None if it belongs to no process."""
    return _process.get()


def resolve(future: asyncio.Future[_T], result: _T) -> None:
    """Give the task that waits for a future its result, unless it has been cancelled."""
    if not future.done():
        future.set_result(result)


def _close_coroutine(coroutine: Any) -> None:
    """Close `coroutine`. One that awaits while it is closed, as a task group does, must be closed more than once."""
    for _ in range(5):
        try:
            coroutine.close()
        except RuntimeError:
            continue
        except Exception:  # noqa: BLE001  the run is over: this exception has no effect
            return
        return


def new_loop(*, reordering: random.Random | None = None, trace: bool = False) -> SimulatedLoop:
    """Create a loop.

    Its class stays abstract: nothing in a simulation calls the methods of asyncio that it lacks, such as those about
    sockets, threads and child processes.
    """
    return SimulatedLoop(reordering=reordering, trace=trace)  # type: ignore[abstract]  # see the docstring
