"""`import_metadata` reads the log of a KRaft quorum in its order, and writes event logs.

A first pass finds the processes of the nodes. The second one applies each batch to an image of the cluster and records
what it changed, on the node that led the quorum in the batch's epoch: the active controller. Lines of the nodes' own
logs are merged with the batches by their times.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

from understudy.foundation.eventlog.records import (
    Assignment,
    BrokerRegistered,
    BrokersChanged,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    Leadership,
    LeadershipWritten,
    LostStretch,
    PartitionsAssigned,
    RunDescribed,
    StillRunning,
    TopicsChanged,
)
from understudy.foundation.wire.messages.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    LeaderChangeMessage,
    NoOpRecord,
    SnapshotHeaderRecord,
)
from understudy.foundation.wire.schema import Message
from understudy.history.kafka_logs.broker_node import BrokerNode
from understudy.history.kafka_logs.entries import Entry, FoundLogs, LogSource, log_sources
from understudy.history.kafka_logs.kafka_text import UNKNOWN
from understudy.history.kafka_logs.pattern import DEFAULT_PATTERN, LinePattern
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kafka_logs.written_records import WrittenRecords
from understudy.history.kraft_logs.cluster_image import Changes, ClusterImage, PartitionState
from understudy.history.kraft_logs.log_clock import LogClock
from understudy.history.kraft_logs.metadata_records import Decoded, NotDecoded, WithoutRecord
from understudy.history.kraft_logs.node_lines import NodeLines
from understudy.history.kraft_logs.processes import QUORUM_NODE, Processes
from understudy.history.kraft_logs.quorum import QuorumLog, Tail
from understudy.history.kraft_logs.segments import PARTITION, MetadataBatch, NodeLog, Snapshot
from understudy.history.reading.missing import MissingRecords
from understudy.history.writing import counted

_SOURCE: Final = PARTITION.removesuffix("-0")
_Item: TypeAlias = tuple[float, int, MetadataBatch | Snapshot | tuple[LogSource, Entry]]
"""A batch, a snapshot or a line, after the keys that order it: its time and the rank of its source."""

_ABORTED = "records of a metadata transaction that was aborted"
_UNFINISHED = "records of a metadata transaction without an end in the log"


@dataclass(slots=True)
class MetadataReport:
    """The result of an import: what was imported and what was left out.

    Attributes:
        nodes: the nodes that have an event log.
        records: how many records of each type were written.
        batches: the number of batches, and `metadata_records` of the records in them.
        lines: the number of entries of the nodes' own logs, and `understood` of those that became records or that later
            records needed.
        without_record: the records that add nothing, by type.
        not_decoded: the records that could not be decoded, by type and version, each with the reason.
        left_out: states that were not written, by record and reason.
        features: the level of each feature at the end, for example `metadata.version`.
        missing: the records that are missing of the run, as `understudy replay` finds them.
        notes: facts about the logs, in words.
    """

    run: str = ""
    nodes: tuple[str, ...] = ()
    records: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    metadata_records: int = 0
    lines: int = 0
    understood: int = 0
    without_record: Counter[str] = field(default_factory=Counter)
    not_decoded: Counter[tuple[str, str]] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    features: dict[str, int] = field(default_factory=dict)
    missing: tuple[MissingRecords, ...] = ()
    notes: list[str] = field(default_factory=list)


def import_metadata(
    folders: Sequence[tuple[str, Path]],
    output: Path,
    *,
    run: str = "",
    lines: Sequence[tuple[int | None, Path]] = (),
    pattern: LinePattern | None = None,
    session_timeout_ms: int | None = None,
) -> MetadataReport:
    """Write the event logs of the nodes of a KRaft cluster into `output`.

    Args:
        folders: the name (empty for the one in its `meta.properties`) and the folder of each node's log.
        lines: the node (None if its lines name it) and the path of each `controller.log`, `server.log` or output of a
            container.
        pattern: reads these lines; None for Kafka's own pattern, in UTC.
        session_timeout_ms: `broker.session.timeout.ms` of the controllers; None if only their lines may name it.
        run: the run id of every record; empty for an id that is made from the time of the first batch.

    Raises:
        LogError: a log cannot be imported, or there is nothing to import.
        OSError: an event log cannot be written.
    """
    log = QuorumLog([NodeLog(folder, name) for name, folder in folders])
    processes = Processes()
    understood = 0
    for offset, epoch, records in _records(log):
        messages = [record for record in records if isinstance(record, Message)]
        understood += len(messages)
        processes.add(offset, epoch, messages)
    processes.leaders = log.noted_leaders | processes.leaders
    if not understood:
        raise LogError(
            f"{folders[0][1]}: none of its records is one of {_SOURCE}; is it the log of another topic, or encrypted?"
        )
    pattern = pattern or LinePattern(DEFAULT_PATTERN)
    found = log_sources(lines, pattern)
    described = RunDescribed(
        lost_stretches=tuple(_lost(log, processes)), session_timeout_ms=session_timeout_ms, is_kraft=True
    )
    importer = _Importer(log, processes, output, run or _run_id(log), found.sources, described)
    entries = (_entries(rank, source, pattern) for rank, source in enumerate(found.sources, 1))
    try:
        for ms, _, item in heapq.merge(_dated(log, importer.clock), *entries, key=lambda each: each[:2]):
            importer.add(ms, item)
        importer.end(found)
    finally:
        importer.close()
    return importer.report


def _records(log: QuorumLog) -> Iterator[tuple[int, int, list[Decoded]]]:
    """Yield the offset, the epoch and the records of each batch, and of each batch of a snapshot that is needed."""
    for item in log.items():
        if isinstance(item, Snapshot):
            for batch in item.batches():
                yield item.end_offset, item.epoch, list(batch.decoded())
        else:
            yield item.base_offset, item.epoch, list(item.decoded())


def _dated(log: QuorumLog, clock: LogClock) -> Iterator[_Item]:
    """Yield the batches and snapshots with the time of the run and their rank."""
    for item in log.items():
        if isinstance(item, Snapshot):
            yield clock.advanced_to(_snapshot_ms(item)), 0, item
        else:
            yield clock.run_ms(item), 0, item


def _entries(rank: int, source: LogSource, pattern: LinePattern) -> Iterator[_Item]:
    """Yield the entries of a node's log with the time of the run and their rank."""
    for entry in source.entries(pattern):
        yield float(entry.ms), rank, (source, entry)


