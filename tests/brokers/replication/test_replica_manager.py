"""Tests of `ReplicaManager`: how LeaderAndIsr and StopReplica are applied to each partition."""

from __future__ import annotations

import pytest

from tests.brokers.log.parts import log_with
from tests.brokers.parts import (
    ME,
    ORDERS,
    ORDERS_0,
    OTHER,
    THIRD,
    LogsInMemory,
    apply_leader_and_isr,
    leader_and_isr,
    replica_manager,
    state,
)
from understudy.brokers.replication.leader_and_isr_step import requested_states
from understudy.brokers.replication.partition import FollowerState, Role
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.rules import Fix
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaPartitionV0,
    StopReplicaRequest,
    StopReplicaTopicState,
    StopReplicaTopicV1,
)

OTHER_ID = TopicId("AAAAAAAAAAAAAAAAAAAAAw")


@pytest.mark.spec("BK-4", "BK-6", "BK-8")
def test_leader_takes_epochs_and_isr_of_the_request() -> None:
    manager, fetchers, _ = replica_manager()
    assert apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=4, partition_epoch=7))) == {ORDERS_0: "NONE"}
    partition = manager.partitions[ORDERS_0].state
    assert (partition.role, partition.leader_epoch, partition.partition_epoch) == (Role.LEADER, 4, 7)
    assert partition.isr == (ME, OTHER)
    assert partition.topic_id == ORDERS
    assert fetchers.following == {}


@pytest.mark.spec("BK-9")
def test_follower_fetches_and_keeps_no_isr() -> None:
    manager, fetchers, _ = replica_manager()
    assert apply_leader_and_isr(manager, leader_and_isr(state(leader=OTHER, leader_epoch=4))) == {ORDERS_0: "NONE"}
    follower = manager.partitions[ORDERS_0].state
    assert (follower.role, follower.isr) == (Role.FOLLOWER, ())
    assert fetchers.following == {ORDERS_0: (OTHER, 4)}


@pytest.mark.spec("BK-9", "BUG-20")
@pytest.mark.parametrize("leader", [OTHER, -1])
def test_leader_that_is_not_alive_is_not_followed_and_the_response_has_no_error(leader: int) -> None:
    manager, fetchers, _ = replica_manager()
    request = leader_and_isr(state(leader=leader, leader_epoch=4))
    step = manager.become_leader_or_follower(
        requested_states(request), is_alive=lambda broker: broker == ME, now_ms=0.0
    )
    assert {error.name for error in step.errors.values()} == {"NONE"}
    assert step.leaderless == (ORDERS_0,)
    assert manager.partitions[ORDERS_0].leader_epoch == -1, "the old epoch stays, so that the request can be repeated"
    assert fetchers.following == {}
    assert apply_leader_and_isr(manager, request) == ({ORDERS_0: "NONE"})


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
def test_leader_epoch_decides_whether_a_state_is_applied(
    offered: int, replicas: tuple[int, ...], expected: str
) -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    before = manager.partitions[ORDERS_0].state
    assert apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=offered, replicas=replicas))) == {
        ORDERS_0: expected
    }
    assert (manager.partitions[ORDERS_0].state == before) == (expected != "NONE")


@pytest.mark.spec("BK-6")
def test_only_an_older_leader_epoch_hits_the_fence_and_passes_where_the_fence_is_off() -> None:
    manager, _, recorder = replica_manager(state(leader_epoch=5))
    apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=5)))
    assert recorder.of("FenceHit") == []
    apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=4)))
    hit = recorder.of("FenceHit")[0]
    assert (hit["fence"], hit["what"], hit["offered"], hit["known"]) == (
        "broker.leader-epoch",
        "LeaderAndIsr orders-0",
        4,
        5,
    )
    unfenced, _, _ = replica_manager(state(leader_epoch=5), switched_off=(Fence.BROKER_LEADER_EPOCH,))
    assert apply_leader_and_isr(unfenced, leader_and_isr(state(leader_epoch=4))) == {ORDERS_0: "NONE"}
    assert unfenced.partitions[ORDERS_0].leader_epoch == 4


@pytest.mark.spec("BK-5")
def test_different_topic_id_is_refused() -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    answer = apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=9), topic_id=OTHER_ID))
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
def test_equal_leader_epoch_can_add_or_remove_a_topic_id(
    leader: int, known: TopicId, offered: TopicId, expected: str
) -> None:
    manager, fetchers, _ = replica_manager(state(leader=leader, leader_epoch=5), topic_id=known)
    assert apply_leader_and_isr(manager, leader_and_isr(state(leader=leader, leader_epoch=5), topic_id=offered)) == {
        ORDERS_0: expected
    }
    assert manager.partitions[ORDERS_0].topic_id == (offered if expected == "NONE" else known)
    assert (ORDERS_0 in fetchers.following) == (leader == OTHER)


