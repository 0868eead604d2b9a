"""Code that blocks in virtual time: main functions without `async`, threads, locks, sockets and `asyncio.run`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import queue
import select
import selectors
import socket
import sys
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import SimulatedSubject
from understudy.clusters.virtual import machine
from understudy.clusters.virtual.refusals import NotSimulated

pytest.importorskip("greenlet")

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_sleeping_takes_virtual_time(simulated: SimulatedSubject) -> None:
    def main() -> tuple[int, int]:
        wall, steady = time.time(), time.monotonic()
        time.sleep(3600)
        return round(time.time() - wall), round(time.monotonic() - steady)

    assert simulated.run_blocking(main) == (3600, 3600)


def test_asyncio_run_in_a_main_function(simulated: SimulatedSubject) -> None:
    def main() -> list[object]:
        async def case() -> str:
            await asyncio.sleep(5)
            return VARIABLE.get()

        VARIABLE.set("of main")
        seen: list[object] = [asyncio.run(case())]
        with asyncio.Runner() as runner:
            seen.append(runner.run(case()))
            seen.append(runner.run(asyncio.sleep(1, "twice")))
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return seen

    assert simulated.run_blocking(main) == ["of main", "of main", "twice"]


def test_a_loop_of_main_stands_still_while_main_does_something_else(simulated: SimulatedSubject) -> None:
    def main() -> list[object]:
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        ticks = list[int]()

        async def ticking() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(1)

        task = loop.create_task(ticking())
        loop.run_until_complete(asyncio.sleep(3.5))
        seen: list[object] = [len(ticks), loop.is_running()]
        time.sleep(100)
        seen.append(len(ticks))
        loop.run_until_complete(asyncio.sleep(1.2))
        seen.append(len(ticks) > 3)
        loop.call_later(1, loop.stop)
        loop.run_forever()
        loop.call_soon(loop.stop)
        with pytest.raises(RuntimeError, match="stopped before Future completed"):
            loop.run_until_complete(asyncio.sleep(50))
        task.cancel()
        seen.append(asyncio.get_event_loop() is loop)
        loop.close()
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            loop.call_soon(print)
        return [*seen, loop.is_closed()]

    assert simulated.run_blocking(main) == [3, False, 3, True, True, True]


class StandInPolicy(asyncio.DefaultEventLoopPolicy):
    """A policy that makes loops of one class."""

    def __init__(self, factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        super().__init__()
        self._factory = factory

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return self._factory()


@pytest.fixture
def uvloop(monkeypatch: pytest.MonkeyPatch, simulated: SimulatedSubject) -> Any:
    """A module named uvloop that is imported after the functions were replaced, as in a project that has it."""
    module: Any = types.ModuleType("uvloop")

    class Loop(asyncio.SelectorEventLoop):
        pass

    def run(main: Any, *, loop_factory: Any = Loop, debug: bool | None = None) -> Any:
        raise TypeError("uvloop.run() uses a non-uvloop event loop")

    module.Loop = module.new_event_loop = Loop
    module.run = run
    module.EventLoopPolicy = lambda: StandInPolicy(Loop)
    module.install = lambda: asyncio.set_event_loop_policy(module.EventLoopPolicy())
    monkeypatch.setitem(sys.modules, "uvloop", module)
    machine._PREPARED["uvloop"](module)
    return module


def test_uvloop_gives_a_process_the_loop_of_the_simulation(simulated: SimulatedSubject, uvloop: Any) -> None:
    async def name_of_loop() -> str:
        await asyncio.sleep(60)
        return type(asyncio.get_running_loop()).__name__

    def main() -> list[str]:
        seen = list[str]()
        for factory in (uvloop.new_event_loop, asyncio.SelectorEventLoop, None):
            with asyncio.Runner(loop_factory=factory) as runner:
                seen.append(runner.run(name_of_loop()))
        seen.append(uvloop.run(name_of_loop(), debug=True))
        uvloop.install()
        seen.append(asyncio.run(name_of_loop()))
        return seen

    assert simulated.run_blocking(main) == ["MainLoop"] * 5
    real = asyncio.SelectorEventLoop()
    assert type(real) is asyncio.SelectorEventLoop
    real.close()
    waste = asyncio.sleep(0)
    with pytest.raises(TypeError, match="non-uvloop"):
        uvloop.run(waste)
    waste.close()


def test_uvloop_run_in_a_coroutine_fails_as_asyncio_run_does(simulated: SimulatedSubject, uvloop: Any) -> None:
    async def case() -> str:
        uvloop.install()
        main = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="cannot be called from a running event loop"):
            uvloop.run(main)
        main.close()
        return await asyncio.sleep(1, "runs on")

    assert simulated.run(case) == "runs on"


def test_a_policy_is_of_one_process_alone(simulated: SimulatedSubject) -> None:
    before = asyncio.get_event_loop_policy()
    made = list[str]()

    class Counting(StandInPolicy):
        def new_event_loop(self) -> asyncio.AbstractEventLoop:
            made.append(str(os.getpid()))
            return super().new_event_loop()

    def main() -> str:
        asyncio.set_event_loop_policy(Counting(asyncio.SelectorEventLoop))
        asyncio.run(asyncio.sleep(1))
        asyncio.set_event_loop_policy(None)
        asyncio.run(asyncio.sleep(10))
        asyncio.set_event_loop_policy(Counting(asyncio.SelectorEventLoop))
        asyncio.run(asyncio.sleep(1))
        return str(os.getpid())

    def other() -> None:
        time.sleep(5)
        asyncio.run(asyncio.sleep(100))

    simulated.start_blocking("other", other)
    assert made == [simulated.run_blocking(main)] * 2
    assert asyncio.get_event_loop_policy() is before


def test_a_policy_with_loops_that_are_not_simulated_is_refused(simulated: SimulatedSubject) -> None:
    class Foreign(asyncio.AbstractEventLoop):
        pass

    def main() -> None:
        with pytest.raises(TypeError, match="AbstractEventLoopPolicy"):
            asyncio.set_event_loop_policy("uvloop")  # type: ignore[arg-type]  # that is the case
        asyncio.set_event_loop_policy(StandInPolicy(Foreign))
        with pytest.raises(NotSimulated, match=r"an event loop of the class .*Foreign.*set no policy"):
            asyncio.new_event_loop()

    simulated.run_blocking(main)


def test_two_main_functions_have_loops_of_their_own(simulated: SimulatedSubject) -> None:
    seen = list[str]()

    def main(name: str) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        loop = asyncio.get_event_loop()
        for _ in range(3):
            loop.run_until_complete(asyncio.sleep(1))
            assert asyncio.get_event_loop() is loop
            seen.append(name)

    simulated.start_blocking("one", main, "one")
    simulated.start_blocking("other", main, "other")
    simulated.kernel.run_for(10)
    assert sorted(seen) == ["one"] * 3 + ["other"] * 3
    assert seen != sorted(seen)


@pytest.mark.parametrize("is_blocking", [False, True], ids=["coroutine", "asyncio.run"])
def test_a_coroutine_makes_the_loop_of_a_thread(simulated: SimulatedSubject, is_blocking: bool) -> None:
    """faust-streaming makes the loop of its consumer's thread so."""

    async def case() -> list[object]:
        loop = asyncio.new_event_loop()
        waste = asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="while another loop is running"):
            loop.run_until_complete(waste)
        waste.close()
        seen: list[object] = [loop.is_running()]
        thread = threading.Thread(target=lambda: seen.append(loop.run_until_complete(asyncio.sleep(5, "slept"))))
        thread.start()
        await asyncio.sleep(1)
        seen.append(loop.is_running())
        await asyncio.to_thread(thread.join)
        loop.close()
        return seen

    seen = simulated.run_blocking(lambda: asyncio.run(case())) if is_blocking else simulated.run(case)
    assert seen == [False, True, "slept"]


