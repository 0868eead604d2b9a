"""Tools for tests of a Kafka client: a small cluster of real brokers, its faults, and conditions to wait for.

    from understudy.testing import ClusterUnderTest, controller_change

    with ClusterUnderTest(brokers=3, topics={"orders": 3}) as cluster:
        cluster.controller.kill()
        cluster.wait_for(controller_change())

`understudy.pytest_plugin` gives the same class to tests as the fixture `understudy_cluster`.
"""

from __future__ import annotations

from understudy.clusters.answers import AnswerHandle
from understudy.clusters.cluster import ClusterError, Unsettled, Unsupported, WaitTimedOut
from understudy.clusters.processes.local_broker import LocalBroker as BrokerUnderTest
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest, Condition
from understudy.clusters.testing.conditions import controller_change, isr, leader_change, point_reached
from understudy.clusters.testing.faults import RecordedFault
from understudy.testing.simulated_tests.decorator import simulated

__all__ = [
    "AnswerHandle",
    "BrokerUnderTest",
    "ClusterError",
    "ClusterUnderTest",
    "Condition",
    "RecordedFault",
    "Unsettled",
    "Unsupported",
    "WaitTimedOut",
    "controller_change",
    "isr",
    "leader_change",
    "point_reached",
    "simulated",
]
