"""`COMPARISONS` hold the import of a run of Apache Kafka against what its own tools and nodes say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from tests.understudy.history.kafka_logs.recorded import Recorded, recorded
from tests.understudy.history.kraft_logs.kraft_run import DumpedBatch, KRaftRun, Registration
from understudy.cli.check import check_run_folder
from understudy.foundation.eventlog.records import BrokersChanged
from understudy.foundation.wire.schema import Message
from understudy.history.kraft_logs.cluster_image import ClusterImage
from understudy.history.kraft_logs.importer import MetadataReport, import_metadata
from understudy.history.kraft_logs.metadata_records import NotDecoded, WithoutRecord
from understudy.history.kraft_logs.quorum import QuorumLog
from understudy.history.kraft_logs.segments import MetadataBatch, NodeLog
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure

RESOLUTION_MS: Final = 1.0
"""The resolution of a log line and of a batch's time."""
LINGER_MS: Final = 25.0
"""`controller.quorum.append.linger.ms`: a batch has the time of its first record, and takes others for that long."""


class ImportedRun(NamedTuple):
    """A run of Kafka and its import."""

    run: KRaftRun
    output: Path
    report: MetadataReport
    found: Recorded
    numbers: RunMetrics

    @property
    def start_ms(self) -> float:
        return min(record.wall_ms for record in self.found.records)


def import_run(run: KRaftRun, output: Path) -> ImportedRun:
    report = import_metadata([("", log) for log in run.logs], output)
    found = recorded(output)
    return ImportedRun(run, output, report, found, measure(report.run, found.records))


# -- the decoding


def compare_decoded_records(it: ImportedRun) -> None:
    """Every field of every record is what `kafka-dump-log` prints."""
    batches = [item for item in _log(it.run).items() if isinstance(item, MetadataBatch)]
    assert [(b.base_offset, b.epoch, b.ms, b.is_control) for b in batches] == [
        (b.base_offset, b.epoch, b.ms, b.is_control) for b in it.run.batches
    ]
    for batch, dumped in zip(batches, it.run.batches, strict=True):
        if batch.is_control:
            continue
        for record, payload in zip(batch.decoded(), dumped.payloads, strict=True):
            name = "".join(word.capitalize() for word in payload["type"].split("_"))
            assert not isinstance(record, NotDecoded)
            if isinstance(record, WithoutRecord):
                assert record.name == name
                continue
            ours, defaults = _fields(record), _fields(type(record)())
            assert type(record).__name__ == name
            assert ours == defaults | payload["data"], f"offset {batch.base_offset}"


def _fields(message: Message) -> dict[str, Any]:
    """The fields with Kafka's names, as JSON has them."""

    def camel(name: str) -> str:
        return re.sub(r"_(\w)", lambda match: match[1].upper(), name)

    def renamed(value: object) -> object:
        if isinstance(value, dict):
            return {camel(name): renamed(each) for name, each in value.items()}
        return [renamed(each) for each in value] if isinstance(value, list) else value

    fields = renamed(json.loads(json.dumps(msgspec.to_builtins(message))))
    assert isinstance(fields, dict)
    return fields


# -- the quorum


def compare_reigns(it: ImportedRun) -> None:
    """Each reign is one that its node has logged, and lies between its election and its first batch."""
    active = {
        int(line.text.split("at epoch ")[1].split(",")[0]): line for line in it.run.lines_with("Becoming the active")
    }
    reigns = {reign.epoch: reign for reign in it.numbers.reigns}
    assert {epoch: reign.broker for epoch, reign in reigns.items()} == {
        epoch: line.node for epoch, line in active.items()
    }
    for epoch, reign in reigns.items():
        assert reign.ready_at_ms is not None
        assert reign.elected_at_ms + it.start_ms <= active[epoch].ms + RESOLUTION_MS
        assert reign.ready_at_ms + it.start_ms >= active[epoch].ms - RESOLUTION_MS


def compare_quorum_statuses(it: ImportedRun) -> None:
    """The leader and epoch that `kafka-metadata-quorum` gave at some times are the reign at those times."""
    assert len(it.run.facts["statuses"]) >= 3
    for ms, leader, epoch in it.run.facts["statuses"]:
        (reign,) = (reign for reign in it.numbers.reigns if reign.epoch == epoch)
        assert reign.broker == leader
        assert reign.elected_at_ms + it.start_ms <= ms + RESOLUTION_MS


