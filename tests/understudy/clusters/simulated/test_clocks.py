"""The monotonic clocks of simulated nodes: shared, or of their own."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from understudy.clusters.simulated.clocks import LARGEST_DRIFT, SHARED_BOOT, own_boot
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import Envelope, LogSeen, ProcessExiting, ProcessStarted

NODES = [f"broker-{number}" for number in range(1, 6)]


@pytest.mark.parametrize("seed", range(20))
def test_a_clock_of_its_own_runs_monotonically_and_at_one_speed(seed: int) -> None:
    boot = own_boot(seed, "broker-1", 1, 5_000.0)
    shown = [round(boot.monotonic_ms(5_000.0 + step / 1_000), 3) for step in range(2_000)]
    assert shown == sorted(shown)
    for passed_ms in (1.0, 30_000.0, 86_400_000.0):
        measured_ms = boot.monotonic_ms(5_000.0 + passed_ms) - boot.monotonic_ms(5_000.0)
        assert measured_ms / passed_ms == pytest.approx(boot.rate, abs=1e-6)
    assert abs(boot.rate - 1.0) <= LARGEST_DRIFT


def test_nodes_and_boots_have_different_clocks_and_a_machine_keeps_its_drift() -> None:
    first, again = ([own_boot(7, node, number, 0.0) for node in NODES] for number in (1, 2))
    assert len({boot.text for boot in (*first, *again)}) == len({boot.clock_ms for boot in (*first, *again)}) == 10
    assert [boot.rate for boot in first] == [boot.rate for boot in again]
    assert len({boot.rate for boot in first}) == 5
    assert first == [own_boot(7, node, 1, 0.0) for node in NODES]


def run(*, own_clocks: bool) -> Sequence[Envelope]:
    """A run with a failover, and a broker that loses power and returns."""
    with SimulatedCluster(11, own_clocks=own_clocks) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        fallen = cluster.controller()
        fallen.lose_power()
        cluster.settle()
        fallen.start()
        cluster.settle()
    return cluster.records()


def without_clocks(records: Sequence[Envelope]) -> list[Envelope]:
    return [
        msgspec.structs.replace(
            record,
            mono_ms=0.0,
            data=msgspec.structs.replace(record.data, boot="")
            if isinstance(record.data, ProcessStarted)
            else record.data,
        )
        for record in records
    ]


def test_clocks_of_their_own_change_only_times_and_boots_in_the_event_log() -> None:
    shared, own = run(own_clocks=False), run(own_clocks=True)
    assert without_clocks(own) == without_clocks(shared)
    assert {record.data.boot for record in shared if isinstance(record.data, ProcessStarted)} == {SHARED_BOOT.text}
    boots = [record.data.boot for record in own if isinstance(record.data, ProcessStarted)]
    assert len(boots) == len(set(boots)) == 5, "three brokers, the simulator, and a second boot"
    at = {record.node: record.mono_ms for record in own}
    assert len({round(ms / 1_000) for ms in at.values()}) == 4


def test_each_process_begins_with_the_end_of_the_log_before_and_the_run_ends_with_the_ends_of_all_logs() -> None:
    records = run(own_clocks=False)
    last = {(record.node, record.incarnation): record.seq for record in records}
    firsts = [record for record in records if record.seq == 1]
    assert len(firsts) == 5
    for first in firsts:
        assert isinstance(first.data, ProcessStarted)
        assert first.data.machine == first.node
        assert first.data.after_seq == last.get((first.node, first.incarnation - 1), 0)
        assert first.data.has_testbed
    *seen, exiting = (record for record in records[-4:])
    incarnations = {node: max(number for name, number in last if name == node) for node, _ in last}
    assert [record.data for record in seen] == [
        LogSeen(node=node, incarnation=incarnations[node], seq=last[node, incarnations[node]]) for node in NODES[:3]
    ]
    assert exiting.data == ProcessExiting(reason="the run has ended")
    assert {record.node for record in records[-4:]} == {"simulator"}
