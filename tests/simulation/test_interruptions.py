"""Every interruption: the controller dies before and after each of its calls to ZooKeeper, and its successor must cope.

A scenario is run once to count the calls; then once more per call and side. Because a run is its seed, each goes the
same way up to its interruption.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge

SEED = 11


def _cluster() -> SimulatedCluster:
    cluster = SimulatedCluster(SEED, brokers=3)
    cluster.start()
    cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.settle()
    return cluster


def _a_broker_dies(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    victim = next(broker for broker in cluster.brokers if broker is not controller)
    victim.kill()
    cluster.run_for(9_000)
    victim.begin_start()


def _a_topic_appears(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    cluster.begin(cluster.admin.create_topic("payments", assignment={0: [1, 2, 3], 1: [2, 3, 1]}))
    cluster.run_for(3_000)


def _the_controller_leaves(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    controller.begin_stop()
    cluster.run_for(3_000)
    controller.begin_start()


def _its_session_expires(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    controller.expire_session()
    cluster.run_for(3_000)


Scenario = Callable[[SimulatedCluster, SimulatedBroker], None]


def _play(scenario: Scenario, call: int | None, side: str) -> tuple[int, list[str]]:
    """How many calls the first controller made from the scenario's beginning, and what went wrong."""
    with _cluster() as cluster:
        controller = cluster.controller()
        link = cluster.zookeeper.link(controller.node.name)
        before = link.requests

        def strike(number: int) -> None:
            if call is not None and number == before + call:
                controller.kill()
                cluster.after(4_000, controller.begin_start)

        if side == "before":
            link.before_request = strike
        else:
            link.after_answer = strike
        scenario(cluster, controller)
        cluster.settle()
        calls = link.requests - before
    return calls, list(judge(cluster).problems)


@pytest.mark.parametrize(
    "scenario",
    [
        _a_broker_dies,
        pytest.param(_a_topic_appears, marks=pytest.mark.slow),
        pytest.param(_the_controller_leaves, marks=pytest.mark.slow),
        _its_session_expires,
    ],
)
def test_a_controller_may_die_around_any_of_its_calls(scenario: Scenario) -> None:
    calls, problems = _play(scenario, None, "before")
    assert problems == []
    assert calls > 3, "the scenario gave the controller nothing to do"
    for call in range(1, calls + 1):
        for side in ("before", "after"):
            _, problems = _play(scenario, call, side)
            assert problems == [], f"{scenario.__name__}: the controller died {side} call {call} of {calls}"
