"""What the machine gives a process, in virtual time: clocks, random bytes, ids, signals; and what it does not give.

`install` replaces Python's functions once in an operating system process, for good. A replacement looks which process
of the simulation runs: for the kernel, a broker or a test runner it is the original.
"""

from __future__ import annotations

import _posixsubprocess
import _socket
import asyncio
import datetime
import errno
import importlib.util
import math
import os
import random
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from understudy.clusters.simulated.clocks import EPOCH_MS
from understudy.clusters.virtual import blocking, clocks_in_c, green_threads, hashes, process_loops, sockets
from understudy.clusters.virtual.current import current_loop
from understudy.clusters.virtual.process_loop import (
    ProcessLoop,
    check_signal,
)
from understudy.clusters.virtual.refusals import refusal
from understudy.clusters.virtual.replacement import (
    replace,
    replace_class_methods,
    replace_everywhere,
    require_cpython,
)

BOOT_S: Final = 100_000.0
"""The monotonic clock at the start of a run."""
_FIRST_PID: Final = 1_000
_MAC: Final = 0x02_00_0A_00_00_01
_WALL_CLOCKS: Final = (time.CLOCK_REALTIME, getattr(time, "CLOCK_TAI", None), 5)
"""The clocks that show the date; 5 is Linux's CLOCK_REALTIME_COARSE."""

_IGNORED_BY_DEFAULT: Final = (signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH)

_entropy = random.Random(0)
_is_installed = False


def install() -> None:
    """Replace the functions. Harmless if it was called before.

    Raises:
        RuntimeError: the interpreter is not CPython with a GIL.
    """
    global _is_installed
    if not _is_installed:
        require_cpython()
        _is_installed = True
        hashes.install()
        _replace_clocks()
        _replace_randomness()
        _replace_identity()
        process_loops.install()
        _replace_sockets()
        _replace_what_is_refused()
        green_threads.install()
        clocks_in_c.install()
    process_loops.install_policy()


def seed(number: int) -> None:
    """Let all randomness of the processes follow from a seed."""
    hashes.restart()
    _entropy.seed(number)
    random.seed(_entropy.getrandbits(64))
    if (numpy_random := sys.modules.get("numpy.random")) is not None:
        numpy_random.seed(_entropy.getrandbits(32))
    tempfile._name_sequence = None  # type: ignore[attr-defined]  # its generator was seeded by an earlier run
    for name in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
        if hasattr(uuid, name):  # what an earlier run has left would show in uuid1()
            setattr(uuid, name, None)


