"""`understudy simulate`: one seed replayed, many seeds run, and what a failing one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.full_disk import no_larger_file
from understudy.cli.main import main
from understudy.clusters.findings import Finding, FindingKind, Findings
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import ProcessStarted
from understudy.history.reading.reader import read
from understudy.trials.seeds import seeds as simulator_seeds
from understudy.trials.seeds.seed_plans import draw_plan
from understudy.trials.seeds.seeds import run_seed


def test_a_seed_is_replayed_with_its_plan_and_leaves_its_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--seed", "3", "--seconds", "10", "--dir", str(tmp_path / "run")]) == 0
    output = capsys.readouterr().out
    assert "ms  heal" in output
    assert "seed 3: ok" in output
    reading = read([tmp_path / "run"])
    assert reading.findings == ()
    assert {record.node for record in reading.records} >= {"broker-1", "broker-2", "broker-3", "simulator"}


def test_a_seed_is_replayed_without_groups(capsys: pytest.CaptureFixture[str]) -> None:
    seed = next(seed for seed in range(1, 50) if draw_plan(seed, 6).members)
    outputs = []
    for more in ([], ["--no-groups"]):
        assert main(["simulate", "--seed", str(seed), "--seconds", "6", *more]) == 0
        outputs.append(capsys.readouterr().out)
    assert ["joins readers-1" in output for output in outputs] == [True, False]
    with pytest.raises(SystemExit):
        main(["simulate", "--seeds", "2", "--no-groups"])
    assert "--no-groups goes with --seed" in capsys.readouterr().err


def test_a_report_of_a_seed_without_groups_names_the_command_that_replays_it() -> None:
    seed = next(seed for seed in range(1, 50) if draw_plan(seed, 1).members)
    assert "--no-groups" in run_seed(seed, 1, groups=False).command
    assert "--no-groups" not in run_seed(seed, 1).command


@pytest.mark.parametrize("clocks", ["own", "one"])
def test_the_clocks_of_a_seed_can_be_chosen_and_change_nothing_else(
    clocks: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {None: tmp_path / "drawn", clocks: tmp_path / clocks}
    outputs = []
    for chosen, folder in folders.items():
        options = [] if chosen is None else ["--clocks", chosen]
        assert main(["simulate", "--seed", "7", "--seconds", "6", *options, "--dir", str(folder)]) == 0
        outputs.append(capsys.readouterr().out.replace(str(folder), ""))
    assert outputs[0] == outputs[1]
    boots = {record.data.boot for record in read([folders[clocks]]).records if isinstance(record.data, ProcessStarted)}
    assert (len(boots) > 1) == (clocks == "own")


def test_the_clocks_of_a_plan_and_of_seeds_in_spark_are_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in (["--plan", str(tmp_path / "plan.json")], ["--seeds", "1", "--spark", "local[1]"]):
        with pytest.raises(SystemExit):
            main(["simulate", *line, "--clocks", "own"])
    found = capsys.readouterr().err
    assert "--seconds, --without and --clocks are part of the plan" in found
    assert "--clocks goes without --spark" in found


def test_a_report_names_the_clocks_that_the_seed_has_not_drawn() -> None:
    drawn = {
        own_clocks: next(s for s in range(50) if draw_plan(s, 1).own_clocks == own_clocks)
        for own_clocks in (True, False)
    }
    assert run_seed(drawn[False], 1, own_clocks=True).command.endswith(
        f"--seed {drawn[False]} --seconds 1 --clocks own"
    )
    assert run_seed(drawn[True], 1, own_clocks=False).command.endswith("--clocks one")
    assert "--clocks" not in run_seed(drawn[True], 1).command


def test_many_seeds_end_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--seeds", "3", "--from", "7", "--seconds", "9"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("3 seeds from 7, of 9 simulated seconds: ")


def test_a_failing_seed_prints_the_one_command_that_replays_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = Finding(kind=FindingKind.CONTROLLER, message="a finding of this test")
    monkeypatch.setattr(
        SimulatedCluster,
        "findings",
        lambda cluster: Findings(found=() if cluster.now_ms < 3_000 else (wrong,), examined={}),
    )
    monkeypatch.setattr(simulator_seeds, "SETTLE_TIMEOUT_S", 0.5)
    assert main(["simulate", "--seeds", "1", "--seconds", "9"]) == 1
    output = capsys.readouterr()
    assert "a finding of this test" in output.out
    assert "replay it: understudy simulate --seed 1 --seconds 9" in output.out
    assert "1 of 1 seeds failed" in output.err


def test_logs_of_many_seeds_do_not_share_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["simulate", "--seeds", "2", "--dir", str(tmp_path)])
    assert "--dir goes with --seed" in capsys.readouterr().err


def test_a_full_disk_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with no_larger_file(2_000):
        assert main(["simulate", "--seed", "2", "--seconds", "9", "--dir", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().err == (
        f"understudy simulate: --dir {tmp_path / 'run'}: File too large; the run is incomplete, give a new folder\n"
    )


def test_logs_go_to_a_folder_of_their_own_or_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["simulate", "--seed", "2", "--dir", str(tmp_path / "file")]) == 2
    assert "give a folder that can be written" in capsys.readouterr().err
    (tmp_path / "broker-7").mkdir()
    (tmp_path / "broker-7" / "broker-7-0001-0001.jsonl").write_text("")
    assert main(["simulate", "--seed", "2", "--dir", str(tmp_path)]) == 2
    assert "it holds another run's event logs" in capsys.readouterr().err
