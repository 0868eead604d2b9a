"""Runs cells of a sweep on clusters of Apache Kafka, and imports their logs as the event logs of the run.

The run's folder has the event logs in `events/`, and in `kafka/` the logs from which they were imported.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec

from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, SMALL_JVM, ApacheKafka
from understudy.clusters.processes.kraft_cluster import KRaftCluster
from understudy.clusters.processes.logging_kafka import LoggingCluster
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import LogSeen, ProcessStarted, RunDescribed
from understudy.history.kafka_logs.broker_node import EntryClock
from understudy.history.kafka_logs.entries import files_of_broker
from understudy.history.kafka_logs.importer import LogInputs, import_logs
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.importer import import_metadata
from understudy.history.kraft_logs.segments import PARTITION
from understudy.history.metrics.settings import KAFKA_KRAFT, KAFKA_ZK
from understudy.history.reading.reader import read
from understudy.trials.sweep.cells import Cell, FailoverCluster, Software

SHORTEST_KRAFT_TIMEOUT_MS: Final = 1_000
"""Shortest session timeout of a KRaft cell: a follower of the quorum waits for up to 500 ms in each of its fetches."""
KRAFT_TIMEOUTS: Final = ("broker.session.timeout.ms", "controller.quorum.fetch.timeout.ms")
"""Keys of a KRaft node that stand for the ZooKeeper session timeout."""
SMALLEST_QUORUM: Final = 3
"""Smallest number of controllers of which one may be lost: the others have to be a majority."""

_TESTBED: Final = "testbed"
_PROPERTIES: Final = {
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    **SMALL_BROKER,
}

Experiment = Callable[[FailoverCluster, Cell], None]
"""Function that acts on the cluster of a cell after its start."""


class KafkaFailed(Exception):
    """The logs that Apache Kafka has left cannot be imported. The message has the reason."""


def explained(software: Iterable[Software]) -> str:
    """Return a line about the setting of a sweep that a KRaft cluster has under other names; empty without one."""
    if not any(each.mode == KAFKA_KRAFT for each in software):
        return ""
    return (
        f"{KAFKA_KRAFT}: --session-timeout-ms sets {' and '.join(KRAFT_TIMEOUTS)}: it has no ZooKeeper session, but "
        "fences a silent broker after the first, and elects another controller after the second"
    )


def kafka_properties(cell: Cell) -> dict[str, str]:
    """Return the keys of `server.properties` of the nodes of a cell; a `LocalCluster` sets a ZooKeeper session."""
    if cell.software.mode == KAFKA_ZK:
        return {**_PROPERTIES, "inter.broker.protocol.version": cell.software.version.rpartition(".")[0]}
    return {
        **_PROPERTIES,
        **dict.fromkeys(KRAFT_TIMEOUTS, str(cell.session_timeout_ms)),
        # A client of ZooKeeper sends a ping after a third of the session timeout.
        "broker.heartbeat.interval.ms": str(cell.session_timeout_ms // 3),
    }


def zookeeper_run(cell: Cell, folder: Path, libs: Path, java: JavaRuntime | None, experiment: Experiment) -> None:
    """Run a cell on brokers in ZooKeeper mode with a ZooKeeper of their own, and import their logs and ZooKeeper's.

    Raises:
        ClusterError: a step did not happen in time, or a broker ended.
        KafkaFailed: the logs cannot be imported.
    """
    kafka = ApacheKafka.at(libs, java=java, jvm_options=SMALL_JVM)
    cluster = LoggingCluster(
        cell.brokers,
        kafka_brokers=dict.fromkeys(range(1, cell.brokers + 1), kafka),
        directory=folder / "kafka",
        session_timeout_ms=cell.session_timeout_ms,
        properties=kafka_properties(cell),
        java=java,
        run=cell.name,
    )
    with cluster:
        experiment(cluster, cell)
    inputs = LogInputs(
        files=[(broker, path) for broker in cluster.broker_ids for path in files_of_broker(cluster.logs(broker))],
        pattern=LinePattern(),
        zookeeper_log=cluster.zookeeper_log,
        has_one_clock=True,
    )
    _imported(lambda: import_logs(inputs, folder / "events", run=cell.name))
    _finish(cell, folder)
    for broker in cluster.broker_ids:
        shutil.rmtree(cluster.directory / f"broker-{broker}" / "data")


def kraft_run(cell: Cell, folder: Path, libs: Path, java: JavaRuntime | None, experiment: Experiment) -> None:
    """Run a cell on nodes that are brokers and voters of the quorum, and import its log and theirs.

    Raises:
        ClusterError: a step did not happen in time, or a node ended.
        KafkaFailed: the logs cannot be imported.
    """
    nodes = range(1, cell.brokers + 1)
    cluster = KRaftCluster(
        libs,
        folder / "kafka",
        controllers=nodes,
        brokers=nodes,
        properties=kafka_properties(cell),
        java=java,
        run=cell.name,
    )
    with cluster:
        cluster.start_all()
        experiment(cluster, cell)
    _imported(
        lambda: import_metadata(
            [(f"node {node}", cluster.log_folder(node)) for node in nodes],
            folder / "events",
            run=cell.name,
            lines=[(node, cluster.log(node)) for node in nodes],
        )
    )
    _finish(cell, folder)
    for node in nodes:
        for path in cluster.log_folder(node).iterdir():
            if path.is_dir() and path.name != PARTITION:
                shutil.rmtree(path)


KAFKA_RUNS: Final = {KAFKA_ZK: zookeeper_run, KAFKA_KRAFT: kraft_run}
"""The function that runs a cell, by the mode."""


def _imported(run_import: Callable[[], object]) -> None:
    try:
        run_import()
    except LogError as error:
        raise KafkaFailed(f"the logs cannot be imported: {error}") from None


def _finish(cell: Cell, folder: Path) -> None:
    """Write the testbed's records beside the imported ones, with the times of the same clock, and remove its log.

    Imported records have wall clocks for their times, so the testbed's get their own wall clocks.
    """
    source = folder / "kafka" / _TESTBED
    described = msgspec.structs.replace(
        cell.described(),
        world=cell.world,
        brokers=cell.brokers,
        session_timeout_ms=cell.session_timeout_ms,
        software_version=cell.software.version,
        is_kraft=cell.software.mode == KAFKA_KRAFT,
    )
    clock = EntryClock()
    files = JsonLinesFiles(folder / "events", _TESTBED)
    events = EventLog(run=cell.name, node=_TESTBED, incarnation=files.incarnation, clock=clock, write=files.write)
    for record in read([source]).records:
        clock.ms = record.wall_ms
        match record.data:
            case LogSeen():
                pass
            case ProcessStarted():
                events.append(ProcessStarted(role=_TESTBED, has_testbed=True))
            case RunDescribed():
                events.append(described)
            case payload:
                events.append(payload)
    files.close()
    shutil.rmtree(source)
    (folder / "kafka" / "cluster.json").unlink(missing_ok=True)
