"""Conditions that `wait_for` of a cluster under test waits for: a new controller, a new leader, an ISR, a point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from understudy.clusters.picture import ClusterPicture
from understudy.clusters.testing.faults import RecordedFault
from understudy.foundation.cluster.identifiers import TopicPartition

T = TypeVar("T")


class Before(msgspec.Struct):
    """The roles that conditions compare with: before the last fault into the role's holder, or at the test's start."""

    controller_epoch: int = 0
    leaders: dict[TopicPartition, int] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, now: ClusterPicture) -> Before:
        """The roles in the state of a cluster."""
        leaders = {key: found.state.leader_and_isr.leader for key, found in now.partitions.items() if found.state}
        return cls(now.controller_epoch, {key: int(leader) for key, leader in leaders.items()})

    def note_roles(self, broker_id: int, now: ClusterPicture) -> None:
        """Note the roles that a broker has now."""
        if now.controller == broker_id:
            self.controller_epoch = now.controller_epoch
        for key, partition in now.partitions.items():
            if partition.state is not None and partition.state.leader_and_isr.leader == broker_id:
                self.leaders[key] = broker_id


class Condition(msgspec.Struct, Generic[T], frozen=True):
    """Something that becomes true of a cluster.

    Attributes:
        what: the condition in words, for the message of a wait that timed out.
        evaluate: returns what `wait_for` returns, or None while the condition is not true.
    """

    what: str
    evaluate: Callable[[Any], T | None]


class Observed(Protocol):
    """What conditions read of a cluster under test, on processes or in virtual time."""

    @property
    def before(self) -> Before: ...

    def picture(self) -> ClusterPicture:
        """Read the state of the cluster in ZooKeeper now."""

    def faults(self) -> tuple[RecordedFault, ...]:
        """The faults that the event logs record for this test, in order of time."""


class BrokerCondition(msgspec.Struct, frozen=True):
    """A condition that finds a broker, which `wait_for` returns.

    Attributes:
        what: as in `Condition`.
        find: returns the id and the role of the broker, or None while there is none.
    """

    what: str
    find: Callable[[Observed], tuple[int, str] | None]


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
