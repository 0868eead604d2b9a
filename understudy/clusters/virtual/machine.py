"""What the machine gives a process, in virtual time: clocks, random bytes, ids, signals; and what it does not give.

`install` replaces Python's functions once in an operating system process, for good. A replacement looks which process
of the simulation runs: for the kernel, a broker or a test runner it is the original.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from understudy.clusters.simulated.clocks import EPOCH_MS
from understudy.clusters.virtual import blocking, clocks_in_c
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.refusals import refusal
from understudy.clusters.virtual.replacement import replace, replace_everywhere

BOOT_S: Final = 100_000.0
"""The monotonic clock at the start of a run."""
_NANOSECONDS: Final = 1_000_000_000
_FIRST_PID: Final = 1_000
_MAC: Final = 0x02_00_0A_00_00_01

_entropy = random.Random(0)
_is_installed = False


def install() -> None:
    """Replace the functions. Harmless if it was called before."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    _replace_clocks()
    _replace_randomness()
    _replace_what_is_refused()
    clocks_in_c.install()


def seed(number: int) -> None:
    """Let all randomness of the processes follow from a seed."""
    _entropy.seed(number)
    random.seed(_entropy.getrandbits(64))


def _current() -> ProcessLoop | None:
    return ProcessLoop.running or blocking.current_loop()


# ---------------------------------------------------------------------- clocks


def _wall_s(loop: ProcessLoop) -> float:
    return EPOCH_MS / 1000 + loop.wall_offset_s + loop.time()


def _clock(read: Callable[[ProcessLoop], Any]) -> Callable[..., Any]:
    def clock(original: Callable[[], Any], *_: Any) -> Any:
        loop = _current()
        return original() if loop is None else read(loop)

    return clock


def _nanoseconds(read: Callable[[ProcessLoop], float]) -> Callable[[ProcessLoop], int]:
    return lambda loop: round(read(loop) * 1_000_000) * 1_000


def _replace_clocks() -> None:
    def monotonic_s(loop: ProcessLoop) -> float:
        return BOOT_S + loop.time()

    for name, read in (("time", _wall_s), ("monotonic", monotonic_s), ("perf_counter", monotonic_s)):
        replace(time, name, _clock(read))
        replace(time, f"{name}_ns", _clock(_nanoseconds(read)))
    replace(datetime.datetime, "now", _now)
    replace(datetime.datetime, "utcnow", _utcnow)
    replace(datetime.date, "today", _today)
    for name in ("localtime", "gmtime", "ctime"):
        replace_everywhere(time, name, _of_a_time(getattr(time, name)))
    replace_everywhere(time, "strftime", _strftime(time.strftime))
    replace_everywhere(time, "sleep", _sleep(time.sleep))


def _now(original: Callable[[], Any], cls: Any, tz: datetime.tzinfo | None = None) -> Any:
    loop = _current()
    return original() if loop is None else cls.fromtimestamp(_wall_s(loop), tz)


def _utcnow(original: Callable[[], Any], cls: Any) -> Any:
    loop = _current()
    return original() if loop is None else cls.fromtimestamp(_wall_s(loop), datetime.UTC).replace(tzinfo=None)


def _today(original: Callable[[], Any], cls: Any) -> Any:
    loop = _current()
    return original() if loop is None else cls.fromtimestamp(_wall_s(loop))


def _of_a_time(original: Callable[..., Any]) -> Callable[..., Any]:
    def of_a_time(seconds: float | None = None) -> Any:
        loop = _current()
        return original(_wall_s(loop)) if seconds is None and loop is not None else original(seconds)

    return of_a_time


def _strftime(original: Callable[..., str]) -> Callable[..., str]:
    def strftime(format: str, *given: Any) -> str:  # noqa: A002  as Python names it
        return original(format, *(given or (time.localtime(),)))

    return strftime