def test_a_thread_and_a_lock_outlive_the_loop_in_which_they_were_made(simulated: SimulatedSubject) -> None:
    def work(lock: threading.Lock, seen: list[str]) -> None:
        with lock:
            seen.append("first")
            time.sleep(10)
        seen.append("released")
        asyncio.run(asyncio.sleep(10))
        seen.append("ran a loop")

    def main() -> list[str]:
        seen = list[str]()

        async def begin() -> tuple[threading.Thread, threading.Lock]:
            lock = threading.Lock()
            thread = threading.Thread(target=work, args=(lock, seen))
            thread.start()
            await asyncio.sleep(1)
            return thread, lock

        thread, lock = asyncio.run(begin())
        with lock:
            seen.append("second")
        thread.join()
        return seen

    assert simulated.run_blocking(main) == ["first", "released", "second", "ran a loop"]


def test_a_closed_loop_reads_its_connections_no_more(simulated: SimulatedSubject) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)
        writer.write(b"late")
        await asyncio.sleep(5)
        writer.close()

    async def listen() -> None:
        await asyncio.start_server(serve, "0.0.0.0", 80)
        await asyncio.sleep(1_000)

    async def leave() -> Any:
        loop = asyncio.get_running_loop()
        sock = socket.socket()
        sock.setblocking(False)
        opened = await loop.create_connection(asyncio.Protocol, "server", 80)
        # Three more are on their way.
        connecting = [
            loop.create_task(loop.sock_connect(sock, ("server", 80))),
            loop.create_task(loop.create_connection(asyncio.Protocol, "server", 80)),
        ]
        await asyncio.sleep(0)
        watched = socket.socket()
        watched.setblocking(False)
        watched.connect_ex(("server", 80))
        loop.add_writer(watched, print)
        return connecting, opened, sock, watched

    def main() -> str:
        loop = asyncio.new_event_loop()
        left = loop.run_until_complete(leave())
        loop.close()
        time.sleep(60)
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            loop.call_soon(print)
        del left
        return "done"

    simulated.start("server", listen)
    assert simulated.run_blocking(main, name="client") == "done"
    assert simulated.kernel.failures == []
    assert simulated.errors == []


