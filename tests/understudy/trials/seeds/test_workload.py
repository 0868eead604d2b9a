"""The client actions of a seed: their drawing, and the change that each kind makes in a cluster."""

from __future__ import annotations

from collections import Counter

import pytest

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds import workload
from understudy.trials.seeds.seeds import run_seed
from understudy.trials.seeds.workload import ClientAction, draw_actions, schedule_actions

DRAWN = [draw_actions(derived(seed, "deeds"), until_ms=20_000) for seed in range(200)]


def test_a_seed_always_draws_the_same_actions() -> None:
    assert draw_actions(derived(7, "deeds"), until_ms=20_000) == DRAWN[7]
    assert all(0 <= action.at_ms < 20_000 for actions in DRAWN for action in actions)


def test_every_kind_of_action_is_drawn_and_at_most_five_per_seed() -> None:
    kinds = [{action.kind for action in actions} for actions in DRAWN]
    assert max(map(len, kinds)) <= 5
    assert set().union(*kinds) == workload.KINDS


@pytest.mark.parametrize("kind", sorted(workload.KINDS))
def test_each_kind_of_action_changes_znodes(kind: str) -> None:
    """On a cluster without faults, in which `orders` is not led by its preferred leader, or by no replica at all."""
    with SimulatedCluster(3, brokers=3) as cluster:
        cluster.start()
        leader = cluster.broker(next(broker for broker in cluster.broker_ids if broker != cluster.controller_id()))
        other = next(broker for broker in cluster.broker_ids if broker not in (leader.id, cluster.controller_id()))
        cluster.create_topic("orders", assignment={0: [leader.id, other]})
        cluster.settle()
        if kind == "elect-unclean-leaders":
            cluster.broker(other).kill()
            cluster.run_for(8_000)
        leader.kill()
        cluster.run_for(8_000)
        (cluster.broker(other) if kind == "elect-unclean-leaders" else leader).begin_start()
        cluster.run_for(3_000)
        before = len(cluster.zookeeper.transactions)
        schedule_actions(cluster, tuple(ClientAction(at_ms=0, kind=kind, draw=draw) for draw in range(3)))
        cluster.run_for(3_000)
        changed = Counter(
            op.path for transaction in cluster.zookeeper.transactions[before:] for op in transaction.writes
        )
        faults = [
            record.data for record in map(decode_record, cluster.log_lines) if isinstance(record.data, FaultInjected)
        ]
    assert changed
    assert ("-by-" in kind) == any(fault.fault == "write" for fault in faults)


def test_the_plan_of_a_seed_lists_faults_and_actions_in_order_of_time() -> None:
    report = run_seed(5, 12)
    lines = str(report.plan).splitlines()
    plan = report.plan
    assert len(lines) == len(plan.schedule.faults) + len(plan.actions) + len(plan.members) + 1
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)
