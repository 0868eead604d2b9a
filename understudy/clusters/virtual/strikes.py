"""`Strikes`: kills or pauses a service between two of its own awaits, by their number or at a named point."""

from __future__ import annotations

import asyncio
import linecache
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from understudy.clusters.nearest_word import did_you_mean
from understudy.clusters.virtual.process_loop import ProcessLoop

ACTIONS: Final = ("kill", "pause")
Strike = Callable[[str, float | None], None]
"""Function that kills or pauses the service, for a time or None."""

_FOLDERS: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_LIBRARIES: Final = tuple(
    f"{Path(path).resolve()}/" for path in (*map(sysconfig.get_path, _FOLDERS), str(Path(__file__).parents[2]))
)
"""The folders of Python, of installed packages and of Understudy."""


class Place(NamedTuple):
    """A place between two awaits of a service.

    Attributes:
        number: counts the places of its first process, from 1.
        words: the coroutine and the line that waits, or the named point.
    """

    number: int
    words: str

    def __str__(self) -> str:
        return f"await {self.number}: {self.words}"


@dataclass(slots=True)
class _Armed:
    left: int
    action: str
    for_s: float | None


class Strikes:
    """The places that a service reaches, and the faults that are armed at them.

    An await of a service is a step of one of its tasks after which a line of its own code waits: no module of Python or
    of an installed package, unless it belongs to the package of `main`. Steps in which only the client library runs do
    not count.

    Args:
        main: the main function; its package is the code of the service, and others are libraries.

    Attributes:
        places: the places that its first process has reached; empty unless `collects`.
        collects: whether it keeps the places.
        at_place: strike at the place with this number, and start it again; 0 for none.
    """

    def __init__(self, main: Callable[..., Any], strike: Strike) -> None:
        self.places: list[Place] = []
        self.collects = False
        self.at_place = 0
        self.restart_s = 1.0
        self._own = _package_of(main)
        self._strike = strike
        self._armed: dict[str, _Armed] = {}
        self._counting: list[_Armed] = []
        self._missed: list[str] = []
        self._reached: dict[str, int] = {}
        self._loop: ProcessLoop | None = None
        self._is_foreign: dict[str, bool] = {}

    # ------------------------------------------------------------------ arming

    def arm(self, point: str, action: str, nth: int, for_s: float | None) -> None:
        """Strike at the `nth` time from now that the service reaches a point. Raises ValueError."""
        action = _checked(action, nth, "nth")
        self._armed[point] = _Armed(nth, action, for_s)

    def after_awaits(self, count: int, action: str, for_s: float | None) -> None:
        """Strike when the service has waited `count` times more. Raises ValueError."""
        self._counting.append(_Armed(count, _checked(action, count, "after_awaits"), for_s))
        self._hook()

    def missed(self) -> list[str]:
        """Name what was armed and has not happened."""
        return [*self._missed, *self.not_reached()]

    def not_reached(self) -> list[str]:
        """Name what waits to happen."""
        reached = ", ".join(f"{name!r} ({times} times)" for name, times in self._reached.items()) or "none"
        points = [f"the point {point!r} was not reached; reached were {reached}" for point in self._armed]
        return points + [f"{each.left} awaits more were needed to {each.action} it" for each in self._counting]

    def disarm(self) -> None:
        self._missed += self.not_reached()
        self._armed.clear()
        self._counting.clear()

    # ------------------------------------------------------------------ the process

    def watch(self, loop: ProcessLoop) -> None:
        """Watch the next process of the service."""
        if self._loop is not None:
            self.collects = False  # the first process alone has places
            self.at_place = 0
        self._loop = loop
        self._hook()

    def _hook(self) -> None:
        if self._loop is not None:
            is_needed = self.collects or self.at_place or self._counting
            self._loop.after_callback = self._after_callback if is_needed else None

    async def at_point(self, name: str) -> None:
        """Note that the service reaches a named point, and strike if that is armed."""
        self._reached[name] = self._reached.get(name, 0) + 1
        if self._is_struck_at(f"the point {name!r}"):
            await asyncio.get_running_loop().create_future()  # the process is dead, and nothing after this runs
        armed = self._armed.get(name)
        if armed is None:
            return
        armed.left -= 1
        if not armed.left:
            del self._armed[name]
            self._strike(armed.action, armed.for_s)
            # The rest runs in a paused process when it is resumed, and never in a killed one.
            await asyncio.sleep(0)

    def _after_callback(self, callback: Callable[..., object]) -> None:
        task = getattr(callback, "__self__", None)
        if not isinstance(task, asyncio.Task) or (words := self._waits_at(task)) is None:
            return
        if self._is_struck_at(words):
            return
        for armed in tuple(self._counting):
            armed.left -= 1
            if not armed.left:
                self._counting.remove(armed)
                self._hook()
                self._strike(armed.action, armed.for_s)

    def _is_struck_at(self, words: str) -> bool:
        """Count a place, and kill the service if it is the chosen one."""
        if not self.collects and not self.at_place:
            return False
        self.places.append(Place(len(self.places) + 1, words))
        if len(self.places) != self.at_place:
            return False
        self.collects, self.at_place = False, 0
        self._strike("kill", self.restart_s)
        return True

    # ------------------------------------------------------------------ code

    def _waits_at(self, task: asyncio.Task[Any]) -> str | None:
        """The innermost line of the service's own code in which a task waits, or None if there is none."""
        if task.done():
            return None
        found = None
        awaited: Any = task.get_coro()
        while awaited is not None:
            frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
            if frame is not None and self._is_own(frame.f_code.co_filename):
                found = frame
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
        if found is None:
            return None
        code = found.f_code
        line = linecache.getline(code.co_filename, found.f_lineno).strip()
        return f"{code.co_name} at {Path(code.co_filename).name}:{found.f_lineno}: {line}"

    def _is_own(self, file: str) -> bool:
        is_foreign = self._is_foreign.get(file)
        if is_foreign is None:
            path = str(Path(file).resolve()) if not file.startswith("<") else file
            is_library = file.startswith("<frozen") or path.startswith(_LIBRARIES)
            is_foreign = self._is_foreign[file] = is_library and not (self._own and path.startswith(self._own))
        return not is_foreign


def _checked(action: str, count: int, name: str) -> str:
    action = {"crash": "kill"}.get(action, action)  # the word for brokers
    if action not in ACTIONS:
        raise ValueError(f"a service is killed or paused at a point, and not {action!r}{did_you_mean(action, ACTIONS)}")
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name} is a whole number from 1, and not {count!r}")
    return action


def _package_of(main: Any) -> str:
    """The folder of the top-level package that a function belongs to; empty for a module of its own."""
    package = str(getattr(main, "__module__", "") or "").partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return f"{Path(file).resolve().parent}/" if file.endswith("__init__.py") and package != "understudy" else ""
