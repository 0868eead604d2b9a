"""The loop in virtual time: asyncio works on it unchanged; processes are killed, paused and resumed as under Unix."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from understudy.clusters.simulated.loop import BudgetExhausted, Deadlock, SimulatedLoop, current_process, new_loop


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    loop = new_loop()
    yield loop
    loop.close()


def test_sleep_advances_only_the_virtual_clock(loop: SimulatedLoop) -> None:
    loop.run_until_complete(asyncio.sleep(3600))
    assert loop.time() == 3600


def test_asyncio_primitives_work_unchanged(loop: SimulatedLoop) -> None:
    async def scenario() -> list[object]:
        received: list[object] = []
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        opened = asyncio.Event()

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
                await asyncio.sleep(1)
            opened.set()

        async def consume() -> None:
            received.extend([await queue.get() for _ in range(3)])

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
        await opened.wait()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.sleep(10)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.get(), 0.25)
        received.append(await asyncio.gather(asyncio.sleep(1, "a"), asyncio.sleep(2, "b")))
        done, pending = await asyncio.wait([asyncio.ensure_future(asyncio.sleep(1))], timeout=5)
        received.append((len(done), len(pending)))
        return received

    assert loop.run_until_complete(scenario()) == [0, 1, 2, ["a", "b"], (1, 0)]
    assert loop.time() == pytest.approx(3 + 0.5 + 0.25 + 2 + 1)


def test_a_killed_process_runs_no_further_callback_and_no_finally(loop: SimulatedLoop) -> None:
    process = loop.process("broker-1")
    marks: list[str] = []

    async def body() -> None:
        try:
            await asyncio.sleep(1)
            marks.append("slept")
            await asyncio.sleep(1)
            marks.append("slept again")
        finally:
            marks.append("finally")

    process.spawn(body())
    loop.run_for(1.5)
    process.kill()
    loop.run_for(10)
    assert marks == ["slept"]


def test_a_result_from_another_process_resumes_no_task_of_a_killed_incarnation(loop: SimulatedLoop) -> None:
    first = loop.process("broker-1", 1)
    answer = loop.create_future()
    marks: list[object] = []

    async def wait_for_answer() -> None:
        marks.append(await answer)

    first.spawn(wait_for_answer())
    loop.run_for(1)
    first.kill()
    second = loop.process("broker-1", 2)
    loop.call_later(1, answer.set_result, "late", context=second.context)
    loop.run_for(5)
    assert marks == []


def test_the_timers_of_a_paused_process_fire_when_it_is_resumed(loop: SimulatedLoop) -> None:
    process = loop.process("broker-1")
    marks: list[tuple[str, float]] = []

    async def body(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        marks.append((name, loop.time()))

    process.spawn(body("short", 1))
    process.spawn(body("shorter", 0.8))
    process.spawn(body("long", 30))
    loop.run_for(0.5)
    process.pause()
    loop.run_for(20)
    assert marks == []
    process.resume()
    loop.run_for(20)
    assert marks == [("shorter", 20.5), ("short", 20.5), ("long", 30)]


def test_a_process_that_pauses_itself_stops_at_its_next_await(loop: SimulatedLoop) -> None:
    process = loop.process("broker-1")
    marks: list[str] = []

    async def body() -> None:
        marks.append("before")
        process.pause()
        await asyncio.sleep(0)
        marks.append("after")

    process.spawn(body())
    loop.run_for(5)
    assert marks == ["before"]
    process.resume()
    loop.run_for(1)
    assert marks == ["before", "after"]


def test_tasks_started_by_a_process_belong_to_it(loop: SimulatedLoop) -> None:
    process = loop.process("broker-7")
    seen: list[object] = []

    async def child() -> None:
        seen.append(current_process())

    async def parent() -> None:
        await asyncio.gather(child(), asyncio.ensure_future(child()))

    process.spawn(parent())
    loop.run_for(1)
    assert seen == [process, process]
    assert current_process() is None


def test_a_loop_without_callbacks_and_timers_raises_deadlock(loop: SimulatedLoop) -> None:
    with pytest.raises(Deadlock, match="no timer is set"):
        loop.run_until_complete(loop.create_future())


def test_a_task_that_never_waits_exhausts_the_budget() -> None:
    loop = SimulatedLoop(budget=1_000)  # type: ignore[abstract]  # as `new_loop` makes it, but with a small budget

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(BudgetExhausted, match="1000 callbacks"):
        loop.run_until_complete(spin())
    loop.close()


def test_an_exception_that_was_never_retrieved_is_a_failure(loop: SimulatedLoop) -> None:
    process = loop.process("broker-1")

    async def body() -> None:
        raise ValueError("boom")

    process.spawn(body())
    loop.run_for(1)
    loop.close()
    assert len(loop.failures) == 1
    assert "boom" in loop.failures[0]


def test_an_exception_in_a_killed_process_is_no_failure(loop: SimulatedLoop) -> None:
    process = loop.process("broker-1")

    async def child() -> None:
        raise ValueError("its parent has not awaited it yet")

    async def parent() -> None:
        task = asyncio.ensure_future(child())
        await asyncio.sleep(5)
        await task

    process.spawn(parent())
    loop.run_for(1)
    process.kill()
    loop.close()
    assert loop.failures == []


def test_closing_the_loop_closes_unfinished_tasks_without_a_failure(loop: SimulatedLoop) -> None:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.sleep(1000))
            async with asyncio.timeout(500):
                await asyncio.sleep(1000)

    loop.process("broker-1").spawn(group())
    loop.run_for(1)
    loop.close()
    assert loop.failures == []


def test_cancelled_timers_are_removed(loop: SimulatedLoop) -> None:
    async def scenario() -> None:
        for _ in range(10_000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0)

    loop.run_until_complete(scenario())
    assert len(loop._timers) < 2_000


def test_reordering_changes_the_order_between_processes_but_not_within_one() -> None:
    def run(seed: int | None) -> list[tuple[int, int]]:
        loop = new_loop(reordering=None if seed is None else random.Random(seed))
        marks: list[tuple[int, int]] = []
        for number in range(3):
            process = loop.process(f"broker-{number}")
            for step in range(200):
                loop.call_at(step, marks.append, (number, step), context=process.context)
        loop.run_for(300)
        loop.close()
        return marks

    strict, shuffled = run(None), run(1)
    assert shuffled != strict
    assert sorted(shuffled) == sorted(strict)
    assert run(1) == shuffled
    for number in range(3):
        assert [step for owner, step in shuffled if owner == number] == list(range(200))


def test_the_trace_checksums_of_two_different_runs_differ() -> None:
    def run(delay: float) -> int | None:
        loop = new_loop(trace=True)
        loop.run_until_complete(asyncio.sleep(delay))
        loop.close()
        return loop.trace_checksum

    assert run(1) == run(1)
    assert run(1) != run(2)
