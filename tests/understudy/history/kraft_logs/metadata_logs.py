"""Logs of `__cluster_metadata` for tests: `MetadataLog` collects batches, and writes them as the folder of a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from understudy.foundation.cluster.identifiers import TopicId
from understudy.foundation.records.record import Record, encode_records
from understudy.foundation.wire.codec import compile_codec
from understudy.foundation.wire.messages.cluster_metadata import (
    BrokerRegistrationChangeRecord,
    LeaderChangeMessage,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuorumVoter,
    RegisterBrokerRecord,
    SnapshotHeaderRecord,
    TopicRecord,
)
from understudy.foundation.wire.schema import Message
from understudy.history.kraft_logs.metadata_records import CONTROL_KINDS, KINDS
from understudy.history.kraft_logs.segments import PARTITION

START_MS = 1_790_000_000_000
"""The time of the first batch of the tests."""
ORDERS = TopicId("Jgyr61YqQCeMqEaEavSKxw")
AUDIT = TopicId("LGsPLihUTOOZSFJi3PbuGg")


def metadata_value(message: Message, version: int | None = None) -> bytes:
    """The value of a record of the controller; by default of the newest version."""
    number, kind = next(item for item in KINDS.items() if item[1].message is type(message))
    version = kind.max_version if version is None else version
    return bytes((1, number, version)) + compile_codec(type(message), version, flexible=True).write(message)


def control_record(message: Message, version: int | None = None) -> tuple[bytes, bytes]:
    """The key and value of a record of the quorum."""
    number, kind = next(item for item in CONTROL_KINDS.items() if item[1].message is type(message))
    version = kind.max_version if version is None else version
    value = compile_codec(type(message), version, flexible=True).write(
        msgspec.structs.replace(message, version=version)
    )
    return b"\0\0" + number.to_bytes(2, "big"), value


def incarnation(number: int) -> TopicId:
    return TopicId(f"incarnation{number:010}A"[:21] + "A")


@dataclass
class MetadataLog:
    """The batches of one log. Each `add` is a batch; `lead` is the first of an epoch."""

    offset: int = 0
    epoch: int = 0
    batches: list[tuple[int, bytes]] = field(default_factory=list)
    """The base offset and bytes of each."""

    def copy(self) -> MetadataLog:
        return MetadataLog(self.offset, self.epoch, list(self.batches))

    def lead(self, ms: float, leader: int, epoch: int) -> None:
        """Append the LeaderChange of a leader that is elected `ms` milliseconds after the start."""
        self.epoch = epoch
        message = LeaderChangeMessage(leader_id=leader, voters=tuple(QuorumVoter(voter_id=n) for n in (1, 2, 3)))
        self._append(ms, [control_record(message)], is_control=True)

    def add(self, ms: float, *messages: Message | bytes) -> None:
        """Append a batch with these records of the controller, or values of records."""
        values = [each if isinstance(each, bytes) else metadata_value(each) for each in messages or (NoOpRecord(),)]
        self._append(ms, [(None, value) for value in values], is_control=False)

    def _append(self, ms: float, records: list[tuple[bytes | None, bytes]], *, is_control: bool) -> None:
        found = [
            Record(self.offset + number, int(START_MS + ms), key, value) for number, (key, value) in enumerate(records)
        ]
        self.batches.append((self.offset, encode_records(found, leader_epoch=self.epoch, is_control=is_control)))
        self.offset += len(found)

    # -- what happens in a cluster

    def register(self, ms: float, broker: int, process: int = 1) -> int:
        """Append the registration of a broker, fenced; return its broker epoch."""
        epoch = self.offset
        self.add(
            ms,
            RegisterBrokerRecord(
                broker_id=broker, broker_epoch=epoch, incarnation_id=incarnation(10 * broker + process)
            ),
        )
        return epoch

    def unfence(self, ms: float, broker: int, *more: Message) -> None:
        self.add(ms, BrokerRegistrationChangeRecord(broker_id=broker, fenced=-1), *more)

    def fence(self, ms: float, broker: int, *before: Message) -> None:
        self.add(ms, *before, BrokerRegistrationChangeRecord(broker_id=broker, fenced=1))

    def create(self, ms: float, name: str, topic_id: TopicId, *assignment: Iterable[int]) -> None:
        """Append the creation of a topic whose partitions have these replicas, all of them in sync."""
        replicas = [tuple(each) for each in assignment]
        partitions = (
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=each,
                isr=each,
                leader=each[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=(topic_id,) * len(each),
            )
            for number, each in enumerate(replicas)
        )
        self.add(ms, TopicRecord(name=name, topic_id=topic_id), *partitions)

    # -- files

    def write(self, folder: Path, *, first: int = 0, segments: Iterable[int] = ()) -> Path:
        """Write the batches from offset `first` on, in segments that begin at these offsets; return the folder."""
        target = folder / PARTITION
        target.mkdir(parents=True, exist_ok=True)
        starts = sorted({first, *segments})
        for start, end in zip(starts, (*starts[1:], self.offset), strict=True):
            data = b"".join(batch for offset, batch in self.batches if start <= offset < end)
            (target / f"{start:020}.log").write_bytes(data)
        return folder


def change(partition: int, topic_id: TopicId = ORDERS, **fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=partition, topic_id=topic_id, **fields)  # type: ignore[arg-type]  # its own


def write_snapshot(folder: Path, end_offset: int, epoch: int, ms: float, *messages: Message) -> None:
    """Write a snapshot into the folder of a node."""
    target = folder / PARTITION
    target.mkdir(parents=True, exist_ok=True)
    key, value = control_record(SnapshotHeaderRecord(last_contained_log_timestamp=int(START_MS + ms)))
    at = START_MS + int(ms)
    head = encode_records([Record(0, at, key, value)], leader_epoch=epoch, is_control=True)
    body = [Record(1 + number, at, None, metadata_value(message)) for number, message in enumerate(messages)]
    data = head + (encode_records(body, leader_epoch=epoch) if body else b"")
    (target / f"{end_offset:020}-{epoch:010}.checkpoint").write_bytes(data)


def three_brokers() -> MetadataLog:
    """A log in which node 1 leads, three brokers register, and `orders` and `audit` are created: 10 to 100 ms."""
    log = MetadataLog()
    log.lead(0, leader=1, epoch=1)
    log.add(10)
    for broker in (1, 2, 3):
        log.register(20 * broker, broker)
        log.unfence(20 * broker + 5, broker)
    log.create(80, "orders", ORDERS, (1, 2, 3), (2, 3, 1))
    log.create(100, "audit", AUDIT, (1,))
    return log
