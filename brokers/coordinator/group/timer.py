"""`TaskTimer` keeps tasks for a later time, ordered by that time. Mirrors `kafka.utils.timer.SystemTimer`.

A heartbeat postpones its member's session, thousands of times a second in a large cluster: that sets one number, and
the task is sorted in again when its old time has come.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

_FEW = 64
"""Maximum number of cancelled tasks that are kept until their time."""


class TimerTask:
    """Something to be done once. `TaskTimer.add` makes it.

    Attributes:
        due_ms: when, in monotonic milliseconds.
        action: what; None once it was done or cancelled.
    """

    __slots__ = ("action", "due_ms")

    def __init__(self, due_ms: float, action: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.action: Callable[[], None] | None = action


class TaskTimer:
    """Tasks by the time at which they are due."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, TimerTask]] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        """The number of tasks that are to be done."""
        return len(self._heap) - self._cancelled

    @property
    def next_ms(self) -> float | None:
        """When to look again, in monotonic milliseconds; None without tasks."""
        return self._heap[0][0] if self._heap else None

    def add(self, due_ms: float, action: Callable[[], None]) -> TimerTask:
        """Have `action` done at `due_ms`; of two at the same time the one that was added first comes first."""
        task = TimerTask(due_ms, action)
        self._push(task)
        return task

    def reschedule(self, task: TimerTask, due_ms: float) -> TimerTask:
        """Have a task done at another time; return it, or the one that replaces it."""
        if task.action is not None and due_ms >= task.due_ms:
            task.due_ms = due_ms
            return task
        action = task.action
        assert action is not None, "a task that was done has no other time"
        self.cancel(task)
        return self.add(due_ms, action)

    def cancel(self, task: TimerTask | None) -> None:
        """Cancel a task; harmless if there is none, or if it was done."""
        if task is None or task.action is None:
            return
        task.action = None
        self._cancelled += 1
        if self._cancelled > _FEW and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapify(self._heap)
            self._cancelled = 0

    def take_due(self, now_ms: float) -> Callable[[], None] | None:
        """Return the next action whose time has come, and forget it; None if none is due."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, task = heappop(self._heap)
            action = task.action
            if action is None:
                self._cancelled -= 1
            elif task.due_ms > now_ms:
                self._push(task)
            else:
                task.action = None
                return action
        return None

    def _push(self, task: TimerTask) -> None:
        self._sequence += 1
        heappush(self._heap, (task.due_ms, self._sequence, task))
