"""What cannot be simulated is refused in a sentence that names the call, its line, and what to do."""

from __future__ import annotations

import _thread as _thread_module
import asyncio
import concurrent.futures
import multiprocessing
import os
import queue
import select
import selectors
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import SimulatedSubject
from understudy.clusters.virtual.refusals import NotSimulated


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "time.sleep() in a coroutine": (lambda: time.sleep(1), "await asyncio.sleep() instead"),
    "the end of a thread": (lambda: _thread().join(), "await an asynchronous function"),
    "the result of a pool": (
        lambda: concurrent.futures.ThreadPoolExecutor().submit(time.sleep, 1).result(),
        "await an",
    ),
    "a thread of the module _thread": (lambda: _thread_module.start_new_thread(print, ()), "use threading.Thread"),
    "a child process": (lambda: subprocess.run(["true"], check=True), "cluster.start"),
    "a process of multiprocessing": (lambda: multiprocessing.Process(target=print).start(), "cluster.start"),
    "a process of a spawn context": (
        lambda: multiprocessing.get_context("spawn").Process(target=print).start(),
        "cluster.start",
    ),
    "os.fork()": (os.fork, "cluster.start"),
    "os.system()": (lambda: os.system("true"), "cluster.start"),
    "another process's signal": (lambda: os.kill(1, signal.SIGTERM), "service.kill()"),
    "a datagram socket": (lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), "only TCP"),
    "a Unix socket": (lambda: socket.socket(socket.AF_UNIX), "only TCP"),
    "a TLS socket": (
        lambda: ssl.create_default_context().wrap_socket(socket.socket(), server_hostname="x"),
        "test TLS on processes",
    ),
    "a blocking connection": (lambda: _listening_connect(), "await an asynchronous function"),
    "select.select()": (lambda: select.select([socket.socketpair()[0]], [], []), "await an asynchronous function"),
    "a selector": (lambda: _selector().select(), "await an asynchronous function"),
    "a queue that is empty": (lambda: queue.Queue[int]().get(), "await an asynchronous function"),
    "a lock that is taken": (lambda: _taken_lock().acquire(), "await an asynchronous function"),
    "a file in a selector": (lambda: _loop().add_reader(0, print), "only sockets that the simulation has made"),
    "loop.stop()": (lambda: _loop().stop(), "return from its main function"),
    "a Unix connection": (lambda: _loop().create_unix_connection(asyncio.Protocol, "/x"), "give a host and a port"),
    "a datagram endpoint": (lambda: _loop().create_datagram_endpoint(asyncio.DatagramProtocol), "only TCP"),
    "a subprocess of asyncio": (lambda: _loop().subprocess_exec(asyncio.SubprocessProtocol, "true"), "cluster.start"),
    "a pipe": (lambda: _loop().connect_read_pipe(asyncio.Protocol, None), "pipes"),
}


def _listening_connect() -> None:
    with socket.socket() as listening, socket.socket() as client:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        client.connect(listening.getsockname())


def _thread() -> threading.Thread:
    thread = threading.Thread(target=time.sleep, args=(1,))
    thread.start()
    return thread


def _pool() -> concurrent.futures.Executor:
    return concurrent.futures.ThreadPoolExecutor()


def _selector() -> selectors.BaseSelector:
    selector = selectors.DefaultSelector()
    selector.register(socket.socketpair()[0], selectors.EVENT_READ)
    return selector


def _taken_lock() -> Any:
    lock = threading.Lock()
    lock.acquire()
    return lock


@pytest.mark.parametrize("what", REFUSED)
def test_a_call_that_cannot_be_simulated_is_refused(what: str, simulated: SimulatedSubject) -> None:
    call, hint = REFUSED[what]

    async def case() -> None:
        call()

    with pytest.raises(NotSimulated, match="cannot be simulated") as caught:
        simulated.run(case)
    assert hint in str(caught.value)
    assert f"called at {__file__}:" in str(caught.value)


