"""A log as a list of batches, beside a log on a disk: each operation is done to both, and both are compared."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.brokers.log.parts import NOW_MS, batch, config, open_log
from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.checkpoint_file import EpochEntry
from understudy.brokers.log.partition_log import PartitionLog
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.clusters.simulated.disk_faults import DiskFaults
from understudy.foundation.records.batch import BatchHeader, read_header

TINY_SEGMENTS = config(segment_bytes=600, index_interval_bytes=100, retention_bytes=1500)
PRODUCERS = (7, 8, 9)


class ProcessEnded(BaseException):
    """The process ends within a call of the disk. No handler of errors of the disk catches it."""


class EndingFaults(DiskFaults):
    """The process ends before the call that has a number."""

    calls_left: int | None = None

    def apply(self, operation: str, path: str) -> bool:
        if self.calls_left is not None and operation not in ("read", "read_at", "list_folder"):
            if self.calls_left == 0:
                self.calls_left = None
                raise ProcessEnded
            self.calls_left -= 1
        return super().apply(operation, path)


class EndingDisk(SimulatedDisk):
    """A disk on which the process ends before the call that has a number."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: EndingFaults = EndingFaults()


class LogModel:
    """A log and the batches that it should have.

    Attributes:
        batches: with those before the log start offset, as long as the log began there.
        flushed: the offset up to which the log was flushed.
        recovery_point, checkpointed_start: what the checkpoints of the directory have.
    """

    def __init__(self, seed: int, disk: SimulatedDisk | None = None, log_config: LogConfig = TINY_SEGMENTS) -> None:
        self.source = random.Random(seed)
        self.disk = SimulatedDisk() if disk is None else disk
        self.config = log_config
        self.batches: list[bytes] = []
        self.epoch = 0
        self.end_offset = 0
        self.flushed = 0
        self.in_flight: list[bytes] = []
        """Batches that are being appended: the log may have them if the process ends within the append."""
        self.least_end = 0
        """The least offset at which the log may end when the process ends now."""
        self.recovery_point = 0
        self.checkpointed_start = 0
        self.highest_start = 0
        self.log = self._open(had_clean_shutdown=False)

    def _open(self, *, had_clean_shutdown: bool) -> PartitionLog:
        """Open the log, and write the checkpoints, as the log manager does."""
        self.log = open_log(
            self.disk,
            log_config=self.config,
            had_clean_shutdown=had_clean_shutdown,
            recovery_point=self.recovery_point,
            log_start_offset=self.checkpointed_start,
            on_offsets_changed=self._write_checkpoints,
        )
        self._write_checkpoints()
        return self.log

    def _write_checkpoints(self) -> None:
        log = self.log
        self.recovery_point = log.recovery_point
        begins_within = log.log_start_offset > log.segments[0].base_offset
        self.checkpointed_start = log.log_start_offset if begins_within else 0

    # ------------------------------------------------------------------ steps

    def step(self) -> None:
        """Do one thing to the log, drawn at random."""
        self.in_flight = []
        steps: list[tuple[int, Callable[[], None]]] = [
            (30, self.append_as_leader),
            (30, self.append_as_follower),
            (4, self.begin_epoch),
            (4, self.roll),
            (6, self.truncate),
            (1, self.truncate_fully),
            (6, self.move_start),
            (6, self.delete_old_segments),
            (8, self.flush),
            (6, self.checkpoint),
            (3, self.delete_due_files),
        ]
        weights = [weight for weight, _ in steps]
        self.source.choices([each for _, each in steps], weights)[0]()
        self.least_end = self.end_offset
        self.highest_start = max(self.highest_start, self.log.log_start_offset)

    def _batch(self, offset: int) -> bytes:
        source, values = self.source, [self.source.randbytes(self.source.randrange(60)) for _ in range(4)]
        values = values[: source.randint(1, 4)]
        timestamp = NOW_MS + source.randrange(10_000)
        if source.random() < 0.5:
            return batch(*values, offset=offset, timestamp=timestamp, leader_epoch=self.epoch)
        producer_id = source.choice(PRODUCERS)
        last = self.newest_of(producer_id)
        entry = next((each for each in self.log.producers.entries() if each.producer_id == producer_id), None)
        sequence = entry.last_sequence + 1 if entry is not None else 0 if last is None else last.last_sequence + 1
        return batch(
            *values,
            offset=offset,
            timestamp=timestamp,
            leader_epoch=self.epoch,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )

    def _add(self, data: bytes) -> None:
        self.batches.append(data)
        self.end_offset = read_header(data).next_offset

    def append_as_leader(self) -> None:
        data = self._batch(self.end_offset)
        expected = read_header(data)
        sent = batch_with_offset_0(data)
        self.in_flight = [data]
        info = self.log.append_as_leader(sent, self.epoch, now_ms=NOW_MS)
        assert (info.first_offset, info.last_offset) == (expected.base_offset, expected.last_offset)
        assert not info.is_duplicate
        self._add(data)
        if expected.has_producer_id:
            again = self.log.append_as_leader(sent, self.epoch, now_ms=NOW_MS)
            assert again.is_duplicate
            assert (again.first_offset, again.last_offset) == (expected.base_offset, expected.last_offset)

    def append_as_follower(self) -> None:
        """Append some batches at once, the last of which may be cut off."""
        data = [self._batch(self.end_offset)]
        while self.source.random() < 0.5:
            following = read_header(data[-1]).next_offset
            data.append(batch(self.source.randbytes(50), offset=following, leader_epoch=self.epoch, timestamp=NOW_MS))
        self.in_flight = data
        cut_off = batch(bytes(30), offset=read_header(data[-1]).next_offset)[: self.source.randrange(60)]
        info = self.log.append_as_follower(b"".join(data) + cut_off, now_ms=NOW_MS)
        assert info is not None
        assert (info.first_offset, info.size) == (self.end_offset, len(b"".join(data)))
        for each in data:
            self._add(each)

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch_start(self.epoch)

    def roll(self) -> None:
        self.log.roll(now_ms=NOW_MS)

    def truncate(self) -> None:
        begin = max(self.log.log_start_offset, self.end_offset - 12)
        offset = self.source.randint(begin, max(begin, self.end_offset + 1))
        self.least_end = min(self.end_offset, self.start_of_batch_at(offset))
        self.flushed = min(self.flushed, self.least_end)
        self.log.truncate_to(offset, now_ms=NOW_MS)
        self.batches = [each for each in self.batches if read_header(each).last_offset < offset]
        self.end_offset = self.least_end
        self.epoch += 1  # as after an election, without which nothing is truncated

    def truncate_fully(self) -> None:
        offset = self.source.randint(self.log.log_start_offset, self.end_offset + 20)
        self.least_end, self.flushed, self.batches = 0, 0, []
        self.end_offset = offset
        self.epoch += 1
        self.log.truncate_fully_and_start_at(offset, now_ms=NOW_MS)

    def move_start(self) -> None:
        log = self.log
        log.update_high_watermark(self.source.randint(log.log_start_offset, self.end_offset))
        log.maybe_increment_log_start_offset(min(log.log_start_offset + self.source.randrange(6), log.high_watermark))

    def delete_old_segments(self) -> None:
        log = self.log
        log.update_high_watermark(self.source.randint(log.log_start_offset, self.end_offset))
        before, first = log.log_start_offset, log.segments[0].base_offset
        deleted = log.delete_old_segments(NOW_MS)
        assert log.log_start_offset == max(before, log.segments[0].base_offset)
        assert (log.segments[0].base_offset > first) == (deleted > 0)
        assert log.log_start_offset <= log.high_watermark
        if log.segments[0].base_offset > before:
            assert log.size >= self.config.retention_bytes

    def flush(self) -> None:
        plan = self.log.flush_plan(whole=self.source.random() < 0.4)
        if plan is not None:
            plan.run(self.disk)
            self.disk.flush_directory("")
            self.log.mark_flushed(plan)
            self.flushed = max(self.flushed, plan.end_offset)
            assert self.log.recovery_point >= plan.end_offset

    def checkpoint(self) -> None:
        self._write_checkpoints()

    def delete_due_files(self) -> None:
        self.log.delete_due_files(NOW_MS + self.source.randrange(100_000))

    # ------------------------------------------------------------------ comparing

    def start_of_batch_at(self, offset: int) -> int:
        for each in self.batches:
            header = read_header(each)
            if header.base_offset <= offset <= header.last_offset:
                return header.base_offset
        return offset

    def newest_of(self, producer_id: int) -> BatchHeader | None:
        headers = (read_header(each) for each in reversed(self.batches))
        return next((header for header in headers if header.producer_id == producer_id), None)

    def compare(self) -> None:
        """Compare offsets, batches, epochs, producers and sizes, and reads with random limits."""
        log = self.log
        assert log.log_end_offset == self.end_offset
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        start = log.log_start_offset
        kept = [each for each in self.batches if read_header(each).last_offset >= start]
        assert self.read_all() == kept
        assert log.size == sum(self.disk.size(segment.path) or 0 for segment in log.segments)
        entries = [entry for entry in log.epochs.entries if entry.start_offset < self.end_offset]
        known_from = entries[0].start_offset if entries else self.end_offset
        if known_from > start:
            # The log start offset was moved back to an older checkpoint's; Kafka does not move its epochs back either.
            assert known_from <= self.highest_start
        assert entries == expected_epochs(
            [each for each in kept if read_header(each).last_offset >= known_from], max(start, known_from)
        )
        producers = {each.producer_id: each for each in log.producers.entries()}
        last_offsets = {producer_id: each.last_offset for producer_id, each in producers.items()}
        for producer_id in PRODUCERS:
            newest = self.newest_of(producer_id)
            if newest is not None and newest.base_offset >= max(start, self.highest_start):
                assert last_offsets[producer_id] == newest.last_offset
                assert producers[producer_id].last_sequence == newest.last_sequence
                assert producers[producer_id].timestamp == newest.max_timestamp
        assert all(offset < self.end_offset for offset in last_offsets.values())
        for _ in range(3):
            self.compare_read(kept)

    def read_all(self) -> list[bytes]:
        log, found = self.log, []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = bytes(log.read(offset, 1, end_offset=log.log_end_offset, min_one=True))
            if not data:
                break
            found.append(data)
            offset = read_header(data).next_offset
        return found

    def compare_read(self, kept: list[bytes]) -> None:
        log, source = self.log, self.source
        offset = source.randint(log.log_start_offset, log.log_end_offset)
        end_offset = source.choice((log.high_watermark, log.log_end_offset, source.randint(0, log.log_end_offset)))
        max_bytes, min_one = source.choice((0, 50, 200, 10_000)), source.random() < 0.5
        data = bytes(log.read(offset, max_bytes, end_offset=end_offset, min_one=min_one))
        headers = [read_header(each) for each in kept]
        wanted = [
            each
            for each, header in zip(kept, headers, strict=True)
            if header.last_offset >= offset and header.base_offset < end_offset
        ]
        if offset >= end_offset or not wanted:
            assert data == b""
            return
        limit = max(max_bytes, len(wanted[0])) if min_one else max_bytes
        assert data == b"".join(wanted)[: len(data)]
        assert len(data) <= limit
        bases = [segment.base_offset for segment in log.segments]
        first = max(base for base in bases if base <= read_header(wanted[0]).base_offset)
        following = min((base for base in bases if base > first), default=2**62)
        of_segment = b"".join(each for each in wanted if read_header(each).base_offset < following)
        assert data == of_segment[:limit], "as much as there is in the segment"

    # ------------------------------------------------------------------ ends of the process

    def close_and_open(self) -> None:
        """Close the log in order, and open it again."""
        plan = self.log.close()
        if plan is not None:
            plan.run(self.disk)
            self.disk.flush_directory("")
            self.log.mark_flushed(plan)
        self._write_checkpoints()
        self.flushed = self.end_offset
        self.disk.end_process()
        self.log = self._open(had_clean_shutdown=True)
        assert self.log.recovery_point == self.log.log_end_offset

    def end_process_and_open(self, *, lose_power: bool) -> None:
        """End the process without notice, open the log again, and check its content."""
        if lose_power:
            self.disk.lose_power(self.source)
        else:
            self.disk.end_process()
        self.log = log = self._open(had_clean_shutdown=False)
        least = min(self.flushed, self.least_end) if lose_power else self.least_end
        if log.log_end_offset == log.log_start_offset == self.checkpointed_start:
            # The records before the log start offset are deleted, also if the records after it are lost.
            least = 0
        assert log.log_end_offset >= least
        found = self.read_all()
        known = {read_header(each).base_offset: each for each in (*self.batches, *self.in_flight)}
        assert found == [known.get(read_header(each).base_offset) for each in found]
        end = read_header(found[-1]).next_offset if found else log.log_start_offset
        assert log.log_end_offset == end
        assert [read_header(each).base_offset for each in found[1:]] == [
            read_header(each).next_offset for each in found[:-1]
        ], "no batch is missing in between"
        self.batches, self.end_offset = found, log.log_end_offset
        self.least_end, self.flushed = self.end_offset, min(self.flushed, self.end_offset)


def batch_with_offset_0(data: bytes) -> bytes:
    """A stored batch as a producer sends it."""
    return bytes(8) + data[8:12] + b"\xff\xff\xff\xff" + data[16:]


def expected_epochs(batches: list[bytes], start: int) -> list[EpochEntry]:
    entries: list[EpochEntry] = []
    for each in batches:
        header = read_header(each)
        if not entries or header.partition_leader_epoch != entries[-1].epoch:
            entries.append(EpochEntry(header.partition_leader_epoch, max(header.base_offset, start)))
    return entries
