"""Reads and writes Kafka's checkpoint files: a version, the number of entries, and one entry a line.

`replication-offset-checkpoint`, `recovery-point-offset-checkpoint` and `log-start-offset-checkpoint` have an offset for
each partition of a log directory, `leader-epoch-checkpoint` the epochs of one partition. Mirrors `CheckpointFile`,
`OffsetCheckpointFile` and `LeaderEpochCheckpointFile`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from understudy.foundation.cluster.identifiers import TopicPartition

VERSION = 0

T = TypeVar("T")


class MalformedCheckpoint(ValueError):
    """A checkpoint file that cannot be read. The message names the file, the line, and what was expected."""


class EpochEntry(NamedTuple):
    """A leader epoch, and the offset of the first record that its leader has written."""

    epoch: int
    start_offset: int


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the text of a file with an offset for each partition, sorted."""
    return _encode(f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))


def decode_offsets(name: str, text: bytes) -> dict[TopicPartition, int]:
    """Return the offset of each partition in a file.

    Raises:
        MalformedCheckpoint: it is no such file.
    """
    return dict(_decode(name, text, _offset_entry, "TOPIC PARTITION OFFSET"))


def encode_epochs(entries: Sequence[EpochEntry]) -> bytes:
    """Return the text of a `leader-epoch-checkpoint`."""
    return _encode(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def decode_epochs(name: str, text: bytes) -> list[EpochEntry]:
    """Return the entries of a `leader-epoch-checkpoint`, in the order of the file; raises as `decode_offsets`."""
    return _decode(name, text, _epoch_entry, "EPOCH START_OFFSET")


def _encode(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode()


def _decode(name: str, text: bytes, entry: Callable[[str], T], expected: str) -> list[T]:
    try:
        lines = text.decode().split("\n")
    except UnicodeDecodeError as error:
        raise MalformedCheckpoint(f"{name} is not UTF-8: {error}") from None
    version = _number(name, lines, 0, "a version")
    if version != VERSION:
        raise MalformedCheckpoint(f"Unrecognized version of the checkpoint file {name}: {version}; expected {VERSION}")
    count = _number(name, lines, 1, "the number of entries")
    given = [line for line in lines[2:] if line]
    if len(given) != count:
        raise MalformedCheckpoint(f"Expected {count} entries in checkpoint file {name}, but found {len(given)}")
    found = []
    for number, line in enumerate(lines[2:], 3):
        if not line:
            continue
        try:
            found.append(entry(line))
        except ValueError:
            raise MalformedCheckpoint(f"{name}:{number} is {line!r}; expected {expected}") from None
    return found


def _number(name: str, lines: Sequence[str], place: int, what: str) -> int:
    line = lines[place] if place < len(lines) else ""
    if not (line.isascii() and line.isdigit()):
        raise MalformedCheckpoint(f"{name}:{place + 1} is {line!r}; expected {what}")
    return int(line)


def _offset_entry(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = line.split()
    return TopicPartition(topic, int(partition)), int(offset)


def _epoch_entry(line: str) -> EpochEntry:
    epoch, start_offset = line.split()
    return EpochEntry(int(epoch), int(start_offset))
