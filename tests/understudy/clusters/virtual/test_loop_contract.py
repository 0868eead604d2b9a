"""The loop of a simulated process does what asyncio's own does: tasks, callbacks, time, errors and executors."""

from __future__ import annotations

import asyncio
import contextvars
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import Subject

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_callbacks_run_in_the_order_of_call_soon(subject: Subject) -> None:
    async def case() -> list[int]:
        loop, seen = asyncio.get_running_loop(), list[int]()
        for number in range(5):
            loop.call_soon(seen.append, number)
        handle = loop.call_soon(seen.append, 99)
        handle.cancel()
        loop.call_soon_threadsafe(seen.append, 5)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return seen

    assert subject.run(case) == [0, 1, 2, 3, 4, 5]


def test_timers_run_in_the_order_of_their_times(subject: Subject) -> None:
    async def case() -> tuple[list[str], bool]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        now = loop.time()
        loop.call_later(0.03, seen.append, "c")
        loop.call_at(now + 0.02, seen.append, "b")
        loop.call_later(0.01, seen.append, "a")
        timer = loop.call_at(now + 0.015, seen.append, "cancelled")
        timer.cancel()
        await asyncio.sleep(0.05)
        return seen, timer.cancelled() and timer.when() == now + 0.015

    assert subject.run(case) == (["a", "b", "c"], True)


def test_a_callback_runs_in_the_context_of_its_call(subject: Subject) -> None:
    async def case() -> list[str]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        VARIABLE.set("outer")
        loop.call_soon(lambda: seen.append(VARIABLE.get()))
        loop.call_soon(lambda: seen.append(VARIABLE.get()), context=contextvars.Context())
        VARIABLE.set("later")

        async def child() -> None:
            seen.append(VARIABLE.get())
            VARIABLE.set("of the child")

        await asyncio.create_task(child())
        await asyncio.create_task(child(), context=contextvars.Context())
        return [*seen, VARIABLE.get()]

    assert subject.run(case) == ["outer", "unset", "later", "unset", "later"]


def test_a_task_group_cancels_its_other_tasks(subject: Subject) -> None:
    async def case() -> list[str]:
        seen = list[str]()

        async def waits() -> None:
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def fails() -> None:
            await asyncio.sleep(0)
            raise LookupError("as expected")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(waits())
                group.create_task(fails())
        except* LookupError as errors:
            seen.append(str(errors.exceptions[0]))
        return seen

    assert subject.run(case) == ["cancelled", "as expected"]


def test_timeouts_cancel_what_they_limit(subject: Subject) -> None:
    async def case() -> list[str]:
        seen = list[str]()
        loop = asyncio.get_running_loop()
        for limit in (
            asyncio.timeout(0.01),
            asyncio.timeout_at(loop.time() + 0.01),
            asyncio.timeout_at(loop.time() - 1),
        ):
            try:
                async with limit:
                    await asyncio.sleep(100)
            except TimeoutError:
                seen.append(f"expired {limit.expired()}")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        seen.append(await asyncio.wait_for(asyncio.sleep(0, "in time"), 5))
        return seen

    assert subject.run(case) == ["expired True", "expired True", "expired True", "in time"]


def test_a_shielded_task_outlives_the_task_that_waits(subject: Subject) -> None:
    async def case() -> str:
        inner = asyncio.create_task(asyncio.sleep(0.02, "done"))

        async def outer() -> None:
            await asyncio.shield(inner)

        task = asyncio.create_task(outer())
        await asyncio.sleep(0)
        assert task.cancel("enough")
        with pytest.raises(asyncio.CancelledError, match="enough"):
            await task
        return await inner

    assert subject.run(case) == "done"