def test_a_thread_of_a_coroutine_has_a_loop_of_its_own(simulated: SimulatedSubject) -> None:
    """faust-streaming runs its consumer so: a loop in a thread, which gets calls from the main loop."""

    async def case() -> list[object]:
        ready: asyncio.Future[asyncio.AbstractEventLoop] = asyncio.get_running_loop().create_future()
        main = asyncio.get_running_loop()
        seen: list[object] = []

        def run() -> None:
            loop = asyncio.new_event_loop()
            asyncio.set_event_loop(loop)
            main.call_soon_threadsafe(ready.set_result, loop)
            loop.run_forever()
            seen.append(asyncio.get_event_loop() is loop)
            loop.close()

        thread = threading.Thread(target=run)
        thread.start()
        loop = await ready
        answer = asyncio.run_coroutine_threadsafe(asyncio.sleep(2, "from the thread"), loop)
        answered: str = await asyncio.wrap_future(answer)
        seen.append(answered)
        loop.call_soon_threadsafe(loop.stop)
        while thread.is_alive():
            await asyncio.sleep(0.1)
        return [*seen, loop.is_closed()]

    assert simulated.run(case) == ["from the thread", True, True]


def test_threads_run_while_others_wait(simulated: SimulatedSubject) -> None:
    def main() -> list[object]:
        seen: list[object] = []
        gate, lock = threading.Event(), threading.RLock()

        def worker(number: int) -> None:
            gate.wait()
            for _ in range(2):
                with lock, lock:
                    time.sleep(0.1)
                    seen.append(number)
            assert threading.current_thread().name == f"worker-{number}"

        threads = [threading.Thread(target=worker, args=(each,), name=f"worker-{each}") for each in range(2)]
        for thread in threads:
            thread.start()
        assert [thread.is_alive() for thread in threads] == [True, True]
        assert len({threading.get_ident(), *(thread.ident for thread in threads)}) == 3
        threads[0].join(1)
        seen.append("open")
        gate.set()
        for thread in threads:
            thread.join()
        assert threading.current_thread() is threading.main_thread()
        with pytest.raises(RuntimeError, match="only be started once"):
            threads[0].start()
        return [*seen, *(thread.is_alive() for thread in threads)]

    result = simulated.run_blocking(main)
    assert result[0] == "open"
    assert sorted(map(str, result[1:5])) == ["0", "0", "1", "1"]
    assert result[5:] == [False, False]


