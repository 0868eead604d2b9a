"""The trace of a run: a line for each callback of the user's processes, to compare two runs of a seed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.testing.simulated_tests.verdict.code_lines import coroutine_name, waiting_lines


@contextmanager
def traced(lines: list[str]) -> Iterator[None]:
    """Add a line to `lines` for each callback: its virtual time, process, coroutine and place.

    For a task it is the line from which it continues, such as
    `12.345678 billing Fetcher._fetch_requests_routine aiokafka/consumer/fetcher.py:512`.
    """
    original = ProcessLoop._run

    def run(self: ProcessLoop, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        lines.append(f"{self.kernel.now:.6f} {self.process.name} {_place(callback)}")
        original(self, callback, args)

    ProcessLoop._run = run  # type: ignore[method-assign]  # until the run has ended
    try:
        yield
    finally:
        ProcessLoop._run = original  # type: ignore[method-assign]  # as above


def _place(callback: Callable[..., object]) -> str:
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        places = [line for line in waiting_lines(owner) if not line.is_own] or waiting_lines(owner)
        return f"{coroutine_name(owner)} {places[-1].place if places else ''}".rstrip()
    return str(getattr(callback, "__qualname__", type(callback).__name__))
