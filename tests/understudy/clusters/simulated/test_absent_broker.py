"""A seed whose plan has an absent broker: the others must settle while it is away (L8)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from understudy.clusters.cluster import Unsettled
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.trials.seeds import seeds
from understudy.trials.seeds.seed_plans import SeedPlan, draw_plan

ABSENT = BrokerId(2)


@pytest.fixture
def plan() -> SeedPlan:
    """A plan without faults, actions and load, but with an absent broker."""
    drawn = draw_plan(1, 6)
    schedule = replace(drawn.schedule, faults=(), unknown_probability=0.0)
    return structs.replace(drawn, absent=ABSENT, schedule=schedule, actions=(), load=())


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the absent broker was running, each time the cluster was to settle and had settled."""
    seen: list[bool] = []
    settle = SimulatedCluster.settle

    def settle_and_note(cluster: SimulatedCluster, *, timeout_s: float = 10.0) -> None:
        settle(cluster, timeout_s=timeout_s)
        seen.append(cluster.broker(ABSENT).is_running)

    monkeypatch.setattr(SimulatedCluster, "settle", settle_and_note)
    return seen


def test_the_cluster_settles_without_the_broker_and_then_with_it(plan: SeedPlan, running: list[bool]) -> None:
    assert seeds.run_plan(plan).problems == ()
    assert running == [True, False, True, True], "the first time is the start"
    assert str(plan).endswith("heal, and kill broker 2 until the others have settled")


def test_a_plan_without_an_absent_broker_settles_whole(plan: SeedPlan, running: list[bool]) -> None:
    assert seeds.run_plan(structs.replace(plan, absent=None)).problems == ()
    assert running == [True, True, True]


def test_what_is_left_while_the_broker_is_away_is_a_problem(plan: SeedPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsettled_without(cluster: SimulatedCluster, *, timeout_s: float = 10.0) -> None:
        if not cluster.broker(ABSENT).is_running:
            raise Unsettled(f"not settled within {timeout_s:g} s: orders-0 has no leader")

    monkeypatch.setattr(SimulatedCluster, "settle", unsettled_without)
    (problem,) = seeds.run_plan(plan).problems
    assert problem == "Unsettled: L8, without broker-2: not settled within 30 s: orders-0 has no leader"