def test_conditions_queues_and_pools(simulated: SimulatedSubject) -> None:
    def main() -> list[object]:
        jobs: queue.Queue[int | None] = queue.Queue(2)
        seen: list[object] = []

        def worker() -> None:
            while (job := jobs.get()) is not None:
                time.sleep(0.5)
                seen.append(job)

        def slow(number: int) -> int:
            time.sleep(1)
            return number

        thread = threading.Thread(target=worker)
        thread.start()
        for number in range(4):
            jobs.put(number)
        jobs.put(None)
        thread.join()
        with pytest.raises(queue.Empty):
            jobs.get(timeout=1)
        condition = threading.Condition()
        with condition:
            seen.append(condition.wait(2))
        semaphore = threading.Semaphore(1)
        seen += [semaphore.acquire(timeout=1), semaphore.acquire(timeout=1)]
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            seen.append(list(pool.map(slow, range(4))))
            failing = pool.submit(lambda: 1 / 0)
            seen.append(type(failing.exception()).__name__)
        seen.append(round(time.monotonic() - began))
        return seen

    expected: list[object] = [0, 1, 2, 3, False, True, False, [0, 1, 2, 3], "ZeroDivisionError", 2]
    assert simulated.run_blocking(main) == expected


def test_each_thread_has_locals_of_its_own(simulated: SimulatedSubject) -> None:
    local = threading.local()

    def main() -> list[str]:
        seen = list[str]()

        def worker(name: str) -> None:
            seen.append(getattr(local, "name", "none"))
            local.name = name
            time.sleep(1)
            seen.append(local.name)

        local.name = "main"
        threads = [threading.Thread(target=worker, args=(name,)) for name in ("one", "two")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [*sorted(seen), local.name]

    assert simulated.run_blocking(main) == ["none", "none", "one", "two", "main"]
    assert not hasattr(local, "name")


def test_an_error_in_a_thread_is_reported(simulated: SimulatedSubject) -> None:
    def main() -> None:
        thread = threading.Thread(target=lambda: 1 / 0, name="failing")
        thread.start()
        thread.join()

    simulated.run_blocking(main)
    assert [context["message"] for context in simulated.errors] == ["Exception in thread failing"]


def test_sockets_block_in_virtual_time(simulated: SimulatedSubject) -> None:
    def server() -> None:
        with socket.create_server(("0.0.0.0", 8080)) as listening:
            while True:
                accepted, _ = listening.accept()
                threading.Thread(target=serve, args=(accepted,)).start()

    def serve(accepted: socket.socket) -> None:
        with accepted, accepted.makefile("rwb") as file:
            for line in file:
                time.sleep(1)
                file.write(b"got " + line)
                file.flush()

    def client() -> list[object]:
        time.sleep(0.1)
        seen: list[object] = []
        with socket.create_connection(("server", 8080), timeout=5) as sock:
            sock.sendall(b"one\n")
            seen.append(sock.recv(100))
            sock.sendall(b"two\n")
            sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                sock.recv(100)
            sock.settimeout(None)
            buffer = bytearray(20)
            seen.append(bytes(buffer[: sock.recv_into(buffer)]))
            sock.shutdown(socket.SHUT_WR)
            seen.append(sock.recv(100))
            seen.append(sock.getpeername()[1])
        with pytest.raises(OSError, match="Bad file descriptor"):
            sock.send(b"x")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("server", 9999))
        return seen

    simulated.start_blocking("server", server)
    assert simulated.run_blocking(client) == [b"got one\n", b"got two\n", b"", 8080]


