"""The cells of Apache Kafka: their names, settings and order, and the import of their logs. No Java runs here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import BROKERS, SAMPLES, unpacked
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import WaitTimedOut
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.testbed_log import TestbedLog
from understudy.foundation.eventlog.records import FaultInjected, RunDescribed
from understudy.history.kafka_logs.entries import files_of_broker
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.metrics.settings import KAFKA_KRAFT, KAFKA_ZK
from understudy.history.reading.reader import read
from understudy.history.report.replay import replay_in_python
from understudy.trials.sweep import apache_kafka
from understudy.trials.sweep.apache_kafka import (
    KRAFT_TIMEOUTS,
    Experiment,
    KafkaFailed,
    explained,
    kafka_properties,
    zookeeper_run,
)
from understudy.trials.sweep.cells import OURS, PROCESSES, Cell, FailoverCluster, Software, grid, unfinished
from understudy.trials.sweep.processes import run_cells

ZK = Software(KAFKA_ZK, "3.9.1")
KRAFT = Software(KAFKA_KRAFT, "4.2.0")


def cells(*software: Software, draws: tuple[int, ...] = (1,)) -> tuple[Cell, ...]:
    return grid(
        PROCESSES,
        software=software,
        brokers=(3,),
        partitions=(6,),
        session_timeouts_ms=(6000,),
        faults=("kill",),
        draws=draws,
    )


def test_cells_of_all_modes_take_turns_and_have_names_of_their_own() -> None:
    found = cells(OURS, ZK, KRAFT, Software(KAFKA_KRAFT, "3.9.1"), draws=(1, 2))
    assert [cell.name for cell in found[:4]] == [
        "processes-b3-p6-t6000-kill-1",
        "kafka-zk-3.9.1-b3-p6-t6000-kill-1",
        "kafka-kraft-4.2.0-b3-p6-t6000-kill-1",
        "kafka-kraft-3.9.1-b3-p6-t6000-kill-1",
    ]
    assert [cell.draw for cell in found] == [1] * 4 + [2] * 4
    assert len({cell.seed for cell in found}) == len(found)


def test_the_session_timeout_is_set_under_the_name_that_the_mode_has() -> None:
    zookeeper, kraft = (kafka_properties(cell) for cell in cells(ZK, KRAFT))
    assert zookeeper["inter.broker.protocol.version"] == "3.9"
    assert not any(key.startswith(("zookeeper.", "inter.broker.")) for key in kraft)
    assert (kraft["broker.session.timeout.ms"], kraft["controller.quorum.fetch.timeout.ms"]) == ("6000", "6000")
    # Kafka refuses a heartbeat interval of more than half of the session timeout.
    assert 2 * int(kraft["broker.heartbeat.interval.ms"]) <= 6000


def test_a_setting_with_another_name_is_explained() -> None:
    assert explained([OURS, ZK]) == ""
    line = explained([OURS, ZK, KRAFT, KRAFT])
    for key in KRAFT_TIMEOUTS:
        assert key in line


class RecordedCluster:
    """A cluster without processes, whose logs are the samples."""

    def __init__(self, brokers: int, *, directory: Path, run: str, session_timeout_ms: int, **_: object) -> None:
        assert session_timeout_ms == 6000
        self.directory = directory
        self.broker_ids = BROKERS[:brokers]
        self.run = run

    def __enter__(self) -> RecordedCluster:
        for broker in self.broker_ids:
            unpacked(SAMPLES / f"broker-{broker}", self.logs(broker))
            (self.directory / f"broker-{broker}" / "data").mkdir()
        unpacked(SAMPLES / "version-2", self.zookeeper_log)
        (self.directory / "cluster.json").write_text("{}")
        events = TestbedLog(self.directory, run=self.run)
        events.describe(RunDescribed(), {}, brokers=len(self.broker_ids), without_log=("broker-1",))
        events.append(FaultInjected(fault="kill", target="broker-3", role="controller"))
        events.close("closed")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @property
    def zookeeper_log(self) -> Path:
        return self.directory / "zookeeper" / "version-2"

    def logs(self, broker: int) -> Path:
        return self.directory / f"broker-{broker}" / "logs"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of jars of a Kafka that leaves the recorded logs."""
    monkeypatch.setattr(apache_kafka, "LoggingCluster", RecordedCluster)
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "kafka_2.13-3.9.1.jar").write_bytes(b"")
    return tmp_path / "libs"


def test_a_run_has_imported_records_and_the_testbeds_with_times_of_one_clock(recorded: Path, tmp_path: Path) -> None:
    (cell,) = cells(ZK)
    seen: list[Cell] = []

    def experiment(_: FailoverCluster, of: Cell) -> None:
        seen.append(of)

    zookeeper_run(cell, tmp_path / "run", recorded, None, experiment)
    assert seen == [cell]
    reading = read([tmp_path / "run"])
    assert reading.findings == ()
    testbed = [record for record in reading.records if record.node == "testbed"]
    assert all(record.mono_ms == record.wall_ms for record in reading.records), "one clock has dated all of them"
    assert {record.run for record in reading.records} == {cell.name}
    (fault,) = (record for record in testbed if isinstance(record.data, FaultInjected))
    assert fault.data == FaultInjected(fault="kill", target="broker-3", role="controller")
    (run,) = replay_in_python([tmp_path / "run"]).runs
    settings = run.settings
    assert (settings.mode, settings.software_version, settings.world) == (KAFKA_ZK, "3.9.1", PROCESSES)
    assert (settings.brokers, settings.partitions, settings.session_timeout_ms) == (3, 6, 6000)
    assert (settings.fault, settings.software_commit) == ("kill", None)
    left = {path.relative_to(tmp_path / "run").as_posix() for path in (tmp_path / "run").rglob("*")}
    assert "kafka/broker-1/logs/controller.log" in left
    assert not {"kafka/testbed", "kafka/broker-1/data", "kafka/cluster.json"} & left
    assert files_of_broker(tmp_path / "run" / "kafka" / "broker-1" / "logs")


def test_logs_that_cannot_be_imported_fail_the_run_alone(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise LogError("controller.log:7: no line")

    monkeypatch.setattr(apache_kafka, "import_logs", refuses)
    (cell,) = cells(ZK)
    with pytest.raises(KafkaFailed, match=r"the logs cannot be imported: controller\.log:7"):
        zookeeper_run(cell, tmp_path / "run", recorded, None, lambda *_: None)


def test_a_sweep_runs_each_kafka_with_its_jars_and_reports_a_failed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[str, Path]] = []

    def run(cell: Cell, folder: Path, libs: Path, java: JavaRuntime | None, experiment: Experiment) -> None:
        begun.append((cell.name, libs))
        (folder / "left").write_text("")
        if cell.software == KRAFT:
            raise WaitTimedOut("not in this test") if cell.draw == 1 else NoBrokerAnswers("nor a topic")

    monkeypatch.setattr("understudy.trials.sweep.processes.KAFKA_RUNS", {KAFKA_ZK: run, KAFKA_KRAFT: run})
    planned = cells(ZK, KRAFT, draws=(1, 2))
    (tmp_path / "out").mkdir()
    libs = {ZK: Path("zk"), KRAFT: Path("kraft")}
    reports = list(run_cells(planned, tmp_path / "out", libs=libs))
    assert begun == [(cell.name, libs[cell.software]) for cell in planned]
    problems = {planned[1]: "not in this test", planned[3]: "nor a topic"}
    assert [(report.cell, report.problem) for report in reports] == [(cell, problems.get(cell, "")) for cell in planned]
    assert unfinished(planned, tmp_path / "out") == tuple(problems)
