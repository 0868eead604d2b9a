"""Prints the indexes beside a log segment, and compares them with it, for `understudy dump-log`.

Entries are read as they are on disk: unlike a broker, which does not use an index that is out of order, the tool shows
it. Mirrors `DumpLogSegments.dumpIndex`, `dumpTimeIndex`, `dumpTxnIndex` and `dumpProducerIdSnapshot`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from understudy.brokers.log import producer_snapshot
from understudy.foundation.records.batch import NO_TIMESTAMP, RecordBatch
from understudy.kafka_tools.console import Console
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.segment_files import base_offset_of, batches_in, in_file, read_bytes, records_in

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_TRANSACTION: Final = Struct(">hqqqq")
_NO_OFFSET: Final = -1
CORRUPT_INDEX = "org.apache.kafka.storage.internals.log.CorruptIndexException"


class Pair(NamedTuple):
    """A value in an index, and the value in the log or in the entry before."""

    found: int
    other: int


@dataclass(slots=True)
class IndexFindings:
    """The problems of the files, by path, in the order in which they were found; they are printed at the end."""

    index_mismatches: dict[Path, list[Pair]] = field(default_factory=dict)
    gaps: dict[Path, list[Pair]] = field(default_factory=dict)
    timestamps: dict[Path, list[Pair]] = field(default_factory=dict)
    out_of_order: dict[Path, list[Pair]] = field(default_factory=dict)
    offsets_not_found: dict[Path, list[Pair]] = field(default_factory=dict)

    def print(self, console: Console) -> None:
        for path, pairs in self.index_mismatches.items():
            console.error(f"Mismatches in :{path}")
            # Kafka puts each new one in front, here and with the gaps.
            for pair in reversed(pairs):
                console.error(f"  Index offset: {pair.found}, log offset: {pair.other}")
        for path, pairs in self.timestamps.items():
            console.error(f"Found timestamp mismatch in :{path}")
            for pair in pairs:
                console.error(f"  Index timestamp: {pair.found}, log timestamp: {pair.other}")
        for path, pairs in self.out_of_order.items():
            console.error(f"Found out of order timestamp in :{path}")
            for pair in pairs:
                console.error(f"  Index timestamp: {pair.found}, Previously indexed timestamp: {pair.other}")
        for pairs in self.offsets_not_found.values():
            console.error("The following indexed offsets are not found in the log.")
            for pair in pairs:
                console.error(f"Indexed offset: {pair.found}, found log offset: {pair.other}")
        for path, pairs in self.gaps.items():
            console.error(f"Non-consecutive offsets in {path}")
            for pair in reversed(pairs):
                console.error(f"  {pair.found} is followed by {pair.other}")


@dataclass(frozen=True, slots=True)
class IndexChecks:
    """The checks of an index.

    Attributes:
        sanity_only: whether to check only what a broker checks when it starts.
        is_silent: whether to compare entries with the log without printing them.
        max_message_size: the number of bytes of the log that are read for an entry.
    """

    sanity_only: bool
    is_silent: bool
    max_message_size: int


def dump_offset_index(path: Path, checks: IndexChecks, console: Console, findings: IndexFindings) -> None:
    """Print the positions by offset. Raises ToolError if index or log cannot be read."""
    base_offset = base_offset_of(path)
    with in_file(path.with_suffix(".log")) as log:
        data = read_bytes(path)
        entries = list(_OFFSET_ENTRY.iter_unpack(data[: len(data) // _OFFSET_ENTRY.size * _OFFSET_ENTRY.size]))
        if not entries:
            console.print(f"{path} is empty.")
            return
        if checks.sanity_only:
            _check_last_offset(path, data, base_offset, base_offset + entries[-1][0], _OFFSET_ENTRY.size)
            console.print(f"{path} passed sanity check.")
            return
        for number, (relative, position) in enumerate(entries):
            if relative == 0 and number > 0:
                return  # room that was reserved
            offset = base_offset + relative
            first = next(batches_in(log[position : position + checks.max_message_size], path), None)
            if first is None:
                raise ToolError("java.util.NoSuchElementException", f"no batch at position {position} of the log")
            if first.header.last_offset != offset:
                pair = Pair(offset, first.header.last_offset)
                findings.index_mismatches.setdefault(path.absolute(), []).append(pair)
            if not checks.is_silent:
                console.print(f"offset: {offset} position: {position}")


def dump_time_index(path: Path, checks: IndexChecks, console: Console, findings: IndexFindings) -> None:
    """Print the offsets by timestamp. Raises ToolError if index or log cannot be read."""
    base_offset = base_offset_of(path)
    with in_file(path.with_suffix(".log")) as log:
        data = read_bytes(path)
        entries = list(_TIME_ENTRY.iter_unpack(data[: len(data) // _TIME_ENTRY.size * _TIME_ENTRY.size]))
        if checks.sanity_only:
            _check_time_index(path, data, base_offset, entries)
            console.print(f"{path} passed sanity check.")
            return
        previous = NO_TIMESTAMP
        for number, (timestamp, relative) in enumerate(entries):
            if relative == 0 and number > 0:
                return  # room that was reserved
            offset = base_offset + relative
            batch = next((each for each in batches_in(log, path) if each.header.last_offset >= offset), None)
            _compare(path.absolute(), Pair(timestamp, offset), batch, previous, findings)
            if not checks.is_silent:
                console.print(f"timestamp: {timestamp} offset: {offset}")
            previous = timestamp


def _compare(path: Path, entry: Pair, batch: RecordBatch | None, previous: int, findings: IndexFindings) -> None:
    """Note how an entry of a time index differs from the batch that it is about."""
    timestamp, offset = entry
    if batch is None or batch.header.last_offset != offset:
        found = _NO_OFFSET if batch is None else batch.header.last_offset
        findings.offsets_not_found.setdefault(path, []).append(Pair(offset, found))
        return
    in_log = max((record.timestamp for record in records_in(batch)), default=NO_TIMESTAMP)
    if in_log != timestamp:
        findings.timestamps.setdefault(path, []).append(Pair(timestamp, in_log))
    if previous >= timestamp:
        findings.out_of_order.setdefault(path, []).append(Pair(timestamp, previous))


def dump_transaction_index(path: Path, console: Console) -> None:
    """Print the aborted transactions of a segment. Raises ToolError if the file cannot be read."""
    data = read_bytes(path)
    for version, producer_id, first, last, stable in _TRANSACTION.iter_unpack(
        data[: len(data) // _TRANSACTION.size * _TRANSACTION.size]
    ):
        console.print(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_producers(path: Path, console: Console) -> None:
    """Print the producers of a snapshot. Raises ToolError if the file cannot be read."""
    try:
        entries = producer_snapshot.decode(str(path), read_bytes(path))
    except producer_snapshot.CorruptSnapshot as error:
        console.error(str(error))
        return
    for entry in entries:
        begins = entry.transaction_start_offset
        shown = "OptionalLong.empty" if begins == producer_snapshot.NO_OFFSET else f"OptionalLong[{begins}]"
        console.print(
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
            f"coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {shown} "
            f"lastTimestamp: {entry.timestamp} ",
            end="",
        )
        if entry.last_offset >= 0:
            first = (entry.last_sequence - entry.offset_delta) & 0x7FFF_FFFF
            console.print(
                f"firstSequence: {first} lastSequence: {entry.last_sequence} lastOffset: {entry.last_offset} "
                f"offsetDelta: {entry.offset_delta} timestamp: {entry.timestamp}",
                end="",
            )
        console.print()


def _check_last_offset(path: Path, data: bytes, base_offset: int, last_offset: int, entry_size: int) -> None:
    if last_offset < base_offset:
        raise ToolError(
            CORRUPT_INDEX,
            f"Corrupt index found, index file ({path.absolute()}) has non-zero size but the last offset is "
            f"{last_offset} which is less than the base offset {base_offset}",
        )
    if len(data) % entry_size:
        raise ToolError(
            CORRUPT_INDEX,
            f"Index file {path.absolute()} is corrupt, found {len(data)} bytes which is neither positive nor a "
            f"multiple of {entry_size}.",
        )


def _check_time_index(path: Path, data: bytes, base_offset: int, entries: list[tuple[int, int]]) -> None:
    if not entries:
        return
    (first, _), (last, relative) = entries[0], entries[-1]
    if last < first:
        raise ToolError(
            CORRUPT_INDEX,
            f"Corrupt time index found, time index file ({path.absolute()}) has non-zero size but the last timestamp "
            f"is {last} which is less than the first timestamp {first}",
        )
    _check_last_offset(path, data, base_offset, base_offset + relative, _TIME_ENTRY.size)
