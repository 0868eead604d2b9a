"""`PartitionCopy` is the state of one partition in a mirror: its position, held batches and acknowledged offsets.

It waits for nothing. Everything about the target follows from the end of the target's log: the position in the source
by the `MirroredOffsets`, and the next sequence number by the offset itself. So the target's leader refuses a batch if
the one before it was appended by an earlier mirror, or twice, or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from understudy.clusters.clients.consumer import committed
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import NO_LEADER_EPOCH, batches
from understudy.foundation.wire.messages.fetch import PartitionData
from understudy.kafka_tools.mirror.batches import Ready, ready, split, stamp
from understudy.kafka_tools.mirror.offset_map import MirroredOffsets
from understudy.kafka_tools.mirror.progress import Saved, Writer

MOST_HELD: Final = 256
"""Maximum number of batches of one partition that are held."""


@dataclass(eq=False)
class PartitionCopy:
    """One partition and its copy.

    Attributes:
        topic_id: the id of the source's topic.
        position: the next source offset to read.
        last_epoch: the leader epoch of the last batch read; by it the source's leader finds truncation (KIP-320).
        end: the source's last stable offset, as it was last seen; None before.
        goal: the first `end` that was seen.
        confirmed: the target's acknowledged end.
        confirmed_source: the source offset up to which everything is acknowledged.
        is_located: whether the target's end, and with it the position, are known.
        is_in_flight: whether a request with its next batch is on its way.
        is_doubtful: whether the source's log may end before the position; it is not read until that is known.
        truncated_to: the offset at which the source's log has diverged from the batches read, by its leader's answer.
        is_planned: whether the map in the topic of the progress has all batches that are held.
        ended: why the partition is no longer copied; None while it is.
        failed: whether that is an error.
        copied, copied_bytes: the records and bytes that were acknowledged.
        is_told: whether its end was reported.
        read_turn, append_turn: the number of the last request with data of this partition; lower ones come first.
        repeats: the number of times that the target's end was in doubt since a batch was acknowledged.
    """

    source: TopicPartition
    target: TopicPartition
    topic_id: str
    writer: Writer | None = None
    map: MirroredOffsets = field(default_factory=MirroredOffsets)
    position: int = 0
    last_epoch: int = NO_LEADER_EPOCH
    end: int | None = None
    goal: int | None = None
    confirmed: int = 0
    confirmed_source: int = 0
    is_located: bool = False
    is_in_flight: bool = False
    is_doubtful: bool = False
    truncated_to: int | None = None
    is_planned: bool = True
    is_changed: bool = False
    ended: str | None = None
    failed: bool = False
    copied: int = 0
    copied_bytes: int = 0
    held_bytes: int = 0
    read_turn: int = 0
    append_turn: int = 0
    is_told: bool = False
    repeats: int = 0
    _held: deque[Ready] = field(default_factory=deque)
    _planned_to: int = 0

    @property
    def is_active(self) -> bool:
        return self.ended is None and self.is_located

    @property
    def front(self) -> Ready | None:
        """The batch to send next, once its place is stored."""
        return self._held[0] if self._held and self.is_planned else None

    @property
    def has_batches(self) -> bool:
        return bool(self._held)

    @property
    def has_room(self) -> bool:
        return len(self._held) < MOST_HELD

    @property
    def lag(self) -> int:
        """The records of the source, by offsets, that are not acknowledged at the target yet."""
        return max(0, (self.end or 0) - self.confirmed_source)

    @property
    def has_caught_up(self) -> bool:
        """Whether everything is copied that was there when the source was first read."""
        return self.ended is not None or (self.goal is not None and self.confirmed_source >= self.goal)

    def stop(self, reason: str, *, failed: bool) -> None:
        """End the copying of this partition."""
        self.ended, self.failed = reason, failed
        self._forget_held()

    def doubt_source(self, truncated_to: int | None = None) -> None:
        """Stop reading until the source's log is looked at."""
        self.is_doubtful, self.truncated_to = True, truncated_to

    def doubt_target(self) -> None:
        """Stop sending until the target's end is looked at."""
        self.is_located = False
        self.repeats += 1

    # ------------------------------------------------------------------ where to continue

    def begin(self, writer: Writer, start: int) -> None:
        """Begin with an empty copy.

        Args:
            start: the source's first offset.
        """
        self.writer = writer
        self.confirmed = self._planned_to = writer.start
        self._go_on_from(start)

    def take_back(self, saved: Saved) -> None:
        """Take over the progress of an earlier mirror; `resume` follows."""
        self.writer, self.map = saved.writer, MirroredOffsets(saved.runs)

    def resume(self, end: int, start: int) -> bool:
        """Continue at the end of the target's log; return whether no record is copied twice.

        Args:
            end: the target's end.
            start: the source's first offset, for a copy whose progress does not reach back to `end`.
        """
        self._forget_held()
        self.confirmed = self._planned_to = end
        self.map.truncate(end)
        found = self.map.position_for(end)
        self._go_on_from(start if found is None else found.source)
        return found is not None and found.is_exact

    def replace_writer(self, writer: Writer) -> None:
        """Continue as another producer, because the target's leader does not know the last one's sequence numbers."""
        self.writer = writer
        self.is_planned = False

    def skip_to(self, offset: int) -> None:
        """Continue at another source offset, because those before it are gone or were never there."""
        self.position = offset
        self.last_epoch = NO_LEADER_EPOCH
        self.is_doubtful, self.truncated_to = False, None
        if not self._held:
            self.confirmed_source = offset

    def _go_on_from(self, position: int) -> None:
        self.skip_to(position)
        self.is_located = True
        self.is_planned = False

    def _forget_held(self) -> None:
        self._held.clear()
        self.held_bytes = 0

    # ------------------------------------------------------------------ records

    def take(self, data: PartitionData) -> None:
        """Hold the batches that a Fetch has brought, as many as there is room for.

        Raises:
            CorruptRecord, InvalidRecord, UnsupportedMagic: a batch is damaged, or of an old format.
        """
        self.end = max(data.last_stable_offset, self.position)
        if self.goal is None:
            self.goal = self.end
        for batch, is_read in committed(batches(data.records or b""), data.aborted_transactions or ()):
            if not self.has_room:
                break
            if batch.header.last_offset < self.position:
                continue
            found = ready(batch, self.position) if is_read else None
            if found is not None:
                self._hold(found)
            self.position = batch.header.next_offset
            self.last_epoch = batch.header.partition_leader_epoch
        if not self._held:
            self.confirmed_source = self.position

    def _hold(self, batch: Ready) -> None:
        self._held.append(batch)
        self.held_bytes += len(batch.data)
        if self.map.add(batch.first, batch.following, self._planned_to, batch.count):
            self.is_planned = False
        self._planned_to += batch.count

    def request_data(self) -> bytearray:
        """Return the batch to send next, with the producer's fields."""
        assert self.writer is not None
        data = self._held[0].data
        stamp(data, self.writer.producer_id, self.writer.producer_epoch, self.confirmed - self.writer.start)
        return data

    def acknowledge(self) -> None:
        """Note that the batch sent last was appended."""
        batch = self._held.popleft()
        self.confirmed += batch.count
        self.confirmed_source = batch.following if self._held else self.position
        self.copied += batch.count
        self.copied_bytes += len(batch.data)
        self.held_bytes -= len(batch.data)
        self.repeats = 0
        self.is_changed = True

    def halve(self) -> bool:
        """Replace the next batch, which is too large for the target, by two; return whether that is possible."""
        halves = split(self._held[0])
        if halves is None:
            return False
        rest: Sequence[Ready] = tuple(self._held)[1:]
        self._forget_held()
        self.map.truncate(self.confirmed)
        self._planned_to = self.confirmed
        for batch in (*halves, *rest):
            self._hold(batch)
        return True

    # ------------------------------------------------------------------ progress

    def to_save(self) -> Saved:
        """Return the progress to store: the planned runs, and the acknowledged end."""
        assert self.writer is not None
        self.map.thin(self.confirmed)
        return Saved(self.topic_id, self.writer, self.confirmed, self.map.runs)