def _snapshot_ms(snapshot: Snapshot) -> int:
    """Return the time of the last record that a snapshot stands for; 0 if it does not say."""
    for batch in snapshot.batches():
        for record in batch.decoded() if batch.is_control else ():
            if isinstance(record, SnapshotHeaderRecord):
                return record.last_contained_log_timestamp
    return 0


def _lost(log: QuorumLog, processes: Processes) -> Iterator[LostStretch]:
    """Yield the stretches in which the controllers wrote records that no node has."""
    gaps = deque(log.gaps)
    if not gaps:
        return
    clock, before = LogClock(), 0.0
    leaders: set[int | None] = set()
    for item in log.items():
        if isinstance(item, Snapshot):
            continue
        ms, leader = clock.run_ms(item), processes.leaders.get(item.epoch)
        while gaps and item.base_offset >= gaps[0][1]:
            first, end = gaps.popleft()
            evidence = f"no node has the records of {_SOURCE} from offset {first:,} to {end - 1:,}"
            for node in sorted(processes.node(each) for each in {*leaders, leader} if each is not None):
                yield LostStretch(node, before, ms, evidence)
        before, leaders = ms, {leader}


def _run_id(log: QuorumLog) -> str:
    first = next((item for item in log.items() if isinstance(item, MetadataBatch)), None)
    ms = 0 if first is None else first.ms
    return f"kafka-{datetime.fromtimestamp(ms / 1000, UTC):%Y%m%d-%H%M%S}"


