"""`ProcessLoop`: the asyncio event loop that one process of a user's code sees.

It has the whole interface of `asyncio.AbstractEventLoop`. Its callbacks run on the kernel
(`understudy.clusters.simulated.loop`), which they share with the brokers, so that the process can be killed and paused,
and nothing else runs while one of them runs. Connections go through the simulated network. A call that cannot be
simulated raises `NotSimulated`.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import signal
import sys
import traceback
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, TypeVarTuple

from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.virtual.blocking import run_blocking
from understudy.clusters.virtual.current import Current, claim_thread, current_loop
from understudy.clusters.virtual.network_calls import READING_S, NetworkCalls, Watch
from understudy.clusters.virtual.refusals import refusal

if TYPE_CHECKING:
    from understudy.clusters.virtual.process_network import ProcessNetwork
    from understudy.clusters.virtual.sockets import SimulatedSocket

_set_running_loop = asyncio._set_running_loop
_Future = asyncio.Future
_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

EXECUTOR_S = 0.001
"""Virtual time that a function in an executor takes, beside what it sleeps."""


class ProcessLoop(Current, NetworkCalls, asyncio.AbstractEventLoop):
    """The event loop of one process.

    Args:
        kernel: the loop that runs the callbacks.
        process: the process to which they belong.
        network: opens connections and listening sockets; None for a process without a network.
        numbers: the numbers of the sockets and connections of all processes.
        failed: called with each error that asyncio reports and no handler of the process takes, in words.
    """

    def __init__(
        self,
        kernel: SimulatedLoop,
        process: Process,
        network: ProcessNetwork | None,
        *,
        numbers: Iterator[int],
        failed: Callable[[ProcessLoop, dict[str, Any]], None],
    ) -> None:
        claim_thread()
        self.kernel = kernel
        self.process = process
        self.network = network
        self.numbers = numbers
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        """What the process calls when it receives a signal, by its number."""
        self.started_ms = kernel.now * 1000
        """Virtual time at which the process was started."""
        self.signal_settings: dict[int, Any] = {}
        """What `signal.signal` has set, by the number of the signal."""
        self.wall_offset_s = 0.0
        """Time by which the wall clock of the process is ahead."""
        self.slow_callback_duration = 0.1
        self.executed = 0
        """Number of callbacks that it has run."""
        self.after_callback: Callable[[Callable[..., object]], None] | None = None
        """Called after each callback, with the callback."""
        self.at_point: Callable[[str], Awaitable[None]] | None = None
        """Awaited when the process reaches a named point (`understudy.testing.point`)."""
        self.exited: Callable[[BaseException], None] | None = None
        """Called if a callback has called `sys.exit`, with the exception."""
        self._failed = failed
        self._task_names = itertools.count(1)
        self._task_factory: Any = None
        self._exception_handler: Any = None
        self._debug = False
        self._closed = False
        self._asyncgens: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()
        self._watches: dict[tuple[SimulatedSocket, bool], Watch] = {}

    def __repr__(self) -> str:
        return f"<ProcessLoop of {self.process}>"

    @property
    def of_process(self) -> ProcessLoop:
        """The loop that runs as long as the process: this one, or the one below a loop that blocking code has made."""
        return self

    # ------------------------------------------------------------------ scheduling

    def time(self) -> float:
        """Virtual seconds since the run began. Each reading is later than the one before."""
        kernel = self.kernel
        kernel.now += READING_S
        return kernel.now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            return self._drop()
        handle = self.kernel.call_soon(
            self._run, callback, args, context=self._context() if context is None else context
        )
        handle.process = self.process  # type: ignore[attr-defined]  # a handle of the kernel
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            return self._drop()
        handle = self.kernel.call_at(
            when, self._run, callback, args, context=self._context() if context is None else context
        )
        handle.process = self.process  # type: ignore[attr-defined]  # a handle of the kernel
        return handle

    def _drop(self) -> asyncio.TimerHandle:
        """Drop a callback of a closed loop, which reads its connections no more, or of a killed process.

        Raises:
            RuntimeError: code of the process asks for the callback, and not the network.
        """
        if current_loop() is not None and self.process.alive:
            raise RuntimeError("Event loop is closed")
        handle = self.kernel.call_later(0, lambda: None)
        handle.cancel()
        return handle

    def _context(self) -> contextvars.Context:
        """The context of a callback: the caller's, or the process's if the caller is another one."""
        running = current_loop()
        if running is self or (running is not None and running.process is self.process):
            return contextvars.copy_context()
        return self.process.context.copy()

    def _run(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Run a callback of this process with this loop as the running one."""
        self.executed += 1
        if Current.hooked is not self:
            Current.hooked = self
            sys.set_asyncgen_hooks(self._generator_begins, self._generator_is_dropped)
        _set_running_loop(self)
        Current.running = self
        try:
            callback(*args)
        except Exception as error:  # noqa: BLE001  asyncio reports the exception of a callback
            self.call_exception_handler({"message": f"Exception in callback {callback!r}", "exception": error})
        except SystemExit as error:
            if self.exited is not None:
                self.exited(error)
        finally:
            if self.after_callback is not None:
                self.after_callback(callback)
            Current.running = None
            _set_running_loop(self.kernel)

    # ------------------------------------------------------------------ tasks

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        if self._closed:
            raise RuntimeError("Event loop is closed")
        task: asyncio.Task[Any]
        if self._task_factory is not None:
            if context is not None:
                options["context"] = context
            if name is not None and sys.version_info >= (3, 13):
                options["name"] = name
            task = self._task_factory(self, coro, **options)
            if name is not None and hasattr(task, "set_name"):
                task.set_name(str(name))
        else:
            if name is None:
                name = f"Task-{next(self._task_names)}"
            options["context"] = self._context() if context is None else context
            task = asyncio.Task(coro, loop=self, name=str(name), **options)
        self.kernel.keep(task)
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    # ------------------------------------------------------------------ running

    def run_until_complete(self, future: Any) -> Any:
        """Raise RuntimeError: this loop runs as long as its process. See `MainLoop`."""
        raise RuntimeError("This event loop is already running")

    def run_forever(self) -> None:
        """Raise RuntimeError: this loop runs as long as its process. See `MainLoop`."""
        raise RuntimeError("This event loop is already running")

    def stop(self) -> None:
        """Refuse to stop a loop that runs as long as its process."""
        refusal("loop.stop()", "the loop runs as long as the process: return from its main function instead")

    def is_running(self) -> bool:
        return self.process.alive

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Raise RuntimeError: this loop runs as long as its process. See `MainLoop`."""
        raise RuntimeError("Cannot close a running event loop")

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators that have begun and not ended. Their errors go to the exception handler."""
        closing = list(self._asyncgens)
        self._asyncgens.clear()
        results = await asyncio.gather(*(generator.aclose() for generator in closing), return_exceptions=True)
        for result, generator in zip(results, closing, strict=True):
            if isinstance(result, Exception):
                message = f"an error occurred during closing of asynchronous generator {generator!r}"
                self.call_exception_handler({"message": message, "exception": result, "asyncgen": generator})

    def _generator_begins(self, generator: AsyncGenerator[Any, Any]) -> None:
        if Current.running is self:
            self._asyncgens.add(generator)

    def _generator_is_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Close a generator that nothing refers to any more, as asyncio does."""
        self._asyncgens.discard(generator)
        if not self._closed and self.process.alive:
            self.call_soon(self._close_generator, generator)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self.create_task(generator.aclose())

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: functions in executors run in the loop."""

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled

    # ------------------------------------------------------------------ errors

    def set_exception_handler(self, handler: Any) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self._failed(self, context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Give an error that asyncio reports to the handler of the process, or to the verdict of the run.

        The errors of a process that was killed are dropped.
        """
        if not self.process.alive:
            return
        if self._exception_handler is None:
            self.default_exception_handler(context)
        else:
            self._exception_handler(self, context)

    # ------------------------------------------------------------------ executors and signals

    def run_in_executor(self, executor: object, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:
        """Run a function in the loop, `EXECUTOR_S` from now. What it sleeps passes before its result is there."""
        done: asyncio.Future[_T] = self.create_future()
        self.call_later(EXECUTOR_S, self._execute, func, args, done)
        return done

    def _execute(self, func: Callable[..., _T], args: tuple[Any, ...], done: asyncio.Future[_T]) -> None:
        run_blocking(self, func, args, done)

    def set_default_executor(self, executor: object) -> None:
        """Do nothing: functions in executors run in the loop."""

    def add_signal_handler(self, sig: int, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        number = check_signal(sig)
        self.signal_handlers[number] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signal_handlers.pop(check_signal(sig), None) is not None

    def deliver(self, sig: int) -> bool:
        """Deliver a signal to the process; return whether it has a handler for it."""
        handler = self.signal_handlers.get(sig)
        if handler is not None:
            self.call_soon(handler)
        return handler is not None


def _refused(name: str, hint: str) -> Callable[..., NoReturn]:
    def method(self: ProcessLoop, *_: Any, **__: Any) -> NoReturn:
        refusal(f"loop.{name}()", hint)

    method.__name__ = name
    return method


_HINTS: Final = {
    "create_datagram_endpoint": "only TCP connections are simulated",
    "create_unix_connection": "only TCP connections are simulated: give a host and a port",
    "create_unix_server": "only TCP connections are simulated: give a host and a port",
    "connect_read_pipe": "pipes are not simulated",
    "connect_write_pipe": "pipes are not simulated",
    "subprocess_shell": "no child process is simulated: start a service with cluster.start",
    "subprocess_exec": "no child process is simulated: start a service with cluster.start",
    "sock_recvfrom": "only TCP connections are simulated: use sock_recv",
    "sock_recvfrom_into": "only TCP connections are simulated: use sock_recv_into",
    "sock_sendto": "only TCP connections are simulated: use sock_sendall",
    "sock_sendfile": "read the file, and send what it has with sock_sendall",
}
for _name, _hint in _HINTS.items():
    setattr(ProcessLoop, _name, _refused(_name, _hint))
ProcessLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]  # the methods above are set, not written


def check_signal(sig: int) -> int:
    """Return the number of a signal that a program may handle.

    Raises:
        TypeError, ValueError, RuntimeError: as asyncio and the operating system do.
    """
    if not isinstance(sig, int):
        raise TypeError(f"sig must be an int, not {sig!r}")
    if sig not in signal.valid_signals():
        raise ValueError(f"invalid signal number {sig}")
    if sig in (signal.SIGKILL, signal.SIGSTOP):
        raise RuntimeError(f"sig {sig} cannot be caught")
    return int(sig)


def new_process_loop(
    kernel: SimulatedLoop,
    process: Process,
    network: ProcessNetwork | None,
    *,
    numbers: Iterator[int],
    failed: Callable[[ProcessLoop, dict[str, Any]], None],
) -> ProcessLoop:
    """Create the event loop of a process. See `ProcessLoop`."""
    return ProcessLoop(kernel, process, network, numbers=numbers, failed=failed)  # type: ignore[abstract]  # see above


def waiting_line(task: asyncio.Task[Any]) -> str:
    """The innermost line of a task's own code that waits, as `function at file:line: source`."""
    frames = task.get_stack(limit=None)
    coroutine: Any = task.get_coro()
    innermost = frames[-1] if frames else None
    while coroutine is not None and getattr(coroutine, "cr_frame", None) is not None:
        innermost = coroutine.cr_frame
        coroutine = coroutine.cr_await
    if innermost is None:
        return f"{coroutine!r}"
    summary = traceback.extract_stack(innermost, limit=1)[0]
    return f"{summary.name} at {summary.filename}:{summary.lineno}: {summary.line}"
