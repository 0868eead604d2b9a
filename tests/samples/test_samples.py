"""Event logs and run folders that an earlier release wrote are read by the code of today, without loss."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from understudy.checks.history import ZnodeTransaction
from understudy.cli.main import main
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import read_cluster_file
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.record_types.clients import ClientRecord
from understudy.foundation.eventlog.record_types.groups import CoordinatorRecord
from understudy.foundation.eventlog.record_types.replication import ReplicationRecord
from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import read_transaction_logs

RELEASE = Path(__file__).with_name("0.1.0")
SIMULATED = RELEASE / "simulated-cluster"
LOCAL = RELEASE / "local-cluster"
ONE_OF_EACH_TYPE = Path(__file__).parent.parent / "foundation/eventlog/samples/version-1.jsonl"

both_samples = pytest.mark.parametrize("folder", [SIMULATED, LOCAL], ids=lambda folder: folder.name)


def lines_below(folder: Path) -> list[dict[str, Any]]:
    """The lines as they were written, without this program's record types."""
    return [
        msgspec.json.decode(line) for path in sorted(folder.rglob("*.jsonl")) for line in path.read_bytes().splitlines()
    ]


def type_today(line: dict[str, Any]) -> str:
    name: str = line["type"]
    return FORMER_TYPE_NAMES.get(name, name)


def test_the_samples_hold_every_record_type_that_the_release_wrote() -> None:
    written = {line["type"] for line in lines_below(RELEASE)}
    released = {msgspec.json.decode(line)["type"] for line in ONE_OF_EACH_TYPE.read_bytes().splitlines()}
    assert len(written) == 45
    renamed_since = set(FORMER_TYPE_NAMES.values())
    added_since = (
        {"AnswerInjected", "LogSeen", "RequestQueued", "RunDescribed", "StillRunning"}
        | {
            record.__name__
            for record in (*ReplicationRecord.__args__, *CoordinatorRecord.__args__, *ClientRecord.__args__)
        }
        | {"BecameCandidate", "PartitionsAssigned"}
    )
    assert released - renamed_since - added_since - written == {"InvalidTransition"}


@both_samples
def test_every_record_of_an_old_event_log_is_read_as_its_type(folder: Path) -> None:
    lines = lines_below(folder)
    reading = read([folder])
    assert reading.findings == ()
    assert reading.lines == len(lines) == len(reading.records)
    assert Counter(record.type for record in reading.records) == Counter(map(type_today, lines))
    assert Counter(type(record.data) for record in reading.records) == Counter(
        PAYLOAD_BY_TYPE[type_today(line)] for line in lines
    )


@both_samples
def test_every_field_of_an_old_event_log_keeps_its_value(folder: Path) -> None:
    by_position = {(line["node"], line["incarnation"], line["seq"]): line for line in lines_below(folder)}
    for record in read([folder]).records:
        before = by_position.pop((record.node, record.incarnation, record.seq))
        now = msgspec.json.decode(msgspec.json.encode(record))
        assert {name: now["data"][name] for name in before["data"]} == before["data"]
        assert {name: now[name] for name in before if name != "data"} == {
            name: value for name, value in (before | {"type": type_today(before)}).items() if name != "data"
        }
    assert by_position == {}


@both_samples
def test_understudy_check_judges_an_old_run_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("no violations\n")


def test_understudy_check_reads_the_transaction_log_of_an_old_run_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(LOCAL)]) == 0
    assert "ZooKeeper         3 of 3 checks hold; 32 transactions, tested " in capsys.readouterr().out


def test_an_old_transaction_log_holds_the_partition_states() -> None:
    log = read_cluster_file(LOCAL).zookeeper_transaction_log
    assert log is not None
    history = read_transaction_logs(LOCAL / log)
    assert [_partition_state(transaction) for transaction in history if _partition_state(transaction)] == [
        {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 3]}
    ]


def _partition_state(transaction: ZnodeTransaction) -> object:
    states = [op.data for op in transaction.ops if op.path.endswith("/partitions/0/state")]
    return msgspec.json.decode(states[0] or b"") if states else None


def test_understudy_status_reads_an_old_cluster_file(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = read_cluster_file(LOCAL)
    assert (cluster.run, [broker.id for broker in cluster.brokers]) == ("run-0.1.0", [1, 2, 3])
    assert {broker.state for broker in cluster.brokers} == {"gone"}
    assert main(["status", str(LOCAL)]) == 1
    assert capsys.readouterr().err.startswith(f"understudy status: the cluster of {LOCAL} has ended; ")


def test_understudy_replay_measures_old_event_logs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--engine", "python", "--json", str(RELEASE)]) == 0
    replay = msgspec.json.decode(capsys.readouterr().out)
    assert (replay["findings"], replay["lines"]) == ([], len(lines_below(RELEASE)))
    assert {run["run"]: [failover["epoch"] for failover in run["failovers"]] for run in replay["runs"]} == {
        "run-0.1.0": [2],
        "seed-20": [2, 3],
    }


def test_a_cluster_starts_again_from_an_old_run_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    shutil.copytree(LOCAL, folder)
    with LocalCluster(3, directory=folder) as cluster:
        picture = cluster.view.picture()
        assert set(picture.brokers) == {1, 2, 3}
        assert picture.controller_epoch == 3
        assert picture.partitions[TopicPartition("orders", 0)].assignment.replicas == (2, 3)
    assert main(["check", str(folder)]) == 0
    assert capsys.readouterr().out.endswith("no violations\n")
