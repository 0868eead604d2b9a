"""Services die, stop and return as processes of an operating system do."""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.virtual.service import Service
from understudy.clusters.virtual.world import CrashPoint, VirtualWorld
from understudy.testing.points import point

Test = Callable[[VirtualWorld], Awaitable[object]]


def run(test: Test, *, crash_point: CrashPoint | None = None) -> VirtualWorld:
    """Run a coroutine in the test's process, with brokers that are not started; it may take 60 virtual seconds."""
    cluster = SimulatedCluster(1, brokers=2)
    world = VirtualWorld(cluster)
    world.crash_point = crash_point
    task = world.new_process("test").create_task(test(world))
    try:
        cluster.run_for(60_000)
        assert task.done(), "the test has not ended within 60 virtual seconds"
        task.result()
    finally:
        cluster.close()
    return world


def start(world: VirtualWorld, main: Any, *args: Any, restarts: bool = False, name: str | None = None) -> Service:
    return world.start(main, args, {}, name, restarts)


async def work(trace: list[str]) -> None:
    try:
        while True:
            trace.append("works")
            await asyncio.sleep(1)
    finally:
        trace.append("cleans up")


def test_a_killed_service_runs_no_finally_and_starts_again_with_new_state() -> None:
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, work, trace)
        await asyncio.sleep(2.5)
        service.kill(for_s=3)
        await asyncio.sleep(2.9)
        assert trace == ["works"] * 3
        await asyncio.sleep(0.2)
        assert service.is_running
        assert service.incarnation == 2
        assert "cleans up" not in trace

    run(test)


def test_a_service_that_returns_cancels_its_other_tasks_as_asyncio_run_does() -> None:
    trace: list[str] = []

    async def main() -> str:
        task = asyncio.ensure_future(work(trace))
        await asyncio.sleep(1.5)
        return "running" if not task.done() else "over"

    async def test(world: VirtualWorld) -> None:
        service = start(world, main)
        assert await service.wait() == "running"
        assert not service.is_running
        assert service.exits == [None]
        assert await service.wait() == "running"

    world = run(test)
    assert trace == ["works", "works", "cleans up"]
    assert not world.failures


def test_a_supervisor_starts_a_service_again_after_an_exception_and_a_kill_and_not_after_a_stop() -> None:
    async def fail(at: int, starts: list[float]) -> None:
        starts.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1)
        if len(starts) <= at:
            raise ValueError("no price")
        await asyncio.sleep(100)

    starts: list[float] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, fail, 2, starts, restarts=True)
        await asyncio.sleep(5)
        assert [round(each) for each in starts] == [0, 2, 4]
        service.kill()
        await asyncio.sleep(2)
        assert service.is_running
        await service.stop()
        await asyncio.sleep(5)
        assert not service.is_running

    world = run(test)
    assert not world.failures
    assert len(starts) == 4


def test_an_exception_that_ends_a_service_is_a_failure_unless_it_is_awaited() -> None:
    async def fail() -> None:
        await asyncio.sleep(1)
        raise ValueError("no price")

    async def unseen(world: VirtualWorld) -> None:
        start(world, fail)
        await asyncio.sleep(2)

    async def awaited(world: VirtualWorld) -> None:
        with pytest.raises(ValueError, match="no price"):
            await start(world, fail).wait()

    assert [failure.process for failure in run(unseen).failures] == ["fail"]
    assert not run(awaited).failures


def test_sigterm_ends_a_process_at_once_and_a_handler_ends_it_in_order() -> None:
    trace: list[str] = []

    async def handled() -> None:
        asked = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
        await asked.wait()
        await asyncio.sleep(2)
        trace.append("closed")

    async def test(world: VirtualWorld) -> None:
        plain = start(world, work, trace)
        await asyncio.sleep(0.5)
        await plain.stop()
        assert trace == ["works"]
        service = start(world, handled)
        await asyncio.sleep(0.5)
        service.pause()
        await service.stop()
        assert trace == ["works", "closed"]
        with pytest.raises(ClusterError, match="handled is not running"):
            service.kill()

    assert not run(test).failures


def test_sigint_cancels_the_main_task() -> None:
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, work, trace)
        await asyncio.sleep(0.5)
        service.signal(signal.SIGINT)
        await asyncio.sleep(0.5)
        assert not service.is_running

    run(test)
    assert trace == ["works", "cleans up"]


