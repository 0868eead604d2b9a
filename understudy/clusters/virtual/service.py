"""`Service`: a process of a user's program in the simulation, which can be killed, paused and started again."""

from __future__ import annotations

import asyncio
import inspect
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.loop import Process
from understudy.clusters.virtual import blocking
from understudy.clusters.virtual.process_loop import ProcessLoop

if TYPE_CHECKING:
    from understudy.clusters.virtual.world import VirtualWorld

_RESTART_S = 1.0


class Service:
    """One program on a node of its own; its incarnations follow each other.

    All its processes run in one operating system process: what a program keeps in its modules outlives a kill.

    Args:
        main: a coroutine function, or a function that blocks.
        restarts: whether it is started again when `main` has raised an exception, as a supervisor does.

    Attributes:
        name: the name of its node, which other nodes connect to.
        loop: the event loop of its last process.
    """

    loop: ProcessLoop

    def __init__(
        self,
        world: VirtualWorld,
        name: str,
        main: Callable[..., Any],
        args: tuple[Any, ...],
        named: dict[str, Any],
        *,
        restarts: bool = False,
    ) -> None:
        if not callable(main):
            raise TypeError(
                f"cluster.start needs a function, and got {main!r}; a coroutine cannot be started twice: pass "
                "the function and its arguments, as in cluster.start(main, cluster.bootstrap)"
            )
        self.name = name
        self.incarnation = 0
        self.was_struck = False
        """Whether a drawn fault has killed it: then it is started again in the end."""
        self.exits: list[BaseException | None] = []
        """How its processes have ended by themselves: None for a return of `main`."""
        self._world = world
        self._main, self._args, self._named = main, args, named
        self._restarts = restarts
        self._task: asyncio.Future[Any] | None = None
        self._waiters: list[asyncio.Future[Any]] = []
        self._is_awaited = False
        self.process: Process | None = None

    def __repr__(self) -> str:
        return f"<Service {self.name} {'running' if self.is_running else 'not running'}>"

    # ------------------------------------------------------------------ state

    @property
    def is_running(self) -> bool:
        """Whether its process exists, paused or not."""
        return self.process is not None and self.process.alive

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.paused

    async def wait(self) -> Any:
        """Wait until `main` returns, and return its result. Raises its exception."""
        self._is_awaited = True
        if self._task is not None and self._task.done():
            return self._task.result()
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return await waiter

    # ------------------------------------------------------------------ starting and ending

    def start(self) -> None:
        """Start its next process. Raises ClusterError if one runs."""
        if self.is_running:
            raise ClusterError(f"{self.name} cannot be started: it is running")
        self.launch()
        self._world.record("start", self.name)

    def launch(self) -> None:
        """Start its next process without a record of it."""
        self.incarnation += 1
        self.loop = self._world.new_process(self.name, self.incarnation)
        self.process = self.loop.process
        if inspect.iscoroutinefunction(self._main):
            self._task = self.loop.create_task(self._main(*self._args, **self._named), name=self.name)
        else:
            self._task = self.loop.create_future()
            blocking.start_main(self.loop, self._call, self._task)
        self._task.add_done_callback(self._ended, context=self.process.context.copy())

    def _start_again(self) -> None:
        if not self.is_running:
            self.start()

    def _call(self) -> Any:
        return self._main(*self._args, **self._named)

    def kill(self) -> None:
        """End its process as SIGKILL does: no `finally:` runs, and its connections are closed.

        Raises:
            ClusterError: it is not running.
        """
        self._act("kill").kill()

    def pause(self, for_s: float | None = None) -> None:
        """Pause its process as SIGSTOP does, until `resume`, or for `for_s` seconds. Raises as `kill`."""
        process = self._act("pause")
        process.pause()
        if for_s is not None:
            self._world.after(for_s, self.resume)

    def resume(self) -> None:
        """End the pause. Harmless if it is not paused."""
        if self.process is not None and self.process.paused:
            self._world.record("resume", self.name)
            self.process.resume()

    def restart(self, after_s: float = 0.0) -> None:
        """Kill its process if it runs, and start the next one `after_s` seconds later."""
        if self.is_running:
            self.kill()
        self._world.after(after_s, self._start_again)

    async def stop(self) -> None:
        """Send SIGTERM and wait until the process has ended.

        Without a handler of SIGTERM the main task is cancelled, as `asyncio.run` does for Ctrl-C.
        """
        self._act("stop")
        self._is_awaited = True
        if not self.loop.deliver(signal.SIGTERM) and isinstance(self._task, asyncio.Task):
            self.loop.call_soon(self._task.cancel)
        while self.is_running:
            await asyncio.sleep(0.01)

    # ------------------------------------------------------------------ links

    def isolate(self, *others: str, for_s: float | None = None) -> None:
        """Hold everything between it and other nodes, by default all of them, until `heal`, or for `for_s` seconds."""
        self._world.isolate(self.name, others)
        if for_s is not None:
            self._world.after(for_s, self.heal)

    def delay(self, by_s: float) -> None:
        """Make its links slower by `by_s` seconds each way; 0 ends it."""
        self._world.delay(self.name, by_s)

    def heal(self) -> None:
        """End the isolation and the delay; what was held arrives late, and in order."""
        self._world.heal_links(self.name)

    def set_clock(self, ahead_s: float) -> None:
        """Let the wall clock of its process be ahead by `ahead_s` seconds; negative for behind."""
        self._world.record("step-clock", self.name)
        self.loop.wall_offset_s = ahead_s

    # ------------------------------------------------------------------ the end

    def _act(self, fault: str) -> Process:
        if self.process is None or not self.process.alive:
            raise ClusterError(f"{fault} was not injected: {self.name} is not running")
        self._world.record(fault, self.name)
        return self.process

    def _ended(self, task: asyncio.Future[Any]) -> None:
        """Note that `main` has returned or raised, and end the process."""
        process = self.process
        error: BaseException | None = None
        if task.cancelled():
            error = asyncio.CancelledError()
        elif (error := task.exception()) is not None and isinstance(error, SystemExit) and error.code in (0, None):
            error = None
        self.exits.append(error)
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error) if error is not None else waiter.set_result(task.result())
        is_expected = error is None or self._is_awaited or self._restarts
        self._waiters.clear()
        if process is not None:
            process.kill()
        if error is not None:
            self._world.record_exit(self.name, error, is_expected=is_expected)
            if self._restarts:
                self._world.after(_RESTART_S, self._start_again)
