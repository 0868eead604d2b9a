"""`import_metadata` reads the log of a KRaft quorum in its order, and writes event logs.

A first pass finds the processes of the nodes. The second one applies each batch to an image of the cluster and records
what it changed, on the node that led the quorum in the batch's epoch: the active controller.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from understudy.foundation.eventlog.records import (
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
from understudy.history.kafka_logs.kafka_text import UNKNOWN
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kafka_logs.written_records import WrittenRecords
from understudy.history.kraft_logs.cluster_image import Changes, ClusterImage, PartitionState
from understudy.history.kraft_logs.log_clock import LogClock
from understudy.history.kraft_logs.metadata_records import Decoded, NotDecoded, WithoutRecord
from understudy.history.kraft_logs.processes import QUORUM_NODE, Processes
from understudy.history.kraft_logs.quorum import QuorumLog, Tail
from understudy.history.kraft_logs.segments import PARTITION, MetadataBatch, NodeLog, Snapshot
from understudy.history.reading.missing import MissingRecords
from understudy.history.writing import counted

_SOURCE: Final = PARTITION.removesuffix("-0")
_ABORTED = "records of a metadata transaction that was aborted"
_UNFINISHED = "records of a metadata transaction without an end in the log"


@dataclass(slots=True)
class MetadataReport:
    """The result of an import: what was imported and what was left out.

    Attributes:
        nodes: the nodes that have an event log.
        records: how many records of each type were written.
        batches: the number of batches, and `metadata_records` of the records in them.
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
    without_record: Counter[str] = field(default_factory=Counter)
    not_decoded: Counter[tuple[str, str]] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    features: dict[str, int] = field(default_factory=dict)
    missing: tuple[MissingRecords, ...] = ()
    notes: list[str] = field(default_factory=list)


def import_metadata(folders: Sequence[tuple[str, Path]], output: Path, *, run: str = "") -> MetadataReport:
    """Write the event logs of the nodes of a KRaft cluster into `output`.

    Args:
        folders: the name (empty for the one in its `meta.properties`) and the folder of each node's log.
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
    if not understood:
        raise LogError(
            f"{folders[0][1]}: none of its records is one of {_SOURCE}; is it the log of another topic, or encrypted?"
        )
    importer = _Importer(log, processes, output, run or _run_id(log))
    try:
        for item in log.items():
            importer.add(item)
        importer.end()
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
    """Writes the records of one batch after another."""

    def __init__(self, log: QuorumLog, processes: Processes, output: Path, run: str) -> None:
        self.report = MetadataReport(run=run)
        self._log = log
        self._processes = processes
        self._output = output
        self._image = ClusterImage()
        self._clock = LogClock()
        self._nodes: dict[str, BrokerNode] = {}
        self._written = WrittenRecords()
        lost = tuple(_lost(log, processes))
        self._described: RunDescribed | None = RunDescribed(lost_stretches=lost, is_kraft=True)
        self._transaction: list[Message] | None = None
        self._elected_ms: float | None = None
        """The time of the newest election, until its controller has written its first batch."""
        self._tails = sorted(log.tails, key=lambda tail: tail.epoch)

    def add(self, item: MetadataBatch | Snapshot) -> None:
        """Import the next batch, or the snapshot that stands for the records before the next batch."""
        if isinstance(item, Snapshot):
            self._load(item)
            return
        self.report.batches += 1
        if item.is_control:
            self._end_reign(item)
        ms = self._clock.run_ms(item)
        for node_id in self._processes.starts.get(item.base_offset, ()):
            self._node(node_id).end_incarnation()
        messages = self._messages(item)
        writer = self._writer(item.epoch)
        if item.is_control:
            self._quorum_changed(ms, item.epoch, messages)
        else:
            self._ready(ms, item.epoch, writer)
            self._record(ms, item.epoch, writer, self._image.apply(self._visible(messages)))
        writer.line_was_read(ms, _SOURCE)

    def end(self) -> None:
        """Finish the report, after the last batch."""
        report = self.report
        if self._transaction:
            report.left_out[_UNFINISHED] += len(self._transaction)
        report.features = dict(sorted(self._image.features.items()))
        report.notes = [*self._notes(), *self._clock.notes()]

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

    def _end_reign(self, batch: MetadataBatch) -> None:
        """Note the last batches of the controllers before, in their own logs: they ran that long."""
        while self._tails and self._tails[0].epoch < batch.epoch:
            tail = self._tails.pop(0)
            ms = self._clock.of_epoch(tail.last_ms)
            if (leader := self._processes.leaders.get(tail.epoch)) is not None and ms < batch.ms:
                self._node(leader).line_was_read(ms, _SOURCE)

    def _ready(self, ms: float, epoch: int, writer: BrokerNode) -> None:
        """Record that a new controller is active, at its first batch."""
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
            registered = BrokerRegistered(broker_id=broker, broker_epoch=broker_epoch, session_id=0)
            self._node(broker).write(ms, registered)
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

    def _load(self, snapshot: Snapshot) -> None:
        """Begin with the state in a snapshot, at the time of the last record in it."""
        self._image = ClusterImage()
        ms = 0.0
        for batch in snapshot.batches():
            messages = self._messages(batch)
            for message in messages:
                if isinstance(message, SnapshotHeaderRecord):
                    ms = message.last_contained_log_timestamp
            self._image.apply(messages)
        loaded = ContextLoaded(
            epoch=snapshot.epoch,
            live_brokers=tuple(sorted(self._image.live.items())),
            partitions=self._image.leaderships(snapshot.epoch),
            took_ms=0.0,
        )
        writer, ms = self._writer(snapshot.epoch), self._clock.advanced_to(ms)
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
                clock=self._clock,
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
        partitions=tuple((topic, partition, state.replicas, state.eligible) for topic, partition, state in partitions)
    )


def _uncommitted(tail: Tail, leaders: dict[int, int]) -> str:
    records = counted(tail.end - tail.first, "record")
    leader = leaders.get(tail.epoch)
    whose = f"epoch {tail.epoch}" if leader is None else f"epoch {tail.epoch}, when {leader} led"
    return f"{tail.log.name}: {records} of {whose}: never committed, and left out"
