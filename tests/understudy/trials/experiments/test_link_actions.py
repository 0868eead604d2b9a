"""The faults of links as steps of experiments: in the simulator, and on processes through the proxy."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests.shares import at_night
from tests.understudy.trials.experiments.simulated import HEAD
from understudy.foundation.eventlog.records import Envelope, FaultInjected, ZkWriteDone
from understudy.trials.experiments.engine import ExperimentEngine
from understudy.trials.experiments.language.frozen import freeze
from understudy.trials.experiments.language.reading import read_experiment
from understudy.trials.experiments.processes.engine import ProcessEngine
from understudy.trials.experiments.runner import Runner, RunOutcome
from understudy.trials.experiments.simulated.engine import SimulatedEngine

CLUSTER = (
    "cluster: {brokers: 3, session: 3s, set: {replica.lag.time.max.ms: '2000'}, "
    "topics: [{name: orders, partitions: 1, assignment: [1, 2, 3]}]}\n"
)
IN_BOTH = """
  - {at: 500ms, delay: leader:orders/0, from: [follower:orders/0], by: 50ms, for: 1s}
  - {at: 1s, lose-answer: controller, path: /brokers/topics/fresh/partitions, applied: true}
  - {at: 1s, create-topic: fresh, partitions: 2}
  - {at: 2s, reset: controller, from: [zookeeper]}
  - {at: 3s, as: I, isolate: controller, for: 6s}
  - {at: 10500ms, expire: broker-3}
  - {at: 12s, as: B, bind: broker-2}
  - {at: 12s, cut: B, from: [broker-3], for: 4s}
  - {at: 12s, cut: B, from: [zookeeper], direction: received, for: 1s}
"""
OF_REQUESTS = """
  - {at: 17s, hold: controller, to: [1, 2, 3], api: UpdateMetadata, for: 1s}
  - {at: 17s, duplicate: controller, to: [1, 2, 3], api: LeaderAndIsr}
  - {at: 17s, drop-answer: controller, to: [1, 2, 3], api: LeaderAndIsr}
  - {at: 17s, create-topic: late, partitions: 2}
  - {at: 18s, throttle: leader:orders/0, from: [follower:orders/0], bytes: 100000, for: 1s}
  - {at: 18s, refuse: broker-1, to: [broker-2], for: 1s}
  - {at: 18s, drop-request: broker-3, to: [1, 2], api: Fetch}
  - {at: 18s, corrupt: broker-2, to: [1, 3], api: Fetch, count: 3}
  - {at: 18s, shorten: broker-1, to: [2, 3], api: Fetch, count: 3}
  - {at: 19s, reset: broker-2, from: [broker-1, broker-3]}
  - {at: 19s, split: broker-1, from: [broker-2], bytes: 40, for: 1s}
  - {at: 20s, delay-request: broker-2, to: [1, 3], api: Fetch, by: 200ms}
  - {at: 20s, drop-connection: broker-3, to: [1, 2], api: Fetch}
  - {at: 20s, cut-clients: broker-2, for: 1s}
  - {at: 20s, refuse: broker-3, to: [zookeeper], for: 500ms}
"""
LATER = "lasts: 22s\nexpect: {within: {L1: 20s, L2: 20s, L3: 20s}}\n"


def outcome_of(engine: type[ExperimentEngine], steps: str, folder: Path) -> RunOutcome:
    plan = freeze(read_experiment(f"{HEAD}{CLUSTER}steps:{steps}{LATER}", "f.yaml"), 3)
    running = engine.begin(plan, folder)
    try:
        return Runner(plan, running).run()
    finally:
        running.close()


def all_records(outcome: RunOutcome) -> list[Envelope]:
    assert outcome.data is not None
    return [record for records in outcome.data.records.values() for record in records]


def faults(outcome: RunOutcome) -> list[str]:
    found = [record.data.fault for record in all_records(outcome) if isinstance(record.data, FaultInjected)]
    return [fault for fault in found if fault not in ("start", "stop")]


def require(outcome: RunOutcome) -> None:
    """Every step was done, its outcome was unknown once, and the cluster has settled."""
    assert outcome.steady_failures == ()
    assert [step.failure for step in outcome.steps if step.failure] == []
    assert outcome.unsettled == ""
    outcomes = [record.data.outcome for record in all_records(outcome) if isinstance(record.data, ZkWriteDone)]
    assert "Unknown" in outcomes
    assert outcome.data is not None
    assert outcome.data.failures == ()


OF_SINGLE_REQUESTS = {"hold", "delay", "lose-answer", "cut-before", "cut-after", "duplicate", "corrupt", "shorten"}


def test_links_are_broken_and_healed_in_the_simulator(tmp_path: Path) -> None:
    outcome = outcome_of(SimulatedEngine, IN_BOTH + OF_REQUESTS, tmp_path)
    require(outcome)
    assert faults(outcome)[:6] == ["delay", "lose-answer", "heal", "reset", "isolate", "heal"]
    assert {"throttle", "refuse", "split", *OF_SINGLE_REQUESTS} <= set(faults(outcome))
    assert outcome.not_injected == (), "each fault of a request has found one"


@at_night("the proxies that break links of processes have tests of their own")
def test_links_are_broken_and_healed_between_processes(tmp_path: Path) -> None:
    outcome = outcome_of(ProcessEngine, IN_BOTH + OF_REQUESTS, tmp_path)
    require(outcome)
    assert faults(outcome)[:6] == ["delay", "lose-answer", "heal", "reset", "isolate", "heal"]
    assert {"throttle", "refuse", "split", *OF_SINGLE_REQUESTS} <= set(faults(outcome))
    assert outcome.not_injected == ()


def test_brokers_are_isolated_one_after_the_other_in_an_order_that_the_seed_draws(tmp_path: Path) -> None:
    outcome = outcome_of(SimulatedEngine, "\n  - {at: 1s, swizzle: all, for: 6s}\n", tmp_path)
    assert outcome.unsettled == ""
    found = [each.data for each in all_records(outcome) if isinstance(each.data, FaultInjected)]
    order = [(each.fault, each.target) for each in found if each.fault in ("isolate", "heal")][:6]
    assert [fault for fault, _ in order] == ["isolate"] * 3 + ["heal"] * 3
    brokers = {"broker-1", "broker-2", "broker-3"}
    assert {target for _, target in order[:3]} == {target for _, target in order[3:]} == brokers


@pytest.mark.parametrize(
    ("step", "mark"),
    [
        ("{at: 1s, cut-clients: [1, 2, 3], for: 3s}", 3_000),
        ("{at: 1s, throttle: leader(orders/0), from: [1, 2, 3], bytes: 100, for: 3s}", 1_000),
    ],
)
def test_producers_wait_while_what_they_need_is_held(step: str, mark: float, tmp_path: Path) -> None:
    outcome = outcome_of(SimulatedEngine, f"\n  - {step}\n", tmp_path)
    assert outcome.data is not None
    times = [each for each in outcome.data.load.acknowledged_ms if each < 8_000]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) > mark * 0.9


@pytest.mark.parametrize(
    "step",
    [
        "{at: 1s, delay: broker-1, from: [broker-1], by: 10ms}",
        "{at: 1s, delay: broker-1, from: [zookeeper], by: 10ms}",
    ],
)
def test_a_delay_needs_other_brokers(step: str, tmp_path: Path) -> None:
    outcome = outcome_of(SimulatedEngine, f"\n  - {step}\n", tmp_path)
    assert [each.failure for each in outcome.steps] == [
        "it needs other brokers: the target, or ZooKeeper, is all that is named"
    ]
