"""Collects what bounds the clocks of a run's incarnations to each other: which record was written before which.

A message is sent before it is received, a ZooKeeper transaction is requested before an answer reflects it, an
incarnation ends before the next one of its node begins, and the testbed describes a run before it starts the brokers.
Kept are open messages, and of each two incarnations the narrowest bounds by stretch of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from understudy.foundation.eventlog.records import (
    AlignedClock,
    LogSeen,
    Payload,
    ProcessStarted,
    RequestFailed,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
    RunDescribed,
    ZkWrite,
    ZkWriteDone,
)
from understudy.foundation.times import micros
from understudy.history.reading.clocks import Incarnation

MOST_STRETCHES: Final = 512
"""Maximum number of stretches of time for which the narrowest bound between two incarnations is kept."""
MOST_TRANSACTIONS: Final = 512
"""Maximum number of ZooKeeper transactions of an incarnation, and of zxids that it has seen, that are kept."""
MOST_WALLS: Final = 128
"""Maximum number of wall clocks of an incarnation that are kept."""
WALL_CLOCK_WITHIN_US: Final = 1_000_000
"""A wall clock is expected to be right within this."""

_STARTED: Final = msgspec.json.Decoder(ProcessStarted)
_DESCRIBED: Final = msgspec.json.Decoder(RunDescribed)
_FIRST_STRETCH_US: Final = 1 << 21
_FIRST_INTERVAL_MS: Final = 10_000.0

_Message: TypeAlias = tuple[bool, str, str, str, int, int, int]
"""Whether it is an answer, the serving node, API, client id, correlation id, controller epoch and broker epoch."""


class ClockSigns:
    """Notices if the incarnations of a run may read several clocks, from one record of each, preferably the first.

    Whether they do is decided by `align`.
    """

    def __init__(self) -> None:
        self._begins: dict[Incarnation, tuple[str, float]] = {}
        """The boot of each incarnation, and its wall clock minus its monotonic clock."""
        self._is_aligned = False

    def add(self, record: Any) -> None:
        """Add an `EnvelopeHeader` or a `LogRow`."""
        boot = ""
        if record.type == "ProcessStarted":
            with suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):  # the reader finds the damage
                boot = _STARTED.decode(record.data).boot
        elif record.type == "RunDescribed":
            with suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                self._is_aligned = self._is_aligned or bool(_DESCRIBED.decode(record.data).aligned_clocks)
        name = (record.node, record.incarnation)
        if boot or name not in self._begins:
            self._begins[name] = boot, record.wall_ms - record.mono_ms

    @property
    def may_be_several(self) -> bool:
        if self._is_aligned:
            return True
        boots = {boot for boot, _ in self._begins.values()}
        if len(boots - {""}) > 1:
            return True
        starts = [start for _, start in self._begins.values()]
        return "" in boots and max(starts) - min(starts) > WALL_CLOCK_WITHIN_US / 1000


class Order(NamedTuple):
    """A record of one incarnation that was written before a record of another; both by their own clock."""

    gap_us: int
    """The later clock minus the earlier: the smaller it is, the narrower is the bound."""
    earlier_us: int
    later_us: int


class Stretches:
    """The narrowest bounds between two incarnations, one for each stretch of time. The stretches grow with the run."""

    __slots__ = ("_found", "_width_us")

    def __init__(self) -> None:
        self._width_us = _FIRST_STRETCH_US
        self._found: dict[int, Order] = {}

    def add(self, earlier_us: int, later_us: int) -> None:
        known = self._found.get(earlier_us // self._width_us)
        if known is None or later_us - earlier_us <= known.gap_us:
            self.add_order(Order(later_us - earlier_us, earlier_us, later_us))

    def add_order(self, order: Order) -> None:
        stretch = order.earlier_us // self._width_us
        self._found[stretch] = min(order, self._found.get(stretch, order))
        while len(self._found) > MOST_STRETCHES:
            self._width_us *= 2
            found, self._found = self._found, {}
            for other in found.values():
                stretch = other.earlier_us // self._width_us
                self._found[stretch] = min(other, self._found.get(stretch, other))

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Order]:
        return iter(sorted(self._found.values()))


class IncarnationEvidence:
    """The signs of one incarnation's clock; all times are by this clock, in microseconds.

    Attributes:
        file: the file of the first record; empty before it.
        boot: as in `ProcessStarted`; empty if there is none.
        last_us: the largest clock; it is set at the end.
        walls: some of its clocks with the wall clock; the first one is from the first record.
        transactions: when it requested each ZooKeeper transaction: its clock and the zxid.
        zxids: when it had first seen a zxid: its clock and the zxid.
        described_us: the clock of the first `RunDescribed`; None if there is none.
        seen: the incarnations whose logs this one has seen to their ends, and when.
    """

    def __init__(self, name: Incarnation) -> None:
        self.name = name
        self.file = ""
        self.machine = ""
        self.boot = ""
        self.has_testbed = False
        self.records = 0
        self.last_us = 0
        self.walls: list[tuple[int, int]] = []
        self.transactions: list[tuple[int, int]] = []
        self.zxids: list[tuple[int, int]] = []
        self.described_us: int | None = None
        self.seen: list[tuple[Incarnation, int]] = []
        self.sent: dict[int, _Message] = {}
        """Control requests without an answer, by the `seq` of their `RequestSent`."""
        self.received: dict[int, _Message] = {}
        """Control requests that were not answered yet, by the `seq` of their `RequestReceived`."""
        self.writes: dict[int, int] = {}
        """The clock of each `ZkWrite` without an outcome, by its `seq`."""
        self.zxid = 0
        self._wall_interval_ms = _FIRST_INTERVAL_MS
        self.next_wall_ms = -1.0
        """The monotonic clock from which on a wall clock is of interest again."""

    @property
    def first_us(self) -> int:
        """The clock of the first record."""
        return self.walls[0][0]

    @property
    def wall_minus_clock_us(self) -> int:
        """The wall clock minus the monotonic clock at the first record."""
        us, wall_us = self.walls[0]
        return wall_us - us

    def see(self, file: str, record: Any) -> None:
        """Add what the envelope of a record has, an `EnvelopeHeader` or an `Envelope`."""
        if record.zxid > self.zxid:
            self.see_zxid(record.mono_ms, record.zxid)
        if record.mono_ms >= self.next_wall_ms:
            self.see_wall(file, record.mono_ms, record.wall_ms)

    def see_wall(self, file: str, mono_ms: float, wall_ms: float) -> None:
        """Add the clocks of a record."""
        self.file = self.file or file
        self.walls.append((micros(mono_ms), micros(wall_ms)))
        if len(self.walls) > MOST_WALLS:
            del self.walls[1::2]
            self._wall_interval_ms *= 2
        self.next_wall_ms = mono_ms + self._wall_interval_ms

    def see_zxid(self, mono_ms: float, zxid: int) -> None:
        """Add a zxid that is greater than all before it."""
        self.zxid = zxid
        self.zxids.append((micros(mono_ms), zxid))
        _thin(self.zxids)


class ClockEvidence:
    """What bounds the clocks of a run's incarnations, gathered record by record.

    The records of each incarnation come by sequence number; the incarnations may come by turns.
    """

    def __init__(self) -> None:
        self.incarnations: dict[Incarnation, IncarnationEvidence] = {}
        self.messages: dict[tuple[Incarnation, Incarnation], Stretches] = {}
        """Bounds by messages, by the incarnations that sent and received them."""
        self.aligned: tuple[AlignedClock, ...] | None = None
        """The clocks of imported logs, which have been aligned already; None of other runs."""
        self._open: dict[_Message, tuple[Incarnation, int, bool]] = {}
        """One end of each message: incarnation, clock, and whether it received the message."""

    @property
    def open_messages(self) -> int:
        """The number of messages of which one end has come."""
        return len(self._open)

    def of(self, name: Incarnation) -> IncarnationEvidence:
        """Return the evidence of one incarnation."""
        own = self.incarnations.get(name)
        if own is None:
            own = self.incarnations[name] = IncarnationEvidence(name)
        return own

    def add(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: Any) -> None:
        """Add a record of one of `EVIDENCE`.

        Args:
            own: the evidence of the incarnation that wrote it.
            us: the monotonic clock in microseconds.
            data: the payload.
        """
        EVIDENCE[type(data)](self, own, us, seq, cause, data)

    def _request_sent(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: RequestSent) -> None:
        # Only the first attempt: an answer to a later one may be an answer to this one.
        if data.attempt == 1 and data.correlation_id >= 0:
            own.sent[seq] = message = _request(f"broker-{data.to}", data)
            self._end(message, own.name, us, is_receipt=False)

    def _request_received(
        self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: RequestReceived
    ) -> None:
        if data.controller_epoch >= 0 and data.correlation_id >= 0:
            own.received[seq] = message = _request(own.name[0], data)
            self._end(message, own.name, us, is_receipt=True)

    def _response_sent(
        self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: ResponseSent
    ) -> None:
        if (request := own.received.pop(cause or 0, None)) is not None:
            self._end((True, *request[1:]), own.name, us, is_receipt=False)

    def _response_received(
        self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: ResponseReceived
    ) -> None:
        if (request := own.sent.pop(cause or 0, None)) is not None:
            self._end((True, *request[1:]), own.name, us, is_receipt=True)

    def _request_failed(
        self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: RequestFailed
    ) -> None:
        own.sent.pop(cause or 0, None)

    def _write_begun(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: ZkWrite) -> None:
        own.writes[seq] = us

    def _write_done(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: ZkWriteDone) -> None:
        began_us = own.writes.pop(cause or 0, None)
        if began_us is not None and data.zxid > 0:
            own.transactions.append((began_us, data.zxid))
            _thin(own.transactions)

    def _started(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: ProcessStarted) -> None:
        if not own.boot and not own.machine:
            own.machine, own.boot, own.has_testbed = data.machine, data.boot, data.has_testbed

    def _described(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: RunDescribed) -> None:
        if own.described_us is None:
            own.described_us = us
        if data.aligned_clocks:
            self.aligned = data.aligned_clocks

    def _log_seen(self, own: IncarnationEvidence, us: int, seq: int, cause: int | None, data: LogSeen) -> None:
        own.seen.append(((data.node, data.incarnation), us))

    def _end(self, message: _Message, name: Incarnation, us: int, *, is_receipt: bool) -> None:
        """Add one end of a message: match it with the other end, or keep it open."""
        other = self._open.get(message)
        if other is None or other[2] == is_receipt:
            self._open.setdefault(message, (name, us, is_receipt))
            return
        del self._open[message]
        there, there_us, _ = other
        if there == name:
            return
        (sender, sent_us), (receiver, received_us) = (
            ((there, there_us), (name, us)) if is_receipt else ((name, us), (there, there_us))
        )
        self.messages.setdefault((sender, receiver), Stretches()).add(sent_us, received_us)


EVIDENCE: Final[
    dict[type[Payload], Callable[[ClockEvidence, IncarnationEvidence, int, int, int | None, Any], None]]
] = {
    LogSeen: ClockEvidence._log_seen,
    ProcessStarted: ClockEvidence._started,
    RequestFailed: ClockEvidence._request_failed,
    RequestReceived: ClockEvidence._request_received,
    RequestSent: ClockEvidence._request_sent,
    ResponseReceived: ClockEvidence._response_received,
    ResponseSent: ClockEvidence._response_sent,
    RunDescribed: ClockEvidence._described,
    ZkWrite: ClockEvidence._write_begun,
    ZkWriteDone: ClockEvidence._write_done,
}
"""Record types that are evidence, and the function that adds a record of each."""


def _request(server: str, data: RequestSent | RequestReceived) -> _Message:
    """Return the name of a control request at both ends. Within both epochs a correlation id occurs again only if the
    request is sent again.
    """
    return (
        False,
        server,
        data.api,
        data.client_id,
        data.correlation_id,
        data.controller_epoch,
        data.broker_epoch,
    )


def _thin(pairs: list[tuple[int, int]]) -> None:
    if len(pairs) > MOST_TRANSACTIONS:
        del pairs[1::2]