def _in_process(simulated: Callable[..., Any]) -> Callable[..., Any]:
    """A replacement: `simulated(loop, …)` for a process, and the original for all other code."""

    def function(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        loop = current_loop()
        return original(*given, **named) if loop is None else simulated(loop, *given, **named)

    return function


def _by_process(original: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    """A function in place of one that is written in Python. See `_in_process`."""

    def function(*given: Any, **named: Any) -> Any:
        loop = current_loop()
        return original(*given, **named) if loop is None else simulated(loop, *given, **named)

    function.__name__ = original.__name__
    function.__doc__ = original.__doc__
    return function


# ---------------------------------------------------------------------- clocks


def _wall_s(loop: ProcessLoop) -> float:
    return EPOCH_MS / 1000 + loop.wall_offset_s + blocking.slept_s() + loop.time()


def _monotonic_s(loop: ProcessLoop) -> float:
    return BOOT_S + blocking.slept_s() + loop.time()


def _wall_ns(loop: ProcessLoop) -> int:
    return _nanoseconds(_wall_s(loop))


def _monotonic_ns(loop: ProcessLoop) -> int:
    return _nanoseconds(_monotonic_s(loop))


def _clock(name: str, read: Callable[[ProcessLoop], Any]) -> None:
    """Replace a clock without arguments."""

    def clock(original: Callable[..., Any], *wrong: Any, **wrong_named: Any) -> Any:
        loop = current_loop()
        if loop is None or wrong or wrong_named:
            return original(*wrong, **wrong_named)
        return read(loop)

    replace(time, name, clock)


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1_000_000) * 1_000


def _replace_clocks() -> None:
    for name in ("time", "monotonic", "perf_counter", "process_time", "thread_time"):
        _clock(name, _wall_s if name == "time" else _monotonic_s)
        _clock(f"{name}_ns", _wall_ns if name == "time" else _monotonic_ns)
    replace(time, "clock_gettime", _of_an_id(lambda seconds: seconds))
    replace(time, "clock_gettime_ns", _of_an_id(_nanoseconds))
    replace_class_methods(
        (datetime.datetime, "now", _now), (datetime.datetime, "utcnow", _utcnow), (datetime.date, "today", _today)
    )
    for name in ("localtime", "gmtime", "ctime"):
        replace(time, name, _of_a_time)
    replace(time, "asctime", _of_broken_down_time(0))
    replace(time, "strftime", _of_broken_down_time(1))
    replace(time, "sleep", _sleep)


def _of_an_id(convert: Callable[[float], Any]) -> Callable[..., Any]:
    def clock_gettime(original: Callable[..., Any], *given: Any) -> Any:
        loop = current_loop()
        if loop is None or len(given) != 1 or not isinstance(given[0], int):
            return original(*given)
        return convert(_wall_s(loop) if given[0] in _WALL_CLOCKS else _monotonic_s(loop))

    return clock_gettime


def _now(original: Callable[..., Any], cls: Any, tz: datetime.tzinfo | None = None, *wrong: Any) -> Any:
    loop = current_loop()
    if loop is None or wrong or not isinstance(tz, datetime.tzinfo | None):
        return original(tz, *wrong)
    return cls.fromtimestamp(_wall_s(loop), tz)


def _utcnow(original: Callable[..., Any], cls: Any, *wrong: Any) -> Any:
    loop = current_loop()
    if loop is None or wrong:
        return original(*wrong)
    return cls.fromtimestamp(_wall_s(loop), datetime.UTC).replace(tzinfo=None)


def _today(original: Callable[..., Any], cls: Any, *wrong: Any) -> Any:
    loop = current_loop()
    return original(*wrong) if loop is None or wrong else cls.fromtimestamp(_wall_s(loop))


def _of_a_time(original: Callable[..., Any], *given: Any) -> Any:
    loop = current_loop()
    return original(*given) if loop is None or given not in ((), (None,)) else original(_wall_s(loop))


def _of_broken_down_time(place: int) -> Callable[..., Any]:
    """A function whose argument at `place` is by default the local time now."""

    def function(original: Callable[..., str], *given: Any) -> str:
        if current_loop() is None or len(given) != place:
            return original(*given)
        return original(*given, time.localtime())

    return function


def _sleep(original: Callable[..., None], *given: Any) -> None:
    loop = current_loop()
    if loop is None or len(given) != 1 or not isinstance(given[0], int | float) or math.isnan(given[0]):
        original(*given)
    else:
        blocking.sleep(loop, given[0])


# ---------------------------------------------------------------------- randomness


def _replace_randomness() -> None:
    def random_bytes(original: Callable[..., bytes], *given: Any, **named: Any) -> bytes:
        size = given[0] if given else named.get("size")
        if current_loop() is None or not isinstance(size, int) or size < 0:
            return original(*given, **named)
        return _entropy.randbytes(size)

    replace(os, "urandom", random_bytes)
    if hasattr(os, "getrandom"):
        replace(os, "getrandom", random_bytes)
    set_seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        set_seed(self, _entropy.getrandbits(128) if a is None and current_loop() is not None else a, version)

    random.Random.seed = seeded  # type: ignore[method-assign]  # a replacement
    # uuid1 asks the C library for a time and the network card for its address.
    uuid._generate_time_safe = None  # type: ignore[attr-defined]  # the C function
    uuid._UuidCreate = None  # type: ignore[attr-defined]  # the C function
    replace_everywhere(uuid, "getnode", _by_process(uuid.getnode, lambda loop: _MAC + loop.process.number))


# ---------------------------------------------------------------------- names, ids and signals


def _replace_identity() -> None:
    replace(os, "getpid", _in_process(lambda loop: _FIRST_PID + loop.process.number))
    replace(os, "getppid", _in_process(lambda loop: 1))
    replace(os, "kill", _in_process(_kill))
    replace(os, "uname", _uname)
    replace(_socket, "gethostname", _in_process(lambda loop: loop.process.name))
    for name, function in (("signal", _set_signal), ("getsignal", _get_signal), ("raise_signal", _raise_signal)):
        replace_everywhere(signal, name, _by_process(getattr(signal, name), function))


def _uname(original: Callable[[], Any]) -> Any:
    loop = current_loop()
    real = original()
    return real if loop is None else type(real)((real[0], loop.process.name, *real[2:]))


def _set_signal(loop: ProcessLoop, signalnum: int, handler: Any) -> Any:
    """As `signal.signal`, for this process alone."""
    number = int(signalnum)
    if number in (signal.SIGKILL, signal.SIGSTOP):
        raise OSError(errno.EINVAL, "Invalid argument")
    check_signal(number)
    before = _get_signal(loop, number)
    if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
        raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
    loop.signal_settings[number] = handler
    if handler == signal.SIG_IGN:
        loop.signal_handlers[number] = lambda: None
    elif callable(handler) and handler is not signal.default_int_handler:
        loop.signal_handlers[number] = lambda: _handle(handler, number)
    else:
        loop.signal_handlers.pop(number, None)
    return before


def _get_signal(loop: ProcessLoop, signalnum: int) -> Any:
    number = int(signalnum)
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return loop.signal_settings.get(number, default)


def _handle(handler: Callable[[int, None], object], number: int) -> None:
    """Call a handler that `signal.signal` has set. A KeyboardInterrupt of it ends this process, and not the run."""
    try:
        handler(number, None)
    except KeyboardInterrupt:
        raise SystemExit(128 + number) from None


def _raise_signal(loop: ProcessLoop, signalnum: int) -> None:
    """As `signal.raise_signal`; a signal that ends the process by default raises SystemExit in its code."""
    number = int(signalnum)
    setting = loop.signal_settings.get(number)
    if callable(setting) and setting is not signal.default_int_handler:
        _handle(setting, number)
    elif not loop.deliver(number) and number not in _IGNORED_BY_DEFAULT:
        raise SystemExit(128 + number)


def _kill(loop: ProcessLoop, pid: int, signalnum: int) -> None:
    if pid != _FIRST_PID + loop.process.number:
        refusal(f"os.kill({pid}, {signalnum})", "a process may signal itself; others are killed with service.kill()")
    if signalnum:
        _raise_signal(loop, signalnum)


# ---------------------------------------------------------------------- sockets


def _replace_sockets() -> None:
    replace(_socket, "getaddrinfo", _in_process(_getaddrinfo))
    replace(_socket, "gethostbyname", _in_process(lambda loop, host: _getaddrinfo(loop, host, 0)[0][4][0]))
    replace(
        _socket, "gethostbyname_ex", _in_process(lambda loop, host: (host, [], [_getaddrinfo(loop, host, 0)[0][4][0]]))
    )
    replace(_socket, "gethostbyaddr", _in_process(_gethostbyaddr))
    replace(_socket, "getnameinfo", _in_process(lambda loop, address, _: (address[0], str(address[1]))))
    replace(_socket, "socketpair", _in_process(lambda loop, *_: sockets.new_pair(loop.of_process)))

    socket.socket.__new__ = _new_socket  # type: ignore[method-assign]  # a replacement
    for name in ("EpollSelector", "PollSelector", "SelectSelector", "KqueueSelector", "DevpollSelector"):
        if (owner := getattr(selectors, name, None)) is not None:
            owner.__new__ = _new_selector
    replace(select, "select", _in_process(sockets.simulated_select))
    replace(select, "poll", _in_process(lambda loop: sockets.SimulatedPoll(loop.of_process, unit_s=0.001)))
    if hasattr(select, "epoll"):
        simulated = _by_process(select.epoll, lambda loop, *_, **__: sockets.SimulatedPoll(loop.of_process, unit_s=1.0))
        replace_everywhere(select, "epoll", simulated)


def _new_socket(cls: Any, *given: Any, **named: Any) -> Any:
    loop = current_loop()
    if loop is None:
        return _socket.socket.__new__(cls)
    if cls is not socket.socket:
        refusal(f"{cls.__module__}.{cls.__qualname__}", "use a plain TCP socket here, and test TLS on processes")
    return sockets.new_socket(loop.of_process, *given, **named)


def _new_selector(cls: Any, *_: Any) -> Any:
    loop = current_loop()
    return object.__new__(cls) if loop is None else sockets.SimulatedSelector(loop.of_process)


def _getaddrinfo(
    loop: ProcessLoop,
    host: Any,
    port: Any,
    family: int = 0,
    type: int = 0,  # noqa: A002  as socket names it
    proto: int = 0,
    flags: int = 0,
) -> list[Any]:
    return loop.net("socket.getaddrinfo()").getaddrinfo(host, port, family, type, flags)


def _gethostbyaddr(loop: ProcessLoop, host: str) -> tuple[str, list[str], list[str]]:
    address = _getaddrinfo(loop, host, 0)[0][4][0]
    return loop.net("socket.gethostbyaddr()").name_of(address), [], [address]


# ---------------------------------------------------------------------- refusals


def _replace_what_is_refused() -> None:
    services = "start a service with cluster.start"
    _refuse_method(subprocess.Popen, "__init__", "a child process", services)
    for name in ("call_soon", "call_soon_threadsafe", "call_at", "create_task", "create_future", "run_in_executor"):
        _refuse_method(
            asyncio.BaseEventLoop,
            name,
            f"{name}() of an event loop that is not simulated",
            "create the client in the test or in a service, and not in a fixture or when a module is imported",
        )
    replace(_posixsubprocess, "fork_exec", _in_process(_refuser("a child process", services)))
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system", "execv", "execve"):
        if hasattr(os, name):
            replace(os, name, _in_process(_refuser(f"os.{name}()", services)))
    sys.meta_path.insert(0, _Imports())
    for name, module in tuple(sys.modules.items()):
        if name in _PREPARED:
            _PREPARED[name](module)


def _refuser(what: str, hint: str) -> Callable[..., Any]:
    return lambda loop, *_, **__: refusal(what, hint)


def _refuse_method(owner: type, name: str, what: str, hint: str) -> None:
    original = getattr(owner, name)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        if current_loop() is not None:
            refusal(what, hint)
        return original(self, *given, **named)

    setattr(owner, name, method)


class _Imports:
    """Prepares modules that are imported later."""

    def __init__(self) -> None:
        self._finding: set[str] = set()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _PREPARED or name in self._finding:
            return None
        self._finding.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._finding.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)  # type: ignore[assignment]  # it has what the import system calls
        return spec


