from __future__ import annotations

from foundation.eventlog.records import TaskFailed
from understudy.simulator.cluster import SimulatedCluster
from understudy.simulator.judgement import judge


def test_a_failed_task_is_a_problem_although_its_broker_goes_on() -> None:
    """Session callbacks and config handlers that raise are logged as in Kafka; in a simulation they are bugs."""
    with SimulatedCluster(seed=3, brokers=1) as cluster:
        cluster.start()
        events = cluster.broker(1).node.events
        assert events is not None
        events.append(TaskFailed(task="session handler KafkaController", error="ValueError: no"))
        assert not cluster.exits
    assert judge(cluster).problems == ("broker-1: session handler KafkaController failed: ValueError: no",)