def test_waiting_for_several(subject: Subject) -> None:
    async def case() -> list[object]:
        async def after(delay: float, value: int) -> int:
            await asyncio.sleep(delay)
            if value < 0:
                raise ValueError(value)
            return value

        seen: list[object] = [await asyncio.gather(after(0.02, 1), after(0.01, 2), after(0, 3))]
        seen.append([repr(each) for each in await asyncio.gather(after(0, 1), after(0, -1), return_exceptions=True)])
        seen.append([await each for each in asyncio.as_completed([after(0.04, 1), after(0.02, 2), after(0, 3)])])
        tasks = [asyncio.create_task(after(number / 50, number)) for number in range(4)]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        seen.append((len(done), len(pending)))
        done, pending = await asyncio.wait(tasks)
        seen.append(sorted(task.result() for task in done))
        failed = [asyncio.create_task(after(0, -2)), asyncio.create_task(after(100, 1))]
        done, pending = await asyncio.wait(failed, return_when=asyncio.FIRST_EXCEPTION)
        seen.append((repr(done.pop().exception()), len(pending)))
        pending.pop().cancel()
        return seen

    assert subject.run(case) == [
        [1, 2, 3],
        ["1", "ValueError(-1)"],
        [3, 2, 1],
        (1, 3),
        [0, 1, 2, 3],
        ("ValueError(-2)", 1),
    ]


def test_tasks_have_names_and_are_listed(subject: Subject) -> None:
    async def case() -> tuple[bool, str, bool, int]:
        named = asyncio.create_task(asyncio.sleep(0), name="named")
        numbered = asyncio.create_task(asyncio.sleep(0))
        current = asyncio.current_task()
        result = (
            named in asyncio.all_tasks() and current in asyncio.all_tasks(),
            named.get_name(),
            numbered.get_name().startswith("Task-"),
            len(asyncio.all_tasks()),
        )
        await asyncio.gather(named, numbered)
        return result

    assert subject.run(case) == (True, "named", True, 3)


def test_a_task_factory_makes_the_tasks(subject: Subject) -> None:
    async def case() -> tuple[list[str], str, bool]:
        loop, made = asyncio.get_running_loop(), list[str]()

        def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
            made.append(coro.__name__)
            return asyncio.Task(coro, loop=loop, **options)

        loop.set_task_factory(factory)
        task = asyncio.create_task(asyncio.sleep(0), name="named")
        await task
        is_set = loop.get_task_factory() is factory
        loop.set_task_factory(None)
        await asyncio.create_task(asyncio.sleep(0))
        return made, task.get_name(), is_set

    assert subject.run(case) == (["sleep"], "named", True)


def test_the_exception_handler_gets_the_error_of_a_callback(subject: Subject) -> None:
    async def case() -> tuple[list[str], bool]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        previous = loop.get_exception_handler()

        def handler(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            seen.append(repr(context["exception"]))

        loop.set_exception_handler(handler)
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        loop.set_exception_handler(previous)
        loop.call_soon(lambda: [][0])
        await asyncio.sleep(0)
        return seen, True

    assert subject.run(case) == (["ZeroDivisionError('division by zero')"], True)
    assert [repr(context["exception"]) for context in subject.errors] == ["IndexError('list index out of range')"]


def test_an_exception_that_no_task_retrieves_is_reported(subject: Subject) -> None:
    async def case() -> None:
        async def fails() -> None:
            raise LookupError("lost")

        asyncio.create_task(fails())  # noqa: RUF006  it is dropped on purpose
        await asyncio.sleep(0.01)

    subject.run(case)
    if hasattr(subject, "kernel"):
        subject.kernel._sweep()
    assert [context["message"] for context in subject.errors] == ["Task exception was never retrieved"]


def test_functions_in_executors(subject: Subject) -> None:
    async def case() -> list[object]:
        VARIABLE.set("of the caller")
        loop = asyncio.get_running_loop()
        seen: list[object] = [await asyncio.to_thread(VARIABLE.get)]
        seen.append(await loop.run_in_executor(None, pow, 2, 5))
        seen.append(await loop.run_in_executor(None, VARIABLE.get))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 / 0)

        def asks_for_the_loop() -> str:
            try:
                asyncio.get_running_loop()
            except RuntimeError as error:
                return str(error)
            return "a loop runs"

        seen.append(await asyncio.to_thread(asks_for_the_loop))

        def back(number: int) -> str:
            return asyncio.run_coroutine_threadsafe(asyncio.sleep(0.01, f"result {number}"), loop).result(5)

        seen.append(await asyncio.gather(asyncio.to_thread(back, 1), asyncio.to_thread(back, 2)))
        return seen

    assert subject.run(case) == [
        "of the caller",
        32,
        "unset",
        "no running event loop",
        ["result 1", "result 2"],
    ]


