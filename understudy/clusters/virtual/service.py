"""`Service`: a process of a user's program in the simulation, which can be killed, paused and started again."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from signal import Signals
from typing import TYPE_CHECKING, Any, Final

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.loop import Process
from understudy.clusters.virtual import blocking
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.strikes import Strikes

if TYPE_CHECKING:
    from understudy.clusters.virtual.world import VirtualWorld

RESTART_S: Final = 1.0
"""Time after which a supervisor starts a process again."""
STOP_TIMEOUT_S: Final = 30.0
"""Time after SIGTERM at which `stop` kills a process, as Kubernetes does."""
_STEP_S: Final = 0.01
_IGNORED_BY_DEFAULT: Final = (Signals.SIGCHLD, Signals.SIGURG, Signals.SIGWINCH)


class Service:
    """One program on a node of its own; its incarnations follow each other.

    All its processes run in one operating system process, so a restart cannot reset the state of modules: a global
    variable, a cache or a class attribute is what the killed process has left. State that a process must not inherit
    belongs into `main` or into objects that it creates.

    Args:
        main: a coroutine function, or a function that blocks or returns a coroutine.
        restarts: whether a supervisor starts it again `RESTART_S` seconds after it has ended with an exception or was
            killed. After a return of `main` and after `stop` it does not.

    Raises:
        TypeError: `main` is no function, or does not take the arguments.

    Attributes:
        name: the name of its node, which other nodes connect to.
        incarnation: the number of its last process, from 1.
        restarts: as given.
        loop: the event loop of its last process.
        exits: how its processes have ended by themselves: the exception, or None for a return of `main`.
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
        check_main(main, args, named)
        self.name = name
        self.incarnation = 0
        self.exits: list[BaseException | None] = []
        self.process: Process | None = None
        self.strikes = Strikes(main, self._strike)
        self._world = world
        self._main, self._args, self._named = main, args, named
        self.restarts = restarts
        self._task: asyncio.Future[Any] | None = None
        self._waiters: list[asyncio.Future[Any]] = []
        self._is_awaited = False
        self._is_ending = False
        self._end_of_main: tuple[BaseException | None, Any] | None = None
        """Exception and result of its last process, if it has ended by itself."""
        self._is_due = False
        """Whether it is started again soon, because a fault with a duration or a crash has ended it."""
        self._down_s: float | None = None
        """Time after which it is started again when it has ended after `begin_stop`; None for not at all."""
        self._turn = 0
        """Counts starts and ends: a start that was scheduled before the last one of them is no longer wanted."""
        self._ahead_s = 0.0

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
        """Wait until `main` returns, and return its result.

        Raises:
            ClusterError: its process was killed, and is not started again.
            Exception: what `main` has raised, unless it is started again.
        """
        self._is_awaited = True
        if self._end_of_main is not None and not self._is_due:
            error, result = self._end_of_main
            if error is not None:
                raise error
            return result
        if not self.is_running and not self._is_due:
            raise ClusterError(f"{self.name} has no result: it was killed, and is not started again")
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        return await waiter

    # ------------------------------------------------------------------ starting

    def start(self) -> None:
        """Start its next process. Raises ClusterError if one runs."""
        if self.is_running:
            raise ClusterError(f"{self.name} cannot be started: it is running")
        self._world.record("start", self.name)
        self.launch()

    def launch(self) -> None:
        """Start its next process without a record of it."""
        self._turn += 1
        self._is_due = self._is_awaited = self._is_ending = False
        self._end_of_main = self._down_s = None
        self.incarnation += 1
        self.loop = loop = self._world.new_process(self.name, self.incarnation)
        self.process = process = loop.process
        loop.wall_offset_s = self._ahead_s
        loop.at_point = self.strikes.at_point
        loop.exited = self._exited
        self.strikes.watch(loop)
        if inspect.iscoroutinefunction(self._main):
            self._task = loop.create_task(self._main(*self._args, **self._named), name=self.name)
        else:
            self._task = loop.create_future()
            blocking.start_main(loop, functools.partial(self._main, *self._args, **self._named), self._task)
        self._task.add_done_callback(self._returned, context=process.context.copy())

    def start_if_due(self) -> None:
        """Start it now if it is started again soon. Harmless otherwise."""
        if self._is_due:
            self.start()

    def _start_after(self, seconds: float) -> None:
        """Start it after a time, unless it is started or ended by hand before."""
        self._is_due = True
        self._turn += 1
        turn = self._turn

        def start() -> None:
            if self._turn == turn:
                self.start()

        self._world.after(seconds, start)

    # ------------------------------------------------------------------ faults of the process

    def kill(self, for_s: float | None = None, *, after_awaits: int | None = None) -> None:
        """End its process as SIGKILL does: no `finally:` runs, and its connections are closed.

        One that a fault has ended for a time, or that its supervisor would start again, then stays down.

        Args:
            for_s: the time after which it is started again; None leaves it to `start`, or to its supervisor.
            after_awaits: the number of further awaits of its own code before that (see `Strikes`); None for at once.

        Raises:
            ClusterError: it is not running, and is not started again soon.
        """
        if after_awaits is not None:
            self.strikes.after_awaits(after_awaits, "kill", for_s)
            return
        if not self.is_running and self._is_due and for_s is None:
            self._is_due = False
            self._turn += 1
            return
        self._act("kill")
        self._end()
        if for_s is not None:
            self._start_after(for_s)
        elif self.restarts:
            self._start_after(RESTART_S)
        else:
            self._give_up(ClusterError(f"{self.name} was killed"))

    def pause(self, for_s: float | None = None, *, after_awaits: int | None = None) -> None:
        """Pause its process as SIGSTOP does, until `resume`, or for `for_s` seconds.

        Args:
            after_awaits: as in `kill`.

        Raises:
            ClusterError: it is not running.
        """
        if after_awaits is not None:
            self.strikes.after_awaits(after_awaits, "pause", for_s)
            return
        process = self._act("pause")
        process.pause()
        if for_s is not None:
            self._world.after(for_s, functools.partial(self._resume, process))

    def resume(self) -> None:
        """End the pause. Harmless if it is not paused."""
        if self.process is not None:
            self._resume(self.process)

    def _resume(self, process: Process) -> None:
        if process.paused:
            self._world.record("resume", self.name)
            process.resume()

    def restart(self, after_s: float = 0.0) -> None:
        """Kill its process if it runs, and start the next one `after_s` seconds later."""
        if self.is_running:
            self.kill(after_s)
        else:
            self._start_after(after_s)

    def arm(self, point: str, action: str = "kill", *, nth: int = 1, for_s: float | None = None) -> None:
        """Kill or pause it when it next reaches a named point: `await point("before commit")` in its code.

        Args:
            action: `kill` or `pause`.
            nth: at which time from now that it reaches the point.
            for_s: as in `kill` and `pause`.

        Raises:
            ValueError: there is no such action, or `nth` is below 1.
        """
        self.strikes.arm(point, action, nth, for_s)

    def _strike(self, action: str, for_s: float | None) -> None:
        if not self.is_running:
            return
        if action == "kill":
            self.kill(for_s)
        else:
            self.pause(for_s)

    def signal(self, number: int) -> None:
        """Send a signal to its process.

        Its handler is called if it has one (`signal.signal`, `loop.add_signal_handler`). Otherwise SIGINT cancels the
        main task, as `asyncio.run` does, and SIGTERM and others end the process at once: no `finally:` runs.

        Raises:
            ClusterError: it is not running.
        """
        number = Signals(number)
        if number == Signals.SIGKILL:
            self.kill()
        elif number == Signals.SIGSTOP:
            self.pause()
        elif number == Signals.SIGCONT:
            self.resume()
        else:
            process = self._act(number.name)
            if self.loop.deliver(number) or number in _IGNORED_BY_DEFAULT:
                return
            if number == Signals.SIGINT and isinstance(self._task, asyncio.Task):
                self._is_awaited = True
                self.loop.call_soon(self._task.cancel)
            else:
                self.loop.call_soon(self._die, process, number)

    def begin_stop(self, for_s: float) -> None:
        """Send SIGTERM, and start it again `for_s` seconds after it has ended; kill it if it takes longer to end.

        Raises:
            ClusterError: it is not running.
        """
        process = self.process
        self.resume()
        self.signal(Signals.SIGTERM)
        self._is_awaited, self._down_s = True, for_s

        def kill() -> None:
            if process is self.process and self.is_running:
                self.kill(for_s)

        self._world.after(for_s, kill)

    async def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send SIGTERM, and wait until the process has ended; after `timeout_s` seconds kill it.

        A paused process is resumed before, because it could not handle the signal. One that a fault has ended is not
        started again.

        Raises:
            ClusterError: it is not running, and is not started again soon.
        """
        if not self.is_running:
            self.kill()
            return
        process = self.process
        self.resume()
        self._is_awaited = True
        self.signal(Signals.SIGTERM)
        for _ in range(round(timeout_s / _STEP_S)):
            if process is None or not process.alive:
                break
            await asyncio.sleep(_STEP_S)
        if process is not None and process.alive:
            self._world.record("kill", self.name)
            self._end()
        self._is_due = False
        self._turn += 1
        self._give_up(ClusterError(f"{self.name} was stopped"))

    # ------------------------------------------------------------------ faults of links and clock

    def isolate(self, *others: Any, for_s: float | None = None) -> None:
        """Hold everything between it and other nodes, until `heal`, or for `for_s` seconds.

        Args:
            others: brokers, services or their names; none for all nodes.

        Raises:
            ValueError: there is no node of this name.
        """
        names = self._world.names_of(others)
        self._world.isolate(self.name, names)
        if for_s is not None:
            self._world.after(for_s, lambda: self._world.heal_links(self.name, names))

    def delay(self, by_s: float, for_s: float | None = None) -> None:
        """Make its links slower by `by_s` seconds each way, until `heal`, or for `for_s` seconds; 0 ends it."""
        self._world.delay(self.name, by_s)
        if for_s is not None:
            self._world.after(for_s, lambda: self._world.delay(self.name, 0.0))

    def heal(self) -> None:
        """End the isolation and the delay; what was held arrives late, and in order."""
        self._world.heal_links(self.name)

    def set_clock(self, ahead_s: float) -> None:
        """Let the wall clock of its node be ahead by `ahead_s` seconds; negative for behind, 0 for right."""
        self._world.record("step-clock", self.name)
        self._ahead_s = ahead_s
        if self.is_running:
            self.loop.wall_offset_s = ahead_s

    def correct_clock(self) -> None:
        """Set its wall clock to the right time. Harmless if it is right."""
        if self._ahead_s:
            self.set_clock(0.0)

    # ------------------------------------------------------------------ the end of a process

    def _act(self, fault: str) -> Process:
        if self.process is None or not self.process.alive:
            soon = "; a fault has ended it, and it is started again soon" if self._is_due else ""
            raise ClusterError(f"{fault} was not injected: {self.name} is not running{soon}")
        self._world.record(fault, self.name)
        return self.process

    def _end(self) -> None:
        self._turn += 1
        assert self.process is not None
        self.process.kill()

    def _die(self, process: Process, number: Signals) -> None:
        """End a process by the default action of a signal."""
        process.kill()
        self._turn += 1
        if self._down_s is not None or (self.restarts and not self._is_awaited):
            self._start_after(RESTART_S if self._down_s is None else self._down_s)
        else:
            self._give_up(ClusterError(f"{self.name} was ended by {number.name}"))

    def _returned(self, main: asyncio.Future[Any]) -> None:
        """End the process after its main function, as `asyncio.run` does."""
        error = None if main.cancelled() else main.exception()
        result = None if main.cancelled() or error is not None else main.result()
        if inspect.iscoroutine(result):  # a lambda, or a function around a coroutine function
            self._task = self.loop.create_task(result, name=self.name)
            self._task.add_done_callback(self._returned)
        elif not self._is_ending:
            self._is_ending = True
            why = "" if error is None else f", which has raised {error!r}"
            self.loop.create_task(self._shut_down(main), name=f"the end of {self.name}{why}")

    def _exited(self, error: BaseException) -> None:
        """End the process because one of its tasks has called `sys.exit`."""
        if not self._is_ending:
            self._is_ending = True
            main = self.loop.create_future()
            # A future cannot hold every exception, and nothing else awaits this one.
            main.cancel()
            self.loop.create_task(self._shut_down(main, error), name=f"the end of {self.name}")

    async def _shut_down(self, main: asyncio.Future[Any], error: BaseException | None = None) -> None:
        """Cancel the tasks that are left, and wait for them; then end the process."""
        loop = self.loop
        left = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task(loop)]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for task in left:
            if task is not self._task and not task.cancelled() and task.exception() is not None:
                what = {"message": "a task has failed while it was cancelled", "exception": task.exception()}
                loop.call_exception_handler({**what, "task": task})
        await loop.shutdown_asyncgens()
        if error is None and main.cancelled():
            error = asyncio.CancelledError()
        elif error is None:
            error = main.exception()
        if isinstance(error, SystemExit) and error.code in (0, None):
            error = None
        self._note_exit(error, None if error is not None or main.cancelled() else main.result())

    def _note_exit(self, error: BaseException | None, result: Any) -> None:
        self.exits.append(error)
        self._end_of_main = (error, result)
        self._end()
        if error is not None:
            is_expected = self._is_awaited or self.restarts
            self._world.record_exit(self.name, error, is_expected=is_expected)
        if self._down_s is not None or (self.restarts and error is not None):
            self._start_after(RESTART_S if self._down_s is None else self._down_s)
            return
        for waiter in self._taken_waiters():
            waiter.set_exception(error) if error is not None else waiter.set_result(result)

    def _give_up(self, error: ClusterError) -> None:
        """End each wait for the result of `main`, because there is none."""
        for waiter in self._taken_waiters():
            waiter.set_exception(error)

    def _taken_waiters(self) -> list[asyncio.Future[Any]]:
        waiters, self._waiters = self._waiters, []
        return [waiter for waiter in waiters if not waiter.done()]


def check_main(main: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Check what a service is started with.

    Raises:
        TypeError: `main` is no function that a process can run, or does not take the arguments.
    """
    hint = "pass the function and its arguments, as in cluster.start(main, cluster.bootstrap)"
    if inspect.iscoroutine(main):
        name = main.__qualname__
        main.close()
        raise TypeError(f"cluster.start needs a function, and got a call of {name}, which cannot be repeated: {hint}")
    if inspect.isgenerator(main) or inspect.isasyncgen(main) or asyncio.isfuture(main):
        raise TypeError(f"cluster.start needs a function, and got {main!r}, which cannot be started again: {hint}")
    if inspect.isclass(main):
        raise TypeError(
            f"cluster.start needs a function, and got the class {main.__qualname__}: pass a coroutine function that "
            "makes the object and runs it"
        )
    if not callable(main):
        raise TypeError(f"cluster.start needs a function, and got {main!r}: {hint}")
    function = main.func if isinstance(main, functools.partial) else main
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"cluster.start needs a function that runs to its end, and {name_of(main)} is a generator: it has `yield` "
            "in it; loop over it in a coroutine function, and pass that"
        )
    try:
        inspect.signature(main).bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{name_of(main)} cannot be started with these arguments: {error}") from None
    except ValueError:
        return  # a function in C has no signature


def name_of(main: Any) -> str:
    """Return the name of a function; of a partial, the name of its function."""
    while isinstance(main, functools.partial):
        main = main.func
    return str(getattr(main, "__name__", type(main).__name__))
