"""`understudy sweep`: a grid of runs, an interrupted sweep, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.shares import at_night
from tests.understudy.full_disk import no_larger_file
from understudy.cli import main as cli
from understudy.cli.main import main
from understudy.history.report.replay import replay_in_python
from understudy.trials.sweep import simulated as simulator_sweep
from understudy.trials.sweep.cells import Cell, CellReport, Software

SMALL = ["sweep", "--partitions", "2,3", "--session-timeout-ms", "3000", "--repeat", "2"]


def test_each_combination_has_a_run_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "runs"
    assert main([*SMALL, "--fault", "kill,pause", "--dir", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "8 of 8 in " in printed
    assert f"compare them: understudy compare {output} --by partitions,fault" in printed
    runs = replay_in_python([output]).runs
    assert [(run.settings.partitions, run.settings.fault) for run in runs] == [
        (partitions, fault) for partitions in (2, 3) for fault in ("kill", "pause") for _ in range(2)
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"], "nothing unfinished is left"


def test_workers_leave_the_same_runs(tmp_path: Path) -> None:
    for name, workers in (("one", "1"), ("two", "2")):
        assert main([*SMALL, "--workers", workers, "--dir", str(tmp_path / name)]) == 0
    one, two = (
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.jsonl")}
        for name in ("one", "two")
    )
    assert one
    assert one == two


def test_an_interrupted_sweep_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    complete, begun = simulator_sweep.run_cell, list[str]()

    def interrupted_at_the_third(cell: Cell, output: Path) -> CellReport:
        begun.append(cell.name)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return complete(cell, output)

    monkeypatch.setattr(simulator_sweep, "run_cell", interrupted_at_the_third)
    command = [*SMALL, "--dir", str(tmp_path / "runs")]
    assert main(command) == cli.EXIT_INTERRUPTED
    assert "2 of 4 runs are complete; the same command goes on from there" in capsys.readouterr().err
    assert main(command) == 0
    assert "2 of 4 runs are in" in capsys.readouterr().err
    assert begun[2:] == [begun[2], begun[2], begun[4]]
    assert len(replay_in_python([tmp_path / "runs"]).runs) == 4
    assert main([*SMALL[:-1], "3", "--dir", str(tmp_path / "runs")]) == 0
    assert len(begun) == 7, "with more repetitions only the new ones are run"


def test_a_failed_run_is_named_and_the_others_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    complete = simulator_sweep.run_cell

    def fails_once(cell: Cell, output: Path) -> CellReport:
        return CellReport(cell, "a problem") if cell.name == "b3-p3-t3000-kill-1" else complete(cell, output)

    monkeypatch.setattr(simulator_sweep, "run_cell", fails_once)
    assert main([*SMALL, "--dir", str(tmp_path / "runs")]) == 1
    printed = capsys.readouterr()
    assert "b3-p3-t3000-kill-1: a problem" in printed.out
    assert "1 of 4 runs failed" in printed.err
    assert len(list((tmp_path / "runs").iterdir())) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fault", "bribe"], "--fault bribe: the faults of a sweep are kill, pause"),
        (["--brokers", "1,3"], "without a second broker there is no failover"),
        (["--partitions", "0"], "'0' is not a whole number from 1"),
        (["--partitions", "5,5"], "'5,5' has a number twice"),
        (["--processes", "--workers", "2"], "--workers goes with the simulator"),
        (["--kafka-zk"], "--kafka-zk and --kafka-kraft go with --processes"),
        (["--kafka-libs", "libs"], "--kafka-libs goes with --kafka-zk or --kafka-kraft"),
        (
            ["--processes", "--kafka-zk", "4.2.0"],
            "--kafka-zk 4.2.0: Apache Kafka is run in ZooKeeper mode in 3.9 alone",
        ),
        (
            ["--processes", "--kafka-kraft", "3.2.1"],
            "--kafka-kraft 3.2.1: the logs of KRaft clusters are imported from 3",
        ),
        (["--processes", "--kafka-kraft", "new"], "'new' is not a version of Apache Kafka, for example 3.9.1"),
        (["--processes", "--kafka-kraft", "4.2.0,4.2.0"], "'4.2.0,4.2.0' has a version twice"),
        (
            ["--processes", "--kafka-kraft", "--brokers", "2,3"],
            "--brokers 2: the nodes of a KRaft cluster are also its",
        ),
        (
            ["--processes", "--kafka-kraft", "--session-timeout-ms", "800"],
            "--session-timeout-ms 800: followers of a KRaft quorum fetch for up to 500 ms; give 1000 or more",
        ),
    ],
)
def test_a_wrong_command_line_is_refused(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["sweep", *arguments, "--dir", str(tmp_path / "runs")])
    assert refused.value.code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_modes_of_apache_kafka_are_cells_beside_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    libs = tmp_path / "libs"
    libs.mkdir()
    for name in ("kafka_2.13-3.9.1.jar", "kafka_2.13-4.2.0.jar", "slf4j-reload4j-1.7.36.jar"):
        (libs / name).write_bytes(b"")
    given: dict[Software, Path] = {}

    def completes(cells: Sequence[Cell], output: Path, *, libs: dict[Software, Path], **_: object) -> list[CellReport]:
        given.update(libs)
        for cell in cells:
            (output / cell.name).mkdir()
        return [CellReport(cell) for cell in cells]

    monkeypatch.setattr("understudy.cli.sweep.run_cells", completes)
    command = ["sweep", "--processes", "--kafka-zk", "--kafka-kraft", "--kafka-libs", str(libs), "--repeat", "2"]
    assert main([*command, "--dir", str(tmp_path / "runs")]) == 0
    printed = capsys.readouterr()
    assert "kafka-kraft: --session-timeout-ms sets broker.session.timeout.ms and" in printed.err
    assert f"understudy compare {tmp_path / 'runs'} --by mode,software_version" in printed.out
    kafkas = [Software("kafka-zk", "3.9.1"), Software("kafka-kraft", "3.9.1"), Software("kafka-kraft", "4.2.0")]
    assert given == dict.fromkeys(kafkas, libs)
    assert len(list((tmp_path / "runs").iterdir())) == 8


def test_a_missing_kafka_is_reported_with_all_places_that_were_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KAFKA_LIBS", raising=False)
    command = ["sweep", "--processes", "--kafka-zk", "--repeat", "1", "--dir", str(tmp_path / "runs")]
    assert main(command) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "understudy sweep: Apache Kafka 3.9.1 was looked for in --kafka-libs (no folder was given), KAFKA_LIBS (not "
        f"set) and the cache {tmp_path / 'cache' / 'understudy'}: no mvn on the PATH to fetch Apache Kafka 3.9.1 with; "
        "install Maven, or give its jars with --kafka-libs"
    )
    (tmp_path / "empty").mkdir()
    assert main([*command, "--kafka-libs", str(tmp_path / "empty")]) == 1
    assert "empty holds no kafka_2.13-*.jar; give the folder `libs`" in capsys.readouterr().err
    (tmp_path / "empty" / "kafka_2.13-3.9.1.jar").write_bytes(b"")
    assert main([*command, "--kafka-libs", str(tmp_path / "empty")]) == 1
    assert "empty holds neither slf4j-reload4j-*.jar nor log4j-slf4j-impl-*.jar, with which" in capsys.readouterr().err
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main([*SMALL, "--dir", str(tmp_path / "file")]) == 2
    assert "give a folder that can be written" in capsys.readouterr().err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_sweep_goes_on_when_the_disk_is_no_longer_full(
    workers: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*SMALL, "--workers", workers, "--dir", str(tmp_path / "runs")]
    with no_larger_file(5_000):
        assert main(command) == 1
    assert capsys.readouterr().err == (
        f"understudy sweep: --dir {tmp_path / 'runs'}: File too large; 0 of 4 runs are complete, and the same "
        "command goes on from there\n"
    )
    assert main(command) == 0
    assert len(replay_in_python([tmp_path / "runs"]).runs) == 4


@at_night("experiments run on processes each time, and sweeps in the simulator")
def test_a_sweep_on_processes(tmp_path: Path) -> None:
    command = ["sweep", "--processes", "--partitions", "4", "--session-timeout-ms", "3000", "--fault", "kill,pause"]
    assert main([*command, "--repeat", "1", "--dir", str(tmp_path / "runs")]) == 0
    replay = replay_in_python([tmp_path / "runs"])
    assert replay.findings == ()
    assert [run.run for run in replay.runs] == ["processes-b3-p4-t3000-kill-1", "processes-b3-p4-t3000-pause-1"]
    for run, fault in zip(replay.runs, ("kill", "pause"), strict=True):
        assert (run.settings.world, run.settings.brokers, run.settings.partitions) == ("processes", 3, 4)
        assert (run.settings.fault, run.settings.session_timeout_ms) == (fault, 3000)
        assert [failover.cause for failover in run.failovers] == [fault]
        assert run.totals.leaderless_ms > 0