def compare_failovers(it: ImportedRun) -> None:
    """Every number of the failover table is what the batches of `kafka-dump-log` give."""
    assert len(it.numbers.failovers) >= 2
    for row in it.numbers.failovers:
        before, now = _of_epoch(it.run, row.previous_epoch), _of_epoch(it.run, row.epoch)
        lost_ms, elected_ms = before[-1].ms, now[0].ms
        ready_ms = next(batch.ms for batch in now if not batch.is_control)
        assert row.lost_at_ms == lost_ms - it.start_ms
        assert row.takeover_ms == ready_ms - elected_ms
        assert row.outage_ms == ready_ms - lost_ms
        assert (row.brokers, row.partitions) == _sizes(it.run, until=now[0].base_offset)
        assert (row.cause, row.by_fault, row.noticed_by) == ("silence", False, "")
        assert (row.detection_ms, row.election_ms, row.propagation_ms, row.requests) == (None, None, None, None)


def compare_faults(it: ImportedRun) -> None:
    """A controller that was killed or paused wrote nothing after that; the next one was elected after that."""
    rows = {(row.previous_broker, row.previous_epoch): row for row in it.numbers.failovers}
    controllers = {leader for _, leader, _ in it.run.facts["statuses"]}
    faults = [*it.run.facts["killed"][:1], *it.run.facts["paused"]]
    assert {node for _, node in faults} <= controllers
    for ms, node in faults:
        epoch = max(epoch for at, leader, epoch in it.run.facts["statuses"] if leader == node and at <= ms)
        row = rows[node, epoch]
        elected_ms = it.found.elections[row.epoch][1]
        assert row.lost_at_ms + it.start_ms <= ms + RESOLUTION_MS
        assert elected_ms > ms


def _of_epoch(run: KRaftRun, epoch: int) -> list[DumpedBatch]:
    return [batch for batch in run.batches if batch.epoch == epoch]


def _sizes(run: KRaftRun, until: int) -> tuple[int, int]:
    """The brokers that were not fenced, and the partitions, before an offset."""
    live: set[int] = set()
    partitions = 0
    for _, kind, data in _payloads(run, until):
        partitions += kind == "PARTITION_RECORD"
        if kind == "BROKER_REGISTRATION_CHANGE_RECORD":
            live = live | {data["brokerId"]} if data.get("fenced") == -1 else live
            live = live - {data["brokerId"]} if data.get("fenced") == 1 else live
    return len(live), partitions


def _payloads(run: KRaftRun, until: int | None = None) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for batch in run.batches:
        if until is None or batch.base_offset < until:
            yield from ((batch.ms, payload["type"], payload["data"]) for payload in batch.payloads)


def compare_phases(it: ImportedRun) -> None:
    """With the nodes' lines, a loss is noticed when another voter seeks election, and a controller is active when it
    logs that; the phases of a failover have no gap."""
    folder = it.output.parent / "with-lines"
    folder.mkdir()
    lines = it.run.write_logs(folder)
    output = folder / "events"
    report = import_metadata([("", log) for log in it.run.logs], output, lines=lines)
    numbers = measure(report.run, recorded(output).records)
    start_ms = numbers.totals.started_ms
    seeking = it.run.lines_with("Become candidate due|Transitioning to Prospective state due")
    for row in numbers.failovers:
        lost_ms, elected_ms = row.lost_at_ms + start_ms, it.found.elections[row.epoch][1]
        assert (lost_ms, row.previous_epoch, row.epoch) in {
            (one.lost_at_ms + it.start_ms, one.previous_epoch, one.epoch) for one in it.numbers.failovers
        }
        notice = min(
            line.ms for line in seeking if line.node != row.previous_broker and lost_ms <= line.ms <= elected_ms
        )
        active = it.run.lines_with(f"Becoming the active controller at epoch {row.epoch}, ")[0]
        assert row.detection_ms == notice - lost_ms
        assert row.election_ms == elected_ms - notice
        assert row.takeover_ms == active.ms - elected_ms
        assert row.outage_ms == row.detection_ms + row.election_ms + row.takeover_ms


# -- brokers and partitions


