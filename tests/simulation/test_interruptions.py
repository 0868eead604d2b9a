"""The controller is killed before and after each of its requests to ZooKeeper, and the next one takes over.

A scenario runs once to count the requests, and then twice per request. A run is determined by its seed, so each is
identical up to the kill.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.trials.seeds.judgement import judge

SEED = 11


def _cluster() -> SimulatedCluster:
    cluster = SimulatedCluster(SEED, brokers=3)
    cluster.start()
    cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.settle()
    return cluster


def _kill_and_restart_a_broker(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    follower = next(broker for broker in cluster.brokers if broker is not controller)
    follower.kill()
    cluster.run_for(9_000)
    follower.begin_start()


def _create_a_topic(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    cluster.begin(cluster.admin.create_topic("payments", assignment={0: [1, 2, 3], 1: [2, 3, 1]}))
    cluster.run_for(3_000)


def _restart_the_controller(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    controller.begin_stop()
    cluster.run_for(3_000)
    controller.begin_start()


def _expire_the_controllers_session(cluster: SimulatedCluster, controller: SimulatedBroker) -> None:
    controller.expire_session()
    cluster.run_for(3_000)


Scenario = Callable[[SimulatedCluster, SimulatedBroker], None]


def _run(scenario: Scenario, call: int | None, side: str) -> tuple[int, list[str]]:
    """Run a scenario, and kill the controller `side` (`before` or `after`) its request number `call`; None for no kill.

    Returns how many requests the first controller sent since the scenario began, and the problems of the run.
    """
    with _cluster() as cluster:
        controller = cluster.controller()
        link = cluster.zookeeper.link(controller.node.name)
        before = link.requests

        def kill_controller(number: int) -> None:
            if call is not None and number == before + call:
                controller.kill()
                cluster.after(4_000, controller.begin_start)

        if side == "before":
            link.before_request = kill_controller
        else:
            link.after_answer = kill_controller
        scenario(cluster, controller)
        cluster.settle()
        calls = link.requests - before
    return calls, list(judge(cluster).problems)


@pytest.mark.parametrize(
    "scenario",
    [
        _kill_and_restart_a_broker,
        _create_a_topic,
        _restart_the_controller,
        _expire_the_controllers_session,
    ],
)
def test_a_controller_may_be_killed_before_and_after_any_request_to_zookeeper(scenario: Scenario) -> None:
    calls, problems = _run(scenario, None, "before")
    assert problems == []
    assert calls > 3, "the controller sends no request in this scenario"
    for call in range(1, calls + 1):
        for side in ("before", "after"):
            _, problems = _run(scenario, call, side)
            assert problems == [], f"{scenario.__name__}: the controller was killed {side} request {call} of {calls}"
