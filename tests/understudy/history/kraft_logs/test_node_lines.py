"""The lines of a KRaft node's own logs give the phases of a failover, processes and the session timeout."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.recorded import Recorded, recorded
from tests.understudy.history.kraft_logs.metadata_logs import (
    START_MS,
    MetadataLog,
    change,
    three_brokers,
)
from understudy.foundation.eventlog.records import (
    BecameCandidate,
    BrokerRegistered,
    ControllerReady,
    ControllerResigned,
    Envelope,
    Payload,
    ProcessExiting,
    ProcessStarted,
    StillRunning,
)
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.importer import MetadataReport, import_metadata
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.metrics.metrics import measure

RAFT = "org.apache.kafka.raft.KafkaRaftClient"
CONTROLLER = "org.apache.kafka.controller.QuorumController"
ACTIVE = "[QuorumController id={}] Becoming the active controller at epoch {}, next write offset 9."
LOST = "[RaftManager id={}] Become candidate due to fetch timeout"
PROSPECTIVE = "[RaftManager id={}] Transitioning to Prospective state due to fetch timeout"
RENOUNCING = (
    "[QuorumController id=1] Renouncing the leadership due to a metadata log event. We were the leader at epoch 1, but "
    "in the new epoch 2, the leader is (none). Reverting to last stable offset 9."
)


def line(ms: float, message: str, logger: str) -> str:
    at = datetime.fromtimestamp((START_MS + ms) / 1000, UTC)
    return f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}] INFO {message} ({logger})\n"


def imported(tmp_path: Path, log: MetadataLog, lines: dict[int, str]) -> tuple[MetadataReport, Recorded, RunMetrics]:
    """Import a log of the quorum, and each node's lines as its `server.log`."""
    files: list[tuple[int | None, Path]] = []
    for node, text in lines.items():
        files.append((node, tmp_path / f"server-{node}.log"))
        files[-1][1].write_text(text)
    report = import_metadata([("", log.write(tmp_path / "node"))], tmp_path / "events", run="kraft", lines=files)
    found = recorded(tmp_path / "events")
    return report, found, measure("kraft", found.records)


def of(found: Recorded, kind: type[Payload]) -> list[Envelope]:
    return sorted((r for r in found.records if isinstance(r.data, kind)), key=lambda record: record.mono_ms)


def at(record: Envelope) -> tuple[str, int, float]:
    return record.node, record.incarnation, record.wall_ms - START_MS


def failover() -> MetadataLog:
    """Node 1 writes its last batch after 9 s; node 2 is elected at 12 s, and writes its first batch at 12.5 s."""
    log = three_brokers()
    log.add(9_000)
    log.lead(12_000, leader=2, epoch=2)
    log.add(12_500)
    return log


@pytest.mark.parametrize("lost", [LOST, PROSPECTIVE])
def test_the_phases_of_a_failover(lost: str, tmp_path: Path) -> None:
    second = line(11_100, lost.format(2), RAFT) + line(12_080, ACTIVE.format(2, 2), CONTROLLER)
    third = line(11_000, lost.format(3), RAFT)
    report, found, numbers = imported(tmp_path, failover(), {2: second, 3: third})
    (row,) = numbers.failovers
    assert (row.noticed_by, row.detection_ms, row.election_ms) == ("broker-3", 2_000.0, 1_000.0)
    assert (row.takeover_ms, row.outage_ms) == (80.0, 3_080.0)
    assert [record.data for record in of(found, BecameCandidate)] == [BecameCandidate(why="fetch timeout")] * 2
    assert [at(record) for record in of(found, ControllerReady)][1:] == [("broker-2", 1, 12_080.0)]
    assert (report.lines, report.understood) == (3, 3)
    assert report.notes == ["the clocks of all nodes are taken as one"]


def test_a_controller_without_a_line_is_active_at_its_first_batch(tmp_path: Path) -> None:
    _, _, numbers = imported(tmp_path, failover(), {3: line(11_000, LOST.format(3), RAFT)})
    (row,) = numbers.failovers
    assert (row.takeover_ms, row.detection_ms) == (500.0, 2_000.0)


def test_a_controller_that_resigns(tmp_path: Path) -> None:
    failed = (
        "[QuorumController id=1] writeNoOpRecord: event failed with NotLeaderException (treated as "
        "NotControllerException) at epoch 1 in 259 microseconds. Renouncing leadership and reverting to the last "
        "committed offset 9."
    )
    lines = line(9_500, RENOUNCING, CONTROLLER) + line(9_600, failed, CONTROLLER)
    _, found, numbers = imported(tmp_path, failover(), {1: lines})
    (resigned,) = of(found, ControllerResigned)
    assert resigned.data == ControllerResigned(epoch=1, why="a metadata log event")
    assert (numbers.failovers[0].cause, numbers.reigns[0].ended_at_ms) == ("resigned", 9_600.0)


