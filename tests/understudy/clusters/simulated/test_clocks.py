"""The monotonic clocks of simulated nodes: shared, or of their own."""

from __future__ import annotations

import msgspec
import pytest

from understudy.clusters.simulated.clocks import LARGEST_DRIFT, SHARED_BOOT, own_boot
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import Envelope, LogSeen, ProcessExiting, ProcessStarted
from understudy.history.reading.lines import decode_record

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


def run(*, own_clocks: bool) -> SimulatedCluster:
    """A run with a failover, and a broker that loses power and returns."""
    with SimulatedCluster(11, own_clocks=own_clocks) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        fallen = cluster.controller()
        fallen.lose_power()
        cluster.settle()
        fallen.start()
        cluster.settle()
    return cluster


def logged(cluster: SimulatedCluster) -> list[Envelope]:
    return [decode_record(line) for line in cluster.log_lines]


def boots_of(records: list[Envelope]) -> list[str]:
    return [record.data.boot for record in records if isinstance(record.data, ProcessStarted)]


def without_clocks(record: Envelope) -> Envelope:
    data = record.data
    if isinstance(data, ProcessStarted):
        data = msgspec.structs.replace(data, boot="")
    return msgspec.structs.replace(record, mono_ms=0.0, data=data)


def test_clocks_of_their_own_change_only_times_and_boots_in_the_event_log() -> None:
    shared, own = logged(run(own_clocks=False)), logged(run(own_clocks=True))
    assert list(map(without_clocks, own)) == list(map(without_clocks, shared))
    assert set(boots_of(shared)) == {SHARED_BOOT.text}
    assert len(boots_of(own)) == len(set(boots_of(own))) == 5, "three brokers, the simulator, and a second boot"
    last_ms = {record.node: record.mono_ms for record in own}
    assert len({round(ms / 1_000) for ms in last_ms.values()}) == 4


def test_records_of_a_cluster_have_the_virtual_time_whichever_clock_the_event_log_has() -> None:
    shared, own = run(own_clocks=False), run(own_clocks=True)
    true_ms = [record.mono_ms for record in shared.records()]
    assert [record.mono_ms for record in own.records()] == pytest.approx(true_ms, abs=0.002)


def test_each_process_begins_with_the_end_of_the_log_before_and_the_run_ends_with_the_ends_of_all_logs() -> None:
    records = logged(run(own_clocks=False))
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
