"""`LoopThread`: coroutines run while other threads continue, failures are kept, and the end has a bound."""

from __future__ import annotations

import asyncio
import threading

import pytest

from understudy.clusters.processes.loop_thread import LoopThread


async def thread_name() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


async def fail() -> None:
    raise ValueError("of a coroutine")


async def forever() -> None:
    await asyncio.Event().wait()


def test_coroutines_run_on_the_loop_of_its_thread() -> None:
    with LoopThread("a-loop") as thread:
        assert thread.ask(thread_name(), 10) == "a-loop"
        names: list[str] = []

        async def note() -> None:
            names.append(await thread_name())

        thread.begin(note())
        thread.begin(note())
        assert thread.wait(10)
        assert names == ["a-loop", "a-loop"]


def test_what_a_coroutine_raises_reaches_who_asks_or_waits() -> None:
    with LoopThread("a-loop") as thread:
        with pytest.raises(ValueError, match="of a coroutine"):
            thread.ask(fail(), 10)
        assert thread.failure is None
        thread.begin(forever())
        thread.begin(fail())
        with pytest.raises(ValueError, match="of a coroutine"):
            thread.wait(10)
        assert isinstance(thread.failure, ValueError)


def test_what_does_not_end_is_cancelled() -> None:
    ended: list[str] = []

    async def noting(name: str) -> None:
        try:
            await forever()
        finally:
            ended.append(name)

    with LoopThread("a-loop") as thread:
        with pytest.raises(TimeoutError):
            thread.ask(noting("asked"), 0.05)
        thread.begin(noting("begun"))
        assert not thread.wait(0.05)
        assert ended == ["asked"]
    thread.close()
    assert ended == ["asked", "begun"]
    assert "a-loop" not in {each.name for each in threading.enumerate()}
