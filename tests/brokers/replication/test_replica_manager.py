"""How a broker takes LeaderAndIsr and StopReplica, partition by partition (specification 15.2, 15.3)."""

from __future__ import annotations

import pytest

from brokers.replication.partition import FollowerState, Role
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.eventlog.fences import Fence
from foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)
from tests.brokers.stage import ME, ORDERS, ORDERS_0, OTHER, THIRD, leader_and_isr, replica_manager, state, tell

OTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAw")


@pytest.mark.spec("BK-4", "BK-6", "BK-8")
def test_told_to_lead_it_leads_with_the_isr_it_was_told() -> None:
    manager, fetchers, _ = replica_manager()
    assert tell(manager, leader_and_isr(state(leader_epoch=4, partition_epoch=7))) == {ORDERS_0: "NONE"}
    partition = manager.partitions[ORDERS_0]
    assert (partition.role, partition.leader_epoch, partition.partition_epoch) == (Role.LEADER, 4, 7)
    assert partition.isr == (ME, OTHER)
    assert partition.topic_id == ORDERS
    assert fetchers.following == {}


@pytest.mark.spec("BK-9")
def test_told_to_follow_it_fetches_and_forgets_the_isr() -> None:
    manager, fetchers, _ = replica_manager()
    assert tell(manager, leader_and_isr(state(leader=OTHER, leader_epoch=4))) == {ORDERS_0: "NONE"}
    assert manager.partitions[ORDERS_0].role is Role.FOLLOWER
    assert manager.partitions[ORDERS_0].isr == ()
    assert fetchers.following == {ORDERS_0: (OTHER, 4)}


@pytest.mark.spec("BK-9", "BUG-20")
@pytest.mark.parametrize("leader", [OTHER, -1])
def test_a_leader_nobody_has_heard_of_is_not_followed_and_the_answer_is_none_all_the_same(leader: int) -> None:
    manager, fetchers, _ = replica_manager()
    request = leader_and_isr(state(leader=leader, leader_epoch=4))
    step = manager.become_leader_or_follower(request, is_alive=lambda broker: broker == ME, now_ms=0.0)
    assert {error.name for error in step.errors.values()} == {"NONE"}
    assert step.leaderless == (ORDERS_0,)
    assert manager.partitions[ORDERS_0].leader_epoch == -1, "the epoch stays old, so that a repetition is heard"
    assert fetchers.following == {}
    assert tell(manager, request) == ({ORDERS_0: "NONE"})


@pytest.mark.spec("BK-6")
@pytest.mark.parametrize(
    ("offered", "replicas", "expected"),
    [
        (6, (ME, OTHER), "NONE"),
        (6, (OTHER, 3), "UNKNOWN_TOPIC_OR_PARTITION"),
        (5, (ME, OTHER), "STALE_CONTROLLER_EPOCH"),
        (4, (ME, OTHER), "STALE_CONTROLLER_EPOCH"),
    ],
)
def test_the_leader_epoch_decides(offered: int, replicas: tuple[int, ...], expected: str) -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    before = manager.partitions[ORDERS_0]
    assert tell(manager, leader_and_isr(state(leader_epoch=offered, replicas=replicas))) == {ORDERS_0: expected}
    assert (manager.partitions[ORDERS_0] == before) == (expected != "NONE")


@pytest.mark.spec("BK-6")
def test_only_an_older_epoch_is_a_hit_of_the_fence_and_the_switch_lets_it_pass() -> None:
    manager, _, recorder = replica_manager(state(leader_epoch=5))
    tell(manager, leader_and_isr(state(leader_epoch=5)))
    assert recorder.of("FenceHit") == []
    tell(manager, leader_and_isr(state(leader_epoch=4)))
    hit = recorder.of("FenceHit")[0]
    assert (hit["fence"], hit["what"], hit["offered"], hit["known"]) == (
        "broker.leader-epoch",
        "LeaderAndIsr orders-0",
        4,
        5,
    )
    unfenced, _, _ = replica_manager(state(leader_epoch=5), switched_off=(Fence.BROKER_LEADER_EPOCH,))
    assert tell(unfenced, leader_and_isr(state(leader_epoch=4))) == {ORDERS_0: "NONE"}
    assert unfenced.partitions[ORDERS_0].leader_epoch == 4


