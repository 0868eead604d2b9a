"""Tests of `ControllerContext`: live brokers, replicas, leaders, topic ids, counts."""

from __future__ import annotations

import random
from typing import NoReturn

import pytest

from tests.controller.values import context, ids, led, registered, replicas, tp
from understudy.controller.context import ConflictingTopicId
from understudy.controller.transitions import PartitionState, ReplicaState
from understudy.foundation.cluster.assignment import NO_ASSIGNMENT
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition, random_topic_id
from understudy.foundation.eventlog.records import leadership_digest


@pytest.mark.spec("CX-1")
def test_replica_is_online_if_broker_and_log_directory_are() -> None:
    cluster = context((1, 2, 3))
    cluster.shutting_down_broker_ids.add(BrokerId(2))
    cluster.replicas_on_offline_dirs[BrokerId(1)] = {tp("orders-0")}
    cluster.replicas_on_offline_dirs[BrokerId(3)] = set()
    staying, all_of_them = cluster.online_brokers(), cluster.online_brokers(include_shutting_down_brokers=True)
    assert [staying.of(tp(name)) for name in ("orders-0", "orders-1")] == [{3}, {1, 3}]
    assert [all_of_them.of(tp(name)) for name in ("orders-0", "orders-1")] == [{2, 3}, {1, 2, 3}]


def test_live_brokers_are_sorted() -> None:
    cluster = context((3, 1))
    cluster.add_live_brokers({BrokerId(2): registered(2)})
    cluster.shutting_down_broker_ids.add(BrokerId(3))
    assert list(cluster.live_or_shutting_down_broker_ids) == [1, 2, 3]
    assert list(cluster.live_broker_ids) == [1, 2]
    assert cluster.live_broker_epochs == {1: 101, 2: 102, 3: 103}
    cluster.remove_live_brokers(ids(1, 7))
    assert list(cluster.live_or_shutting_down_broker_ids) == [2, 3]
    assert cluster.broker(BrokerId(1)) is None
    assert cluster.broker_epoch(BrokerId(2)) == 102


def test_updated_broker_metadata_keeps_the_broker_epoch() -> None:
    cluster = context((1,))
    cluster.update_broker_metadata(registered(1, listeners=("PLAINTEXT", "CLIENTS")).broker)
    known = cluster.broker(BrokerId(1))
    assert known is not None
    assert [endpoint.listener for endpoint in known.endpoints] == ["PLAINTEXT", "CLIENTS"]
    assert cluster.broker_epoch(BrokerId(1)) == 101


@pytest.mark.spec("CX-2")
def test_offline_partition_count_excludes_started_deletions() -> None:
    cluster = context(assignments={"a-0": replicas(1), "a-1": replicas(1), "b-0": replicas(1)})
    cluster.partition_states = {
        tp("a-0"): PartitionState.OFFLINE,
        tp("a-1"): PartitionState.ONLINE,
        tp("b-0"): PartitionState.OFFLINE,
    }
    assert cluster.offline_partition_count == 2
    cluster.topics_with_deletion_started.add("b")
    assert cluster.offline_partition_count == 1


@pytest.mark.spec("CX-3")
def test_imbalance_counts_partitions_without_their_preferred_leader() -> None:
    cluster = context(
        assignments={"a-0": replicas(1, 2), "a-1": replicas(1, 2), "a-2": replicas(1, 2), "b-0": replicas(1, 2)},
        leadership={"a-0": led(1, (1, 2)), "a-1": led(2, (1, 2)), "a-2": led(-1, (1,)), "b-0": led(2, (1, 2))},
    )
    assert cluster.preferred_replica_imbalance_count == 3
    cluster.topics_to_be_deleted.add("b")
    assert cluster.preferred_replica_imbalance_count == 2


@pytest.mark.spec("CX-3")
def test_imbalance_during_reassignment_counts_from_when_the_new_replica_is_in_sync() -> None:
    moving = replicas(3, 1, 2, adding=(3,), removing=(1,))
    waiting = context(assignments={"a-0": moving}, leadership={"a-0": led(1, (1, 2))})
    assert waiting.preferred_replica_imbalance_count == 0
    caught_up = context(assignments={"a-0": moving}, leadership={"a-0": led(1, (1, 2, 3))})
    assert caught_up.preferred_replica_imbalance_count == 1


@pytest.mark.spec("CX-3")
def test_imbalance_during_reassignment_counts_partitions_whose_preferred_replica_stays() -> None:
    growing = context(
        assignments={"a-0": replicas(1, 2, 3, adding=(3,)), "a-1": replicas(1, 2, 3, adding=(3,))},
        leadership={"a-0": led(1, (1, 2)), "a-1": led(2, (1, 2))},
    )
    assert growing.preferred_replica_imbalance_count == 1


@pytest.mark.spec("CX-4")
def test_leader_epoch_of_stop_replica() -> None:
    cluster = context(assignments={"a-0": replicas(1), "a-1": replicas(1)}, leadership={"a-0": led(1, (1,), epoch=9)})
    assert cluster.leader_epoch(tp("a-0")) == 9
    assert cluster.leader_epoch(tp("a-1")) == -1
    cluster.topics_to_be_deleted.add("a")
    assert cluster.leader_epoch(tp("a-0")) == cluster.leader_epoch(tp("a-1")) == -2


