"""Our cluster goes through Kafka's recorded scenarios and does what Kafka did: on real processes and in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.compare import compare, judge, listed
from tests.golden.real_stage import RealStage
from tests.golden.recording import CONTROL_REQUESTS, FOLDER, load
from tests.golden.scenarios import GIVEN, SCENARIOS, perform, staging
from tests.golden.simulated_stage import SimulatedStage
from understudy.checkers.verdict import Judge

SIMULATED = tuple(name for name, scenario in SCENARIOS.items() if not scenario.only_processes)
OTHER_SEEDS = (2, 3, 4)
"""In the simulator a seed decides who wins a race and in which order answers come."""


ON_PROCESSES = (*GIVEN, "pauses", "listeners", "started-too-soon")
"""The others would show no more than in the simulator, for ten seconds each."""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ON_PROCESSES)
def test_real_brokers_do_what_kafka_did(scenario: str, tmp_path: Path) -> None:
    with RealStage(tmp_path, *staging(scenario)) as stage:
        check(scenario, stage)


@pytest.mark.spec("GT-1", "GT-2", "GT-3", "GT-4", "GT-5", "GT-6", "GT-7", "GT-8", "GT-9")
@pytest.mark.parametrize("scenario", SIMULATED)
def test_simulated_brokers_do_what_kafka_did(scenario: str) -> None:
    with SimulatedStage(1, *staging(scenario)) as stage:
        check(scenario, stage)


@pytest.mark.slow
@pytest.mark.parametrize("seed", OTHER_SEEDS)
@pytest.mark.parametrize("scenario", SIMULATED)
def test_whoever_wins_and_whoever_answers_first(scenario: str, seed: int) -> None:
    with SimulatedStage(seed, *staging(scenario)) as stage:
        check(scenario, stage)


def check(scenario: str, stage: RealStage | SimulatedStage, *, tools_choose: bool = False) -> None:
    """`tools_choose`: tools ask whichever broker they like, as they did when Kafka was recorded."""
    ours = perform(scenario, stage)
    deliberate = [entry for entry in listed(FOLDER / "differences.toml") if entry.scenario in (scenario, "*")]
    unlisted, vanished = judge(compare(load(scenario), ours, tools_choose=tools_choose), deliberate)
    assert not unlisted, "\n".join(map(str, unlisted))
    assert not vanished
    # Rule 5 would hold of anything if we did not know what our controller knew when it sent its requests.
    sent = [request for step in ours["steps"] for request in step["requests"] if request["key"] in CONTROL_REQUESTS]
    assert all("zxid" in request for request in sent)
    if not SCENARIOS[scenario].unchecked:
        assert Judge().run(stage.records(), stage.transactions()) == []
