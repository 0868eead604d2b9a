"""Short constructors for the values in these tests."""

from __future__ import annotations

from understudy.clusters.simulated.randomness import derived
from understudy.controller.context import ControllerContext
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch, EndPoint, SecurityProtocol
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition, random_topic_id
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch, LeaderRecoveryState

EPOCH = 4


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


def tp(name: str) -> TopicPartition:
    """`orders-3` as a partition."""
    topic, _, partition = name.rpartition("-")
    return TopicPartition(topic, int(partition))


def replicas(*brokers: int, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()) -> ReplicaAssignment:
    return ReplicaAssignment(ids(*brokers), ids(*adding), ids(*removing))


def state(
    leader: int, isr: tuple[int, ...], *, epoch: int = 0, version: int = 0, recovering: bool = False
) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), epoch, ids(*isr), LeaderRecoveryState(recovering), version)


def led(
    leader: int, isr: tuple[int, ...], *, epoch: int = 0, version: int = 0, by: int = EPOCH
) -> LeaderIsrAndControllerEpoch:
    return LeaderIsrAndControllerEpoch(state(leader, isr, epoch=epoch, version=version), by)


def registered(broker: int, *, epoch: int | None = None, listeners: tuple[str, ...] = ("PLAINTEXT",)) -> BrokerAndEpoch:
    endpoints = tuple(EndPoint(name, SecurityProtocol.PLAINTEXT, f"broker-{broker}", 9092) for name in listeners)
    return BrokerAndEpoch(Broker(id=BrokerId(broker), endpoints=endpoints), 100 + broker if epoch is None else epoch)


def context(
    brokers: tuple[int, ...] = (1, 2, 3),
    assignments: dict[str, ReplicaAssignment] | None = None,
    leadership: dict[str, LeaderIsrAndControllerEpoch] | None = None,
) -> ControllerContext:
    """A context at controller epoch 4, with topic ids for all topics named."""
    made = ControllerContext(epoch=EPOCH, epoch_zk_version=EPOCH)
    made.add_live_brokers({BrokerId(broker): registered(broker) for broker in brokers})
    for name, assignment in (assignments or {}).items():
        partition = tp(name)
        if partition.topic not in made.all_topics:
            made.all_topics.add(partition.topic)
            made.add_topic_id(partition.topic, random_topic_id(derived(1, partition.topic)))
        made.update_partition_assignment(partition, assignment)
    made.put_leadership({tp(name): known for name, known in (leadership or {}).items()})
    return made