@pytest.mark.spec("BK-5")
def test_a_different_topic_id_is_another_topic() -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    answer = tell(manager, leader_and_isr(state(leader_epoch=9), topic_id=OTHER_ID))
    assert answer == {ORDERS_0: "INCONSISTENT_TOPIC_ID"}


@pytest.mark.spec("BK-6")
@pytest.mark.parametrize(
    ("leader", "known", "offered", "expected"),
    [
        (ME, NO_TOPIC_ID, ORDERS, "NONE"),
        (OTHER, NO_TOPIC_ID, ORDERS, "NONE"),
        (OTHER, ORDERS, NO_TOPIC_ID, "NONE"),
        (ME, ORDERS, NO_TOPIC_ID, "STALE_CONTROLLER_EPOCH"),
        (OTHER, ORDERS, ORDERS, "STALE_CONTROLLER_EPOCH"),
    ],
)
def test_the_same_epoch_can_still_bring_or_drop_a_topic_id(
    leader: int, known: TopicId, offered: TopicId, expected: str
) -> None:
    manager, fetchers, _ = replica_manager(state(leader=leader, leader_epoch=5), topic_id=known)
    assert tell(manager, leader_and_isr(state(leader=leader, leader_epoch=5), topic_id=offered)) == {ORDERS_0: expected}
    assert manager.partitions[ORDERS_0].topic_id == (offered if expected == "NONE" else known)
    assert (ORDERS_0 in fetchers.following) == (leader == OTHER)


@pytest.mark.spec("BK-8", "BK-9")
@pytest.mark.parametrize("leader", [ME, OTHER])
def test_an_older_partition_epoch_changes_nothing_and_is_no_error(leader: int) -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5, partition_epoch=8))
    assert tell(manager, leader_and_isr(state(leader=leader, leader_epoch=6, partition_epoch=7))) == {ORDERS_0: "NONE"}
    assert manager.partitions[ORDERS_0].leader_epoch == 5


@pytest.mark.spec("BK-7", "BK-8")
def test_one_request_can_make_leader_and_follower_and_stops_what_was_fetched() -> None:
    manager, fetchers, _ = replica_manager(state(0, leader=OTHER), state(1))
    swapped = leader_and_isr(state(0, leader=ME, leader_epoch=1), state(1, leader=OTHER, leader_epoch=1))
    step = manager.become_leader_or_follower(swapped, is_alive=lambda broker: True, now_ms=0.0)
    assert [leadership.partition for leadership in step.leaders] == [0]
    assert [leadership.partition for leadership in step.followers] == [1]
    assert fetchers.following == {TopicPartition("orders", 1): (OTHER, 1)}


@pytest.mark.spec("IS-19")
def test_a_recovering_leader_counts_itself_recovered_and_a_follower_keeps_what_it_heard() -> None:
    manager, _, _ = replica_manager(state(0, leader_recovery_state=1), state(1, leader=OTHER, leader_recovery_state=1))
    recovery = {key.partition: partition.leader_recovery_state for key, partition in manager.partitions.items()}
    assert recovery == {0: 0, 1: 1}


@pytest.mark.spec("BK-8")
def test_a_leader_elected_again_keeps_what_it_knows_of_its_followers() -> None:
    manager, _, _ = replica_manager(state())
    manager.followers[ORDERS_0] = {OTHER: FollowerState(0, 10.0, 10.0), 3: FollowerState(0, 10.0, 10.0)}
    tell(manager, leader_and_isr(state(leader_epoch=1, isr=(ME, OTHER))), now_ms=50.0)
    assert manager.followers[ORDERS_0] == {OTHER: FollowerState(0, 50.0, 10.0), 3: FollowerState(0, 0.0, 10.0)}
    tell(manager, leader_and_isr(state(leader=OTHER, leader_epoch=2)))
    assert ORDERS_0 not in manager.followers


def test_old_versions_name_the_topic_in_each_partition() -> None:
    manager, _, _ = replica_manager()
    flat = LeaderAndIsrRequest(
        ungrouped_partition_states=(
            LeaderAndIsrPartitionState(topic_name="a", leader=ME, replicas=(ME,)),
            LeaderAndIsrPartitionState(topic_name="b", leader=ME, replicas=(ME,)),
        )
    )
    assert tell(manager, flat) == {TopicPartition("a", 0): "NONE", TopicPartition("b", 0): "NONE"}


