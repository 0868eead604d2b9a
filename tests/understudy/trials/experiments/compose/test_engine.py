"""Experiments in containers, as far as that needs no Docker engine; tests/compose/test_experiments.py has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.main import main
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.run_lock import RunLock
from understudy.trials.experiments.compose.engine import ComposeEngine
from understudy.trials.experiments.engines import capabilities
from understudy.trials.experiments.language.action_table import ACTIONS
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.library import find, names
from understudy.trials.experiments.language.reading import read_experiment_file
from understudy.trials.experiments.report.explain import missing_actions
from understudy.trials.experiments.running import CannotRun, run_experiment

NEEDS_A_PROXY = {
    "cut", "cut-clients", "reset", "refuse", "delay", "throttle", "split", "hold", "delay-request", "drop-request",
    "drop-answer", "drop-connection", "duplicate", "corrupt", "shorten", "expire", "lose-answer", "slow-zookeeper",
    "cut-zookeeper", "flap-zookeeper", "hold-watch",
}  # fmt: skip


def test_it_can_do_what_processes_can_except_what_needs_a_proxy_or_their_pids() -> None:
    able = capabilities()
    assert able["real"] - able["compose"] == NEEDS_A_PROXY | {"starve", "limit-files"}
    assert able["compose"] <= able["real"]


def test_at_least_ten_of_the_named_experiments_say_that_they_run_in_containers() -> None:
    found = [read_experiment_file(find(name)) for name in names()]
    assert sum("compose" in each.engines for each in found) >= 10


@pytest.mark.parametrize("name", names())
def test_an_experiment_that_containers_can_run_says_so(name: str) -> None:
    found = read_experiment_file(find(name))
    is_able = not missing_actions(found, ComposeEngine.able) and found.cluster.zookeepers == 1
    assert ("compose" in found.engines) is is_able


def test_what_it_cannot_do_is_refused_before_anything_starts(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    plan = freeze(read_experiment_file(find("answer-from-the-past")))
    with pytest.raises(CannotRun, match="the engine compose cannot do cut, expire; try another one"):
        run_experiment(plan, ComposeEngine, folder, command="again")
    assert not folder.exists()


def test_without_docker_one_sentence_is_printed_and_the_exit_code_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "run"
    assert main(["experiment", "run", "kill-controller", "--engine", "compose", "--dir", str(folder)]) == 2
    expected = "no Docker engine: there is no docker on the PATH; containers need docker compose"
    assert capsys.readouterr().err == f"understudy experiment: {expected}\n"
    assert not (folder / "verdict.json").exists()


def test_two_experiments_in_one_folder_refuse_each_other(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.acquire()
    try:
        with pytest.raises(ClusterError, match="in use by another experiment"):
            ComposeEngine.begin(freeze(read_experiment_file(find("kill-controller"))), tmp_path)
    finally:
        lock.release()


def test_every_action_of_it_is_one_of_the_language() -> None:
    assert ComposeEngine.able <= set(ACTIONS)