def test_a_service_that_ignores_sigterm_is_killed_in_the_end() -> None:
    async def stubborn() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)
        await asyncio.sleep(100)

    async def test(world: VirtualWorld) -> None:
        service = start(world, stubborn)
        await asyncio.sleep(0.5)
        await service.stop(timeout_s=3)
        assert not service.is_running
        assert 3 <= asyncio.get_running_loop().time() < 4

    run(test)


def test_a_task_that_calls_sys_exit_ends_the_process() -> None:
    async def leave() -> None:
        await asyncio.sleep(1)
        sys.exit(3)

    trace: list[str] = []

    async def main() -> None:
        task = asyncio.ensure_future(leave())
        await work(trace)
        await task

    async def test(world: VirtualWorld) -> None:
        service = start(world, main)
        await asyncio.sleep(2)
        assert not service.is_running
        assert [getattr(error, "code", None) for error in service.exits] == [3]

    assert [failure.process for failure in run(test).failures] == ["main"]
    assert trace[-1] == "cleans up"


def test_a_pause_ends_for_the_process_that_was_paused_and_for_no_later_one() -> None:
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, work, trace)
        await asyncio.sleep(0.5)
        service.pause(for_s=5)
        service.restart(after_s=1)
        await asyncio.sleep(2)
        service.pause()
        await asyncio.sleep(5)
        assert service.is_paused
        service.resume()
        assert not service.is_paused

    run(test)


def test_waiting_for_a_service_that_was_killed_for_good_is_an_error() -> None:
    async def test(world: VirtualWorld) -> None:
        service = start(world, work, [])
        asyncio.get_running_loop().call_later(1, service.kill)
        with pytest.raises(ClusterError, match="work was killed"):
            await service.wait()
        with pytest.raises(ClusterError, match="not started again"):
            await service.wait()

    run(test)


def test_a_stop_cancels_the_start_that_a_fault_has_scheduled() -> None:
    async def test(world: VirtualWorld) -> None:
        service = start(world, work, [])
        service.kill(for_s=5)
        await service.stop()
        await asyncio.sleep(6)
        assert not service.is_running
        assert service.incarnation == 1

    run(test)


def test_a_wall_clock_that_is_off_stays_off_after_a_restart_until_all_faults_end() -> None:
    seen: list[float] = []

    async def read_clock() -> None:
        import time  # noqa: PLC0415  as a service reads it

        while True:
            seen.append(time.time())
            await asyncio.sleep(1)

    async def test(world: VirtualWorld) -> None:
        service = start(world, read_clock)
        service.set_clock(3_600)
        service.restart()
        await asyncio.sleep(0.5)
        service.isolate()
        world.heal()
        await asyncio.sleep(1)
        assert not world.cluster.network.is_cut("read-clock", "broker-1")

    run(test)
    assert max(seen) - seen[-1] > 3_000


@pytest.mark.parametrize("is_from_brokers", [True, False])
def test_an_isolated_service_is_reached_again_when_the_time_is_over(is_from_brokers: bool) -> None:
    async def serve() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"paid")
            writer.close()

        server = await asyncio.start_server(answer, port=8080)
        await server.serve_forever()

    async def ask() -> float:
        reader, writer = await asyncio.open_connection("payments", 8080)
        assert await reader.read() == b"paid"
        writer.close()
        return asyncio.get_running_loop().time()

    async def test(world: VirtualWorld) -> None:
        service = start(world, serve, name="payments")
        await asyncio.sleep(0.1)
        service.isolate(*(world.cluster.brokers if is_from_brokers else ()), for_s=5)
        assert (await ask() > 5) is not is_from_brokers
        await asyncio.sleep(5)
        assert not world.cluster.network.is_cut("payments", "broker-1")

    run(test)


# ---------------------------------------------------------------------- what can be started


def test_a_function_around_a_coroutine_function_can_be_started() -> None:
    async def double(number: int) -> int:
        return 2 * number

    async def test(world: VirtualWorld) -> None:
        assert await start(world, functools.partial(double, 4)).wait() == 8
        assert await start(world, lambda: double(3)).wait() == 6

    world = run(test)
    assert list(world.services) == ["double", "lambda"]


class Billing:
    async def run(self) -> None: ...


async def generated() -> AsyncIterator[int]:
    yield 1


def counted() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("main", "message"),
    [
        (lambda: work([]), "got a call of work, which cannot be repeated: pass the function and its arguments"),
        (lambda: Billing, "got the class Billing: pass a coroutine function that makes the object"),
        (lambda: counted(), "got <generator object counted"),
        (lambda: generated, "generated is a generator: it has `yield` in it"),
        (lambda: 5, "got 5: pass the function"),
        (lambda: work, "work cannot be started with these arguments: missing a required argument: 'trace'"),
    ],
)
def test_what_no_process_can_run_is_refused_with_the_way_to_do_it(main: Callable[[], Any], message: str) -> None:
    async def test(world: VirtualWorld) -> None:
        with pytest.raises(TypeError) as caught:
            start(world, main())
        assert message in str(caught.value)
        assert not world.services

    run(test)


