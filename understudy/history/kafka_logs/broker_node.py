"""`BrokerNode` writes the event log of one broker of the imported cluster, and keeps what later lines refer to."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    Leadership,
    LeadershipWritten,
    PartitionsMoved,
    Payload,
    ProcessStarted,
    ReplicasMoved,
    ResponseReceived,
    RunDescribed,
    StillRunning,
    Transition,
    type_name,
)
from understudy.history.kafka_logs.kafka_text import UNKNOWN
from understudy.history.kafka_logs.written_records import WrittenRecords
from understudy.history.reading.run_records import broker_node

SOFTWARE: Final = "Apache Kafka"
SILENCE_MS: Final = 1_000
"""Length of a silence before which the last line becomes a `StillRunning`, if it is no other record."""
MAX_UNANSWERED: Final = 10_000
"""Maximum number of unanswered requests to one broker that are kept; the oldest are dropped first."""


class WallClock(Protocol):
    """The wall clock of a node."""

    def wall_ms(self, run_ms: float) -> float:
        """Return the time of this clock at a time of the run."""
        ...


@dataclass(slots=True)
class EntryClock:
    """A clock that shows the time of the entry that is being imported.

    Attributes:
        ms: the time of the run.
        own: the wall clock of the broker; None if it is the time of the run.
    """

    ms: float = 0.0
    own: WallClock | None = None

    def monotonic_ms(self) -> float:
        return self.ms

    def wall_ms(self) -> float:
        return self.ms if self.own is None else self.own.wall_ms(self.ms)


class SentRequest(NamedTuple):
    """A control request that a controller put into its channel to a broker."""

    seq: int
    api: str
    ms: float


@dataclass(slots=True)
class Takeover:
    """The facts that a new controller has logged about itself since its election.

    Attributes:
        epoch: its controller epoch; `UNKNOWN` if the broker is not controller.
        cause: the `seq` of the record that led to the election; None if the logs have none.
        reading_since_ms: when it began to read the cluster's state.
        broker_epochs: the broker id and epoch of each live broker that it read.
        is_under_way: whether the requests that it sends belong to the takeover.
        partitions: the number of partitions of the cluster; `UNKNOWN` if the log does not state it.
    """

    epoch: int = UNKNOWN
    elected_ms: float = 0.0
    cause: int | None = None
    is_under_way: bool = False
    reading_since_ms: float | None = None
    broker_epochs: tuple[tuple[int, int], ...] | None = None
    live_brokers: tuple[int, ...] | None = None
    shutting_down: tuple[int, ...] = ()
    topics: tuple[str, ...] | None = None
    partitions: int = UNKNOWN


class HeldAnswer(NamedTuple):
    """An answer in the log of its sender, kept until the controller is known to have run at that time."""

    ms: float
    payload: ResponseReceived
    cause: int


@dataclass(slots=True)
class HandledRequest:
    """The LeaderAndIsr that a broker is handling; a broker handles one at a time."""

    controller: int
    correlation_id: int
    error: str = "NONE"


class BrokerNode:
    """One broker of the imported cluster. All times are times of the run.

    Records of partitions that have the same millisecond and subject become one record.

    Args:
        name: the name of the node; by default of this broker.
        clock: its wall clock; None if that is the time of the run.
        described: called before the first record of an incarnation; returns a record to be written before it.
        records: gets each record that is written.

    Attributes:
        written: the number of records of each type that have been written.
        left_out: the number of records that have been left out, by record and reason.
        takeover: the takeover after its last election.
        why: the reason for which its controller elects leaders, from its last line about one; empty without one.
        is_resigning: whether its last line about resigning was `Resigning`.
        resigns_because: the reason, in words, of the next resignation of its controller.
        stops_because: the reason for which its process ends.
        session_id: its ZooKeeper session; 0 while the logs have not named one.
        traces_answers: whether its state-change.log has the answers to its requests, which are logged at TRACE only.
        sent: its unanswered requests by receiver, the oldest first.
        handling: the LeaderAndIsr that it is handling; None if there is none.
        had_event_thread: whether this incarnation has logged the start of its controller's event thread.
        has_begun: whether its server.log has the first line of a process, but not yet `starting`.
        is_connected: whether the connection of its session is up.
        read_epoch_version: the version of `/controller_epoch` that it has read before it increments the epoch;
            `UNKNOWN` if it has not, or if there is none.
        gone_cause: the `seq` of its record of the deletion of `/controller`, until the election that follows.
    """

    def __init__(
        self,
        broker: int,
        folder: Path,
        run: str,
        *,
        written: Counter[str],
        left_out: Counter[str],
        name: str = "",
        clock: WallClock | None = None,
        described: Callable[[], RunDescribed | None] = lambda: None,
        records: WrittenRecords | None = None,
    ) -> None:
        self.broker = broker
        self._name = name or broker_node(broker)
        self.written = written
        self.left_out = left_out
        self.clock = EntryClock(own=clock)
        self._described = described
        self._records = WrittenRecords() if records is None else records
        self._folder = folder
        self._run = run
        self._files: JsonLinesFiles | None = None
        self._log: EventLog | None = None
        self._last_record_ms = 0.0
        self._last_line_ms = 0.0
        self._last_line_source = ""
        self._group_ms = 0.0
        self._leaderships: dict[str, list[Leadership]] = {}
        self._partitions: dict[str, list[Transition]] = {}
        self._replicas: dict[str, list[Transition]] = {}
        self.controller_epoch = 0
        self._forget()

    def _forget(self) -> None:
        """Reset everything that an earlier process of this broker had in memory."""
        self.takeover = Takeover()
        self.why = ""
        self.is_resigning = False
        self.resigns_because = ""
        self.stops_because = ""
        self.session_id = 0
        self.is_connected = True
        self.traces_answers = False
        self.sent: dict[int, deque[SentRequest]] = {}
        self.answered_ms: dict[int, float] = {}
        self.handling: HandledRequest | None = None
        self.had_event_thread = False
        self.has_begun = False
        self.gone_cause: int | None = None
        self.read_epoch_version = UNKNOWN
        self._held: list[HeldAnswer] = []

    def start_incarnation(self, ms: float) -> None:
        """Begin the next incarnation with a `ProcessStarted`."""
        self.end_incarnation()
        self.write(ms, ProcessStarted(role="broker", broker_id=self.broker, software=SOFTWARE))

    def end_incarnation(self) -> None:
        """End this incarnation, if it has begun; the next record begins another."""
        self.close()
        self._forget()

    def write(self, ms: float, payload: Payload, *, cause: int | None = None, zxid: int = 0) -> int:
        """Append a record at `ms` and return its sequence number. Raises OSError."""
        self._write_groups()
        self._write_held()
        return self._append(ms, payload, cause, zxid)

    def write_leadership(self, ms: float, why: str, state: Leadership, *, zxid: int = 0) -> None:
        """Append a partition state to the `LeadershipWritten` of this millisecond and reason."""
        self._group(ms)
        self._zxid = max(self._zxid, zxid)
        self._leaderships.setdefault(why, []).append(state)

    def write_moved(self, ms: float, target: str, moved: Transition) -> None:
        """Append a partition or a replica to the `PartitionsMoved` or `ReplicasMoved` of this millisecond and state."""
        self._group(ms)
        groups = self._partitions if moved.replica < 0 else self._replicas
        groups.setdefault(target, []).append(moved)

    def line_was_read(self, ms: float, source: str) -> None:
        """Note a line of any kind, after its records: the broker was running at this time."""
        if self._held:
            self._write_groups()
            self._write_held()
        if ms - self._last_line_ms >= SILENCE_MS:
            self._write_last_line()
        self._last_line_ms, self._last_line_source = ms, source

    def hold_answer(self, answer: HeldAnswer) -> None:
        """Keep an answer until this broker's next line: a controller that was killed meanwhile did not receive it."""
        self._held.append(answer)

    def close(self) -> None:
        """Write everything that is left except held answers, and end the incarnation."""
        self._write_groups()
        if self._held:
            self.left_out["ResponseReceived: its controller logged nothing after it"] += len(self._held)
            self._held = []
        self._write_last_line()
        if self._files is not None:
            self._files.close()
            self._files = self._log = None

    def remember_sent(self, to: int, request: SentRequest) -> None:
        """Keep a request until its answer."""
        self.sent.setdefault(to, deque(maxlen=MAX_UNANSWERED)).append(request)

    def next_answered(self, sender: int, api: str) -> SentRequest | None:
        """Remove the oldest unanswered request of this API and those before it; return it, or None if there is none.

        A channel sends one request at a time and in order, so those before it were answered without a line.
        """
        queue = self.sent.get(sender, deque())
        if not any(request.api == api for request in queue):
            return None
        while (request := queue.popleft()).api != api:
            pass
        return request

    def forget_requests(self, to: int | None = None) -> None:
        """Forget the unanswered requests to one broker, whose channel is closed, or to all."""
        if to is None:
            self.sent.clear()
        else:
            self.sent.pop(to, None)

    def _write_last_line(self) -> None:
        """Write a `StillRunning` at the time of the last line, unless a record is as late as that."""
        if self._last_line_ms > max(self._last_record_ms, self._group_ms if self._has_groups else 0.0):
            ms, self._last_record_ms = self._last_line_ms, self._last_line_ms
            self._append(ms, StillRunning(source=self._last_line_source), None, 0)

    def _append(self, ms: float, payload: Payload, cause: int | None, zxid: int) -> int:
        if ms - self._last_line_ms >= SILENCE_MS:
            self._write_last_line()
        self._last_record_ms = max(self._last_record_ms, ms)
        if self._log is None:
            self._files = JsonLinesFiles(self._folder, self._name)
            self._log = EventLog(
                run=self._run,
                node=self._name,
                incarnation=self._files.incarnation,
                clock=self.clock,
                write=self._files.write,
            )
            self.clock.ms = max(self.clock.ms, ms)
            if (described := self._described()) is not None:
                self._write_record(self._log, described, None)
        self.clock.ms = max(self.clock.ms, ms)
        self._log.saw_zxid(zxid)
        self._log.saw_controller_epoch(self.controller_epoch)
        return self._write_record(self._log, payload, cause)

    def _write_record(self, log: EventLog, payload: Payload, cause: int | None) -> int:
        self.written[type_name(payload)] += 1
        seq = log.append(payload, cause=cause)
        self._records.add(log, seq, self.clock.ms, payload)
        return seq

    _zxid = 0

    @property
    def _has_groups(self) -> bool:
        return bool(self._leaderships or self._partitions or self._replicas)

    def _group(self, ms: float) -> None:
        if ms != self._group_ms or self._held:
            self._write_groups()
            self._write_held()
            self._group_ms = ms

    def _write_held(self) -> None:
        held, self._held = self._held, []
        for answer in held:
            self._append(answer.ms, answer.payload, answer.cause, 0)

    def _write_groups(self) -> None:
        if not self._has_groups:
            return
        ms, zxid, self._zxid = self._group_ms, self._zxid, 0
        for why, states in self._leaderships.items():
            self._append(ms, LeadershipWritten(why=why, partitions=tuple(states)), None, zxid)
        for target, partitions in self._partitions.items():
            self._append(ms, PartitionsMoved(target=target, partitions=tuple(partitions)), None, zxid)
        for target, replicas in self._replicas.items():
            self._append(ms, ReplicasMoved(target=target, replicas=tuple(replicas)), None, zxid)
        self._leaderships, self._partitions, self._replicas = {}, {}, {}
