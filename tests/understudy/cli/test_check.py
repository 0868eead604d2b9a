"""`understudy check`: a sound run, the same run doctored, and folders that are no run at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from understudy.cli.check import check_run_folder
from understudy.cli.main import main
from understudy.simulator.cluster import SimulatedCluster
from understudy.testbed.local_cluster import LocalCluster


def records(folder: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
    """Rewrite every event-log line below `folder`; None takes it out."""
    for path in sorted(folder.rglob("*.jsonl")):
        lines = [change(json.loads(line)) for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines if line is not None))


def checked(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code, and everything that was said."""
    code = main(["check", str(folder)])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.fixture
def simulated(tmp_path: Path) -> Path:
    """The event logs of a failover, as `understudy simulate --events` leaves them."""
    with SimulatedCluster(3, brokers=3) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2, 3]})
        cluster.controller().bounce(9_000)
        cluster.run_for(15_000)
        cluster.settle()
    cluster.dump(tmp_path / "run")
    return tmp_path / "run"


def test_event_logs_alone_are_judged_as_far_as_they_go(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = checked(simulated, capsys)
    assert code == 0, said
    assert "ZooKeeper         3 of 3 checks hold; nothing to judge\n" in said
    assert "Z1, Z2, Z6, C2, C3" in said.split("not tested")[1]
    assert "no cluster.json here, hence no znode history" in said
    assert said.endswith("no violations\n")


def test_a_violation_is_named_with_its_first_witness(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def obey_an_old_controller(line: dict[str, Any]) -> dict[str, Any]:
        if line["type"] == "MetadataUpdated" and line["data"]["request_controller_epoch"] == 2:
            line["data"]["request_controller_epoch"] = 0
        return line

    records(simulated, obey_an_old_controller)
    code, said = checked(simulated, capsys)
    assert code == 1
    assert "control requests  2 of 4 checks hold" in said
    assert "\nC4a violated at broker-" in said
    assert "MetadataUpdated of epoch 0 applied after 2. It should hold that a broker applies" in said
    assert said.endswith("\n2 violations\n")


def test_a_line_that_is_missing_is_a_violation_and_one_that_is_torn_a_note(
    simulated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = min(simulated.glob("broker-1/events/*.jsonl"))
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    code, said = checked(simulated, capsys)
    assert code == 0, said
    assert "note              torn line" in said
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], *lines[6:]]))
    code, said = checked(simulated, capsys)
    assert code == 1
    assert "T2 violated at " in said
    assert "gap: broker-1 incarnation 1" in said


def test_the_logs_of_two_clusters_are_not_one_run(simulated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with SimulatedCluster(4, brokers=1) as other:
        other.start()
    other.dump(simulated / "another")
    code, said = checked(simulated, capsys)
    assert code == 2
    assert (
        "holds the logs of several clusters: broker-1 incarnation 1 occurs in run 'seed-3' and in run 'seed-4'" in said
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "cluster.json cannot be read"),
        (None, "holds no transaction log, though"),
    ],
)
def test_a_cluster_file_that_misleads_is_bad_input(
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
    code, said = checked(simulated, capsys)
    assert code == 2
    assert complaint in said
    assert said.startswith("understudy check: ")
    assert said.count("\n") == 1


def test_a_folder_without_logs_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checked(tmp_path, capsys)[0] == 2
    code, said = checked(tmp_path / "nowhere", capsys)
    assert code == 2
    assert said == (
        f"understudy check: {tmp_path}/nowhere holds no event log to check: no such file or folder; "
        "give the run folder that `understudy up` named\n"
    )


@pytest.mark.slow
def test_a_real_run_holds_and_a_doctored_one_does_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalCluster(3, directory=tmp_path) as cluster:
        first = cluster.controller()
        first.kill()
        cluster.wait_until(lambda: cluster.controller_id() not in (None, first.id), "another broker is controller")
        first.start()
        assert check_run_folder(tmp_path).violations == (), "a run may be checked while it goes on"
        cluster.stop()
    verdict = check_run_folder(tmp_path)
    assert verdict.violations == ()
    assert verdict.transactions > 10
    assert {"C1", "C2", "C4a", "C7", "C8", "Z1", "Z2", "Z6"}.isdisjoint(verdict.untested)
    assert checked(tmp_path, capsys)[0] == 0

    def claim_another_session(line: dict[str, Any]) -> dict[str, Any]:
        if line["type"] == "ControllerElected" and line["data"]["epoch"] == 2:
            line["data"]["session_id"] += 1
        return line

    records(tmp_path, claim_another_session)
    code, said = checked(tmp_path, capsys)
    assert code == 1
    assert "C1 violated at broker-" in said
    assert "set epoch 2. It should hold that at most one session is elected" in said

    log = min((tmp_path / "zookeeper" / "data" / "version-2").glob("log.*"))
    damaged = bytearray(log.read_bytes())
    damaged[60] ^= 0xFF
    log.write_bytes(damaged)
    code, said = checked(tmp_path, capsys)
    assert code == 2
    assert "checksum" in said
    log.rename(log.with_name("log.7f"))
    assert any("begins at zxid 127" in note for note in check_run_folder(tmp_path).notes)