def _sleep(original: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        loop = _current()
        if loop is None:
            original(seconds)
        else:
            blocking.sleep(loop, seconds)

    return sleep


# ---------------------------------------------------------------------- randomness


def _replace_randomness() -> None:
    def random_bytes(original: Callable[..., bytes], size: int, *_: Any, **__: Any) -> bytes:
        return original(size) if _current() is None else _entropy.randbytes(size)

    replace(os, "urandom", random_bytes)
    set_seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        set_seed(self, _entropy.getrandbits(128) if a is None and _current() is not None else a, version)

    random.Random.seed = seeded  # type: ignore[method-assign]  # a replacement
    # uuid1 asks the C library for a time and the network card for its address.
    uuid._generate_time_safe = None  # type: ignore[attr-defined]  # the C function
    uuid._node = _MAC  # type: ignore[attr-defined]  # its cache
    replace(os, "getpid", _clock(lambda loop: _FIRST_PID + loop.process.number))
    replace_everywhere(socket, "gethostname", _by_process(socket.gethostname, lambda loop: loop.process.name))
    replace_everywhere(socket, "getfqdn", _by_process(socket.getfqdn, lambda loop, name="": name or loop.process.name))
    replace_everywhere(socket, "getaddrinfo", _by_process(socket.getaddrinfo, _getaddrinfo))
    replace_everywhere(signal, "signal", _by_process(signal.signal, _set_signal))


def _by_process(original: Callable[..., Any], simulated: Callable[..., Any]) -> Callable[..., Any]:
    def function(*given: Any, **named: Any) -> Any:
        loop = _current()
        return original(*given, **named) if loop is None else simulated(loop, *given, **named)

    return function


def _getaddrinfo(loop: ProcessLoop, host: Any, port: Any, *_: Any, **__: Any) -> list[Any]:
    return loop.net("socket.getaddrinfo()").getaddrinfo(host, port)


def _set_signal(loop: ProcessLoop, sig: int, handler: Any) -> Any:
    """As `signal.signal`, for this process alone."""
    before = loop.signal_handlers.pop(sig, signal.SIG_DFL)
    if callable(handler):
        loop.signal_handlers[sig] = lambda: handler(int(sig), None)
    return before


# ---------------------------------------------------------------------- refusals


def _replace_what_is_refused() -> None:
    services = "start a service with cluster.start"
    _refuse_method(threading.Thread, "start", "a thread", "use a task, or asyncio.to_thread, which runs in the loop")
    _refuse_method(subprocess.Popen, "__init__", "a child process", services)
    _refuse_method(
        socket.socket, "__init__", "a real socket", "use asyncio.open_connection, or the client's asyncio interface"
    )
    for name in ("call_soon", "call_soon_threadsafe", "call_at", "create_task", "create_future", "run_in_executor"):
        _refuse_method(
            asyncio.BaseEventLoop,
            name,
            f"{name}() of an event loop that is not simulated",
            "create the client in the test or in a service, and not in a fixture or when a module is imported",
        )
    replace_everywhere(os, "fork", _by_process(os.fork, lambda loop: refusal("os.fork()", services)))
    sys.meta_path.insert(0, _ClientsInC())
    if (module := sys.modules.get("confluent_kafka")) is not None:
        _refuse_confluent_kafka(module)


def _refuse_method(owner: type, name: str, what: str, hint: str) -> None:
    original = getattr(owner, name)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        if _current() is not None:
            refusal(what, hint)
        return original(self, *given, **named)

    setattr(owner, name, method)


class _ClientsInC:
    """Refuses the import of clients written in C by a process: they use threads and sockets of their own."""

    def find_spec(self, name: str, *_: Any) -> None:
        if name == "confluent_kafka" and _current() is not None:
            refusal("confluent_kafka", CONFLUENT_KAFKA)


CONFLUENT_KAFKA: Final = (
    "it is a client in C with threads and sockets of its own; test it on processes, with the fixture "
    "understudy_cluster (docs/guides/testing-clients.md)"
)


def _refuse_confluent_kafka(module: Any) -> None:
    for name in ("Producer", "Consumer", "SerializingProducer", "DeserializingConsumer"):
        original = getattr(module, name, None)
        if original is not None:
            replace_everywhere(module, name, _refusing(original))
    admin = sys.modules.get("confluent_kafka.admin")
    if admin is not None:
        replace_everywhere(admin, "AdminClient", _refusing(admin.AdminClient))


def _refusing(original: Any) -> Any:
    class Refused(original):  # type: ignore[misc]  # any class of a client
        def __new__(cls, *given: Any, **named: Any) -> Any:
            if _current() is not None:
                refusal(f"confluent_kafka.{original.__name__}", CONFLUENT_KAFKA)
            return super().__new__(cls, *given, **named)

    Refused.__name__ = original.__name__
    return Refused
