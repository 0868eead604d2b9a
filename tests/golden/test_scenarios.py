"""Our cluster goes through Kafka's recorded scenarios and does what Kafka did: on real processes and in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.compare import compare, judge, listed
from tests.golden.real_stage import RealStage
from tests.golden.recording import CONTROL_REQUESTS, FOLDER, load
from tests.golden.scenarios import SCENARIOS, brokers_of, perform
from tests.golden.simulated_stage import SimulatedStage
from tests.golden.stage import Stage
from understudy.checkers.verdict import Judge

SEEDS = (1, 2, 3)
"""In the simulator a seed decides who wins a race and in which order answers come."""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_real_brokers_do_what_kafka_did(scenario: str, tmp_path: Path) -> None:
    with RealStage(tmp_path, brokers_of(scenario)) as stage:
        check(scenario, stage)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_simulated_brokers_do_what_kafka_did(scenario: str, seed: int) -> None:
    with SimulatedStage(seed, brokers_of(scenario)) as stage:
        check(scenario, stage)


def check(scenario: str, stage: Stage, *, tools_choose: bool = False) -> None:
    """`tools_choose`: tools ask whichever broker they like, as they did when Kafka was recorded."""
    ours = perform(scenario, stage).document
    deliberate = [entry for entry in listed(FOLDER / "differences.toml") if entry.scenario in (scenario, "*")]
    unlisted, vanished = judge(compare(load(scenario), ours, tools_choose=tools_choose), deliberate)
    assert not unlisted, "\n".join(map(str, unlisted))
    assert not vanished
    # Rule 5 would hold of anything if we did not know what our controller knew when it sent its requests.
    sent = [request for step in ours["steps"] for request in step["requests"] if request["key"] in CONTROL_REQUESTS]
    assert all("zxid" in request for request in sent)
    assert Judge().run(stage.records(), stage.transactions()) == []
