"""The figures of brokers with clocks of their own are the figures of one clock, within their stated uncertainty.

Each broker runs in a Linux time namespace, so that its monotonic clock is ahead of the machine's by a known time. What
one clock would have given follows by subtraction. This alone sees real processes, a real ZooKeeper and real latencies.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.durability.own_clocks import ClusterOfClocks, on_one_clock
from tests.durability.time_namespace import why_not
from tests.shares import only_nightly, share_of
from tests.simulation.own_clocks import wrong_figures, wrong_times
from understudy.brokers.machine.injected_faults import ClockFault, MachineFaults
from understudy.history.reading.reader import read
from understudy.history.report.replay import replay_in_python

ROUNDS = share_of("clock-rounds")
_HOURS_MS = 3 * 3_600_000

pytestmark = [pytest.mark.timeout(120 + 30 * ROUNDS), pytest.mark.skipif(bool(why_not()), reason=why_not())]


@only_nightly("clock-rounds")
def test_figures_of_brokers_with_clocks_of_their_own_are_those_of_one_clock(tmp_path: Path) -> None:
    """In each round the controller is killed. Every second time its machine is started again, with another clock, and
    the wall clock of another broker is hours ahead from the middle on.
    """
    cluster = ClusterOfClocks(tmp_path / "run")
    with cluster:
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        cluster.settle()
        for number in range(ROUNDS):
            killed = cluster.controller()
            killed.kill()
            cluster.wait_until(partial(_has_other_controller, cluster, killed.id), "another broker is controller")
            cluster.settle()
            if number % 2:
                cluster.clock(killed.id).ahead_s += 1_000
            killed.start()
            if number == ROUNDS // 2:
                cluster.clock(killed.id).set_faults(MachineFaults(clock=ClockFault(offset_ms=_HOURS_MS)))
            cluster.settle()
        ahead_s = cluster.ahead_s()
        cluster.stop()
    on_one_clock(tmp_path / "run", ahead_s, tmp_path / "one")
    one, own = (read([tmp_path / name]) for name in ("one", "run"))
    (run,) = one.clocks
    (expected,), (metrics,) = (replay_in_python([tmp_path / name]).runs for name in ("one", "run"))
    worst_ms = max(failover.outage_within_ms or 0.0 for failover in metrics.failovers)
    print(f"{len(metrics.failovers)} failovers on {len(own.clocks[run].clocks)} clocks, at worst ± {worst_ms:,.1f} ms")
    assert len(metrics.failovers) == ROUNDS
    assert metrics.missing == ()
    assert [*wrong_times(one.records, own.records, own.clocks[run])] == []
    assert [*wrong_figures(expected, metrics)] == []


def _has_other_controller(cluster: ClusterOfClocks, broker_id: int) -> bool:
    return cluster.controller_id() not in (None, broker_id)
