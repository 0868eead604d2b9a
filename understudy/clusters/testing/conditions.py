"""Conditions that `wait_for` of a cluster under test waits for: a new controller, a new leader, an ISR, a point."""

from __future__ import annotations

from understudy.clusters.testing.cluster_under_test import BrokerCondition, Condition, Observed
from understudy.foundation.cluster.identifiers import TopicPartition


def controller_change() -> BrokerCondition:
    """A controller was elected after the last fault that the test injected into a controller, or after the test began.

    It need not be another broker: after `depose` the same broker may win. The wait returns the new controller.
    """

    def find(cluster: Observed) -> tuple[int, str] | None:
        now = cluster.picture()
        if now.controller is None or now.controller_epoch <= cluster.before.controller_epoch:
            return None
        return now.controller, "controller"

    return BrokerCondition("another controller is elected", find)


def leader_change(topic: str, partition: int = 0) -> BrokerCondition:
    """Another broker leads the partition than before the last fault that the test injected into its leader.

    Without such a fault, another broker than when the test began. The wait returns the new leader.
    """
    key = TopicPartition(topic, partition)

    def find(cluster: Observed) -> tuple[int, str] | None:
        found = cluster.picture().partitions.get(key)
        leader = -1 if found is None or found.state is None else found.state.leader_and_isr.leader
        if leader < 0 or leader == cluster.before.leaders.get(key):
            return None
        return leader, f"leader of {topic}-{partition}"

    return BrokerCondition(f"another broker leads {topic}-{partition}", find)


def isr(topic: str, partition: int = 0, *, size: int) -> Condition[tuple[int, ...]]:
    """The ISR of the partition has `size` brokers. The wait returns their ids."""
    key = TopicPartition(topic, partition)

    def evaluate(cluster: Observed) -> tuple[int, ...] | None:
        found = cluster.picture().partitions.get(key)
        brokers = () if found is None or found.state is None else tuple(map(int, found.state.leader_and_isr.isr))
        return brokers if len(brokers) == size else None

    return Condition(f"the ISR of {topic}-{partition} has size {size}", evaluate)


def point_reached(point: str) -> BrokerCondition:
    """A broker has paused or crashed at the named point in this test. The wait returns the broker."""

    def find(cluster: Observed) -> tuple[int, str] | None:
        for fault in cluster.faults():
            if fault.point == point:
                return int(fault.target.removeprefix("broker-")), fault.role
        return None

    return BrokerCondition(f"the controller reaches {point}", find)