class _Importer:
    """Writes the records of one batch or line after another."""

    def __init__(
        self,
        log: QuorumLog,
        processes: Processes,
        output: Path,
        run: str,
        sources: Sequence[LogSource],
        described: RunDescribed,
    ) -> None:
        self.report = MetadataReport(run=run)
        self._log = log
        self._processes = processes
        self._output = output
        self._image = ClusterImage()
        self.clock = LogClock()
        self._lines = NodeLines(self._activated)
        self._logged_since = _logged_since(sources)
        self._nodes: dict[str, BrokerNode] = {}
        self._written = WrittenRecords()
        self._described: RunDescribed | None = described
        self._transaction: list[Message] | None = None
        self._elected_ms: float | None = None
        """The time of the newest election, until its controller has written its first batch."""
        self._tails = sorted(log.tails, key=lambda tail: tail.epoch)

    def add(self, ms: float, item: MetadataBatch | Snapshot | tuple[LogSource, Entry]) -> None:
        """Import the next batch or line, or the snapshot that stands for the records before the next batch."""
        if isinstance(item, Snapshot):
            self._load(ms, item)
        elif isinstance(item, MetadataBatch):
            self.clock.show(item.epoch)
            self._add_batch(ms, item)
        else:
            self.clock.show(None)
            source, entry = item
            is_broker = source.broker in self._processes.brokers
            self._lines.add(self._node(source.broker), ms, entry, is_broker=is_broker)

    def _add_batch(self, ms: float, batch: MetadataBatch) -> None:
        self.report.batches += 1
        if batch.is_control:
            self._end_reign(ms, batch)
        for node_id in self._processes.starts.get(batch.base_offset, ()):
            # The lines of a node say themselves when it is started.
            if ms < self._logged_since.get(node_id, math.inf):
                self._node(node_id).end_incarnation()
        messages = self._messages(batch)
        writer = self._writer(batch.epoch)
        if batch.is_control:
            self._quorum_changed(ms, batch.epoch, messages)
        else:
            self._ready(ms, batch.epoch, writer)
            self._record(ms, batch.epoch, writer, self._image.apply(self._visible(messages)))
        writer.line_was_read(ms, _SOURCE)

    def end(self, found: FoundLogs) -> None:
        """Finish the report, after the last batch."""
        report = self.report
        if self._transaction:
            report.left_out[_UNFINISHED] += len(self._transaction)
        report.features = dict(sorted(self._image.features.items()))
        report.lines, report.understood = self._lines.lines, self._lines.understood
        report.notes = [*self._notes(), *self.clock.notes(), *(f"{file} is empty" for file in found.empty)]
        if found.sources:
            report.notes.append("the clocks of all nodes are taken as one")

    def close(self) -> None:
        for node in self._nodes.values():
            node.close()
        self.report.nodes = tuple(sorted(self._nodes))
        self.report.missing = self._written.missing()

    # ------------------------------------------------------------------ the quorum

    def _quorum_changed(self, ms: float, epoch: int, messages: list[Message]) -> None:
        for message in messages:
            if isinstance(message, LeaderChangeMessage):
                elected = ControllerElected(
                    broker_id=message.leader_id, epoch=epoch, epoch_zk_version=UNKNOWN, session_id=0
                )
                self._writer(epoch).write(ms, elected)
                self._elected_ms = ms

    def _end_reign(self, now_ms: float, batch: MetadataBatch) -> None:
        """Note the last batches of the controllers before, in their own logs: they ran that long."""
        while self._tails and self._tails[0].epoch < batch.epoch:
            tail = self._tails.pop(0)
            ms = self.clock.of_epoch(tail.epoch, tail.last_ms)
            if (leader := self._processes.leaders.get(tail.epoch)) is not None and ms < now_ms:
                self._node(leader).line_was_read(ms, _SOURCE)

    def _activated(self, node: BrokerNode, epoch: int, ms: float) -> None:
        """Record that a new controller is active, when it logs that."""
        if self._elected_ms is not None and node.controller_epoch == epoch:
            self._ready(ms, epoch, node)

    def _ready(self, ms: float, epoch: int, writer: BrokerNode) -> None:
        """Record that a new controller is active, at its first batch at the latest."""
        elected_ms, self._elected_ms = self._elected_ms, None
        if elected_ms is None:
            return
        image = self._image
        ready = ControllerReady(
            epoch=epoch,
            brokers=tuple(sorted(image.live)),
            topics=len(image.topics),
            partitions=sum(map(len, image.partitions.values())),
            took_ms=ms - elected_ms,
        )
        writer.write(ms, ready)

    # ------------------------------------------------------------------ the cluster

    def _record(self, ms: float, epoch: int, writer: BrokerNode, changes: Changes) -> None:
        for broker, broker_epoch in changes.registered:
            self._registered(ms, broker, broker_epoch)
        for broker in changes.shutting_down:
            self._node(broker).write(ms, StillRunning(source=_SOURCE))
        before, live = changes.live_before, changes.live
        new, dead = sorted(live.keys() - before.keys()), sorted(before.keys() - live.keys())
        bounced = sorted(broker for broker in live.keys() & before.keys() if live[broker] != before[broker])
        if new or dead or bounced:
            changed = BrokersChanged(new=tuple(new), dead=tuple(dead), bounced=tuple(bounced), live=tuple(sorted(live)))
            writer.write(ms, changed)
        if changes.new_topics or changes.deleted_topics:
            topics = TopicsChanged(new=tuple(changes.new_topics), deleted=tuple(changes.deleted_topics))
            writer.write(ms, topics)
        for written in _written(changes, epoch):
            writer.write(ms, written)
        self.report.left_out.update(changes.left_out)

    def _registered(self, ms: float, broker: int, broker_epoch: int) -> None:
        registered = BrokerRegistered(broker_id=broker, broker_epoch=broker_epoch, session_id=0)
        self._node(broker).write(ms, registered)

    def _load(self, ms: float, snapshot: Snapshot) -> None:
        """Begin with the state in a snapshot, at the time of the last record that it stands for."""
        self._image = ClusterImage()
        for batch in snapshot.batches():
            self._image.apply(self._messages(batch))
        loaded = ContextLoaded(
            epoch=snapshot.epoch,
            live_brokers=tuple(sorted(self._image.live.items())),
            partitions=self._image.leaderships(snapshot.epoch),
            took_ms=0.0,
        )
        writer = self._writer(snapshot.epoch)
        for broker, state in sorted(self._image.brokers.items()):
            self._registered(ms, broker, state.broker_epoch)
        writer.write(ms, _assigned(self._image.named_partitions()))
        writer.write(ms, loaded)

    def _messages(self, batch: MetadataBatch) -> list[Message]:
        """Decode the records of a batch; count those that add nothing or cannot be decoded."""
        report, found = self.report, []
        for record in batch.decoded():
            report.metadata_records += 1
            if isinstance(record, WithoutRecord):
                report.without_record[record.name] += 1
            elif isinstance(record, NotDecoded):
                report.not_decoded[record.name, record.why] += 1
            else:
                if isinstance(record, NoOpRecord):
                    report.without_record[type(record).__name__] += 1
                found.append(record)
        return found

    def _visible(self, messages: list[Message]) -> list[Message]:
        """Return the records that take effect now; the records of a metadata transaction do at its end (KIP-868)."""
        visible: list[Message] = []
        for message in messages:
            if isinstance(message, BeginTransactionRecord):
                self._transaction = []
            elif isinstance(message, EndTransactionRecord):
                visible += self._transaction or ()
                self._transaction = None
            elif isinstance(message, AbortTransactionRecord):
                self.report.left_out[_ABORTED] += len(self._transaction or ())
                self._transaction = None
            elif self._transaction is not None:
                self._transaction.append(message)
            else:
                visible.append(message)
        return visible

    # ------------------------------------------------------------------ nodes

    def _writer(self, epoch: int) -> BrokerNode:
        """Return the node that led the quorum in an epoch."""
        leader = self._processes.leaders.get(epoch)
        node = self._named(QUORUM_NODE, UNKNOWN) if leader is None else self._node(leader)
        node.controller_epoch = max(node.controller_epoch, epoch)
        return node

    def _node(self, node_id: int) -> BrokerNode:
        return self._named(self._processes.node(node_id), node_id)

    def _named(self, name: str, node_id: int) -> BrokerNode:
        if name not in self._nodes:
            self._nodes[name] = BrokerNode(
                node_id,
                self._output,
                self.report.run,
                name=name,
                written=self.report.records,
                left_out=self.report.left_out,
                clock=self.clock,
                described=self._take_description,
                records=self._written,
            )
        return self._nodes[name]

    def _take_description(self) -> RunDescribed | None:
        """Return the record before all others, the first time."""
        described, self._described = self._described, None
        return described

    def _notes(self) -> Iterator[str]:
        log, leaders = self._log, self._processes.leaders
        if log.first:
            yield f"the log begins at offset {log.first:,}: what was before is known only from the state there"
        for place in log.torn:
            yield f"{place}: the last batch is cut off, as a killed node leaves it"
        for tail in log.tails:
            yield _uncommitted(tail, leaders)
        if QUORUM_NODE in self._nodes:
            yield f"the log begins after the election of the first controller: its records are on node {QUORUM_NODE!r}"


