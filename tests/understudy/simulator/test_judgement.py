"""`judge`: the problems of a finished simulation."""

from __future__ import annotations

from foundation.eventlog.records import TaskFailed
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge


def test_a_failed_task_is_a_problem_although_its_broker_runs_on() -> None:
    """A session callback or config handler that raises is logged, as in Kafka; in a simulation it is a bug."""
    with SimulatedCluster(seed=3, brokers=1) as cluster:
        cluster.start()
        events = cluster.broker(1).node.events
        assert events is not None
        events.append(TaskFailed(task="session handler KafkaController", error="ValueError: no"))
        assert not cluster.exits
    assert judge(cluster).problems == ("broker-1: session handler KafkaController failed: ValueError: no",)
