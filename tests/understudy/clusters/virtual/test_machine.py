"""What the machine gives a simulated process: clocks, randomness, ids; and the usual errors for wrong arguments."""

from __future__ import annotations

import asyncio
import datetime
import email.utils
import gc
import logging
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import uuid
from collections.abc import Callable
from datetime import date
from pathlib import Path
from time import monotonic as imported_monotonic
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import SimulatedSubject
from understudy.clusters.simulated.clocks import EPOCH_MS
from understudy.clusters.virtual.network_calls import READING_S
from understudy.testing.simulated_tests.workers.forks import Child

imported_now = datetime.datetime.now
"""A bound method of a class that exists before the functions are replaced."""


def _temporary_name() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return Path(folder).name


CLOCKS: dict[str, Callable[[], Any]] = {
    "time.time": time.time,
    "time.time_ns": time.time_ns,
    "time.monotonic": lambda: time.monotonic(),
    "time.monotonic, imported": imported_monotonic,
    "time.monotonic_ns": time.monotonic_ns,
    "time.perf_counter": time.perf_counter,
    "time.process_time": time.process_time,
    "time.thread_time_ns": time.thread_time_ns,
    "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_MONOTONIC),
    "datetime.now": datetime.datetime.now,
    "datetime.now, imported": imported_now,
    "datetime.now in UTC": lambda: datetime.datetime.now(datetime.UTC),
    "datetime.now in UTC, by name": lambda: datetime.datetime.now(tz=datetime.UTC),
    "datetime.utcnow": lambda: datetime.datetime.utcnow(),
    "loop.time": lambda: asyncio.get_running_loop().time(),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_each_reading_of_a_clock_is_later_and_the_same_for_the_same_seed(name: str) -> None:
    read = CLOCKS[name]

    async def case() -> list[Any]:
        readings = [read() for _ in range(5)]
        await asyncio.sleep(3600)
        return [*readings, read()]

    first, second = SimulatedSubject().run(case), SimulatedSubject().run(case)
    assert first == second
    assert sorted(set(first)) == first


def test_a_callback_of_the_garbage_collector_reads_no_clock_of_a_case() -> None:
    async def case() -> tuple[int, list[list[int]], int]:
        return time.monotonic_ns(), [[number] for number in range(5_000)], time.monotonic_ns()

    def read_clock(phase: str, info: dict[str, int]) -> None:
        time.perf_counter()

    gc.callbacks.append(read_clock)
    try:
        before, _, after = SimulatedSubject().run(case)
    finally:
        gc.callbacks.remove(read_clock)
    assert after - before == round(READING_S * 1e9)


@pytest.mark.parametrize(
    "read",
    [
        lambda: date.today().isoformat(),
        lambda: time.strftime("%Y-%m-%d %H:%M:%S"),
        lambda: time.ctime(),
        lambda: time.asctime(),
        lambda: list(time.localtime()),
        lambda: list(time.gmtime(None)),
        lambda: email.utils.formatdate(),
        lambda: logging.makeLogRecord({"msg": "text"}).created,
        lambda: logging.Formatter("%(asctime)s").format(logging.makeLogRecord({"msg": "text"})),
        lambda: random.random(),
        lambda: random.Random().random(),
        lambda: random.SystemRandom().random(),
        lambda: os.urandom(8),
        lambda: os.getrandom(8),
        lambda: secrets.token_hex(8),
        lambda: str(uuid.uuid4()),
        lambda: str(uuid.uuid1()),
        lambda: uuid.getnode(),
        lambda: os.getpid(),
        lambda: socket.gethostname(),
        lambda: socket.getfqdn(),
        lambda: os.uname().nodename,
        _temporary_name,
    ],
)
def test_what_a_process_reads_follows_from_the_seed(read: Callable[[], Any]) -> None:
    async def case() -> Any:
        return read()

    assert SimulatedSubject(7).run(case) == SimulatedSubject(7).run(case)


def test_another_thread_of_the_operating_system_has_real_time(simulated: SimulatedSubject) -> None:
    asked, answered = threading.Lock(), threading.Lock()
    asked.acquire()
    answered.acquire()
    seen: list[Any] = []

    def answer() -> None:
        asked.acquire()
        seen.extend((time.time(), type(threading.Lock()), threading.current_thread().name))
        answered.release()

    async def case() -> float:
        loop = asyncio.get_running_loop()
        before = loop.time()
        asked.release()
        answered.acquire()
        return loop.time() - before

    thread = threading.Thread(target=answer, name="of the machine", daemon=True)
    thread.start()
    began = time.time()
    assert simulated.run(case) == pytest.approx(READING_S)
    thread.join()
    assert seen[0] >= began
    assert seen[1:] == [type(asked), "of the machine"]


def test_other_code_than_the_processes_reads_the_machine(simulated: SimulatedSubject) -> None:
    assert abs(time.time() - datetime.datetime.now().timestamp()) < 60
    assert time.time() > 1_700_000_000 + 86_400
    assert os.getpid() > 0
    assert os.urandom(16) != os.urandom(16)
    assert socket.gethostname() != "test"


@pytest.mark.parametrize(
    "call",
    [
        lambda: datetime.datetime.now(5),  # type: ignore[arg-type]  # a wrong argument
        lambda: datetime.datetime.now(zone=None),  # type: ignore[call-arg]  # a wrong argument
        lambda: datetime.datetime.utcnow(1),  # type: ignore[call-arg]  # a wrong argument
        lambda: date.today(1),  # type: ignore[call-arg]  # a wrong argument
        lambda: time.time(1),  # type: ignore[call-arg]  # a wrong argument
        lambda: time.monotonic_ns(1),  # type: ignore[call-arg]  # a wrong argument
        lambda: time.localtime("now"),  # type: ignore[arg-type]  # a wrong argument
        lambda: time.strftime(5),  # type: ignore[arg-type]  # a wrong argument
        lambda: time.clock_gettime("realtime"),  # type: ignore[arg-type]  # a wrong argument
        lambda: time.sleep("long"),  # type: ignore[arg-type]  # a wrong argument
        lambda: time.sleep(-1),
        lambda: os.urandom(-1),
        lambda: os.urandom("8"),  # type: ignore[arg-type]  # a wrong argument
        lambda: os.getpid(1),  # type: ignore[call-arg]  # a wrong argument
        lambda: signal.signal(signal.SIGKILL, signal.SIG_DFL),
        lambda: signal.signal(signal.SIGTERM, "handler"),  # type: ignore[arg-type]  # a wrong argument
    ],
)
def test_a_wrong_argument_raises_what_it_raises_elsewhere(call: Callable[[], Any], simulated: SimulatedSubject) -> None:
    with pytest.raises(Exception) as usual:  # noqa: PT011  each call has an error of its own
        call()

    async def case() -> BaseException:
        with pytest.raises(type(usual.value)) as caught:
            call()
        return caught.value

    assert type(simulated.run(case)) is type(usual.value)


def test_a_subclass_of_datetime_reads_the_virtual_clock(simulated: SimulatedSubject) -> None:
    class Stamp(datetime.datetime):
        pass

    async def case() -> list[object]:
        return [type(Stamp.now()), type(Stamp.today()), type(datetime.date.today()), Stamp.now().year]

    year = datetime.datetime.fromtimestamp(EPOCH_MS / 1000).year
    assert simulated.run(case) == [Stamp, Stamp, datetime.date, year]


def test_a_clock_that_is_off_shows_in_the_wall_clocks_alone(simulated: SimulatedSubject) -> None:
    loop = simulated.process("late")

    async def case() -> tuple[float, float]:
        wall, steady = time.time(), time.monotonic()
        loop.wall_offset_s = 30.0
        return round(time.time() - wall), round(time.monotonic() - steady)

    assert simulated.run_on(loop, case) == (30, 0)


def test_uuids_of_an_earlier_run_leave_no_trace() -> None:
    async def case() -> list[uuid.UUID]:
        return [uuid.uuid1() for _ in range(3)]

    # In a process of its own: what an earlier test has left would read the clock when it is collected.
    first, second = Child(lambda: [SimulatedSubject(3).run(case) for _ in range(2)]).result()
    assert first == second
    assert len(set(first)) == 3


def test_each_process_has_a_host_name_and_an_id_of_its_own(simulated: SimulatedSubject) -> None:
    async def case() -> tuple[str, str, int]:
        return socket.gethostname(), socket.gethostbyname(socket.gethostname()), os.getpid()

    one = simulated.run_on(simulated.process("billing"), case)
    other = simulated.run_on(simulated.process("shipping"), case)
    assert (one[0], other[0]) == ("billing", "shipping")
    assert one[1] != other[1]
    assert one[2] != other[2]


def test_sets_of_tasks_and_futures_are_in_the_same_order_in_each_run(simulated: SimulatedSubject) -> None:
    async def case() -> list[list[int]]:
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(7)]
        own = [asyncio.Future(loop=loop) for _ in range(7)]  # type: ignore[var-annotated]  # a wrong argument
        gathered = [asyncio.gather(task) for task in tasks]
        made = [asyncio.Task(asyncio.sleep(0), loop=loop) for _ in range(7)]
        orders = [[each.index(one) for one in set(each)] for each in (tasks, own, gathered, made)]  # type: ignore[arg-type]  # a wrong argument
        await asyncio.gather(*gathered, *made)
        return orders

    first = simulated.run(case)
    filler = [object() for _ in range(1_000)]
    assert SimulatedSubject().run(case) == first
    assert [sorted(order) for order in first] == [list(range(7))] * 4
    del filler


