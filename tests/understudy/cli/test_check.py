"""`understudy check` over a correct run, over the same run with changed logs, and over folders without a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.cli.check import check_run_folder
from understudy.cli.main import main
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.simulated.cluster import SimulatedCluster


def change_records(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Change every line of the event logs below `folder`; a line is removed if `change` returns None."""
    for path in sorted(folder.rglob("*.jsonl")):
        lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None))


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run `understudy check`; return the exit code and the whole output."""
    code = main(["check", str(folder)])
    output = capsys.readouterr()
    return code, output.out + output.err


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    """A folder with the event logs of a failover, as `understudy simulate --dir` writes them."""
    with SimulatedCluster(3, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.controller().bounce(9_000)
        cluster.run_for(15_000)
        cluster.settle()
    cluster.dump(tmp_path / "run")
    return tmp_path / "run"


def test_event_logs_are_checked_without_the_history_of_the_znodes(
    simulated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = checked(simulated, capsys)
    assert code == 0, output
    assert "ZooKeeper         3 of 3 checks hold; nothing to test\n" in output
    assert "Z1, Z2, Z6, C2, C3" in output.split("not tested")[1]
    assert "there is no cluster.json, so only the event logs are checked" in output
    assert output.endswith("no violations\n")


def test_a_violation_is_printed_with_its_first_witness(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def apply_metadata_of_an_old_controller(line: dict[str, Any]) -> dict[str, Any]:
        if line["type"] == "MetadataUpdated" and line["data"]["request_controller_epoch"] == 2:
            line["data"]["request_controller_epoch"] = 0
        return line

    change_records(simulated, apply_metadata_of_an_old_controller)
    code, output = checked(simulated, capsys)
    assert code == 1
    assert "control requests  3 of 5 checks hold" in output
    assert "\nC4a violated at broker-" in output
    assert "MetadataUpdated of epoch 0 applied after 2. It should hold that a broker applies" in output
    assert re.search(
        r"\n  see it on the page of `understudy watch .+`, with #at=(broker-\d)\.\d+\.\d+&show=metadata:\1 ", output
    )
    assert output.endswith("\n2 violations\n")


def test_a_missing_line_is_named_and_a_torn_one_a_note(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = min(simulated.glob("broker-1/events/*.jsonl"))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"version":1,"run":')
    code, output = checked(simulated, capsys)
    assert code == 0, output
    assert "note              torn line" in output
    path.write_bytes(whole[:-20])
    code, output = checked(simulated, capsys)
    assert code == 3, output
    assert "incarnation 2 found 165 records of it, and there are 164" in output
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    code, output = checked(simulated, capsys)
    assert code == 3
    assert "missing           broker-1 incarnation 1, from " in output
    assert "checks hold in the records that are there" in output
    assert output.endswith("\nno violations in the records that are there\n")


def test_lines_out_of_order_are_a_note(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = next(iter(sorted(simulated.rglob("*.jsonl"))))
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*lines[:2], *reversed(lines[2:])]))
    code, output = checked(simulated, capsys)
    assert code == 0
    node = log.name.rsplit("-", 2)[0]
    expected = f"lines out of order: {node} incarnation 1 ({log}:4, {len(lines) - 3} of them)"
    assert f"note              {expected}\n" in output


def test_the_logs_of_two_clusters_are_refused(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedCluster(4, brokers=1) as other:
        other.start()
    other.dump(simulated / "another")
    code, output = checked(simulated, capsys)
    assert code == 2
    assert (
        "holds the logs of several clusters: broker-1 incarnation 1 occurs in run 'seed-3' and in run 'seed-4'"
        in output
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cluster.json cannot be read"),
        (None, "holds no transaction log, though"),
    ],
)
def test_a_wrong_cluster_file_is_refused(
    simulated: Path, text: str | None, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = {
        "version": 1,
        "run": "seed-3",
        "owner": {"pid": 1, "started": 1},
        "zookeeper": "localhost:1",
        "zookeeper_process": None,
        "zookeeper_transaction_log": "zookeeper/data/version-2",
        "bootstrap": "",
        "brokers": [],
        "events": "testbed/events",
    }
    (simulated / "cluster.json").write_text(json.dumps(entry) if text is None else text)
    code, output = checked(simulated, capsys)
    assert code == 2
    assert complaint in output
    assert output.startswith("understudy check: ")
    assert output.count("\n") == 1


def test_a_folder_without_event_logs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, capsys)[0] == 2
    code, output = checked(tmp_path / "nowhere", capsys)
    assert code == 2
    assert output == (
        f"understudy check: {tmp_path}/nowhere holds no event log to check: no such file or folder; "
        "give the run folder that `understudy up` named\n"
    )


def test_a_run_of_processes_is_correct_and_a_changed_one_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with LocalCluster(3, directory=tmp_path) as cluster:
        first = cluster.controller()
        first.kill()
        cluster.wait_until(lambda: cluster.controller_id() not in (None, first.id), "another broker is controller")
        first.start()
        assert check_run_folder(tmp_path).violations == (), "a run can be checked while it is in progress"
        cluster.stop()
    report = check_run_folder(tmp_path)
    assert report.violations == ()
    assert report.transactions > 10
    assert {"C1", "C2", "C4a", "C7", "C8", "Z1", "Z2", "Z6"}.isdisjoint(report.untested)
    assert checked(tmp_path, capsys)[0] == 0

    log = min((tmp_path / "zookeeper" / "data" / "version-2").glob("log.*"))
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole.rstrip(b"\0")) // 2])
    code, output = checked(tmp_path, capsys)
    assert code == 3, "the end of the transaction log is missing"
    assert "missing           a part of the transaction log: it ends at zxid " in output
    log.write_bytes(whole)
    events = min((tmp_path / f"broker-{first.id}").rglob("*.jsonl"))
    lines = events.read_bytes().splitlines(keepends=True)
    events.write_bytes(b"".join(lines[: len(lines) // 2]))
    code, output = checked(tmp_path, capsys)
    assert code == 3, output
    assert f"missing           broker-{first.id} incarnation 1, from " in output
    events.write_bytes(b"".join(lines))

    def claim_another_session(line: dict[str, Any]) -> dict[str, Any]:
        if line["type"] == "ControllerElected" and line["data"]["epoch"] == 2:
            line["data"]["session_id"] += 1
        return line

    change_records(tmp_path, claim_another_session)
    code, output = checked(tmp_path, capsys)
    assert code == 1
    assert "C1 violated at broker-" in output
    assert "set epoch 2. It should hold that at most one session is elected" in output

    damaged = bytearray(log.read_bytes())
    damaged[60] ^= 0xFF
    log.write_bytes(damaged)
    code, output = checked(tmp_path, capsys)
    assert code == 2
    assert "checksum" in output
    log.rename(log.with_name("log.7f"))
    assert any("begins at zxid 127" in note for note in check_run_folder(tmp_path).notes)
