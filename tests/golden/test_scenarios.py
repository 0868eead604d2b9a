"""Our cluster goes through Kafka's recorded scenarios and does what Kafka did: on real processes and in the
simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.golden.compare import compare, judge, listed
from tests.golden.real_stage import RealStage
from tests.golden.recording import CONTROL_REQUESTS, FOLDER, Json, load
from tests.golden.scenarios import GIVEN, SCENARIOS, perform, staging
from tests.golden.simulated_stage import SimulatedStage
from understudy.checkers.verdict import Judge

SIMULATED = tuple(name for name, scenario in SCENARIOS.items() if not scenario.only_processes)
OTHER_SEEDS = (2, 3, 4)
"""In the simulator a seed decides who wins a race and in which order answers come."""

RUNS = 6
"""Of a scenario on processes, at most."""

Stage = TypeVar("Stage", bound=RealStage)

ON_PROCESSES = (*GIVEN, "pauses", "listeners", "started-too-soon")
"""The others would show no more than in the simulator, for ten seconds each."""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ON_PROCESSES)
def test_real_brokers_do_what_kafka_did(scenario: str, tmp_path: Path) -> None:
    check_on_processes(scenario, lambda run: RealStage(tmp_path / str(run), *staging(scenario)))


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


def check(scenario: str, stage: SimulatedStage) -> None:
    check_performance(scenario, stage, perform(scenario, stage))


def check_on_processes(scenario: str, stage_of: Callable[[int], Stage], *, tools_choose: bool = False) -> Stage:
    """On a new stage for each run, until moves that race each other arrive in the order in which they arrived in
    Kafka's.

    Which of two leaders asks first for the ISR that ends its move is chance, there as here, and much follows from it.
    `tools_choose`: tools ask whichever broker they like, as they did when Kafka was recorded.
    """
    wanted = arrivals(load(scenario))
    for run in range(RUNS):
        stage = stage_of(run)
        with stage:
            ours = perform(scenario, stage)
            found = arrivals(ours)
            if found == wanted or Counter(found) != Counter(wanted) or run == RUNS - 1:
                check_performance(scenario, stage, ours, tools_choose=tools_choose)
                return stage
    raise AssertionError("unreachable: the last run is judged")


def arrivals(document: Json) -> list[tuple[str, str]]:
    """Topic znodes and partitions whose move ended, in their order."""
    ended: list[tuple[str, str]] = []
    moving: dict[str, set[str]] = {}
    for transaction in (transaction for step in document["steps"] for transaction in step["txns"]):
        for op in transaction.get("multi", [transaction]):
            if op["op"] == "setData" and isinstance(op.get("data"), dict) and "adding_replicas" in op["data"]:
                now = set(op["data"]["adding_replicas"]) | set(op["data"]["removing_replicas"])
                ended += [(op["path"], partition) for partition in sorted(moving.get(op["path"], set()) - now)]
                moving[op["path"]] = now
    return ended


def test_the_order_of_arrivals_is_that_of_the_writes_that_end_a_move() -> None:
    topic = "/brokers/topics/orders"
    assert arrivals(load("reassignment")) == [(topic, "0"), (topic, "1")]
    turned = load("reassignment-overridden")
    turned["steps"].reverse()
    assert arrivals(turned) != arrivals(load("reassignment-overridden"))


def check_performance(scenario: str, stage: Stage | SimulatedStage, ours: Json, *, tools_choose: bool = False) -> None:
    deliberate = [entry for entry in listed(FOLDER / "differences.toml") if entry.scenario in (scenario, "*")]
    unlisted, vanished = judge(compare(load(scenario), ours, tools_choose=tools_choose), deliberate)
    assert not unlisted, "\n".join(map(str, unlisted))
    assert not vanished
    # Rule 5 would hold of anything if we did not know what our controller knew when it sent its requests.
    sent = [request for step in ours["steps"] for request in step["requests"] if request["key"] in CONTROL_REQUESTS]
    assert all("zxid" in request for request in sent)
    if not SCENARIOS[scenario].unchecked:
        assert Judge().run(stage.records(), stage.transactions()) == []
