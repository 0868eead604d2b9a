"""`KRaftRun` is what a KRaft cluster of Apache Kafka has left: copies of its logs, and what Kafka's own tools and nodes
say about them. `samples` has two of them; `tests/interop/test_import_kraft.py` makes new ones."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

SAMPLES = Path(__file__).parent / "samples"

_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) .* partitionLeaderEpoch: (\d+) .* isControl: (\w+) .* CreateTime: (\d+) "
)
_RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*?(?: payload: (\{.*\}))?$")
_LINE = re.compile(r"(\d+): \[(.{19}),(\d{3})\] (.*)")
_REGISTRATION = re.compile(
    r"isr=\[([\d, ]*)\].* leader=(-?\d+), leaderRecoveryState=(\w+), leaderEpoch=(\d+), partitionEpoch=(\d+)"
)


class DumpedBatch(NamedTuple):
    """A batch as `kafka-dump-log` prints it; `payloads` of a control batch are empty."""

    base_offset: int
    epoch: int
    is_control: bool
    ms: int
    payloads: tuple[dict[str, Any], ...]


class LoggedLine(NamedTuple):
    """A line of a node's log, with its time in milliseconds since 1970."""

    node: int
    ms: float
    text: str


class Registration(NamedTuple):
    """A partition as `kafka-metadata-shell` prints it."""

    isr: tuple[int, ...]
    leader: int
    recovery_state: str
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True)
class KRaftRun:
    """The files of a folder: `node-N/__cluster_metadata-0`, `dump.txt`, `lines.txt` and `facts.json`."""

    folder: Path

    @property
    def logs(self) -> list[Path]:
        """The folder of each node's log."""
        return sorted(self.folder.glob("node-*"))

    @cached_property
    def facts(self) -> dict[str, Any]:
        """`statuses`: [ms, leader, epoch] by `kafka-metadata-quorum`; `killed`: [ms, node]; `partitions`: by name."""
        found: dict[str, Any] = json.loads((self.folder / "facts.json").read_text())
        return found

    @property
    def partitions(self) -> dict[str, Registration]:
        """The last state of each partition, by `kafka-metadata-shell`."""
        return {name: _registration(text) for name, text in self.facts["partitions"].items()}

    @cached_property
    def batches(self) -> list[DumpedBatch]:
        """All batches, by `kafka-dump-log`."""
        return list(_dumped((self.folder / "dump.txt").read_text()))

    @cached_property
    def lines(self) -> list[LoggedLine]:
        """What the nodes have logged about the quorum and about fencing."""
        return [_line(line) for line in (self.folder / "lines.txt").read_text().splitlines()]

    def write_logs(self, folder: Path) -> list[tuple[int | None, Path]]:
        """Write the lines of each node into a file, without those that were cut off; return the nodes and the files."""
        found: dict[int, list[str]] = {}
        for line in (self.folder / "lines.txt").read_text().splitlines():
            node, _, text = line.partition(": ")
            if text.endswith(")"):
                found.setdefault(int(node), []).append(text)
        for number, lines in found.items():
            (folder / f"node-{number}.log").write_text("\n".join(lines) + "\n")
        return [(number, folder / f"node-{number}.log") for number in found]

    def lines_with(self, pattern: str) -> list[LoggedLine]:
        return [line for line in self.lines if re.search(pattern, line.text)]


def unpacked(name: str, folder: Path) -> KRaftRun:
    """Unpack a sample."""
    for path in (SAMPLES / name).rglob("*.gz"):
        target = folder / path.relative_to(SAMPLES / name).with_suffix("")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.decompress(path.read_bytes()))
    return KRaftRun(folder)


def _dumped(text: str) -> Iterator[DumpedBatch]:
    head: tuple[str, ...] = ()
    payloads: list[dict[str, Any]] = []

    def batch() -> DumpedBatch:
        return DumpedBatch(int(head[0]), int(head[2]), head[3] == "true", int(head[4]), tuple(payloads))

    for line in text.splitlines():
        if found := _BATCH.match(line):
            if head:
                yield batch()
            head, payloads = found.groups(), []
        elif (record := _RECORD.match(line)) and record[3]:
            payloads.append(json.loads(record[3]))
    yield batch()


def _line(line: str) -> LoggedLine:
    match = _LINE.fullmatch(line)
    assert match is not None, line
    node, seconds, millis, text = match.groups()
    at = datetime.strptime(f"{seconds}.{millis}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    return LoggedLine(int(node), at.timestamp() * 1000, text)


def _registration(text: str) -> Registration:
    match = _REGISTRATION.search(text)
    assert match is not None, text
    isr, leader, state, leader_epoch, partition_epoch = match.groups()
    members = tuple(int(each) for each in isr.split(", ") if each)
    return Registration(members, int(leader), state, int(leader_epoch), int(partition_epoch))
