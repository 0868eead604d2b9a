"""The image of the cluster after each batch, and the reasons for which the controller wrote partition states."""

from __future__ import annotations

import pytest

from tests.understudy.history.kraft_logs.metadata_logs import ORDERS, change, incarnation
from understudy.foundation.wire.messages.cluster_metadata import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from understudy.foundation.wire.schema import Message
from understudy.history.kraft_logs.cluster_image import NOTHING_CHANGED, WITHOUT_BASE, ClusterImage

PARTITION = PartitionRecord(
    partition_id=0, topic_id=ORDERS, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=4, partition_epoch=7
)
FENCED_1 = BrokerRegistrationChangeRecord(broker_id=1, fenced=1)
LEAVING_1 = BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1)


def image(*brokers: int, partition: PartitionRecord = PARTITION) -> ClusterImage:
    """Brokers that are not fenced, and `orders-0`."""
    made = ClusterImage()
    for broker in brokers or (1, 2, 3):
        registered = RegisterBrokerRecord(broker_id=broker, broker_epoch=broker, incarnation_id=incarnation(broker))
        made.apply([registered])
        made.apply([BrokerRegistrationChangeRecord(broker_id=broker, fenced=-1)])
    made.apply([TopicRecord(name="orders", topic_id=ORDERS), partition])
    return made


@pytest.mark.parametrize(
    ("records", "why"),
    [
        ([change(0, leader=2, isr=(2, 3)), FENCED_1], "offline"),
        ([change(0, leader=2, isr=(2, 3)), FenceBrokerRecord(id=1)], "offline"),
        ([change(0, leader=2, isr=(2, 3)), UnregisterBrokerRecord(broker_id=1)], "offline"),
        ([RegisterBrokerRecord(broker_id=1, broker_epoch=9), change(0, leader=2, isr=(2, 3))], "offline"),
        ([change(0, leader=-1, isr=(1,)), FENCED_1], "offline"),
        ([LEAVING_1, change(0, leader=2, isr=(2, 3))], "controlled-shutdown"),
        ([change(0, leader=2, isr=(2,), leader_recovery_state=1), FENCED_1], "unclean"),
        ([change(0, leader=2)], ""),
        ([change(0, leader=2, replicas=(2, 3), isr=(2, 3))], "reassignment"),
        ([change(0, leader=2, adding_replicas=(4,), replicas=(1, 2, 3, 4))], "reassignment"),
        ([change(0, adding_replicas=(4,), replicas=(1, 2, 3, 4))], "reassignment"),
        ([change(0, leader=1)], "reassignment"),
        ([change(0, isr=(1, 2))], "alter-partition"),
        ([change(0, leader=1, isr=(1, 2))], "alter-partition"),
        ([change(0, isr=(1, 2)), BrokerRegistrationChangeRecord(broker_id=3, fenced=1)], "isr-removal"),
        ([BrokerRegistrationChangeRecord(broker_id=3, in_controlled_shutdown=1), change(0, isr=(1, 2))], "isr-removal"),
    ],
)
def test_the_reason_follows_from_the_states_and_the_brokers(records: list[Message], why: str) -> None:
    (written,) = image().apply(records).states
    assert (written.topic, written.partition, written.why) == ("orders", 0, why)


def test_other_reasons() -> None:
    (created,) = ClusterImage().apply([TopicRecord(name="orders", topic_id=ORDERS), PARTITION]).states
    assert created.why == "initialise"
    second = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=(1, 2), isr=(1, 2), leader=2, leader_epoch=1, partition_epoch=1
    )
    (preferred,) = image(partition=second).apply([change(0, leader=1)]).states
    assert preferred.why == "preferred"
    alone = PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=(1, 2), isr=(1,), leader=-1)
    (back,) = (
        image(2, partition=alone)
        .apply([BrokerRegistrationChangeRecord(broker_id=1, fenced=-1), change(0, leader=1)])
        .states
    )
    assert back.why == "offline"


def test_a_leader_that_is_lost_while_it_recovers_is_no_unclean_election() -> None:
    recovering = PartitionRecord(
        partition_id=0, topic_id=ORDERS, replicas=(1, 2), isr=(1,), leader=1, leader_recovery_state=1
    )
    made = image(1, 2, partition=recovering)
    (lost,) = made.apply([change(0, leader=-1), FENCED_1]).states
    assert (lost.why, lost.state.recovery_state) == ("offline", 1)
    (clean,) = made.apply([UnfenceBrokerRecord(id=1), change(0, leader=1)]).states
    assert clean.why == "offline"
    made.apply([change(0, leader=-1), FENCED_1])
    (again,) = made.apply([change(0, leader=2, isr=(2,))]).states
    assert again.why == "unclean"
    (recovered,) = made.apply([change(0, leader_recovery_state=0)]).states
    assert (recovered.why, recovered.state.recovery_state) == ("alter-partition", 0)


def test_epochs_of_a_partition() -> None:
    """A change that names a leader raises the leader epoch, also the same leader; every change the partition epoch."""
    made = image()
    states = [made.apply([record]).states[0].state for record in (change(0, isr=(1, 2)), change(0, leader=1, isr=(1,)))]
    assert [(state.leader_epoch, state.partition_epoch) for state in states] == [(4, 8), (5, 9)]
    assert made.leaderships(12)[0].controller_epoch == 12


def test_a_change_of_directories_alone_is_left_out() -> None:
    made = image()
    changes = made.apply([change(0, directories=(ORDERS, ORDERS, ORDERS))])
    assert changes.states == []
    assert changes.left_out == [NOTHING_CHANGED]
    assert made.partitions[ORDERS][0].partition_epoch == 8


def test_a_change_without_its_partition_is_left_out() -> None:
    assert ClusterImage().apply([change(0, leader=2)]).left_out == [WITHOUT_BASE]


def test_brokers_are_live_while_they_are_not_fenced() -> None:
    made = image(1, 2)
    assert made.live == {1: 1, 2: 2}
    changes = made.apply([FENCED_1])
    assert (changes.live_before, changes.live) == ({1: 1, 2: 2}, {2: 2})
    changes = made.apply([RegisterBrokerRecord(broker_id=1, broker_epoch=20), UnfenceBrokerRecord(id=1)])
    assert (changes.registered, changes.live) == ([(1, 20)], {1: 20, 2: 2})
    assert made.apply([RegisterBrokerRecord(broker_id=1, broker_epoch=20, fenced=False)]).registered == []
    changes = made.apply([LEAVING_1])
    assert (changes.shutting_down, changes.live) == ([1], {1: 20, 2: 2})
    assert made.apply([FENCED_1]).shutting_down == [1]


def test_topics_and_features() -> None:
    made = image()
    changes = made.apply(
        [RemoveTopicRecord(topic_id=ORDERS), FeatureLevelRecord(name="metadata.version", feature_level=21)]
    )
    assert changes.deleted_topics == ["orders"]
    assert not made.leaderships(1)
    assert made.features == {"metadata.version": 21}
