"""Conditions that `ClusterUnderTest.wait_for` waits for: a new controller, a new leader, an ISR, a point reached."""

from __future__ import annotations

from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.testing.cluster_under_test import ClusterUnderTest, Condition
from understudy.foundation.cluster.identifiers import TopicPartition


def controller_change() -> Condition[LocalBroker]:
    """A controller was elected after the last fault that the test injected into a controller, or after the test began.

    It need not be another broker: after `depose` the same broker may win. The wait returns the new controller.
    """

    def evaluate(cluster: ClusterUnderTest) -> LocalBroker | None:
        now = cluster.local.picture()
        if now.controller is None or now.controller_epoch <= cluster.before.controller_epoch:
            return None
        return cluster.broker(now.controller, role="controller")

    return Condition("another controller is elected", evaluate)


def leader_change(topic: str, partition: int = 0) -> Condition[LocalBroker]:
    """Another broker leads the partition than before the last fault that the test injected into its leader.

    Without such a fault, another broker than when the test began. The wait returns the new leader.
    """
    key = TopicPartition(topic, partition)

    def evaluate(cluster: ClusterUnderTest) -> LocalBroker | None:
        leader = cluster.local.leader_id(topic, partition)
        if leader is None or leader == cluster.before.leaders.get(key):
            return None
        return cluster.broker(leader, role=f"leader of {topic}-{partition}")

    return Condition(f"another broker leads {topic}-{partition}", evaluate)


def isr(topic: str, partition: int = 0, *, size: int) -> Condition[tuple[int, ...]]:
    """The ISR of the partition has `size` brokers. The wait returns their ids."""

    def evaluate(cluster: ClusterUnderTest) -> tuple[int, ...] | None:
        found = cluster.local.isr(topic, partition)
        return found if len(found) == size else None

    return Condition(f"the ISR of {topic}-{partition} has size {size}", evaluate)


def point_reached(point: str) -> Condition[LocalBroker]:
    """A broker has paused or crashed at the named point in this test. The wait returns the broker."""

    def evaluate(cluster: ClusterUnderTest) -> LocalBroker | None:
        for fault in cluster.faults():
            if fault.point == point:
                return cluster.broker(int(fault.target.removeprefix("broker-")), role=fault.role)
        return None

    return Condition(f"the controller reaches {point}", evaluate)