@pytest.mark.parametrize(
    ("name", "message"),
    [("my service", "no name of a node"), ("broker-1", "a node 'broker-1' already"), ("test", "already")],
)
def test_the_name_of_a_service_is_a_host_name_that_no_other_node_has(name: str, message: str) -> None:
    async def test(world: VirtualWorld) -> None:
        with pytest.raises(ValueError, match=message):
            start(world, work, [], name=name)

    run(test)


# ---------------------------------------------------------------------- between two awaits


async def bill(trace: list[str]) -> None:
    for number in range(3):
        trace.append(f"process {number}")
        await asyncio.sleep(0.1)
        await point("before commit")
        trace.append(f"commit {number}")
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)


def test_a_service_is_killed_at_a_named_point_and_does_not_go_on() -> None:
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, bill, trace)
        service.arm("before commit", "kill", nth=2)
        await asyncio.sleep(2)
        assert not service.is_running

    run(test)
    assert trace == ["process 0", "commit 0", "process 1"]


def test_a_service_whose_main_function_blocks_is_killed_at_a_named_point_of_its_loop() -> None:
    pytest.importorskip("greenlet", reason="a main function that blocks needs greenlet")
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, lambda: asyncio.run(cleaned_up(trace)), name="billing")
        service.arm("before commit", "kill", nth=2)
        await asyncio.sleep(2)
        assert not service.is_running
        assert trace == ["process 0", "commit 0", "process 1"]

    run(test)


async def cleaned_up(trace: list[str]) -> None:
    try:
        await bill(trace)
    finally:
        trace.append("cleaned up")


def test_a_service_that_is_paused_at_a_named_point_goes_on_there() -> None:
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, bill, trace)
        service.arm("before commit", "pause", for_s=3)
        await asyncio.sleep(3)
        assert trace == ["process 0"]
        await asyncio.sleep(0.25)
        assert trace == ["process 0", "commit 0", "process 1"]

    run(test)


def test_a_service_is_killed_after_a_number_of_its_own_awaits() -> None:
    trace: list[str] = []

    async def test(world: VirtualWorld) -> None:
        service = start(world, bill, trace)
        service.kill(after_awaits=3)
        await asyncio.sleep(2)
        assert not service.is_running

    run(test)
    assert trace == ["process 0", "commit 0", "process 1"]


def test_a_point_that_is_never_reached_is_named_with_those_that_are() -> None:
    async def test(world: VirtualWorld) -> None:
        service = start(world, bill, [])
        service.arm("after commit")
        service.kill(after_awaits=100)
        await asyncio.sleep(2)
        assert service.strikes.not_reached() == [
            "the point 'after commit' was not reached; reached were 'before commit' (3 times)",
            "93 awaits more were needed to kill it",
        ]
        with pytest.raises(ValueError, match="not 'kil'; did you mean 'kill'"):
            service.arm("before commit", "kil")
        with pytest.raises(ValueError, match="after_awaits is a whole number from 1, and not 0"):
            service.kill(after_awaits=0)

    run(test)


def test_each_place_of_a_service_is_counted_and_can_be_struck() -> None:
    async def test(world: VirtualWorld, trace: list[str]) -> None:
        start(world, bill, trace)
        await asyncio.sleep(4)

    counted = run(lambda world: test(world, []), crash_point=CrashPoint("bill"))
    places = counted.services["bill"].strikes.places
    assert [place.number for place in places] == list(range(1, len(places) + 1))
    assert "bill at test_services.py" in places[0].words
    assert places[1].words == "the point 'before commit'"
    assert len(places) == 10
    for place, done in zip(places[:9], [1, 1, 2, 3, 3, 4, 5, 5, 6], strict=True):
        trace: list[str] = []
        struck = run(functools.partial(test, trace=trace), crash_point=CrashPoint("bill", place.number, place.words))
        service = struck.services["bill"]
        assert service.incarnation == 2
        assert service.strikes.places[-1] == place
        assert trace[-6:] == ["process 0", "commit 0", "process 1", "commit 1", "process 2", "commit 2"]
        assert len(trace) == done + 6


def test_a_point_does_nothing_outside_of_the_simulation() -> None:
    asyncio.run(point("before commit"))
