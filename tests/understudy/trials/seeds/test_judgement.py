"""`judge`: the problems of a finished simulation."""

from __future__ import annotations

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.foundation.eventlog.records import TaskFailed
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.judgement import judge


def test_a_failed_task_is_a_problem_although_its_broker_runs_on() -> None:
    """A session callback or config handler that raises is logged, as in Kafka; in a simulation it is a bug."""
    with SimulatedCluster(seed=3, brokers=1) as cluster:
        cluster.start()
        events = cluster.broker(1).node.events
        assert events is not None
        events.append(TaskFailed(task="session handler KafkaController", error="ValueError: no"))
        assert not cluster.exits
    assert judge(cluster).problems == ("broker-1: session handler KafkaController failed: ValueError: no",)


def test_records_are_those_of_the_lines_that_have_been_written() -> None:
    with SimulatedCluster(seed=3, brokers=1) as cluster:
        first = list(cluster.records())
        cluster.start()
        records = cluster.records()
        assert records[: len(first)] == first
        assert list(records) == [decode_record(line) for line in cluster.log_lines]
        assert cluster.records() is records
