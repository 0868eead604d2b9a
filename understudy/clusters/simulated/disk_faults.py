"""The faults of a simulated node's disk: operations that fail or take longer, and flushes that do nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

OPERATIONS: Final = (
    "append", "delete", "delete_folder", "flush", "flush_directory", "list_folder", "make_folder", "read", "read_at",
    "rename", "truncate", "volume", "write",
)  # fmt: skip
"""Methods of `Disk` that a rule can make fail."""


class ProcessEnded(BaseException):
    """Ends a callback whose process was killed during it."""


@dataclass(slots=True, kw_only=True)
class _Rule:
    name: str
    path_prefix: str
    operation: str
    error: int = 0
    times: int | None = None
    delay_ms: float = 0.0
    is_skipped: bool = False
    ends: Callable[[], None] | None = None
    """Kills the process in the middle of the operation."""
    hits: int = 0


class DiskFaults:
    """The rules of one disk."""

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._missed: list[str] = []
        self.stall: Callable[[float], None] = lambda ms: None
        """Lets the running process wait for a number of milliseconds."""

    def fail(
        self, path_prefix: str, operation: str, error: int, *, times: int | None = None, name: str = "fail"
    ) -> None:
        """Make an operation on paths with this prefix fail, until `clear`.

        An append that fails adds half of its data first. A failed `flush` loses the bytes that were not flushed, at
        the next loss of power; a process that flushes such a file again fails an assertion.

        Args:
            operation: one of `OPERATIONS`; a rename fails by the path that it renames.
            error: an errno, such as `errno.EIO` or `errno.ENOSPC`.
            times: the number of calls that fail; None for all.
        """
        if operation not in OPERATIONS:
            raise ValueError(f"no operation {operation!r} can fail; the operations are {', '.join(OPERATIONS)}")
        self._rules.append(_Rule(name=name, path_prefix=path_prefix, operation=operation, error=error, times=times))

    def slow(self, operation: str, delay_ms: float, *, name: str) -> None:
        """Let the process wait for `delay_ms` at each such operation."""
        self._rules.append(_Rule(name=name, path_prefix="", operation=operation, delay_ms=delay_ms))

    def skip_flushes(self, *, name: str) -> None:
        """Let flushes return at once, and make nothing durable."""
        for operation in ("flush", "flush_directory"):
            self._rules.append(_Rule(name=name, path_prefix="", operation=operation, is_skipped=True))

    def end_in_append(self, ends: Callable[[], None], *, name: str) -> None:
        """Call `ends`, which kills the process, in the middle of the next append, when half of it is written."""
        self._rules.append(_Rule(name=name, path_prefix="", operation="append", times=1, ends=ends))

    def remove(self, name: str) -> None:
        """End the faults of this name. Harmless if there is none."""
        self._missed += [unused for unused in self._unused() if unused == name]
        self._rules = [rule for rule in self._rules if rule.name != name]

    def clear(self) -> None:
        """End all faults. The bytes that a failed flush has lost stay lost."""
        self._rules.clear()
        self._missed.clear()

    def missed(self) -> list[str]:
        """The names of the faults that have met no operation so far."""
        return [*self._missed, *self._unused()]

    def _unused(self) -> list[str]:
        return sorted({rule.name for rule in self._rules} - {rule.name for rule in self._rules if rule.hits})

    def apply(self, operation: str, path: str) -> bool:
        """Apply the rules to an operation; return whether the operation must do nothing.

        Raises:
            OSError: it fails.
            ProcessEnded: the process was killed.
        """
        is_skipped = False
        for rule in self._rules:
            if rule.operation != operation or not path.startswith(rule.path_prefix) or rule.times == 0:
                continue
            rule.hits += 1
            if rule.times is not None:
                rule.times -= 1
            if rule.delay_ms:
                self.stall(rule.delay_ms)
            is_skipped |= rule.is_skipped
            if rule.ends is not None:
                rule.ends()
                raise ProcessEnded
            if rule.error:
                raise OSError(rule.error, os.strerror(rule.error), path)
        return is_skipped