def test_numpys_generators_follow_from_the_seed() -> None:
    numpy = pytest.importorskip("numpy")

    async def case() -> tuple[float, float]:
        return float(numpy.random.random()), float(numpy.random.default_rng().random())

    assert SimulatedSubject(1).run(case) == SimulatedSubject(1).run(case) != SimulatedSubject(2).run(case)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        ("sys.implementation.name = 'pypy'", "and this is pypy: use CPython"),
        (
            "import sysconfig; sysconfig.get_config_var = lambda name: 1 if name == 'Py_GIL_DISABLED' else None",
            "use the build with a GIL",
        ),
    ],
)
def test_an_interpreter_without_the_replaced_tables_is_refused(prepare: str, expected: str) -> None:
    program = textwrap.dedent(
        f"""
        import sys
        from understudy.clusters.virtual import machine
        {prepare}
        try:
            machine.install()
        except RuntimeError as error:
            print(error)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert expected in done.stdout, done.stderr


def test_a_real_loop_starts_child_processes_after_the_replacements() -> None:
    program = (
        "import asyncio, sys\n"
        "from understudy.clusters.virtual import machine\n"
        "machine.install()\n"
        "async def main():\n"
        "    child = await asyncio.create_subprocess_exec(sys.executable, '-c', 'pass')\n"
        "    print(await child.wait())\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n", "")
