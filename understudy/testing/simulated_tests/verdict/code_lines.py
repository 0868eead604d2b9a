"""Lines of code in words: of an exception's traceback, and of a task that waits.

Shown are lines of the user and of installed libraries, such as a client. Lines of Python's own library and of this
product are left out unless there is no other.
"""

from __future__ import annotations

import asyncio
import gc
import linecache
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

_PRODUCT: Final = str(Path(__file__).parents[3])
_PYTHON: Final = tuple({sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")})
_INSTALLED: Final = ("/site-packages/", "/dist-packages/")
_MOST_OF_EACH: Final = 2
"""Number of lines of the user, and of libraries, that are shown of one traceback."""
_MOST_CAUSES: Final = 3
_MOST_IN_GROUP: Final = 5
_MOST_SOURCE: Final = 100


class CodeLine(NamedTuple):
    """A line of code that was run."""

    file: str
    number: int
    function: str

    @property
    def is_of_library(self) -> bool:
        """Whether it is of an installed library."""
        return any(each in self.file for each in _INSTALLED)

    @property
    def is_own(self) -> bool:
        """Whether it is of Python's own library or of this product."""
        is_of_python = self.file.startswith(_PYTHON) and not self.is_of_library
        return is_of_python or self.file.startswith((_PRODUCT, "<frozen"))

    @property
    def place(self) -> str:
        return f"{short_path(self.file)}:{self.number}"

    def __str__(self) -> str:
        source = linecache.getline(self.file, self.number).strip()
        if len(source) > _MOST_SOURCE:
            source = f"{source[:_MOST_SOURCE]}…"
        return f"{self.place} in {self.function}" + (f": {source}" if source else "")


def short_path(file: str) -> str:
    """Return a file's path from the current folder, or from the folder of its library."""
    for each in (*_INSTALLED, *(f"{folder}/" for folder in _PYTHON)):
        if each in file:
            return file.rpartition(each)[2]
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _chosen(lines: Iterable[CodeLine]) -> list[CodeLine]:
    """Return the last lines of the user and of libraries, in their order; the last one if there are none of them."""
    every = list(lines)
    ours = [line for line in every if not line.is_own]
    kept = {
        *[line for line in ours if not line.is_of_library][-_MOST_OF_EACH:],
        *[line for line in ours if line.is_of_library][-_MOST_OF_EACH:],
    }
    return [line for line in ours if line in kept] or every[-1:]


# ---------------------------------------------------------------------- exceptions


def name_of(error: BaseException) -> str:
    """Return the type of an exception, and its message if it has one."""
    message = str(error).strip()
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def raised_at(error: BaseException) -> str:
    """Return the type of an exception and the user's last line in its traceback, which two runs have in common."""
    line = raising_line(error)
    return type(error).__name__ if line is None else f"{type(error).__name__} at {line.place}"


def raising_line(error: BaseException) -> CodeLine | None:
    """Return the user's last line in the traceback of an exception; None if it has only lines of ours."""
    lines = [line for line in _of_traceback(error) if not line.is_own]
    of_user = [line for line in lines if not line.is_of_library] or lines
    return of_user[-1] if of_user else None


def traceback_lines(error: BaseException) -> tuple[str, ...]:
    """Return the last lines of a traceback, of the user and of libraries, and of its causes."""
    found: list[str] = []
    each: BaseException | None = error
    for number in range(_MOST_CAUSES):
        if each is None:
            break
        if number:
            found.append(f"because of {_first_line(name_of(each))}")
        found += map(str, _chosen(_of_traceback(each)))
        if isinstance(each, BaseExceptionGroup):
            for inner in each.exceptions[:_MOST_IN_GROUP]:
                found.append(f"with {_first_line(name_of(inner))}")
                found += (f"  {line}" for line in _chosen(_of_traceback(inner)))
        each = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
    return tuple(found)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _of_traceback(error: BaseException) -> list[CodeLine]:
    summary = traceback.extract_tb(error.__traceback__)
    return [CodeLine(each.filename, each.lineno or 0, each.name) for each in summary]


# ---------------------------------------------------------------------- tasks that wait


def waiting_lines(task: asyncio.Task[Any]) -> list[CodeLine]:
    """Return the lines in which a task waits, from its outermost function to the innermost."""
    return [_of_frame(frame) for frame in _frames(task.get_coro())]


def blocked_lines(frame: FrameType | None) -> list[CodeLine]:
    """Return the lines of a function that blocks, from its outermost function to the innermost, by the innermost."""
    found: list[CodeLine] = []
    while frame is not None:
        found.append(_of_frame(frame))
        frame = frame.f_back
    return found[::-1]


def waits_at(lines: Sequence[CodeLine]) -> str:
    """Return the user's innermost line, then the innermost line of a library if it has called one."""
    ours = [line for line in lines if not line.is_own]
    of_user = [line for line in ours if not line.is_of_library][-1:]
    of_library = [line for line in ours[-1:] if line.is_of_library]
    return "; ".join(map(str, [*of_user, *of_library] or list(lines[-1:]))) or "no line: it has not begun"


def coroutine_name(task: asyncio.Future[Any]) -> str:
    """Return the name of a task's coroutine, or the type of a future that has none."""
    coroutine = task.get_coro() if isinstance(task, asyncio.Task) else None
    return getattr(coroutine, "__qualname__", None) or type(coroutine or task).__name__


def _of_frame(frame: FrameType) -> CodeLine:
    return CodeLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


def _frames(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of those that it waits for."""
    for _ in range(1_000):
        if waiting is None:
            return
        for prefix, awaited in (("cr", "cr_await"), ("ag", "ag_await"), ("gi", "gi_yieldfrom")):
            if hasattr(waiting, awaited):
                frame = getattr(waiting, f"{prefix}_frame")
                if frame is not None:
                    yield frame
                waiting = getattr(waiting, awaited)
                break
        else:
            # `async for` and `anext` wait for an object of Python that names its generator nowhere.
            inner = [
                each for each in gc.get_referents(waiting) if hasattr(each, "ag_await") or hasattr(each, "cr_await")
            ]
            waiting = inner[0] if len(inner) == 1 else None
