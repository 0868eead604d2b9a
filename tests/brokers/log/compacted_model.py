"""A compacted log beside a list of its records: each operation is done to both, and both are compared.

The log may end at any call of the disk and lose its power, and is opened again then. Whatever happens, the newest value
of each key is there, in order and at its offset, and each tombstone for its time.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import NamedTuple, TypeVar

from tests.brokers.log.log_model import EndingDisk, ProcessEnded
from tests.brokers.log.parts import NOW_MS, ORDERS_0
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.log.log_manager import LogManager
from understudy.brokers.log.partition_log import PartitionLog
from understudy.brokers.world import at_once
from understudy.foundation.records.batch import batches, check_crc, read_header
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, encode_records, records

RETENTION_MS = 10_000
CONFIGS = {
    "orders": {
        "cleanup.policy": "compact",
        "segment.bytes": "700",
        "index.interval.bytes": "100",
        "min.cleanable.dirty.ratio": "0",
        "delete.retention.ms": str(RETENTION_MS),
        "file.delete.delay.ms": "1000",
    }
}
KEYS = [b"a", b"b", b"c", b"d", b"e"]
PRODUCERS = (7, 8)

T = TypeVar("T")


class Clock:
    """A clock that stands still."""

    def __init__(self) -> None:
        self.now_ms = float(NOW_MS)

    def wall_ms(self) -> float:
        return self.now_ms

    def monotonic_ms(self) -> float:
        return self.now_ms


class Appended(NamedTuple):
    """A record of the log, and the last sequence number of its batch.

    Attributes:
        batch: the batch, as the other replicas have it.
    """

    record: Record
    producer_id: int
    last_sequence: int
    batch: bytes


def done(work: Coroutine[object, object, T]) -> T:
    """Run work that waits for nothing but other tasks, of which there are none."""
    while True:
        try:
            work.send(None)
        except StopIteration as stop:
            value: T = stop.value
            return value


class CompactedModel:
    """A log that is compacted, and the records that were appended to it."""

    def __init__(self, source: random.Random, config: KafkaConfig | None = None) -> None:
        self.source = source
        self.disk = EndingDisk()
        self.clock = Clock()
        self.config = KafkaConfig() if config is None else config
        self.appended: list[Appended] = []
        self.first_cleaning_ms: dict[int, float] = {}
        """Time of the first compaction that began after the tombstone at an offset was appended."""
        self.sequences = dict.fromkeys(PRODUCERS, -1)
        self.epoch = 0
        self.committed = 0
        """The highest high watermark so far. The checkpoint has an older one, but no leader lacks records below it."""
        self.producers_from = 0
        """Highest offset at which a truncation below the first dirty offset has ended. Compaction may have removed a
        producer's last batches below it, for later ones that were truncated; Kafka also forgets such producers."""
        self.fetched_up_to = 0
        """Offset up to which a truncated log is fetched again, if need be twice; 0 once that is flushed."""
        self.ends = 0
        self.manager = self._new_manager()
        done(self.manager.load(CONFIGS))
        self.manager.get_or_create(ORDERS_0)

    @property
    def log(self) -> PartitionLog:
        return self.manager.logs[ORDERS_0]

    def _new_manager(self) -> LogManager:
        return LogManager(
            disk=self.disk, config=lambda: self.config, clock=self.clock, random=random.Random(1), offload=at_once
        )

    # ------------------------------------------------------------------ steps

    def append(self) -> None:
        """Append a batch, as leader or follower."""
        source, base = self.source, self.log.log_end_offset
        values = [
            Record(
                base + place,
                int(self.clock.now_ms) - source.randrange(100),
                source.choice(KEYS),
                None if source.random() < 0.25 else source.randbytes(source.randrange(40)),
            )
            for place in range(source.randint(1, 4))
        ]
        producer_id = source.choice((-1, -1, *PRODUCERS))
        sequence = self.sequences.get(producer_id, -2) + 1
        data = encode_records(
            values,
            compression=source.choice((Compression.NONE, Compression.NONE, *Compression)),
            leader_epoch=self.epoch,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence if producer_id >= 0 else -1,
        )
        last = sequence + len(values) - 1
        added = [Appended(record, producer_id, last, data) for record in values]
        self.appended += added
        if producer_id >= 0:
            self.sequences[producer_id] = last
        self.log.append_as_follower(data, now_ms=self.clock.now_ms)

    def begin_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch_start(self.epoch)

    def roll(self) -> None:
        self.log.roll(now_ms=self.clock.now_ms)

    def commit(self) -> None:
        """Raise the high watermark, which clients have seen then."""
        log = self.log
        log.update_high_watermark(self.source.randint(log.high_watermark, log.log_end_offset))
        self.committed = max(self.committed, log.high_watermark)

    def truncate(self) -> None:
        """Truncate as a follower, to no offset below the high watermark, and fetch the committed records again.

        After a restart the high watermark is the checkpoint's, and the log may be compacted beyond it: the older value
        of a key is gone, and only the leader has the newer one until it is fetched.
        """
        log = self.log
        offset = self.source.randint(log.high_watermark, log.log_end_offset)
        if offset < self.committed:
            # A leader has whole batches: its epochs end where batches do, and it cannot add to a part of one.
            offset = next(read_header(each.batch).base_offset for each in self.appended if each.record.offset == offset)
        self.fetched_up_to = self.committed
        if offset < (log.first_dirty_offset or 0):
            self.producers_from = max(self.producers_from, offset)
        log.truncate_to(offset, now_ms=self.clock.now_ms)
        self.fetch()
        self.take_end()
        self.epoch += 1

    def fetch(self) -> None:
        """Append what a truncation has removed of the committed records, as the leader has it."""
        log, begin = self.log, self.log.log_end_offset
        for data in dict.fromkeys(each.batch for each in self.appended):
            if begin <= read_header(data).base_offset < self.fetched_up_to:
                log.append_as_follower(data, now_ms=self.clock.now_ms)
        if log.log_end_offset > begin:
            # Tombstones come without the time at which they were compacted here.
            self.first_cleaning_ms = {
                offset: since for offset, since in self.first_cleaning_ms.items() if offset < begin
            }

    def clean(self) -> None:
        for each in self.appended:
            if each.record.value is None:
                self.first_cleaning_ms.setdefault(each.record.offset, self.clock.now_ms)
        cleaner = self.manager.cleaner
        assert cleaner is not None
        done(cleaner.clean_dirtiest())

    def wait(self) -> None:
        self.clock.now_ms += self.source.choice((100, RETENTION_MS // 2, RETENTION_MS + 1))
        done(self.manager.delete_due())

    def checkpoint(self) -> None:
        done(self.manager.checkpoint())

    def checkpoint_high_watermarks(self) -> None:
        done(self.manager.checkpoint_high_watermarks())

    def step(self, name: str, *, ends_after: int | None = None, lose_power: bool = False) -> None:
        """Do one thing; the process may end before the call of the disk with the number `ends_after`."""
        self.disk.faults.calls_left = ends_after
        try:
            getattr(self, name)()
        except ProcessEnded:
            self.ends += 1
            self.open_again(lose_power=lose_power)
        self.disk.faults.calls_left = None
        if self.log.recovery_point >= self.fetched_up_to:
            self.fetched_up_to = 0

    def close_and_open(self) -> None:
        done(self.manager.close(1))
        self.open_again()

    def kill(self) -> None:
        self.open_again()

    def lose_power(self) -> None:
        self.open_again(lose_power=True)

    def open_again(self, *, lose_power: bool = False) -> None:
        """Open the log again after an end of the process; it may have lost records above its flushed end."""
        self.disk.faults.calls_left = None
        if lose_power:
            self.disk.lose_power(self.source)
        self.disk.end_process()
        self.manager = self._new_manager()
        done(self.manager.load(CONFIGS))
        self.manager.get_or_create(ORDERS_0)
        self.fetch()
        self.take_end()
        self.epoch += 1

    def take_end(self) -> None:
        """Forget the records that the log does not have any more."""
        end_offset = self.log.log_end_offset
        self.committed = min(self.committed, end_offset)
        self.appended = [each for each in self.appended if each.record.offset < end_offset]
        self.first_cleaning_ms = {
            offset: since for offset, since in self.first_cleaning_ms.items() if offset < end_offset
        }
        self.sequences = dict.fromkeys(PRODUCERS, -1) | {
            each.producer_id: each.last_sequence
            for each in self.appended
            if each.producer_id >= 0 and each.record.offset >= self.producers_from
        }

    # ------------------------------------------------------------------ comparing

    def stored(self) -> list[Record]:
        """Read the log from its start to its end, as a consumer."""
        log, offset = self.log, self.log.log_start_offset
        found: list[Record] = []
        while data := log.read(offset, 500, end_offset=log.log_end_offset, min_one=True):
            for batch in batches(data):
                check_crc(batch)
                assert batch.header.last_offset >= offset
                found += records(batch)
                offset = batch.header.next_offset
        assert offset <= log.log_end_offset
        return found

    def compare(self) -> None:
        found = self.stored()
        known = {each.record.offset: each.record for each in self.appended}
        assert [record.offset for record in found] == sorted({record.offset for record in found}), "in order"
        assert found == [known[record.offset] for record in found], "at its offset, with its value and timestamp"
        there = {record.offset for record in found}
        newest = {each.record.key: each.record for each in self.appended}
        for record in newest.values():
            if record.value is not None:
                assert record.offset in there, f"the newest value of {record.key!r} at {record.offset} is missing"
        for record in newest.values():
            if record.value is None and record.offset not in there:
                assert not [each for each in found if each.key == record.key], "a deleted key is back"
        for offset, record in known.items():
            is_newest = newest[record.key].offset == offset
            since_ms = self.first_cleaning_ms.get(offset)
            if record.value is None and is_newest and offset not in there:
                assert since_ms is not None, "a tombstone was removed without a compaction"
                assert self.clock.now_ms >= since_ms + RETENTION_MS, "a tombstone was removed before its time"
        self._compare_producers()
        self._compare_epochs(found)

    def _compare_producers(self) -> None:
        last = {each.producer_id: each.last_sequence for each in self.log.producers.entries()}
        for producer_id, sequence in self.sequences.items():
            if sequence >= 0:
                assert last[producer_id] == sequence

    def _compare_epochs(self, found: list[Record]) -> None:
        log, offset = self.log, self.log.log_start_offset
        while data := log.read(offset, 1, end_offset=log.log_end_offset, min_one=True):
            (batch,) = batches(data)
            assert log.epochs.epoch_of(batch.header.base_offset) == batch.header.partition_leader_epoch
            offset = batch.header.next_offset
