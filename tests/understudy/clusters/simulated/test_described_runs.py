"""The record `RunDescribed` of a simulated run."""

from __future__ import annotations

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.software import software_version
from understudy.foundation.eventlog.records import ProcessStarted, RunDescribed
from understudy.history.reading.lines import decode_record


def described(cluster: SimulatedCluster) -> RunDescribed:
    with cluster:
        (record,) = (data for data in map(_data, cluster.log_lines) if isinstance(data, RunDescribed))
    return record


def _data(line: bytes) -> object:
    return decode_record(line).data


def test_it_follows_the_start_of_the_simulator_and_keeps_what_the_experiment_knows() -> None:
    plan = RunDescribed(partitions=12, fault="pause", software_commit="abc")
    with SimulatedCluster(7, brokers=5, run_id="my-run", described=plan) as cluster:
        started, record = map(decode_record, cluster.log_lines[:2])
    assert started.data == ProcessStarted(
        role="simulator", software="understudy", machine="simulator", boot="simulation", has_testbed=True
    )
    assert (record.run, record.node, record.seq) == ("my-run", "simulator", 2)
    assert record.data == RunDescribed(
        world="simulator",
        brokers=5,
        partitions=12,
        session_timeout_ms=6000,
        seed=7,
        fault="pause",
        software_version=software_version(),
        software_commit="abc",
    )


def test_it_has_no_session_timeout_where_those_of_the_brokers_differ() -> None:
    own = [{"zookeeper.session.timeout.ms": value} for value in ("4000", "6000", "6000")]
    assert described(SimulatedCluster(7, own_settings=own)).session_timeout_ms is None
    settings = {"zookeeper.session.timeout.ms": "4000"}
    assert described(SimulatedCluster(7, settings=settings)).session_timeout_ms == 4000