@pytest.mark.spec("BK-8", "BK-9")
@pytest.mark.parametrize("leader", [ME, OTHER])
def test_older_partition_epoch_changes_nothing_and_is_no_error(leader: int) -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5, partition_epoch=8))
    assert apply_leader_and_isr(manager, leader_and_isr(state(leader=leader, leader_epoch=6, partition_epoch=7))) == {
        ORDERS_0: "NONE"
    }
    assert manager.partitions[ORDERS_0].leader_epoch == 5


@pytest.mark.spec("BK-7", "BK-8")
def test_one_request_makes_a_leader_and_a_follower_and_ends_the_fetching_of_the_leader() -> None:
    manager, fetchers, _ = replica_manager(state(0, leader=OTHER), state(1))
    swapped = leader_and_isr(state(0, leader=ME, leader_epoch=1), state(1, leader=OTHER, leader_epoch=1))
    step = manager.become_leader_or_follower(requested_states(swapped), is_alive=lambda broker: True, now_ms=0.0)
    assert [leadership.partition for leadership in step.leaders] == [0]
    assert [leadership.partition for leadership in step.followers] == [1]
    assert fetchers.following == {TopicPartition("orders", 1): (OTHER, 1)}


@pytest.mark.spec("IS-19")
def test_recovering_leader_counts_as_recovered_and_a_follower_keeps_the_recovery_state() -> None:
    manager, _, _ = replica_manager(state(0, leader_recovery_state=1), state(1, leader=OTHER, leader_recovery_state=1))
    recovery = {key.partition: hosted.state.leader_recovery_state for key, hosted in manager.partitions.items()}
    assert recovery == {0: 0, 1: 1}


@pytest.mark.spec("BK-8")
def test_leader_that_is_elected_again_keeps_the_states_of_its_followers() -> None:
    manager, _, _ = replica_manager(state())
    partition = manager.partitions[ORDERS_0]
    for follower in (OTHER, THIRD):
        partition.update_follower(follower, FollowerState(0, 10.0, 10.0))
    apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=1, isr=(ME, OTHER))), now_ms=50.0)
    times = {follower: known[:3] for follower, known in partition.followers.items()}
    assert times == {OTHER: (0, 50.0, 50.0), THIRD: (0, 0.0, 0.0)}
    apply_leader_and_isr(manager, leader_and_isr(state(leader=OTHER, leader_epoch=2)))
    assert partition.followers == {}


def test_versions_0_and_1_name_the_topic_in_each_partition() -> None:
    manager, _, _ = replica_manager()
    flat = LeaderAndIsrRequest(
        ungrouped_partition_states=(
            LeaderAndIsrPartitionState(topic_name="a", leader=ME, replicas=(ME,)),
            LeaderAndIsrPartitionState(topic_name="b", leader=ME, replicas=(ME,)),
        )
    )
    assert apply_leader_and_isr(manager, flat) == {TopicPartition("a", 0): "NONE", TopicPartition("b", 0): "NONE"}


def test_without_kip_570_a_late_stop_replica_stops_a_live_replica() -> None:
    for switched_off, hosted in (((), True), ((Fix.KIP_570,), False)):
        manager, _, recorder = replica_manager(state(leader_epoch=5), switched_off=switched_off)
        manager.stop_replicas(stop(4, delete=True))
        assert (ORDERS_0 in manager.partitions) is hosted
        hits = [(hit["fence"], hit["switched_off"]) for hit in recorder.of("FenceHit")]
        assert hits == [("broker.leader-epoch", False), *(() if hosted else [("kip-570", True)])]


def stop(leader_epoch: int, *, delete: bool = False, partition: int = 0) -> StopReplicaRequest:
    stopped = StopReplicaPartitionState(partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete)
    return StopReplicaRequest(topic_states=(StopReplicaTopicState(topic_name="orders", partition_states=(stopped,)),))


@pytest.mark.spec("BK-14")
@pytest.mark.parametrize(
    ("offered", "expected"),
    [(6, "NONE"), (5, "NONE"), (4, "FENCED_LEADER_EPOCH"), (-1, "NONE"), (-2, "NONE")],
)
def test_stop_replica_is_fenced_by_an_older_leader_epoch_unless_it_is_none_or_a_deletion(
    offered: int, expected: str
) -> None:
    manager, fetchers, recorder = replica_manager(state(leader=OTHER, leader_epoch=5))
    assert manager.stop_replicas(stop(offered)).errors[ORDERS_0].name == expected
    assert (ORDERS_0 in fetchers.following) == (expected != "NONE")
    assert len(recorder.of("FenceHit")) == (expected != "NONE")