def test_a_process_begins_and_ends_with_its_lines(tmp_path: Path) -> None:
    """A start is one incarnation, although several lines are about it, and the registration after it is no other."""
    log = three_brokers()
    log.fence(8_000, 3)
    log.register(21_000, 3, process=2)
    log.unfence(21_500, 3)
    start = [
        ("Registered kafka:type=kafka.Log4jController MBean", "kafka.utils.Log4jControllerRegistration$"),
        ("[ControllerServer id=3] Starting controller", "kafka.server.ControllerServer"),
        ("[BrokerServer id=3] Transition from SHUTDOWN to STARTING", "kafka.server.BrokerServer"),
        ("[KafkaRaftServer nodeId=3] Kafka Server started", "kafka.server.KafkaRaftServer"),
    ]
    end = ("App info kafka.server for 3 unregistered", "org.apache.kafka.common.utils.AppInfoParser")
    lines = "".join(line(ms, *each) for ms, each in zip((1, 2, 3, 100), start, strict=True))
    lines += line(7_000, *end) + line(7_001, *end)
    lines += "".join(line(ms, *each) for ms, each in zip((20_000, 20_002, 20_003, 22_000), start, strict=True))
    _, found, numbers = imported(tmp_path, log, {3: lines})
    assert [at(record) for record in of(found, ProcessStarted)] == [("broker-3", 1, 1.0), ("broker-3", 2, 20_000.0)]
    assert [at(record) for record in of(found, ProcessExiting)] == [("broker-3", 1, 7_000.0)]
    assert [at(record) for record in of(found, BrokerRegistered)][-1] == ("broker-3", 2, 21_000.0)
    assert numbers.is_complete


def test_a_controller_that_is_no_broker(tmp_path: Path) -> None:
    log = MetadataLog()
    log.lead(0, leader=3001, epoch=1)
    log.add(10)
    log.register(20, 1)
    started = line(0, "[ControllerServer id=3001] Starting controller", "kafka.server.ControllerServer")
    _, found, _ = imported(tmp_path, log, {3001: started})
    (record,) = of(found, ProcessStarted)
    assert record.node == "controller-3001"
    assert record.data == ProcessStarted(role="controller", broker_id=-1, software="Apache Kafka")


def test_the_session_timeout_dates_a_broker_that_is_gone(tmp_path: Path) -> None:
    """The broker is down from one session timeout before its fencing, and its partition has no leader since then."""
    log = three_brokers()
    log.fence(30_000, 2, change(1, leader=3, isr=(3, 1)))
    log.add(31_000)
    values = line(200, "KafkaConfig values: ", "x").replace(" (x)\n", "\n")
    values += "\tbroker.session.timeout.ms = 9000\n" + "\tmore = values\n" * 60 + " (kafka.server.KafkaConfig)\n"
    _, _, numbers = imported(tmp_path, log, {3: values})
    assert numbers.settings.session_timeout_ms == 9_000
    rows = {(row.topic, row.partition): row.leaderless_ms for row in numbers.partitions}
    assert rows == {("orders", 0): 0.0, ("orders", 1): 9_000.0, ("audit", 0): 0.0}


def test_the_last_line_before_a_silence_is_a_sign_of_life(tmp_path: Path) -> None:
    lines = line(500, "[Broker id=3] Something", "kafka.server.X") + line(4_000, "[Broker id=3] More", "kafka.server.X")
    _, found, _ = imported(tmp_path, failover(), {3: lines})
    assert [at(record) for record in of(found, StillRunning) if record.node == "broker-3"] == [
        ("broker-3", 1, 500.0),
        ("broker-3", 1, 4_000.0),
    ]


@pytest.mark.parametrize("ident", ["RaftManager id=3", "RaftManager nodeId=3", "Controller 3", "BrokerServer id=3"])
def test_lines_name_their_node(ident: str, tmp_path: Path) -> None:
    """Kafka 3.3 to 3.6 print other idents than later versions."""
    log = failover().write(tmp_path / "node")
    file = tmp_path / "any.log"
    file.write_text(line(10_000, f"[{ident}] Something", "any.Class") + line(11_000, LOST.format(3), RAFT))
    import_metadata([("", log)], tmp_path / "events", lines=[(None, file)])
    (record,) = of(recorded(tmp_path / "events"), BecameCandidate)
    assert record.node == "broker-3"


def test_a_line_of_a_cluster_in_zookeeper_mode_is_refused(tmp_path: Path) -> None:
    lines = line(500, "[Controller id=1] Resigned", "kafka.controller.KafkaController")
    with pytest.raises(LogError, match=r"server-1.log:1: a line of a cluster in ZooKeeper mode, beside the"):
        imported(tmp_path, failover(), {1: lines})
