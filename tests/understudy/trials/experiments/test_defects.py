"""Experiments without a fence: what they expect has to notice that."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.main import main
from understudy.clusters.problems import BadExperiment
from understudy.trials.experiments.defects import find_defects
from understudy.trials.experiments.language.expectations import switches
from understudy.trials.experiments.language.frozen import FrozenPlan, freeze
from understudy.trials.experiments.language.library import find, names
from understudy.trials.experiments.language.reading import read_experiment, read_experiment_file
from understudy.trials.experiments.report.verdict import Verdict
from understudy.trials.experiments.running import run_once
from understudy.trials.experiments.simulated.engine import SimulatedEngine

WITH_DEFECTS = tuple(name for name in names() if read_experiment_file(find(name)).defects)
SMALL = (
    "schema: understudy/v1\nname: small\ncluster: {brokers: 3, topics: []}\nsteps:\n  - {at: 1s, depose: controller}\n"
)


@pytest.mark.parametrize("name", WITH_DEFECTS)
def test_every_defect_of_an_experiment_is_found_and_its_switch_prevents_it(name: str, tmp_path: Path) -> None:
    def run(plan: FrozenPlan) -> Verdict:
        return run_once(plan, SimulatedEngine, tmp_path, command="")

    for found in find_defects(read_experiment_file(find(name)), run):
        assert found.is_found, str(found)


def test_experiments_find_most_switches() -> None:
    """The number only grows: a switch that an experiment finds stays in one."""
    defects = (read_experiment_file(find(name)).defects for name in WITH_DEFECTS)
    assert len({switch for names in defects for each in names for switch in switches(each)}) >= 36


def test_a_defect_that_no_seed_shows_is_not_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(SMALL + "defects:\n  broker.broker-epoch: {breaks: [C4b], seeds: 2}\n")
    assert main(["experiment", "defects", str(file)]) == 1
    assert "without broker.broker-epoch: NOT found within 2 seeds" in capsys.readouterr().out


def test_the_same_seed_with_and_without_a_fence_draws_the_same() -> None:
    experiment = read_experiment(SMALL.replace("at: 1s", "at: 1s..9s"), "f")
    off = freeze(experiment, 3, fences_off=switches("broker.controller-epoch + zk.controller-epoch"))
    assert off.experiment == freeze(experiment, 3).experiment
    assert len(off.fences_off) == 2


def test_only_what_has_a_name_can_be_switched_off(capsys: pytest.CaptureFixture[str]) -> None:
    for word, why in (
        ("zk.controller-epok", "did you mean 'zk.controller-epoch'"),
        ("kip-80", "did you mean 'kip-380'"),
    ):
        assert main(["experiment", "run", "kill-controller", "--without", word]) == 2
        assert why in capsys.readouterr().err


@pytest.mark.parametrize(
    ("defects", "why"),
    [
        ("  broker.controller-epok: {breaks: [C4a]}\n", "did you mean 'broker.controller-epoch'"),
        ("  zk.controller-epoch: {breaks: [C33]}\n", "did you mean 'C3'"),
        ("  zk.controller-epoch: {seeds: 3}\n", "lacks breaks"),
    ],
)
def test_a_defect_is_a_fence_and_breaks_an_expectation(defects: str, why: str) -> None:
    with pytest.raises(BadExperiment, match=why):
        read_experiment(SMALL + "defects:\n" + defects, "f")


def test_a_violation_without_a_fence_names_the_fence_in_its_command(tmp_path: Path) -> None:
    code = main(
        ["experiment", "run", "late-order", "--without", "broker.controller-epoch", "--dir", str(tmp_path / "run")]
    )
    assert code == 1
    assert "--without broker.controller-epoch" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
