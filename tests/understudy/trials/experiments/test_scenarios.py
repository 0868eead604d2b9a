"""The experiments that come with Understudy: all can be read, and hold in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.trials.experiments.engines import ENGINES, capabilities
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.library import find, names
from understudy.trials.experiments.language.reading import read_experiment_file
from understudy.trials.experiments.report.explain import missing_actions
from understudy.trials.experiments.report.verdict import Status
from understudy.trials.experiments.running import run_experiment

NAMES = names()


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_read_and_has_its_question_and_story(name: str) -> None:
    found = read_experiment_file(find(name))
    assert found.name == name
    assert found.title
    assert found.question.endswith("?")
    assert len(found.story) > 80
    assert found.refs
    assert found.expect.within


@pytest.mark.parametrize("name", NAMES)
def test_every_engine_that_a_file_names_can_run_it(name: str) -> None:
    found = read_experiment_file(find(name))
    for engine in found.engines:
        assert missing_actions(found, capabilities()[engine]) == []


@pytest.mark.parametrize("name", [name for name in NAMES if "sim" in read_experiment_file(find(name)).engines])
def test_each_holds_in_the_simulator(name: str, tmp_path: Path) -> None:
    found = read_experiment_file(find(name))
    verdict = run_experiment(freeze(found), ENGINES["sim"], tmp_path, command="again")
    violated = [f"{each.name}: {each.seen} {each.where}" for each in verdict.violations]
    assert verdict.status is Status.HELD, (verdict.why, violated)
