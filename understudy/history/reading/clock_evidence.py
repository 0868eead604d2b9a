"""Collects what bounds the clocks of a run's incarnations to each other: which record was written before which.

A message is sent before it is received, a ZooKeeper transaction is requested before an answer reflects it, an
incarnation ends before the next one of its node begins, and the testbed describes a run before it starts the brokers.
Kept are open messages, and of each two incarnations the narrowest bounds by stretch of time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import msgspec

from understudy.foundation.eventlog.records import (
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
from understudy.history.reading.clocks import Incarnation

MOST_STRETCHES: Final = 128
"""Maximum number of stretches of time for which the narrowest bound between two incarnations is kept."""
MOST_TRANSACTIONS: Final = 2_048
"""Maximum number of ZooKeeper transactions of an incarnation, and of zxids that it has seen, that are kept."""

WALL_CLOCK_WITHIN_US: Final = 1_000_000
"""A wall clock is expected to be right within this."""

_STARTED: Final = msgspec.json.Decoder(ProcessStarted)
_FIRST_STRETCH_US: Final = 1 << 20

_Message: TypeAlias = tuple[bool, str, str, str, int, int, int]
"""Whether it is an answer, the serving node, API, client id, correlation id, controller epoch and broker epoch."""


class ClockSigns:
    """Notices if the incarnations of a run may read several clocks, from one record of each, preferably the first.

    Whether they do is decided by `align`.
    """

    def __init__(self) -> None:
        self._begins: dict[Incarnation, tuple[str, float]] = {}
        """The boot of each incarnation, and its wall clock minus its monotonic clock."""

    def add(self, record: Any) -> None:
        """Add an `EnvelopeHeader` or a `LogRow`."""
        boot = ""
        if record.type == "ProcessStarted":
            with suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):  # the reader finds the damage
                boot = _STARTED.decode(record.data).boot
        name = (record.node, record.incarnation)
        if boot or name not in self._begins:
            self._begins[name] = boot, record.wall_ms - record.mono_ms

    @property
    def may_be_several(self) -> bool:
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


class Header(Protocol):
    """The part of a record that is evidence besides its payload."""

    @property
    def seq(self) -> int: ...
    @property
    def wall_ms(self) -> float: ...
    @property
    def cause(self) -> int | None: ...
    @property
    def zxid(self) -> int: ...


class Stretches:
    """The narrowest bounds between two incarnations, one for each stretch of time. The stretches grow with the run."""

    __slots__ = ("_found", "_width_us")

    def __init__(self) -> None:
        self._width_us = _FIRST_STRETCH_US
        self._found: dict[int, Order] = {}

    def add(self, earlier_us: int, later_us: int) -> None:
        order = Order(later_us - earlier_us, earlier_us, later_us)
        stretch = earlier_us // self._width_us
        known = self._found.get(stretch)
        if known is None or order < known:
            self._found[stretch] = order
        while len(self._found) > MOST_STRETCHES:
            self._width_us *= 2
            found, self._found = self._found, {}
            for order in found.values():
                stretch = order.earlier_us // self._width_us
                self._found[stretch] = min(order, self._found.get(stretch, order))

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Order]:
        return iter(sorted(self._found.values()))


class IncarnationEvidence:
    """What is known of one incarnation's clock.

    Attributes:
        file: the file of the first record.
        boot: as in `ProcessStarted`; empty if there is none.
        transactions: when it requested each ZooKeeper transaction: its clock and the zxid.
        zxids: when it had first seen a zxid: its clock and the zxid.
        described_us: the clock of the first `RunDescribed`; None if there is none.
    """

    def __init__(self, name: Incarnation) -> None:
        self.name = name
        self.file = ""
        self.machine = ""
        self.boot = ""
        self.has_testbed = False
        self.records = 0
        self.first_us = 0
        self.last_us = 0
        self.first_wall_us = 0
        self.last_wall_us = 0
        self.transactions: list[tuple[int, int]] = []
        self.zxids: list[tuple[int, int]] = []
        self.described_us: int | None = None
        self.seen: list[tuple[Incarnation, int]] = []
        """The incarnations whose logs this one has seen to their ends, and when."""
        self.sent: dict[int, _Message] = {}
        """Control requests without an answer, by the `seq` of their `RequestSent`."""
        self.received: dict[int, _Message] = {}
        """Control requests that were not answered yet, by the `seq` of their `RequestReceived`."""
        self.writes: dict[int, int] = {}
        """The clock of each `ZkWrite` without an outcome, by its `seq`."""

    @property
    def wall_minus_clock_us(self) -> int:
        """The wall clock minus the monotonic clock at the first record."""
        return self.first_wall_us - self.first_us


class ClockEvidence:
    """What bounds the clocks of a run's incarnations, gathered record by record.

    The records of each incarnation come by sequence number; the incarnations may come by turns.
    """

    def __init__(self) -> None:
        self.incarnations: dict[Incarnation, IncarnationEvidence] = {}
        self.messages: dict[tuple[Incarnation, Incarnation], Stretches] = {}
        """Bounds by messages, by the incarnations that sent and received them."""
        self._open: dict[_Message, tuple[Incarnation, int, bool]] = {}
        """One end of each message: incarnation, clock, and whether it received the message."""

    def add(self, name: Incarnation, file: str, us: int, header: Header, data: Payload | None) -> None:
        """Add a record.

        Args:
            us: the monotonic clock in microseconds.
            data: the payload; None if its type is not evidence.
        """
        own = self.incarnations.get(name)
        if own is None:
            own = self.incarnations[name] = IncarnationEvidence(name)
            own.file, own.first_us, own.last_us, own.first_wall_us = file, us, us, round(header.wall_ms * 1000)
        own.records += 1
        own.last_us = max(own.last_us, us)
        own.last_wall_us = round(header.wall_ms * 1000)
        zxid = header.zxid
        if zxid and (not own.zxids or zxid > own.zxids[-1][1]):
            own.zxids.append((us, zxid))
            _thin(own.zxids)
        match data:
            case None:
                pass
            case RequestSent(attempt=1) if data.correlation_id >= 0:
                # Only the first attempt: an answer to a later one may be an answer to this one.
                own.sent[header.seq] = message = _request(f"broker-{data.to}", data)
                self._end(message, name, us, is_receipt=False)
            case RequestReceived() if data.controller_epoch >= 0 and data.correlation_id >= 0:
                own.received[header.seq] = message = _request(name[0], data)
                self._end(message, name, us, is_receipt=True)
            case ResponseSent() if header.cause in own.received:
                self._end((True, *own.received.pop(header.cause)[1:]), name, us, is_receipt=False)
            case ResponseReceived() if header.cause in own.sent:
                self._end((True, *own.sent.pop(header.cause)[1:]), name, us, is_receipt=True)
            case RequestFailed() if header.cause in own.sent:
                del own.sent[header.cause]
            case ZkWrite():
                own.writes[header.seq] = us
            case ZkWriteDone() if header.cause in own.writes:
                began_us = own.writes.pop(header.cause)
                if data.zxid > 0:
                    own.transactions.append((began_us, data.zxid))
                    _thin(own.transactions)
            case ProcessStarted() if not own.boot and not own.machine:
                own.machine, own.boot, own.has_testbed = data.machine, data.boot, data.has_testbed
            case RunDescribed() if own.described_us is None:
                own.described_us = us
            case LogSeen():
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
