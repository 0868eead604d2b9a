"""`ProcessLoop`: the asyncio event loop that one process of a user's code sees.

It has the whole interface of `asyncio.AbstractEventLoop`. Its callbacks run on the kernel
(`understudy.clusters.simulated.loop`), which they share with the brokers, so that the process can be killed and paused,
and nothing else runs while one of them runs. Connections go through the simulated network. A call that cannot be
simulated raises `NotSimulated`.

Tasks and futures hash by a number instead of their address: a program that loops over a set of tasks, as `asyncio.wait`
returns it, does so in the same order in each run of a seed.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import signal
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple

from understudy.clusters.simulated.loop import Process, SimulatedLoop
from understudy.clusters.virtual.refusals import refusal

if TYPE_CHECKING:
    from understudy.clusters.virtual.transports import ProcessNetwork

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

READING_S = 0.000_001
"""Virtual time that one reading of a clock takes. Each reading is later than the one before: a client that waits until
its deadline has passed would spin for ever if the deadline were now."""
EXECUTOR_S = 0.001
"""Virtual time that a function in an executor takes, beside what it sleeps."""


class NumberedFuture(asyncio.Future[_T]):
    """A future that hashes by the order in which futures and tasks of its loop were created."""

    def __init__(self, *, loop: ProcessLoop) -> None:
        super().__init__(loop=loop)
        self._number = next(loop.numbers)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[_T]):
    """A task that hashes by the order in which futures and tasks of its loop were created."""

    def __init__(self, coro: Any, *, loop: ProcessLoop, **options: Any) -> None:
        self._number = next(loop.numbers)
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number


class ProcessLoop(asyncio.AbstractEventLoop):
    """The event loop of one process.

    Args:
        kernel: the loop that runs the callbacks.
        process: the process to which they belong.
        network: opens connections and listening sockets; None for a process without a network.
        numbers: the numbers of the tasks and futures of all processes.
        failed: called with each error that asyncio reports and no handler of the process takes, in words.
    """

    running: ProcessLoop | None = None
    """The loop whose callback runs now; None while the kernel, a broker or no loop runs."""

    def __init__(
        self,
        kernel: SimulatedLoop,
        process: Process,
        network: ProcessNetwork | None,
        *,
        numbers: Iterator[int],
        failed: Callable[[ProcessLoop, dict[str, Any]], None],
    ) -> None:
        self.kernel = kernel
        self.process = process
        self.network = network
        self.numbers = numbers
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        """What the process calls when it receives a signal, by its number."""
        self.started_ms = kernel.now * 1000
        """Virtual time at which the process was started."""
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
        self._stopping: asyncio.Future[None] | None = None

    def __repr__(self) -> str:
        return f"<ProcessLoop of {self.process}>"

    # ------------------------------------------------------------------ scheduling

    def time(self) -> float:
        """Virtual seconds since the run began. Each reading is later than the one before."""
        kernel = self.kernel
        kernel.now += READING_S
        return kernel.now

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = self.kernel.call_soon(self._run, callback, args, context=context or self._context())
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
        handle = self.kernel.call_at(when, self._run, callback, args, context=context or self._context())
        handle.process = self.process  # type: ignore[attr-defined]  # a handle of the kernel
        return handle

    def _context(self) -> contextvars.Context:
        """The context of a callback: the caller's, or the process's if the caller is another one."""
        return contextvars.copy_context() if ProcessLoop.running is self else self.process.context.copy()

    def _run(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Run a callback of this process with this loop as the running one."""
        self.executed += 1
        asyncio._set_running_loop(self)
        ProcessLoop.running = self
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
            ProcessLoop.running = None
            asyncio._set_running_loop(self.kernel)

    # ------------------------------------------------------------------ tasks

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any]
        if self._task_factory is not None:
            task = self._task_factory(self, coro, **({} if context is None else {"context": context}), **options)
            if name is not None and hasattr(task, "set_name"):
                task.set_name(str(name))
        else:
            if name is None:
                name = f"Task-{next(self._task_names)}"
            options["context"] = context or self._context()
            task = NumberedTask(coro, loop=self, name=str(name), **options)
        self.kernel.keep(task)
        return task

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    # ------------------------------------------------------------------ running

    def run_until_complete(self, future: Any) -> Any:
        """Run until `future` is done; only a process whose main function blocks can wait so.

        Raises:
            RuntimeError: a coroutine of this loop runs now.
            NotSimulated: the process cannot block.
        """
        if ProcessLoop.running is self:
            raise RuntimeError("This event loop is already running")
        waited = asyncio.ensure_future(future, loop=self)
        self._block(waited, "loop.run_until_complete()")
        return waited.result()

    def run_forever(self) -> None:
        """Run until `stop` is called; only a process whose main function blocks can wait so."""
        self._stopping = self.create_future()
        self._block(self._stopping, "loop.run_forever()")
        self._stopping = None

    def stop(self) -> None:
        if self._stopping is not None and not self._stopping.done():
            self._stopping.set_result(None)

    def _block(self, future: asyncio.Future[Any], call: str) -> None:
        from understudy.clusters.virtual.blocking import wait_for  # noqa: PLC0415  it needs greenlets

        wait_for(self, future, call)

    def is_running(self) -> bool:
        return ProcessLoop.running is self or self._stopping is not None

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: asynchronous generators end with their tasks."""

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
        from understudy.clusters.virtual.blocking import run_blocking  # noqa: PLC0415  it may need greenlets

        run_blocking(self, func, args, done)

    def set_default_executor(self, executor: object) -> None:
        """Do nothing: functions in executors run in the loop."""

    def add_signal_handler(self, sig: int, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        signal.Signals(sig)  # raises ValueError for a number that is none
        self.signal_handlers[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        return self.signal_handlers.pop(sig, None) is not None

    def deliver(self, sig: int) -> bool:
        """Deliver a signal to the process; return whether it has a handler for it."""
        handler = self.signal_handlers.get(sig)
        if handler is not None:
            self.call_soon(handler)
        return handler is not None

    # ------------------------------------------------------------------ network

    async def getaddrinfo(
        self,
        host: Any,
        port: Any,
        *,
        family: int = 0,
        type: int = 0,  # noqa: A002  as asyncio names it
        proto: int = 0,
        flags: int = 0,
    ) -> list[Any]:
        """Return the one address of a node by its name. Raises socket.gaierror for a name that no node has."""
        return self.net("loop.getaddrinfo()").getaddrinfo(host, port)

    def getaddress(self, host: str) -> str:
        """Return the address of a node by its name. Raises as `getaddrinfo`."""
        return str(self.net("the address of a node").getaddrinfo(host, 0)[0][4][0])

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        return self.net("loop.getnameinfo()").name_of(sockaddr[0]), str(sockaddr[1])

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        **options: Any,
    ) -> tuple[Any, Any]:
        """Connect to a node of the simulation. Raises as asyncio's, with the errors that a refused connection has."""
        if ssl:
            refusal("a TLS connection", "use a PLAINTEXT listener here, and test TLS on processes")
        if sock is not None or host is None or port is None:
            refusal("loop.create_connection() without a host and a port", "give the name of a node, and its port")
        return await self.net("loop.create_connection()").create_connection(self, protocol_factory, host, int(port))

    async def create_server(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        ssl: Any = None,
        sock: Any = None,
        start_serving: bool = True,
        **options: Any,
    ) -> Any:
        """Listen on a port of the process's node. Raises OSError if it is in use."""
        if ssl:
            refusal("a TLS listener", "serve plain text here, and test TLS on processes")
        if sock is not None:
            refusal("loop.create_server() on a socket", "give a port, as in create_server(factory, port=8080)")
        server = self.net("loop.create_server()").create_server(self, protocol_factory, host, int(port or 0))
        if start_serving:
            await server.start_serving()
        return server

    async def start_tls(self, *_: Any, **__: Any) -> NoReturn:
        refusal("loop.start_tls()", "use a PLAINTEXT listener here, and test TLS on processes")

    def net(self, call: str) -> ProcessNetwork:
        """Return the network. Raises NotSimulated, for this call, if the process has none."""
        if self.network is None:
            refusal(call, "the process has no network")
        return self.network


