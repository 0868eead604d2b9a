"""`understudy compare --by mode`: our simulator beside the recorded logs of Apache Kafka in both of its modes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import BROKERS, SAMPLES, unpacked
from tests.understudy.history.kraft_logs import kraft_run
from understudy.cli.main import main
from understudy.history.compare.modes import LACKING, MEASURED
from understudy.history.writing import WIDTH


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of each mode."""
    folder = tmp_path_factory.mktemp("modes")
    assert main(["sweep", "--partitions", "3", "--repeat", "1", "--dir", str(folder / "runs")]) == 0
    zookeeper = ["--zookeeper-log", str(unpacked(SAMPLES / "version-2", folder / "version-2"))]
    logs = [f"--broker={broker}={SAMPLES / f'broker-{broker}'}" for broker in BROKERS]
    assert main(["import-kafka", *logs, *zookeeper, "--one-clock", "--dir", str(folder / "runs" / "zk")]) == 0
    run = kraft_run.unpacked("3.9.1-combined", folder / "kraft")
    (folder / "lines").mkdir()
    lines = [f"--broker={node}={path.parent}" for node, path in _in_folders(run, folder / "lines")]
    metadata = ["--metadata-log", *map(str, run.logs)]
    assert main(["import-kafka", *metadata, *lines, "--dir", str(folder / "runs" / "kraft")]) == 0
    return folder / "runs"


def _in_folders(run: kraft_run.KRaftRun, folder: Path) -> list[tuple[int | None, Path]]:
    """Write the lines of each node as the file `server.log` in a folder of its own."""
    found = []
    for node, path in run.write_logs(folder):
        target = folder / str(node) / "server.log"
        target.parent.mkdir()
        found.append((node, path.rename(target)))
    return found


def test_each_mode_is_a_group_and_says_which_phases_it_does_not_have(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs), "--by", "mode"]) == 0
    page = capsys.readouterr().out
    sections = {section.partition(",")[0].partition(":")[0]: section for section in page.split("\n\n")}
    for quantity in ("detection", "election", "takeover", "outage"):
        rows = [line.split() for line in sections[quantity].splitlines()[2:]]
        assert [row[0] for row in rows] == ["kafka-kraft", "kafka-zk", "understudy"]
        assert all(int(row[1]) > 0 for row in rows), quantity
        assert "—" not in sections[quantity]
    for quantity in ("reading", "propagation"):
        kraft, zookeeper, ours, note = (line.split() for line in sections[quantity].splitlines()[2:])
        assert kraft == ["kafka-kraft", "0", "—", "—", "—", "—"]
        assert int(zookeeper[1]) > 0
        assert int(ours[1]) > 0
        assert " ".join(note) == f"— kafka-kraft: {LACKING[quantity, 'kafka-kraft']}"
    measured = page.partition("\nMeasured in each mode\n")[2].partition("\n\n")[0]
    assert "kafka-zk     until ZooKeeper's transaction that deletes /controller" in measured
    assert [line for line in page.splitlines() if len(line) > WIDTH and "understudy replay" not in line] == []


def test_runs_of_one_mode_need_no_words_about_modes(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (ours,) = runs.glob("b3-*")
    assert main(["compare", str(ours), "--by", "fault"]) == 0
    page = capsys.readouterr().out
    assert "Measured in each mode" not in page
    assert "kafka" not in page


def test_the_json_has_what_is_measured_and_the_phases_that_a_mode_has(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", str(runs), "--by", "mode", "--json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert list(page["modes"]) == ["kafka-kraft", "kafka-zk", "understudy"]
    assert set(page["modes"]["kafka-kraft"]["lacking"]) == {"reading", "propagation"}
    phases = {group["settings"]["mode"]: set(group["mean_phases_ms"]) for group in page["groups"]}
    assert phases["kafka-kraft"] == {"detection", "election", "takeover"}
    assert phases["kafka-zk"] == phases["understudy"] == {"detection", "election", "takeover", "propagation"}


def test_the_html_page_draws_the_phases_of_each_mode(runs: Path, tmp_path: Path) -> None:
    assert main(["compare", str(runs), "--by", "mode", "--html", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Measured in each mode" in page
    assert "propagation —" in page
    assert f"— ({LACKING['reading', 'kafka-kraft']})" in page


def test_each_quantity_of_a_mode_is_either_measured_or_lacking() -> None:
    modes = {mode for ends in MEASURED.values() for mode in ends}
    for quantity, ends in MEASURED.items():
        assert modes == {*ends, *(mode for mode in modes if (quantity, mode) in LACKING)}
        assert not any((quantity, mode) in LACKING for mode in ends)