@pytest.mark.spec("BK-14", "BK-15")
def test_stopped_replica_stays_hosted_unless_it_is_deleted() -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    manager.stop_replicas(stop(5))
    assert ORDERS_0 in manager.partitions
    manager.stop_replicas(stop(-2, delete=True))
    assert ORDERS_0 not in manager.partitions
    assert manager.stop_replicas(stop(5, delete=True)).errors[ORDERS_0].name == "NONE", "not hosted is fine"


@pytest.mark.spec("BK-14")
def test_before_version_3_one_delete_flag_holds_for_all_partitions() -> None:
    manager, _, _ = replica_manager(state(leader_epoch=5))
    grouped = StopReplicaRequest(
        delete_partitions=True, topics=(StopReplicaTopicV1(name="orders", partition_indexes=(0,)),)
    )
    assert manager.stop_replicas(grouped).accepted == ((ORDERS_0, -1, True),)
    flat = StopReplicaRequest(ungrouped_partitions=(StopReplicaPartitionV0(topic_name="orders", partition_index=3),))
    assert manager.stop_replicas(flat).accepted == ((TopicPartition("orders", 3), -1, False),)


@pytest.mark.spec("RA-11")
def test_leader_takes_an_isr_that_is_larger_than_its_assignment() -> None:
    """At the end of a reassignment a removed replica stays in the ISR until the controller removes it (KAFKA-9672)."""
    moving = state(leader_epoch=5, isr=(ME, OTHER, THIRD), replicas=(ME, THIRD, OTHER))
    manager, _, _ = replica_manager(moving)
    partition = manager.partitions[ORDERS_0]
    for follower in (OTHER, THIRD):
        partition.update_follower(follower, FollowerState(last_caught_up_ms=7))
    moved = state(leader_epoch=6, partition_epoch=1, isr=(ME, OTHER, THIRD), replicas=(ME, THIRD))
    assert apply_leader_and_isr(manager, leader_and_isr(moved)) == {ORDERS_0: "NONE"}
    assert (partition.state.isr, partition.state.replicas) == ((ME, OTHER, THIRD), (ME, THIRD))
    assert list(partition.followers) == [THIRD]


@pytest.mark.spec("RA-10", "RA-15")
def test_replica_that_a_cancelled_reassignment_added_is_deleted_at_the_leader_epoch_it_was_added_at() -> None:
    coming = state(leader=OTHER, leader_epoch=5, isr=(OTHER, THIRD), replicas=(ME, OTHER, THIRD))
    manager, fetchers, _ = replica_manager()
    assert apply_leader_and_isr(manager, leader_and_isr(coming)) == {ORDERS_0: "NONE"}
    assert apply_leader_and_isr(manager, leader_and_isr(coming)) == {ORDERS_0: "STALE_CONTROLLER_EPOCH"}
    assert fetchers.following == {ORDERS_0: (OTHER, 5)}
    stop = StopReplicaPartitionState(partition_index=0, leader_epoch=5, delete_partition=True)
    topic = StopReplicaTopicState(topic_name="orders", partition_states=(stop,))
    assert manager.stop_replicas(StopReplicaRequest(topic_states=(topic,))).errors == {ORDERS_0: Errors.NONE}
    assert manager.partitions == {}
    assert fetchers.following == {}


def test_leader_epoch_starts_at_the_log_end_offset() -> None:
    """The log has earlier records. A newer leader epoch sets the offset again, a new topic id alone does not."""
    log = log_with(log_end_offset=9)
    manager, _, _ = replica_manager(state(leader_epoch=5), topic_id=NO_TOPIC_ID, logs=LogsInMemory(log))
    partition = manager.partitions[ORDERS_0]
    assert (partition.leader_epoch_start_offset, partition.log) == (9, log)
    assert log.epochs.latest == (5, 9), "also a leader that never appends has an epoch that begins"
    partition.local_log = log_with(log_end_offset=12)
    apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=5)))
    assert (partition.topic_id, partition.leader_epoch_start_offset) == (ORDERS, 9)
    apply_leader_and_isr(manager, leader_and_isr(state(leader_epoch=6)))
    assert partition.leader_epoch_start_offset == 12


@pytest.mark.parametrize(
    ("min_isr", "error"), [("2", Errors.NONE), ("3", Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)], ids=["2", "3"]
)
def test_replicated_records_are_acknowledged_where_the_isr_is_not_below_its_minimum(
    min_isr: str, error: Errors
) -> None:
    logs = LogsInMemory()
    manager, _, _ = replica_manager(logs=logs)
    apply_leader_and_isr(manager, leader_and_isr(state(isr=(ME, OTHER), replicas=(ME, OTHER, THIRD))))
    logs.update_topic_config("orders", {"min.insync.replicas": min_isr})
    assert manager.replication_error(ORDERS_0, 0) is error
    assert manager.replication_error(ORDERS_0, 1) is None
    assert manager.replication_error(TopicPartition("orders", 9), 0) is Errors.NOT_LEADER_OR_FOLLOWER