@pytest.mark.spec("CX-6")
def test_partitions_by_leader() -> None:
    cluster = context(
        (1, 2),
        assignments={
            "a-0": replicas(1, 2),
            "a-1": replicas(3, 1),
            "a-2": replicas(1),
            "a-3": replicas(1, 2),
            "gone-0": replicas(3, 1),
            "gone-1": replicas(1, 2),
        },
        leadership={
            "a-0": led(1, (1, 2)),
            "a-1": led(3, (3, 1)),
            "a-2": led(1, (1,)),
            "gone-0": led(3, (3,)),
            "gone-1": led(1, (1,)),
        },
    )
    cluster.topics_to_be_deleted.add("gone")
    assert cluster.partitions_with_leaders() == [tp("a-0"), tp("a-1"), tp("a-2")]
    assert cluster.partitions_with_offline_leader() == [tp("a-1")]
    assert cluster.partition_leaders_on_broker(BrokerId(1)) == [tp("a-0")]


def test_partitions_by_replica() -> None:
    cluster = context(assignments={"a-0": replicas(2, 1), "a-1": replicas(3, 2)})
    assert cluster.partitions_by_replica() == {1: [tp("a-0")], 2: [tp("a-0"), tp("a-1")], 3: [tp("a-1")]}
    assert list(cluster.partitions_by_replica()) == [1, 2, 3]
    assert cluster.partitions_by_replica(only=ids(3, 9)) == {3: [tp("a-1")]}
    assert cluster.partitions_by_replica([tp("a-0")]) == {1: [tp("a-0")], 2: [tp("a-0")]}


class OnlyLookedUp(dict[TopicPartition, PartitionState]):
    def items(self) -> NoReturn:
        raise AssertionError("a hundred thousand partitions are walked for the few of one topic")


@pytest.mark.spec("PSM-8")
def test_partitions_in_a_state_of_one_topic_do_not_scan_all() -> None:
    cluster = context(assignments={"a-0": replicas(1), "a-1": replicas(1), "a-2": replicas(1), "b-0": replicas(1)})
    states = {tp("a-0"): PartitionState.OFFLINE, tp("a-1"): PartitionState.ONLINE, tp("b-0"): PartitionState.OFFLINE}
    cluster.partition_states = states
    assert cluster.partitions_in(PartitionState.OFFLINE) == [tp("a-0"), tp("b-0")]
    cluster.partition_states = OnlyLookedUp(states)
    assert cluster.partitions_in(PartitionState.OFFLINE, PartitionState.NEW, topic="a") == [tp("a-0")]
    assert cluster.partitions_in(PartitionState.OFFLINE, topic="unknown") == []


@pytest.mark.spec("CX-7", "BUG-11")
def test_remove_topic_removes_all_its_state() -> None:
    cluster = context(assignments={"a-0": replicas(1, 2), "b-0": replicas(1)}, leadership={"a-0": led(1, (1, 2))})
    topic_id = cluster.topic_ids["a"]
    cluster.partition_states = {tp("a-0"): PartitionState.ONLINE, tp("b-0"): PartitionState.NEW}
    cluster.replica_states = {BrokerId(1): {tp("a-0"): ReplicaState.ONLINE, tp("b-0"): ReplicaState.NEW}}
    cluster.replicas_on_offline_dirs = {BrokerId(1): {tp("b-0")}, BrokerId(2): {tp("a-0")}}
    cluster.partitions_being_reassigned.add(tp("a-0"))
    cluster.topics_to_be_deleted.add("a")
    cluster.topics_ineligible_for_deletion.add("a")
    cluster.remove_topic("a")
    assert cluster.all_topics == {"b"}
    assert "a" not in cluster.topic_ids
    assert topic_id not in cluster.topic_names
    assert cluster.partitions_for_topic("a") == ()
    assert cluster.partition_assignment(tp("a-0")) == NO_ASSIGNMENT
    assert cluster.leadership == {}
    assert cluster.partition_states == {tp("b-0"): PartitionState.NEW}
    assert cluster.replica_states == {1: {tp("b-0"): ReplicaState.NEW}}
    assert cluster.replicas_on_offline_dirs == {1: {tp("b-0")}, 2: set()}, (
        "a successor of the same name has other replicas"
    )
    assert (
        not cluster.partitions_being_reassigned | cluster.topics_to_be_deleted | cluster.topics_ineligible_for_deletion
    )


def test_topic_ids_are_unique_and_immutable() -> None:
    cluster = context(assignments={"a-0": replicas(1), "b-0": replicas(1)})
    known, fresh = cluster.topic_ids["a"], random_topic_id(random.Random(7))
    cluster.add_topic_id("a", known)
    with pytest.raises(ConflictingTopicId, match=f"'a' cannot take the id {fresh}: it is known with id {known}"):
        cluster.add_topic_id("a", fresh)
    with pytest.raises(ConflictingTopicId, match="belongs to a"):
        cluster.add_topic_id("b", known)
    with pytest.raises(ConflictingTopicId, match="'unknown'"):
        cluster.add_topic_id("unknown", fresh)


@pytest.mark.spec("C6")
def test_leadership_digest_is_that_of_the_event_log() -> None:
    cluster = context(
        assignments={"b-0": replicas(1), "a-10": replicas(1), "a-9": replicas(1)},
        leadership={"b-0": led(1, (1,)), "a-10": led(-1, (2, 1), epoch=3, version=5), "a-9": led(2, (2,))},
    )
    assert cluster.leadership_digest() == leadership_digest(
        [("a", 9, 2, 0, (2,), 0), ("a", 10, -1, 3, (2, 1), 5), ("b", 0, 1, 0, (1,), 0)]
    )