def test_a_signal_handler_runs_in_the_loop(subject: Subject) -> None:
    async def case() -> list[str]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        got = asyncio.Event()

        def handler(text: str) -> None:
            seen.append(text)
            got.set()

        loop.add_signal_handler(signal.SIGTERM, handler, "terminated")
        signal.raise_signal(signal.SIGTERM)
        await got.wait()
        seen.append(str(loop.remove_signal_handler(signal.SIGTERM)))
        seen.append(str(loop.remove_signal_handler(signal.SIGTERM)))
        for wrong, expected in (("TERM", TypeError), (1_000, ValueError), (signal.SIGKILL, RuntimeError)):
            with pytest.raises(expected):
                loop.add_signal_handler(wrong, handler)  # type: ignore[arg-type]  # a wrong argument
        return seen

    assert subject.run(case) == ["terminated", "True", "False"]


def test_signal_signal_sets_the_handler_of_the_process(subject: Subject) -> None:
    async def case() -> list[object]:
        seen: list[object] = []
        before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
        seen.append(before)
        signal.raise_signal(signal.SIGUSR1)
        await asyncio.sleep(0.01)
        handler = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        seen.append(callable(handler))
        signal.raise_signal(signal.SIGUSR1)
        await asyncio.sleep(0.01)
        seen.append(signal.getsignal(signal.SIGUSR1))
        seen.append(signal.signal(signal.SIGUSR1, signal.SIG_DFL))
        return seen

    assert subject.run(case) == [signal.SIG_DFL, signal.SIGUSR1, True, signal.SIG_IGN, signal.SIG_IGN]


def test_a_dropped_asynchronous_generator_is_closed_in_the_loop(subject: Subject) -> None:
    async def case() -> list[str]:
        seen = list[str]()

        async def numbers(name: str) -> AsyncIterator[int]:
            try:
                yield 1
                yield 2
            finally:
                await asyncio.sleep(0)
                seen.append(name)

        dropped = numbers("dropped")
        await anext(dropped)
        del dropped
        await asyncio.sleep(0.01)
        kept = numbers("kept")
        await anext(kept)
        await asyncio.get_running_loop().shutdown_asyncgens()
        with pytest.raises(StopAsyncIteration):
            await anext(kept)
        return seen

    assert subject.run(case) == ["dropped", "kept"]


def test_a_running_loop_cannot_be_run_or_closed(subject: Subject) -> None:
    async def case() -> list[str]:
        loop, seen = asyncio.get_running_loop(), list[str]()
        for call in (loop.run_forever, loop.close):
            with pytest.raises(RuntimeError) as caught:
                call()
            seen.append(str(caught.value))
        inner = asyncio.sleep(0)
        with pytest.raises(RuntimeError) as caught:
            asyncio.run(inner)
        seen.append(str(caught.value))
        inner.close()
        assert loop.is_running()
        assert not loop.is_closed()
        return seen

    assert subject.run(case) == [
        "This event loop is already running",
        "Cannot close a running event loop",
        "asyncio.run() cannot be called from a running event loop",
    ]


def test_queues_locks_and_conditions(subject: Subject) -> None:
    async def case() -> list[int]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        condition, seen, gate = asyncio.Condition(), list[int](), asyncio.Semaphore(0)

        async def producer() -> None:
            for number in range(4):
                await queue.put(number)
            gate.release()

        async def consumer() -> None:
            while len(seen) < 4:
                seen.append(await queue.get())
                queue.task_done()
            async with condition:
                condition.notify_all()

        async def waits() -> None:
            async with condition:
                await condition.wait_for(lambda: len(seen) == 4)

        await asyncio.gather(producer(), consumer(), waits(), gate.acquire())
        await queue.join()
        return seen

    assert subject.run(case) == [0, 1, 2, 3]
