"""`PartitionClients` checks what one producer and one consumer of a partition see, while they run.

It checks H1 to H6 of `understudy.checks.client_history`, in bounded memory instead of over a whole history. The
producer is idempotent, waits for all in-sync replicas, and has one batch in flight; the consumer reads offset by
offset, and a minute later once more. Records are numbered; the value of a record is `SESSION:NUMBER`, and a soak that
is resumed begins with the next session.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from typing import Final

import msgspec

from understudy.checks.check import Violation
from understudy.checks.client_history import CLIENT_CHECKS

MOST_UNREAD: Final = 20_000
"""Number of acknowledged and unread records at which the producer has to wait."""
_SENTENCES: Final = {check.id: check.sentence for check in CLIENT_CHECKS}


class ClientCounts(msgspec.Struct, kw_only=True):
    """What clients have counted, in records unless said otherwise.

    Attributes:
        errors: the number of attempts to send by error: Kafka's name of the code, or the exception's name.
        gap_ms: the longest time without an acknowledgement in a partition.
    """

    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0
    read: int = 0
    repeated: int = 0
    lost: int = 0
    errors: dict[str, int] = {}
    gap_ms: float = 0.0

    def add(self, other: ClientCounts) -> None:
        """Add what was counted in another time."""
        self.acknowledged += other.acknowledged
        self.refused += other.refused
        self.unknown += other.unknown
        self.read += other.read
        self.repeated += other.repeated
        self.lost += other.lost
        self.errors = dict(Counter(self.errors) + Counter(other.errors))
        self.gap_ms = max(self.gap_ms, other.gap_ms)


class Numbers:
    """A set of numbers as ranges: small if few are missing between the first and the last."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """The number after the last one of each range."""

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    def __len__(self) -> int:
        return sum(end - start for start, end in zip(self._starts, self._ends, strict=True))

    @property
    def ranges(self) -> int:
        return len(self._starts)

    def add(self, number: int) -> None:
        if number in self:
            return
        place = bisect_left(self._starts, number)
        joins_before = place > 0 and self._ends[place - 1] == number
        joins_after = place < len(self._starts) and self._starts[place] == number + 1
        joined = slice(place - joins_before, place + joins_after)
        start = self._starts[place - 1] if joins_before else number
        end = self._ends[place] if joins_after else number + 1
        self._starts[joined], self._ends[joined] = [start], [end]


class PartitionClients:
    """The clients of one partition.

    Args:
        session: the number of this start of the soak, from 1.
        next_offset: the offset at which the consumer begins.
        now_ms: when the producer begins.
    """

    def __init__(self, name: str, session: int, next_offset: int, now_ms: float) -> None:
        self.name = name
        self.session = session
        self.next_offset = next_offset
        self.violation: Violation | None = None
        """The first violation."""
        self.counts = ClientCounts()
        """What was counted since `take_counts`."""
        self.acknowledged_ms = now_ms
        """When the last batch was acknowledged."""
        self.acknowledged_end = next_offset
        """The offset after the last acknowledged record."""
        self._next_number = 0
        self._in_flight: range = range(0)
        self._read_in_flight: dict[int, int] = {}
        """The offset of each record that was read before its send has ended."""
        self._unread: dict[int, int] = {}
        """The number of the record that was acknowledged at an offset and has not been read."""
        self._read = Numbers()
        self._refused = Numbers()
        self._to_read_again: deque[tuple[float, int, bytes]] = deque()
        """(when it was read, offset, value) of each record that has to be read a second time."""

    @property
    def must_wait(self) -> bool:
        """Whether the producer has to wait for the consumer."""
        return len(self._unread) >= MOST_UNREAD

    @property
    def unread(self) -> int:
        """Number of acknowledged records that have not been read yet."""
        return len(self._unread)

    def take_counts(self, now_ms: float) -> ClientCounts:
        """Return what was counted since the last call."""
        taken, self.counts = self.counts, ClientCounts()
        taken.gap_ms = max(taken.gap_ms, now_ms - self.acknowledged_ms)
        return taken

    # ------------------------------------------------------------------ producing

    def send(self, count: int) -> list[bytes]:
        """Return the values of the next batch."""
        self._in_flight = range(self._next_number, self._next_number + count)
        self._next_number += count
        return [b"%d:%d" % (self.session, number) for number in self._in_flight]

    def acknowledge(self, offset: int, now_ms: float) -> None:
        """Note that the batch in flight was acknowledged at `offset`."""
        self.counts.gap_ms = max(self.counts.gap_ms, now_ms - self.acknowledged_ms)
        self.acknowledged_ms = now_ms
        if offset < self.acknowledged_end:
            self._violated(
                "H6", f"a batch was acknowledged at {offset}, after one that ended at {self.acknowledged_end}"
            )
        self.counts.acknowledged += len(self._in_flight)
        for place, number in enumerate(self._in_flight):
            at = offset + place
            if at >= self.next_offset:
                self._unread[at] = number
            elif self._read_in_flight.get(number) != at:
                self.counts.lost += 1
                self._violated("H1", f"record {number} was acknowledged at {at}, where another one was read")
        self.acknowledged_end = max(self.acknowledged_end, offset + len(self._in_flight))
        self._end_flight()

    def refuse(self) -> None:
        """Note that the batch in flight was refused: it is in no log, and never will be."""
        self.counts.refused += len(self._in_flight)
        for number in self._in_flight:
            self._refused.add(number)
            if number in self._read_in_flight:
                self._violated("H4", f"record {number} was read, although its send has failed")
        self._end_flight()

    def give_up(self) -> None:
        """Note that nothing is known of the batch in flight."""
        self.counts.unknown += len(self._in_flight)
        self._end_flight()

    def _end_flight(self) -> None:
        self._in_flight = range(0)
        self._read_in_flight.clear()

    # ------------------------------------------------------------------ consuming

    def read(self, offset: int, value: bytes, now_ms: float) -> None:
        """Note a record that the consumer got."""
        if offset != self.next_offset:
            self._violated("H5", f"offset {offset} was read after {self.next_offset - 1}")
            skipped = [at for at in self._unread if at < offset]
            self.counts.lost += len(skipped)
            for at in skipped:
                del self._unread[at]
        self.next_offset = offset + 1
        self.counts.read += 1
        self._to_read_again.append((now_ms, offset, value))
        self._judge(offset, value)

    def _judge(self, offset: int, value: bytes) -> None:
        wanted = self._unread.pop(offset, None)
        session, number = _parsed(value)
        if wanted is not None and (session, number) != (self.session, wanted):
            self.counts.lost += 1
            self._violated("H1", f"record {wanted} was acknowledged at {offset}, where {value!r} was read")
        if session != self.session:
            # Records of earlier sessions are no longer known; a value of no such session was never sent.
            if not 0 < session < self.session:
                self._violated("H4", f"{value!r} was read at {offset}, which was never sent")
            return
        if number >= self._next_number or number in self._refused:
            self._violated("H4", f"{value!r} was read at {offset}, which was never sent or was refused")
        elif number in self._read:
            self.counts.repeated += 1
            self._violated("H3", f"record {number} was read at {offset}, and at an offset before it")
        self._read.add(number)
        if number in self._in_flight:
            self._read_in_flight[number] = offset

    # ------------------------------------------------------------------ a second time

    def due_again(self, until_ms: float) -> int | None:
        """The offset from which to read again the records first read before `until_ms`; None if there are none."""
        if self._to_read_again and self._to_read_again[0][0] < until_ms:
            return self._to_read_again[0][1]
        return None

    def read_again(self, offset: int, value: bytes) -> None:
        """Note a record that was read for the second time."""
        if not self._to_read_again or offset < self._to_read_again[0][1]:
            return
        _, expected_offset, expected = self._to_read_again.popleft()
        if (offset, value) != (expected_offset, expected):
            self.counts.lost += 1
            self._violated("H2", f"{expected!r} was read at {expected_offset}, and later {value!r} at {offset}")

    def _violated(self, check: str, witness: str) -> None:
        if self.violation is None:
            self.violation = Violation(check, _SENTENCES[check], witness, self.name)


def _parsed(value: bytes) -> tuple[int, int]:
    """The session and the number in a value; (-1, -1) if it is no value of a soak."""
    session, colon, number = value.partition(b":")
    if colon and session.isdigit() and number.isdigit():
        return int(session), int(number)
    return -1, -1