def test_selectors_wait_for_sockets_and_wake_up_by_a_pair(simulated: SimulatedSubject) -> None:
    def main() -> list[object]:
        near, far = socket.socketpair()
        near.setblocking(False)
        seen: list[object] = []
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ, "near")
            seen.append(selector.select(timeout=1))
            threading.Timer(2, far.send, (b"wake",)).start()
            began = time.monotonic()
            [(key, events)] = selector.select()
            seen += [key.data, events, round(time.monotonic() - began), near.recv(10)]
            with pytest.raises(BlockingIOError):
                near.recv(10)
            selector.modify(near, selectors.EVENT_READ | selectors.EVENT_WRITE)
            [(_, events)] = selector.select(5)
            seen.append(events)
            selector.unregister(near)
        readable, writable, _ = select.select([near], [near], [], 0)
        seen += [readable, writable == [near]]
        poll = select.poll()
        poll.register(near, select.POLLIN)
        seen.append(poll.poll(100))
        far.close()
        seen.append([event for _, event in poll.poll(100)])
        seen.append(near.recv(10))
        near.close()
        return seen

    assert simulated.run_blocking(main) == [
        [],
        "near",
        selectors.EVENT_READ,
        2,
        b"wake",
        selectors.EVENT_WRITE,
        [],
        True,
        [],
        [select.POLLIN],
        b"",
    ]


def test_a_socket_connects_without_blocking(simulated: SimulatedSubject) -> None:
    def server() -> None:
        with socket.create_server(("0.0.0.0", 8080)) as listening:
            listening.accept()
            time.sleep(1_000)

    def client() -> list[object]:
        time.sleep(0.1)
        codes = list[object]()
        for port in (8080, 9999):
            sock = socket.socket()
            sock.setblocking(False)
            first = sock.connect_ex(("server", port))
            _, writable, _ = select.select([], [sock], [], 5)
            codes.append((first, writable == [sock], sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
            sock.close()
        return codes

    import errno  # noqa: PLC0415  for this test alone

    simulated.start_blocking("server", server)
    assert simulated.run_blocking(client) == [
        (errno.EINPROGRESS, True, 0),
        (errno.EINPROGRESS, True, errno.ECONNREFUSED),
    ]


def test_a_killed_process_runs_none_of_its_finally_blocks(simulated: SimulatedSubject) -> None:
    seen = list[str]()

    def main() -> None:
        try:
            time.sleep(100)
        finally:
            seen.append("finally")

    loop = simulated.start_blocking("victim", main)
    simulated.kernel.run_for(1)
    loop.process.kill()
    simulated.kernel.run_for(1_000)
    assert seen == []


def test_a_function_in_an_executor_sleeps_while_the_loop_runs(simulated: SimulatedSubject) -> None:
    async def case() -> list[object]:
        began = time.monotonic()

        def works() -> int:
            before = time.monotonic()
            time.sleep(2)
            return round(time.monotonic() - before)

        slept = asyncio.create_task(asyncio.to_thread(works))
        await asyncio.sleep(1)
        seen: list[object] = [slept.done(), await slept, round(time.monotonic() - began)]
        waiting = asyncio.create_task(asyncio.to_thread(time.sleep, 50))
        await asyncio.sleep(0.1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return seen

    assert simulated.run(case) == [False, 2, 2]


def test_without_greenlets_a_function_in_an_executor_may_sleep(
    simulated: SimulatedSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.clusters.virtual.blocking.greenlet", None)

    async def case() -> list[object]:
        def works() -> int:
            before = time.monotonic()
            time.sleep(2)
            return round(time.monotonic() - before)

        began = time.monotonic()
        seen: list[object] = [await asyncio.to_thread(works), round(time.monotonic() - began)]
        with pytest.raises(RuntimeError, match=r"kafka-understudy\[blocking\]"):
            await asyncio.to_thread(queue.Queue[int]().get)
        return seen

    assert simulated.run(case) == [2, 2]
