"""The tasks of the user's processes that wait, in words."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from understudy.clusters.virtual.blocking import waiting_frames
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.testing.simulated_tests.verdict.code_lines import blocked_lines, coroutine_name, waiting_lines, waits_at

_MOST = 30
"""Number of lines of a list."""


def unfinished(loop: ProcessLoop, apart_from: Sequence[asyncio.Future[Any]] = ()) -> list[asyncio.Task[Any]]:
    """Return the tasks of a process that are not done, in the order of their creation."""
    return sorted((task for task in asyncio.all_tasks(loop) if task not in apart_from), key=hash)


def in_words(task: asyncio.Task[Any]) -> str:
    """Return a task's name, its coroutine, and the line in which it waits."""
    name, coroutine = task.get_name(), coroutine_name(task)
    named = coroutine if name in {coroutine, "test"} or name.startswith("Task-") else f"{coroutine} ({name})"
    return f"{named} waits at {waits_at(waiting_lines(task))}"


def listed(loops: Iterable[ProcessLoop]) -> tuple[str, ...]:
    """Return a line for each task that waits and each function that blocks, of each process that is alive.

    Equal lines of a process are one.
    """
    found: list[str] = []
    for loop in loops:
        process = loop.process
        if not process.alive:
            continue
        state = " (paused)" if process.paused else ""
        tasks = Counter(map(in_words, unfinished(loop)))
        tasks.update(f"blocks at {waits_at(blocked_lines(frame))}" for frame in waiting_frames(loop))
        found += (
            f"{process.name}{state}: {text}" + (f" ({count} such tasks)" if count > 1 else "")
            for text, count in tasks.items()
        )
        if not tasks:
            found.append(f"{process.name}{state}: no task")
    more = len(found) - _MOST
    return (*found[:_MOST], f"… and {more} more lines") if more > 0 else tuple(found)
