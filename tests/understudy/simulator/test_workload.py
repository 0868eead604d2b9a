"""What people do is a plan of values, drawn from a seed; every kind of it is possible, and really changes something."""

from __future__ import annotations

from collections import Counter

import pytest

from foundation.eventlog.reader import decode_record
from foundation.eventlog.records import FaultInjected
from understudy.simulator import workload
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.randomness import derived
from understudy.simulator.seeds import run_seed
from understudy.simulator.workload import Deed, draw_deeds, run_deeds

DRAWN = [draw_deeds(derived(seed, "deeds"), until_ms=20_000) for seed in range(200)]


def test_a_seed_draws_one_plan() -> None:
    assert draw_deeds(derived(7, "deeds"), until_ms=20_000) == DRAWN[7]
    assert all(0 <= deed.at_ms < 20_000 for deeds in DRAWN for deed in deeds)


def test_every_kind_is_drawn_and_every_run_has_few_of_them() -> None:
    kinds = [{deed.kind for deed in deeds} for deeds in DRAWN]
    assert max(map(len, kinds)) <= 5
    assert set().union(*kinds) == workload.KINDS


@pytest.mark.parametrize("kind", sorted(workload.KINDS))
def test_a_deed_changes_something(kind: str) -> None:
    """On a cluster in peace, where a preferred leader is away and a topic has lost its only replica in sync."""
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
        run_deeds(cluster, tuple(Deed(at_ms=0, kind=kind, draw=draw) for draw in range(3)))
        cluster.run_for(3_000)
        changed = Counter(
            op.path for transaction in cluster.zookeeper.transactions[before:] for op in transaction.writes
        )
        by_hand = [
            record.data for record in map(decode_record, cluster.log_lines) if isinstance(record.data, FaultInjected)
        ]
    assert changed
    assert ("-by-" in kind) == any(struck.fault == "write" for struck in by_hand)


def test_the_plan_of_a_seed_tells_faults_and_deeds_in_order() -> None:
    report = run_seed(5, 12)
    lines = report.plan.splitlines()
    assert len(lines) == len(report.schedule.faults) + len(report.deeds) + 1
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)
