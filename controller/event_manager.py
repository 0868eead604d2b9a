"""The controller's event queue: processes one event at a time, in order. Mirrors `ControllerEventManager`.

All work of the controller happens inside an event, so procedures need no locks and never interleave. The queue has a
bound (D14). Past it all events are answered and dropped, except those that would not be queued again, and the
controller resigns: its successor reads from ZooKeeper what the dropped events announced.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from structlog.contextvars import bound_contextvars

from understudy.controller.controller_state import ControllerState
from understudy.controller.events import (
    INDISPENSABLE_EVENTS,
    ControllerEvent,
    ForcedResignation,
    ShutdownEventThread,
    name_of,
    preempt,
)
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog, causing, current_cause
from understudy.foundation.eventlog.records import EventEnded, EventPreempted, EventQueued, EventStarted
from understudy.foundation.metrics.instruments import Histogram, Timer

EVENT_QUEUE_TIME_TIMEOUT_MS = 300_000
"""Time without an event after which the histogram of queue times is cleared (EQ-5, KAFKA-10189)."""


@dataclass(slots=True)
class QueuedEvent:
    """An event in the queue. It is processed or preempted once (EQ-3)."""

    id: int
    event: ControllerEvent
    seq: int
    """The sequence number of its `EventQueued`, the cause of whatever the event does."""
    queued_at_ms: float
    _over: asyncio.Event = field(default_factory=asyncio.Event)

    async def over(self) -> None:
        """Wait until it has been processed or preempted."""
        await self._over.wait()


class ControllerEventManager:
    """The queue and the task that processes it.

    Args:
        process: processes an event and returns its outcome, a word for the record. It must not raise: without its task
            an elected controller would do nothing.
        idle: called when the queue has become empty after an event.
        broken: called if the task has ended by an exception all the same; no event will be processed any more.
        bound: how many events may wait.
        timers: by state, the timer of its events; a state without one is not timed.

    Attributes:
        state: the kind of the event in progress.
        is_busy: whether an event is in progress.
    """

    def __init__(
        self,
        *,
        process: Callable[[ControllerEvent], Awaitable[str]],
        idle: Callable[[], None],
        broken: Callable[[BaseException], None],
        clock: Clock,
        events: EventLog,
        bound: int,
        timers: Mapping[ControllerState, Timer] | None = None,
    ) -> None:
        self.state = ControllerState.IDLE
        self.is_busy = False
        self._process = process
        self._idle = idle
        self._broken = broken
        self._clock = clock
        self._events = events
        self._bound = bound
        self._timers = timers or {}
        self._queue_time = Histogram(clock)
        self._waiting_since_ms: float | None = None
        """Since when the queue has been empty; None while it is not."""
        self._queue: deque[QueuedEvent] = deque()
        self._filled = asyncio.Event()
        self._queued = 0
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="controller-event-thread")
        self._task.add_done_callback(self._ended)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def queue_time(self) -> Histogram:
        """How long events have waited, in milliseconds."""
        since = self._waiting_since_ms
        if (
            since is not None
            and self._queue_time.count
            and self._clock.monotonic_ms() - since >= EVENT_QUEUE_TIME_TIMEOUT_MS
        ):
            self._queue_time.clear()
        return self._queue_time

    def put(self, event: ControllerEvent) -> None:
        """Queue `event` behind all others. After `close` it is preempted at once."""
        if self._closing:
            preempt(event)
            return
        self._append(event)
        if len(self._queue) > self._bound:
            self._overflow()

    def clear_and_put(self, event: ControllerEvent) -> QueuedEvent:
        """Preempt all waiting events, then queue `event` (EQ-2). After `close` it is preempted at once."""
        if self._closing:
            return self._preempted_at_once(event)
        self._preempt()
        return self._append(event)

    async def close(self, *, timeout_ms: int) -> None:
        """Preempt all waiting events, and end after the event in progress, which is cancelled after `timeout_ms`."""
        if self._closing:
            return
        if self._task is None or self._task.done():
            self._refuse_from_now_on()
            return
        last = self.clear_and_put(ShutdownEventThread())
        self._closing = True
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await last.over()
        except TimeoutError:
            self._task.cancel()
        await asyncio.wait([self._task])

    # -- the queue

    def _append(self, event: ControllerEvent) -> QueuedEvent:
        queued = self._numbered(event)
        self._queue.append(queued)
        self._filled.set()
        return queued

    def _numbered(self, event: ControllerEvent) -> QueuedEvent:
        self._queued += 1
        seq = self._events.append(EventQueued(event_id=self._queued, event=name_of(event)), cause=current_cause())
        return QueuedEvent(self._queued, event, seq, self._clock.monotonic_ms())

    def _preempted_at_once(self, event: ControllerEvent) -> QueuedEvent:
        """Preempt an event that comes after `close`, and leave the event that ends the queue where it is."""
        queued = self._numbered(event)
        self._preempt_one(queued)
        return queued

    def _preempt(self, *, keep: tuple[type[ControllerEvent], ...] = ()) -> None:
        waiting, self._queue = self._queue, deque()
        for queued in waiting:
            if isinstance(queued.event, keep):
                self._queue.append(queued)
            else:
                self._preempt_one(queued)

    def _preempt_one(self, queued: QueuedEvent) -> None:
        preempt(queued.event)
        queued._over.set()
        self._events.append(EventPreempted(event_id=queued.id, event=name_of(queued.event)), cause=queued.seq)

    def _refuse_from_now_on(self) -> None:
        self._closing = True
        self._preempt()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._broken(failure)
            self._refuse_from_now_on()

    def _overflow(self) -> None:
        self._preempt(keep=INDISPENSABLE_EVENTS)
        self._append(ForcedResignation(f"more than {self._bound} events were waiting"))

    # -- processing

    async def _run(self) -> None:
        while True:
            queued = await self._next()
            if isinstance(queued.event, ShutdownEventThread):
                self._record_shutdown(queued)
                return
            await self._handle(queued)
            if not self._queue:
                self._idle()

    async def _next(self) -> QueuedEvent:
        if not self._queue:
            self._waiting_since_ms = self._clock.monotonic_ms()
        while not self._queue:
            self._filled.clear()
            await self._filled.wait()
        return self._queue.popleft()

    async def _handle(self, queued: QueuedEvent) -> None:
        name = name_of(queued.event)
        started_at_ms = self._clock.monotonic_ms()
        waited_ms = round(started_at_ms - queued.queued_at_ms, 3)
        self.state, self.is_busy = queued.event.state, True
        self.queue_time.update(waited_ms)
        self._waiting_since_ms = None
        started = self._events.append(
            EventStarted(event_id=queued.id, event=name, queued_ms=waited_ms), cause=queued.seq
        )
        # In every line that is logged meanwhile, also by tasks that are started meanwhile.
        with causing(started), bound_contextvars(controller_event=name):
            try:
                outcome = await self._process(queued.event)
            except asyncio.CancelledError:
                # Cancelled by `close`: a client that waits for this event would wait for ever.
                self._preempt_one(queued)
                raise
        took_ms = round(self._clock.monotonic_ms() - started_at_ms, 3)
        if (timer := self._timers.get(self.state)) is not None:
            timer.update(took_ms)
        self.state, self.is_busy = ControllerState.IDLE, False
        self._events.append(EventEnded(event_id=queued.id, event=name, took_ms=took_ms, outcome=outcome), cause=started)
        queued._over.set()

    def _record_shutdown(self, queued: QueuedEvent) -> None:
        name = name_of(queued.event)
        started = self._events.append(EventStarted(event_id=queued.id, event=name, queued_ms=0.0), cause=queued.seq)
        self._events.append(EventEnded(event_id=queued.id, event=name, took_ms=0.0), cause=started)
        queued._over.set()