def compare_fencing(it: ImportedRun) -> None:
    """A broker is gone when its fencing was written, which its controller has logged before.

    A controller that was paused may log fencings after it was deposed: they were never committed.
    """
    dead = [
        (record.wall_ms, broker)
        for record in it.found.records
        if isinstance(record.data, BrokersChanged)
        for broker in record.data.dead
    ]
    changes = [
        (ms, data["brokerId"], data["fenced"] == 1)
        for ms, kind, data in _payloads(it.run)
        if kind == "BROKER_REGISTRATION_CHANGE_RECORD" and data.get("fenced")
    ]
    is_fenced: dict[int, bool] = {}
    expected = []
    for ms, broker, fenced in changes:
        # Kafka 4.2 may fence a broker that is fenced already.
        if fenced and not is_fenced.get(broker, True):
            expected.append((ms, broker))
        is_fenced[broker] = fenced
    assert sorted(dead) == sorted(expected)
    reigns = sorted((ms, broker) for broker, ms in it.found.elections.values())
    lines = [
        line
        for line in it.run.lines_with("Fencing broker")
        if [broker for ms, broker in reigns if ms <= line.ms][-1] == line.node
    ]
    assert lines
    for line in lines:
        broker = int(line.text.split("Fencing broker ")[1].split()[0])
        since_ms = line.ms - LINGER_MS - RESOLUTION_MS
        assert any(who == broker and fenced and ms >= since_ms for ms, who, fenced in changes)


def compare_processes(it: ImportedRun) -> None:
    """Each process of a broker is an incarnation: as many as the ids with which it has registered."""
    ids: dict[str, set[str]] = {}
    for _, kind, data in _payloads(it.run):
        if kind == "REGISTER_BROKER_RECORD":
            ids.setdefault(f"broker-{data['brokerId']}", set()).add(data["incarnationId"])
        elif kind == "REGISTER_CONTROLLER_RECORD":
            ids.setdefault(f"controller-{data['controllerId']}", set()).add(data["incarnationId"])
    incarnations: dict[str, set[int]] = {}
    for record in it.found.records:
        incarnations.setdefault(record.node, set()).add(record.incarnation)
    for node, found in incarnations.items():
        assert max(found) <= len(ids[node])
        assert node.startswith("controller") or len(found) == len(ids[node])


def compare_partitions(it: ImportedRun) -> None:
    """The last state of each partition is what `kafka-metadata-shell` shows."""
    image = ClusterImage()
    for item in _log(it.run).items():
        assert isinstance(item, MetadataBatch)
        image.apply(record for record in item.decoded() if isinstance(record, Message))
    expected = it.run.partitions
    assert {
        f"{state.topic}-{state.partition}": Registration(
            state.isr,
            state.leader,
            "RECOVERING" if state.leader_recovery_state else "RECOVERED",
            state.leader_epoch,
            state.partition_epoch,
        )
        for state in image.leaderships(0)
    } == expected
    for row in it.numbers.partitions:
        state = expected[f"{row.topic}-{row.partition}"]
        assert (row.leader, row.isr, row.leader_epoch) == (state.leader, state.isr, state.leader_epoch)


def compare_times_without_a_leader(it: ImportedRun) -> None:
    """They are from the change that takes the leader away to the one that names another."""
    names = {data["topicId"]: data["name"] for _, kind, data in _payloads(it.run) if kind == "TOPIC_RECORD"}
    leaders: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for ms, kind, data in _payloads(it.run):
        if kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD") and "leader" in data:
            leaders.setdefault((names[data["topicId"]], data["partitionId"]), []).append((ms, data["leader"]))
    end_ms = it.run.batches[-1].ms
    expected = {
        partition: sum(until - since for (since, leader), (until, _) in pairwise([*own, (end_ms, 0)]) if leader < 0)
        for partition, own in leaders.items()
    }
    assert sum(expected.values()) > 0
    assert {(row.topic, row.partition): row.leaderless_ms for row in it.numbers.partitions} == expected


def compare_invariants(it: ImportedRun) -> None:
    """The run violates no invariant, and none of its records is missing."""
    report = check_run_folder(it.output)
    assert report.exit_code == 0, report
    assert it.numbers.is_complete
    assert not it.report.not_decoded


def _log(run: KRaftRun) -> QuorumLog:
    return QuorumLog([NodeLog(folder) for folder in run.logs])


COMPARISONS: Final[tuple[Callable[[ImportedRun], None], ...]] = (
    compare_decoded_records,
    compare_reigns,
    compare_quorum_statuses,
    compare_failovers,
    compare_faults,
    compare_phases,
    compare_fencing,
    compare_processes,
    compare_partitions,
    compare_times_without_a_leader,
    compare_invariants,
)
