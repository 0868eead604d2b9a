"""Tests that our brokers do in each recorded scenario what Kafka did, as processes and in the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.golden.compare import compare, listed, unlisted_and_vanished
from tests.golden.process_cluster import ProcessCluster
from tests.golden.recording import CONTROL_REQUESTS, FOLDER, Json, load
from tests.golden.scenarios import RECORDED_WITH_TOOLS, SCENARIOS, brokers_and_settings, run_scenario
from tests.golden.simulated_cluster import SimulatedScenarioCluster
from tests.shares import SHARES, at_night, share_of
from understudy.checks.invariant_checker import InvariantChecker

SIMULATED = tuple(name for name, scenario in SCENARIOS.items() if not scenario.only_processes)
OTHER_SEEDS = range(2, 2 + share_of("golden-seeds"))
"""The seed decides in the simulator which broker wins an election, and in which order answers arrive."""

RUNS = 6
"""The maximal number of runs of a scenario on processes."""

Cluster = TypeVar("Cluster", bound=ProcessCluster)

WITH_TOOLS = (
    "controller-killed",
    "deletion",
    "offline-and-unclean",
    "configs",
    "reassignment",
    "create-topic",
    "broker-killed",
    "controlled-shutdown",
    "isr",
)
"""Scenarios that `make interop` runs on processes with Apache's tools."""

REPRESENTATIVE = "controller-killed"
LONGEST = {"pauses", "started-too-soon"}
WITHOUT_TOOLS = (
    *(scenario for scenario in RECORDED_WITH_TOOLS if scenario not in WITH_TOOLS),
    "pauses",
    "listeners",
    "started-too-soon",
)
ON_PROCESSES = (REPRESENTATIVE, *WITHOUT_TOOLS, *(scenario for scenario in WITH_TOOLS if scenario != REPRESENTATIVE))
"""Scenarios that run on processes too; the others would show no more than in the simulator, in ten seconds each."""


def test_the_usual_share_of_scenarios_on_processes_has_each_that_does_not_run_with_tools() -> None:
    assert SHARES["golden-processes"].whole == len(ON_PROCESSES) == len(set(ON_PROCESSES))
    assert SHARES["golden-processes"].usual == len((REPRESENTATIVE, *WITHOUT_TOOLS))


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(
            scenario,
            marks=[
                *[pytest.mark.representative("a golden run")] * (scenario == REPRESENTATIVE),
                *[at_night("processes are paused and started too soon by many tests")] * (scenario in LONGEST),
            ],
        )
        for scenario in ON_PROCESSES[: share_of("golden-processes")]
    ],
)
def test_real_brokers_do_what_kafka_did(scenario: str, tmp_path: Path) -> None:
    check_on_processes(scenario, lambda run: ProcessCluster(tmp_path / str(run), *brokers_and_settings(scenario)))


@pytest.mark.spec("GT-1", "GT-2", "GT-3", "GT-4", "GT-5", "GT-6", "GT-7", "GT-8", "GT-9")
@pytest.mark.parametrize("scenario", SIMULATED)
def test_simulated_brokers_do_what_kafka_did(scenario: str) -> None:
    with SimulatedScenarioCluster(1, *brokers_and_settings(scenario)) as cluster:
        check(scenario, cluster)


@pytest.mark.parametrize("seed", OTHER_SEEDS)
@pytest.mark.parametrize("scenario", SIMULATED)
def test_simulated_brokers_do_what_kafka_did_with_other_seeds(scenario: str, seed: int) -> None:
    with SimulatedScenarioCluster(seed, *brokers_and_settings(scenario)) as cluster:
        check(scenario, cluster)


def check(scenario: str, cluster: SimulatedScenarioCluster) -> None:
    check_recording(scenario, cluster, run_scenario(scenario, cluster))


def check_on_processes(scenario: str, cluster_of: Callable[[int], Cluster], *, tools_choose: bool = False) -> Cluster:
    """Run a scenario, each time on a new cluster, until concurrent reassignments finish in the order of the recording.

    Which of two leaders first proposes the ISR that finishes its reassignment is chance, in Kafka as here, and changes
    much of what follows. `tools_choose`: tools choose brokers, as they did when Kafka was recorded.
    """
    wanted = finished_moves(load(scenario))
    for run in range(RUNS):
        cluster = cluster_of(run)
        with cluster:
            ours = run_scenario(scenario, cluster)
            found = finished_moves(ours)
            if found == wanted or Counter(found) != Counter(wanted) or run == RUNS - 1:
                check_recording(scenario, cluster, ours, tools_choose=tools_choose)
                return cluster
    raise AssertionError("unreachable: the last run raises")


def finished_moves(document: Json) -> list[tuple[str, str]]:
    """The topic znode and partition of each finished reassignment, in their order."""
    ended: list[tuple[str, str]] = []
    moving: dict[str, set[str]] = {}
    for transaction in (transaction for step in document["steps"] for transaction in step["txns"]):
        for op in transaction.get("multi", [transaction]):
            if op["op"] == "setData" and isinstance(op.get("data"), dict) and "adding_replicas" in op["data"]:
                now = set(op["data"]["adding_replicas"]) | set(op["data"]["removing_replicas"])
                ended += [(op["path"], partition) for partition in sorted(moving.get(op["path"], set()) - now)]
                moving[op["path"]] = now
    return ended


def test_reassignments_are_ordered_by_the_writes_that_finish_them() -> None:
    topic = "/brokers/topics/orders"
    assert finished_moves(load("reassignment")) == [(topic, "0"), (topic, "1")]
    turned = load("reassignment-overridden")
    turned["steps"].reverse()
    assert finished_moves(turned) != finished_moves(load("reassignment-overridden"))


def check_recording(
    scenario: str, cluster: Cluster | SimulatedScenarioCluster, ours: Json, *, tools_choose: bool = False
) -> None:
    deliberate = [entry for entry in listed(FOLDER / "differences.toml") if entry.scenario in (scenario, "*")]
    unlisted, vanished = unlisted_and_vanished(compare(load(scenario), ours, tools_choose=tools_choose), deliberate)
    assert not unlisted, "\n".join(map(str, unlisted))
    assert not vanished
    # Without zxids in the requests, rule 5 would hold for any recording.
    sent = [request for step in ours["steps"] for request in step["requests"] if request["key"] in CONTROL_REQUESTS]
    assert all("zxid" in request for request in sent)
    if not SCENARIOS[scenario].unchecked:
        assert InvariantChecker().run(cluster.records(), cluster.transactions()) == []