def stop(leader_epoch: int, *, delete: bool = False, partition: int = 0) -> StopReplicaRequest:
    stopped = StopReplicaPartitionState(partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete)
    return StopReplicaRequest(topic_states=(StopReplicaTopicState(topic_name="orders", partition_states=(stopped,)),))


@pytest.mark.spec("BK-14")
@pytest.mark.parametrize(
    ("offered", "expected"),
    [(6, "NONE"), (5, "NONE"), (4, "FENCED_LEADER_EPOCH"), (-1, "NONE"), (-2, "NONE")],
)
def test_stop_replica_is_fenced_by_an_older_leader_epoch_but_not_by_none_or_deletion(
    offered: int, expected: str
) -> None:
    manager, fetchers, recorder = replica_manager(state(leader=OTHER, leader_epoch=5))
    assert manager.stop_replicas(stop(offered)).errors[ORDERS_0].name == expected
    assert (ORDERS_0 in fetchers.following) == (expected != "NONE")
    assert len(recorder.of("FenceHit")) == (expected != "NONE")


@pytest.mark.spec("BK-14", "BK-15")
def test_without_deletion_the_partition_stays_with_it_nothing_does() -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    manager.stop_replicas(stop(5))
    assert ORDERS_0 in manager.partitions
    manager.stop_replicas(stop(-2, delete=True))
    assert ORDERS_0 not in manager.partitions
    assert manager.stop_replicas(stop(5, delete=True)).errors[ORDERS_0].name == "NONE", "not hosted is fine"


@pytest.mark.spec("BK-14")
def test_before_version_3_one_flag_held_for_all() -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    grouped = StopReplicaRequest(
        delete_partitions=True, topics=(StopReplicaTopicV1(name="orders", partition_indexes=(0,)),)
    )
    assert manager.stop_replicas(grouped).accepted == ((ORDERS_0, -1, True),)
    flat = StopReplicaRequest(ungrouped_partitions=(StopReplicaPartitionV0(topic_name="orders", partition_index=3),))
    assert manager.stop_replicas(flat).accepted == ((TopicPartition("orders", 3), -1, False),)


@pytest.mark.spec("RA-11")
def test_a_leader_takes_an_isr_that_is_larger_than_its_assignment() -> None:
    """A move has ended: who is to go is in sync until the controller has taken it out (KAFKA-9672)."""
    moving = state(leader_epoch=5, isr=(ME, OTHER, THIRD), replicas=(ME, THIRD, OTHER))
    manager, _, _ = replica_manager(moving)
    manager.followers[ORDERS_0] = {OTHER: FollowerState(last_caught_up_ms=7), THIRD: FollowerState(last_caught_up_ms=7)}
    moved = state(leader_epoch=6, partition_epoch=1, isr=(ME, OTHER, THIRD), replicas=(ME, THIRD))
    assert tell(manager, leader_and_isr(moved)) == {ORDERS_0: "NONE"}
    partition = manager.partitions[ORDERS_0]
    assert (partition.isr, partition.replicas) == ((ME, OTHER, THIRD), (ME, THIRD))
    assert list(manager.followers[ORDERS_0]) == [THIRD]


@pytest.mark.spec("RA-10", "RA-15")
def test_a_replica_comes_hears_of_itself_twice_and_is_cancelled_as_of_the_epoch_it_came_at() -> None:
    coming = state(leader=OTHER, leader_epoch=5, isr=(OTHER, THIRD), replicas=(ME, OTHER, THIRD))
    manager, fetchers, _ = replica_manager()
    assert tell(manager, leader_and_isr(coming)) == {ORDERS_0: "NONE"}
    assert tell(manager, leader_and_isr(coming)) == {ORDERS_0: "STALE_CONTROLLER_EPOCH"}
    assert fetchers.following == {ORDERS_0: (OTHER, 5)}
    stop = StopReplicaPartitionState(partition_index=0, leader_epoch=5, delete_partition=True)
    topic = StopReplicaTopicState(topic_name="orders", partition_states=(stop,))
    assert manager.stop_replicas(StopReplicaRequest(topic_states=(topic,))).errors == {ORDERS_0: Errors.NONE}
    assert manager.partitions == {}
    assert fetchers.following == {}