class _Loader:
    """Loads a module as its own loader does, then prepares it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: Any) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _PREPARED[module.__name__](module)


CONFLUENT_KAFKA: Final = (
    "it is a client in C with threads and sockets of its own; test it on processes, with the fixture "
    "understudy_cluster (docs/guides/testing-clients.md)"
)


def _refuse_confluent_kafka(module: ModuleType) -> None:
    """Let a process make no client of confluent_kafka, and define classes from its clients as before."""
    for name in ("Producer", "Consumer", "AdminClient"):
        original = getattr(module, name, None)
        if isinstance(original, type):
            replace_everywhere(module, name, _refusing(original))


def _refusing(original: Any) -> Any:
    if hasattr(original, "understudy_original"):
        return original

    class Refused(original):  # type: ignore[misc]  # any class of a client
        understudy_original = original

        def __new__(cls, *given: Any, **named: Any) -> Any:
            if current_loop() is not None:
                refusal(f"confluent_kafka.{original.__name__}", CONFLUENT_KAFKA)
            return super().__new__(cls, *given, **named)

    Refused.__name__ = original.__name__
    Refused.__qualname__ = original.__qualname__
    Refused.__module__ = original.__module__
    return Refused


def _replace_uvloop(module: Any) -> None:
    process_loops.give_loop(module.Loop)
    if not hasattr(module, "run"):  # before uvloop 0.18
        return

    def run(loop: ProcessLoop, main: Any, *, loop_factory: Any = module.new_event_loop, **named: Any) -> Any:
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("asyncio.run() cannot be called from a running event loop")
        with asyncio.Runner(loop_factory=loop_factory, **named) as runner:
            return runner.run(main)

    # The original refuses each loop that is not of its own class.
    replace_everywhere(module, "run", _by_process(module.run, run))


_PREPARED: Final[dict[str, Callable[[Any], None]]] = {
    "confluent_kafka.cimpl": _refuse_confluent_kafka,
    "confluent_kafka": _refuse_confluent_kafka,
    "confluent_kafka.admin": _refuse_confluent_kafka,
    "uvloop": _replace_uvloop,
}
"""How a module is prepared when it is imported, by its name."""