def _refused(name: str, hint: str) -> Callable[..., NoReturn]:
    def method(self: ProcessLoop, *_: Any, **__: Any) -> NoReturn:
        refusal(f"loop.{name}()", hint)

    method.__name__ = name
    return method


_HINTS = {
    "create_datagram_endpoint": "only TCP connections are simulated",
    "create_unix_connection": "only TCP connections are simulated: give a host and a port",
    "create_unix_server": "only TCP connections are simulated: give a host and a port",
    "connect_accepted_socket": "only connections of the loop are simulated",
    "sendfile": "read the file, and write what it has to the transport",
    "connect_read_pipe": "pipes are not simulated",
    "connect_write_pipe": "pipes are not simulated",
    "subprocess_shell": "no child process is simulated: start a service with cluster.start",
    "subprocess_exec": "no child process is simulated: start a service with cluster.start",
} | dict.fromkeys(
    (
        "add_reader", "remove_reader", "add_writer", "remove_writer", "sock_recv", "sock_recv_into", "sock_recvfrom",
        "sock_recvfrom_into", "sock_sendall", "sock_sendto", "sock_connect", "sock_accept", "sock_sendfile",
    ),
    "real sockets are not simulated: use asyncio.open_connection, create_connection or create_server",
)  # fmt: skip
for _name, _hint in _HINTS.items():
    setattr(ProcessLoop, _name, _refused(_name, _hint))
ProcessLoop.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]  # the methods above are set, not written


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