@pytest.mark.parametrize(
    "start",
    [
        lambda: threading.Thread(target=print).start(),
        lambda: threading.Timer(1, print).start(),
        lambda: concurrent.futures.ThreadPoolExecutor().submit(print),
    ],
)
def test_without_greenlets_a_thread_is_refused(
    start: Callable[[], Any], simulated: SimulatedSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.clusters.virtual.blocking.greenlet", None)

    async def case() -> None:
        start()

    with pytest.raises(NotSimulated, match=r"a thread cannot be simulated.*kafka-understudy\[blocking\]"):
        simulated.run(case)


async def _tls() -> None:
    await asyncio.open_connection("127.0.0.1", 1, ssl=True)


async def _tls_server() -> None:
    await asyncio.start_server(lambda *_: None, "127.0.0.1", 1, ssl=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


async def _start_tls() -> None:
    await asyncio.get_running_loop().start_tls(None, None, None)  # type: ignore[arg-type]  # a wrong argument


async def _asyncio_subprocess() -> None:
    await asyncio.create_subprocess_exec("true")


@pytest.mark.parametrize("case", [_tls, _tls_server, _start_tls, _asyncio_subprocess])
def test_an_awaited_call_is_refused_at_its_line(case: Any, simulated: SimulatedSubject) -> None:
    with pytest.raises(NotSimulated, match=rf"called at .*test_refusals.py:\d+ in {case.__name__}"):
        simulated.run(case)


@pytest.mark.parametrize("name", ["Producer", "Consumer", "AdminClient"])
def test_a_client_in_c_is_refused(name: str, simulated: SimulatedSubject) -> None:
    confluent_kafka = pytest.importorskip("confluent_kafka")
    from confluent_kafka import admin  # noqa: PLC0415  an optional client

    owner = admin if name == "AdminClient" else confluent_kafka

    async def case() -> None:
        getattr(owner, name)({"bootstrap.servers": "broker-1:9092", "group.id": "g"})

    with pytest.raises(NotSimulated, match=f"confluent_kafka.{name} cannot be simulated.*on processes"):
        simulated.run(case)
    if name == "Producer":
        assert isinstance(getattr(owner, name)({"bootstrap.servers": "127.0.0.1:1"}), confluent_kafka.cimpl.Producer)


def test_a_process_without_a_network_says_so(simulated: SimulatedSubject) -> None:
    async def case() -> None:
        await asyncio.open_connection("127.0.0.1", 80)

    with pytest.raises(NotSimulated, match="the process has no network"):
        simulated.run_on(simulated.process("alone", has_network=False), case)


def test_an_unknown_host_is_named(simulated: SimulatedSubject) -> None:
    async def case() -> None:
        await asyncio.open_connection("api.example.com", 443)

    with pytest.raises(socket.gaierror, match=r"cluster.start\(main, name='api.example.com'\)"):
        simulated.run(case)


def test_a_finished_run_leaves_threads_and_children_as_they_were(simulated: SimulatedSubject) -> None:
    async def case() -> None:
        await asyncio.sleep(1)

    simulated.run(case)
    thread = threading.Thread(target=time.sleep, args=(0,))
    thread.start()
    thread.join()
    assert not thread.is_alive()
    assert subprocess.run(["true"], check=True).returncode == 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert pool.submit(pow, 2, 3).result() == 8
    assert asyncio.run(asyncio.sleep(0, "a real loop")) == "a real loop"


def test_each_method_of_an_event_loop_is_simulated_or_refused(simulated: SimulatedSubject) -> None:
    """A method that asyncio's base class alone has would raise NotImplementedError, which names no reason."""
    loop = type(simulated.process("test"))
    names = [name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")]
    missing = [name for name in names if getattr(loop, name) is getattr(asyncio.AbstractEventLoop, name)]
    assert missing == []
    assert len(names) > 50