def _written(changes: Changes, epoch: int) -> Iterator[PartitionsAssigned | LeadershipWritten]:
    """Yield the assignments of a batch, and the states by their reasons; a partition that changed twice is in two
    records, in order."""
    if changes.assigned:
        yield _assigned(changes.assigned)
    by_why: dict[str, list[Leadership]] = {}
    seen: set[tuple[str, int]] = set()
    for topic, partition, why, state in changes.states:
        if (topic, partition) in seen:
            yield from (LeadershipWritten(why=each, partitions=tuple(states)) for each, states in by_why.items())
            by_why, seen = {}, set()
        seen.add((topic, partition))
        by_why.setdefault(why, []).append(state.leadership(topic, partition, epoch))
    yield from (LeadershipWritten(why=each, partitions=tuple(states)) for each, states in by_why.items())


def _assigned(partitions: Iterable[tuple[str, int, PartitionState]]) -> PartitionsAssigned:
    return PartitionsAssigned(
        partitions=tuple(
            Assignment(topic, partition, state.replicas, state.eligible) for topic, partition, state in partitions
        )
    )


def _logged_since(sources: Iterable[LogSource]) -> dict[int, float]:
    """Return the time since which the server.log of each node is there."""
    return {
        source.broker: min(part.first_ms for part in source.parts if part.first_ms is not None)
        for source in sources
        if EntryKind.SERVER in source.kinds
    }


def _uncommitted(tail: Tail, leaders: dict[int, int]) -> str:
    records = counted(tail.end - tail.first, "record")
    leader = leaders.get(tail.epoch)
    whose = f"epoch {tail.epoch}" if leader is None else f"epoch {tail.epoch}, when {leader} led"
    return f"{tail.log.name}: {records} of {whose}: never committed, and left out"
