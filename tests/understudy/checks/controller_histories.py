"""Histories of controllers that checks C1 to C10 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, cluster, leadership, rejects
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    ContextAtIdle,
    ControllerElected,
    ControllerResigned,
    EventEnded,
    EventPreempted,
    EventQueued,
    EventStarted,
    FenceHit,
    InvalidTransition,
    LeaderAndIsrApplied,
    Leadership,
    LeadershipNotWritten,
    MetadataUpdated,
    PartitionsMoved,
    ProcessExiting,
    Refused,
    ReplicasMoved,
    RequestSent,
    SessionOpened,
    StopReplicaApplied,
    TopicsChanged,
    Transition,
    ZkWrite,
    leadership_digest,
)


def elected(broker: int, epoch: int, session: int | None = None) -> ControllerElected:
    owner = broker * 16 + 1 if session is None else session
    return ControllerElected(broker_id=broker, epoch=epoch, epoch_zk_version=epoch, session_id=owner)


def resigned(epoch: int) -> ControllerResigned:
    return ControllerResigned(epoch=epoch, why="expire")


def metadata(
    epoch: int, *partitions: Leadership, live: tuple[int, ...] = (1, 2, 3), broker_epoch: int = -1
) -> MetadataUpdated:
    return MetadataUpdated(
        controller_id=1,
        request_controller_epoch=epoch,
        request_broker_epoch=broker_epoch,
        live_brokers=live,
        partitions=partitions,
    )


def leader_and_isr(
    *followers: Leadership,
    leaders: tuple[Leadership, ...] = (),
    epoch: int = 1,
    broker_epoch: int = -1,
    live_leaders: tuple[int, ...] = (),
) -> LeaderAndIsrApplied:
    return LeaderAndIsrApplied(
        controller_id=1,
        request_controller_epoch=epoch,
        request_broker_epoch=broker_epoch,
        leaders=leaders,
        followers=followers,
        live_leaders=live_leaders,
    )


def stop_replica(leader_epoch: int, *, delete: bool = False, epoch: int = 1) -> StopReplicaApplied:
    return StopReplicaApplied(
        controller_id=1,
        request_controller_epoch=epoch,
        request_broker_epoch=-1,
        partitions=(("t", 0, leader_epoch, delete),),
    )


# ------------------------------------------------------------------ C1, C2: controller elections


@accepts("C1")
def each_epoch_has_one_controller() -> History:
    history = cluster()
    history.log(1, elected(1, 1))
    history.end(0x11, "/controller", "/brokers/ids/1")
    history.elect(2)
    history.log(2, elected(2, 2))
    return history


@rejects("C1", "broker-1 and broker-2 were both elected at epoch 1")
def two_brokers_are_elected_at_one_epoch() -> History:
    history = cluster()
    history.log(1, elected(1, 1))
    history.log(2, elected(2, 1))
    return history


@rejects("C1", "no transaction of session")
def a_broker_records_an_election_that_is_not_in_zookeeper() -> History:
    history = cluster()
    history.log(2, elected(2, 2))
    return history


@accepts("C2")
def the_epoch_and_the_controller_znode_change_in_one_transaction() -> History:
    history = cluster()
    history.commit(0x11, history.delete("/controller"))
    history.elect(2)
    return history


@accepts("C2")
def an_operator_changes_the_controller_epoch() -> History:
    history = cluster()
    history.commit(0xFF, history.set("/controller_epoch", 7))
    return history


@rejects("C2", "from 1 to 3")
def an_epoch_is_skipped() -> History:
    history = cluster()
    history.commit(0x11, history.delete("/controller"))
    history.commit(
        0x21, history.create("/controller", {"brokerid": 2}, owner=0x21), history.set("/controller_epoch", 3)
    )
    return history


@rejects("C2", "without creating /controller")
def a_broker_raises_the_epoch_without_creating_the_controller_znode() -> History:
    history = cluster()
    history.commit(0x21, history.set("/controller_epoch", 2))
    return history


# ------------------------------------------------------------------ C3: fenced writes


@accepts("C3")
def every_partition_state_is_written_with_a_fence() -> History:
    history = cluster()
    history.state(2, 1, [2, 3])
    history.commit(0x11, history.fence(), history.delete("/controller"))
    history.elect(2)
    history.state(3, 2, [3], by=2)
    return history


@accepts("C3")
def a_request_handler_adds_partitions_without_a_fence() -> History:
    history = cluster()
    history.commit(0x11, history.set("/brokers/topics/t", {"partitions": {"0": [1, 2, 3], "1": [2, 3, 1]}}))
    return history


@accepts("C3")
def the_end_of_a_session_deletes_the_controller_znode_without_a_fence() -> History:
    history = cluster()
    history.end(0x11, "/controller", "/brokers/ids/1")
    return history


def with_a_leader_older_than_alter_partition(*, registration: int = 4) -> History:
    """Broker 4, which is older than AlterPartition, leads t-0 by a decision of controller 1; now 2 is controller."""
    history = cluster()
    history.register(4, version=registration)
    history.state(4, 1, [4, 2])
    history.commit(0x11, history.fence(), history.delete("/controller"))
    history.elect(2)
    history.state(2, 1, [2, 3], by=2, partition=1)
    return history


@accepts("C3")
def a_leader_older_than_alter_partition_changes_its_isr_itself() -> History:
    history = with_a_leader_older_than_alter_partition()
    history.state(4, 1, [4], by=4, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def a_broker_older_than_alter_partition_changes_an_isr_that_it_does_not_lead() -> History:
    history = with_a_leader_older_than_alter_partition()
    history.register(5, version=4)
    history.state(4, 1, [4], by=5, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def a_leader_older_than_alter_partition_changes_its_leader_epoch() -> History:
    history = with_a_leader_older_than_alter_partition()
    history.state(4, 2, [4], by=4, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def a_leader_with_alter_partition_writes_its_isr_itself() -> History:
    history = with_a_leader_older_than_alter_partition(registration=5)
    history.state(4, 1, [4], by=4, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 1")
def a_partition_state_is_written_without_a_fence() -> History:
    history = cluster()
    history.state(2, 1, [2, 3], fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def a_deposed_controller_checks_an_old_version_of_the_epoch() -> History:
    history = cluster()
    history.commit(0x11, history.delete("/controller"), history.fence())
    history.elect(2)
    path = "/brokers/topics/t/partitions/0/state"
    zombie = {"controller_epoch": 1, "leader": 3, "leader_epoch": 1, "isr": [3]}
    history.commit(0x11, history.fence(1), history.set(path, zombie))
    return history


@rejects("C3", "delete /admin/preferred_replica_election")
def a_preferred_election_request_is_deleted_without_a_fence() -> History:
    history = cluster()
    history.commit(0xFF, history.create("/admin/preferred_replica_election", {}))
    history.commit(0x11, history.delete("/admin/preferred_replica_election"))
    return history


@rejects("C3", "at controller epoch 1, after 2 was seen")
def an_older_controller_epoch_is_written_into_a_partition_state() -> History:
    history = cluster()
    history.commit(0x11, history.fence(), history.delete("/controller"))
    history.elect(2)
    history.state(2, 1, [2, 3], by=2)
    history.state(3, 2, [3], by=2, controller_epoch=1)
    return history


@rejects("C3", "at controller epoch 1, after 9 was seen")
def a_state_with_a_newer_epoch_from_an_operator_is_overwritten() -> History:
    history = cluster()
    path = "/brokers/topics/t/partitions/0/state"
    history.commit(0xFF, history.set(path, {"controller_epoch": 9, "leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]}))
    history.state(2, 1, [2, 3])
    return history


# ------------------------------------------------------------------ C4: the epochs that brokers compare


@accepts("C4a")
def requests_of_equal_and_newer_controller_epochs_are_applied() -> History:
    history = History()
    history.log(2, metadata(1), metadata(1), leader_and_isr(epoch=2), stop_replica(-1, epoch=2))
    history.log(2, metadata(1), incarnation=2)
    return history


@rejects("C4a", "MetadataUpdated of epoch 1 applied after 2")
def a_request_of_a_deposed_controller_is_applied() -> History:
    history = History()
    history.log(2, metadata(2), metadata(1))
    return history


@rejects("C4a", "not older")
def a_request_of_the_current_controller_is_refused() -> History:
    history = History()
    history.log(2, FenceHit(fence="broker.controller-epoch", what="LeaderAndIsr from 1", offered=2, known=2))
    return history


@accepts("C4b")
def a_controller_sends_a_broker_epoch_before_the_broker_knows_it() -> History:
    history = History()
    history.log(2, BrokerRegistered(broker_id=2, broker_epoch=5, session_id=0x21), metadata(1, broker_epoch=9))
    history.log(2, metadata(1, broker_epoch=5), BrokerRegistered(broker_id=2, broker_epoch=9, session_id=0x22))
    history.log(2, metadata(1, broker_epoch=9), metadata(1, broker_epoch=-1))
    return history


@rejects("C4b", "for broker epoch 5 applied at broker epoch 9")
def a_request_for_an_earlier_registration_is_applied() -> History:
    history = History()
    history.log(2, BrokerRegistered(broker_id=2, broker_epoch=9, session_id=0x22), metadata(1, broker_epoch=5))
    return history


@rejects("C4b", "not older")
def a_newer_broker_epoch_is_refused() -> History:
    history = History()
    history.log(2, FenceHit(fence="broker.broker-epoch", what="UpdateMetadata from 1", offered=9, known=5))
    return history


@accepts("C4c")
def a_broker_applies_increasing_leader_epochs() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(1, 0)), leader_and_isr(leadership(3, 1)))
    history.log(2, stop_replica(1), stop_replica(-2, delete=True), leader_and_isr(leadership(1, 0)))
    history.log(2, metadata(1), leader_and_isr(leadership(1, 0)), incarnation=2)
    return history


@accepts("C4c")
def a_leader_and_isr_with_an_unknown_leader_is_applied_again() -> History:
    history = History()
    history.log(2, metadata(1, live=(1, 2)), leader_and_isr(leadership(3, 4)), leader_and_isr(leadership(3, 4)))
    return history


@rejects("C4c", "LeaderAndIsr for t-0 at leader epoch 3 applied at 3")
def a_leader_and_isr_is_applied_twice_at_one_leader_epoch() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(1, 3)), leader_and_isr(leadership(1, 3)))
    return history


@rejects("C4c", "stopped at leader epoch 1 under 3")
def a_stop_replica_of_an_older_leader_epoch_is_applied() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(1, 3)), stop_replica(1))
    return history


# ------------------------------------------------------------------ C5: after a resignation


def request(epoch: int) -> RequestSent:
    return RequestSent(
        to=2,
        api="LEADER_AND_ISR",
        api_version=7,
        client_id="1",
        correlation_id=1,
        controller_epoch=epoch,
        broker_epoch=1,
    )


def write(*paths: str, version: int) -> ZkWrite:
    return ZkWrite(purpose="leader-and-isr", paths=paths, operations=2, fenced=True, epoch_zk_version=version)


@accepts("C5")
def a_resigned_controller_only_deletes_the_controller_znode() -> History:
    history = History()
    history.log(1, elected(1, 1), request(1), resigned(1), write("/controller", version=1))
    history.log(1, elected(1, 3), request(3), write("/brokers/topics/t/partitions/0/state", version=3))
    return history


@rejects("C5", "LEADER_AND_ISR of epoch 1 sent to 2 after resigning from 1")
def a_resigned_controller_sends_a_request() -> History:
    history = History()
    history.log(1, elected(1, 1), resigned(1), request(1))
    return history


@rejects("C5", "after resigning from epoch 1")
def a_resigned_controller_writes_a_partition_state() -> History:
    history = History()
    history.log(1, elected(1, 1), resigned(1), write("/brokers/topics/t/partitions/0/state", version=1))
    return history


# ------------------------------------------------------------------ C6: the context


def idle(history: History, *, live: tuple[tuple[int, int], ...], digest: str) -> ContextAtIdle:
    return ContextAtIdle(epoch=history.epoch_version, live_brokers=live, leadership_digest=digest)


ALL_THREE = ((1, 1), (2, 2), (3, 3))


@accepts("C6")
def an_idle_controllers_context_matches_its_last_read() -> History:
    history = cluster()
    seen = history.zxid
    history.state(2, 1, [2, 3])
    history.log(1, idle(history, live=ALL_THREE, digest=leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])), zxid=seen)
    history.log(1, idle(history, live=ALL_THREE, digest=leadership_digest([("t", 0, 2, 1, (2, 3), 1)])))
    return history


@accepts("C6")
def a_context_may_differ_after_a_failed_write() -> History:
    history = cluster()
    history.log(1, LeadershipNotWritten(why="offline", partitions=(Refused("t", 0, "BadVersion"),)))
    history.log(1, idle(history, live=ALL_THREE, digest="00000000"))
    return history


@accepts("C6")
def a_context_may_differ_after_a_state_of_a_newer_controller() -> History:
    history = cluster()
    refusal = FenceHit(fence="controller.state-controller-epoch", what="t-0", offered=1, known=2)
    history.log(1, refusal, idle(history, live=ALL_THREE, digest="00000000"))
    return history


@rejects("C6", "its partition states differ")
def a_context_must_match_after_an_election_without_an_eligible_leader() -> History:
    history = cluster()
    history.log(1, LeadershipNotWritten(why="preferred", partitions=(Refused("t", 0, "StateChangeFailed"),)))
    history.log(1, idle(history, live=ALL_THREE, digest="00000000"))
    return history


@rejects("C6", "its partition states differ")
def an_idle_controllers_context_lacks_a_partition_state() -> History:
    history = cluster()
    old = leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])
    history.state(2, 1, [2, 3])
    history.log(1, idle(history, live=ALL_THREE, digest=old))
    return history


@accepts("C6")
def a_context_lacks_an_isr_that_a_leader_older_than_alter_partition_wrote() -> History:
    history = with_a_leader_older_than_alter_partition()
    history.state(4, 1, [4], by=4, controller_epoch=1, fence=False)
    before = leadership_digest([("t", 0, 4, 1, (4, 2), 1), ("t", 1, 2, 1, (2, 3), 0)])
    history.log(2, idle(history, live=(*ALL_THREE, (4, 8)), digest=before))
    return history


@rejects("C6", "its live brokers are ((1, 1), (2, 2), (3, 3))")
def an_idle_controllers_context_has_a_broker_that_is_gone() -> History:
    history = cluster()
    history.end(0x31, "/brokers/ids/3")
    history.log(1, idle(history, live=ALL_THREE, digest=leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])))
    return history


# ------------------------------------------------------------------ C7: the event queue


def queued(number: int) -> EventQueued:
    return EventQueued(event_id=number, event="BrokerChange")


def started(number: int) -> EventStarted:
    return EventStarted(event_id=number, event="BrokerChange", queued_ms=0.0)


def ended(number: int) -> EventEnded:
    return EventEnded(event_id=number, event="BrokerChange", took_ms=1.0)


def preempted(number: int) -> EventPreempted:
    return EventPreempted(event_id=number, event="BrokerChange")


@accepts("C7")
def events_are_handled_one_by_one() -> History:
    history = History()
    history.log(1, queued(1), started(1), queued(2), queued(3), preempted(2), preempted(3), queued(4), ended(1))
    history.log(1, started(4), ended(4), queued(5))
    return history


@accepts("C7")
def the_event_in_progress_is_preempted_by_a_shutdown() -> History:
    history = History()
    last = EventQueued(event_id=2, event="ShutdownEventThread")
    history.log(1, queued(1), started(1), last, preempted(1))
    return history


@rejects("C7", "started while BrokerChange was running")
def events_overlap() -> History:
    history = History()
    history.log(1, queued(1), queued(2), started(1), started(2))
    return history


@rejects("C7", "though 1 was first in the queue")
def an_event_starts_before_an_earlier_one() -> History:
    history = History()
    history.log(1, queued(1), queued(2), started(2))
    return history


@rejects("C7", "was preempted, though it was not waiting")
def a_running_event_is_preempted() -> History:
    history = History()
    history.log(1, queued(1), started(1), preempted(1))
    return history


@rejects("C7", "ended, though it was not running")
def an_event_ends_twice() -> History:
    history = History()
    history.log(1, queued(1), started(1), ended(1), ended(1))
    return history


# ------------------------------------------------------------------ L6: what waits is handled


@accepts("L6")
def an_event_has_just_been_queued_when_the_log_ends() -> History:
    history = History()
    history.log(1, queued(1), started(1), ended(1), queued(2))
    history.log(1, metadata(1), at_ms=29_000)
    return history


@accepts("L6")
def a_process_ends_with_events_in_its_queue() -> History:
    history = History()
    history.log(1, queued(1), started(1), queued(2))
    history.log(1, metadata(1), incarnation=2, at_ms=60_000)
    return history


@rejects("L6", "BrokerChange 2 had not ended 31 s later")
def an_event_waits_while_the_broker_goes_on() -> History:
    history = History()
    history.log(1, queued(1), started(1), ended(1), queued(2))
    history.log(1, metadata(1), at_ms=31_000)
    return history


@rejects("L6", "BrokerChange 1 had not ended 31 s later")
def an_event_does_not_end_while_the_broker_goes_on() -> History:
    history = History()
    history.log(1, queued(1), started(1))
    history.log(1, metadata(1), at_ms=31_000)
    return history


# ------------------------------------------------------------------ C8: the role of controller and its session


def opened(session: int) -> SessionOpened:
    return SessionOpened(session_id=session, timeout_ms=3000)


@accepts("C8")
def a_controller_resigns_before_the_next_session() -> History:
    history = cluster()
    digest = leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])
    history.log(1, opened(0x11), elected(1, 1), idle(history, live=ALL_THREE, digest=digest))
    history.end(0x11, "/controller", "/brokers/ids/1")
    history.log(1, resigned(1), opened(0x12), BrokerRegistered(broker_id=1, broker_epoch=9, session_id=0x12))
    return history


@accepts("C8")
def a_broker_that_exits_stays_resigned() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), resigned(1))
    history.log(1, ProcessExiting(reason="SIGTERM"), at_ms=60_000.0)
    return history


@rejects("C8", "registered in a new session while still controller of epoch 1")
def a_broker_registers_in_a_new_session_while_controller() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), opened(0x12))
    history.log(1, BrokerRegistered(broker_id=1, broker_epoch=9, session_id=0x12))
    return history


@rejects("C8", "elected in session 0x11 after opening 0x12")
def a_broker_is_elected_in_a_former_session() -> History:
    history = cluster()
    history.log(1, opened(0x11), opened(0x12), elected(1, 1))
    return history


@rejects("C8", "while still controller of epoch 1")
def a_broker_is_elected_while_controller() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), elected(1, 2))
    return history


@rejects("C8", "idle as controller of epoch 1 while broker 2 owns /controller")
def a_controller_is_idle_after_another_was_elected() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1))
    history.commit(0xFF, history.delete("/controller"))
    history.elect(2)
    history.log(1, idle(history, live=ALL_THREE, digest=""))
    return history


@rejects("C8", "broker-1 owns /controller, but has resigned from epoch 1")
def a_broker_owns_the_controller_znode_and_stays_resigned() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), resigned(1))
    history.log(1, metadata(1), opened(0x11), at_ms=60_000.0)
    return history


# ------------------------------------------------------------------ C9: transitions


def partition_moved(source: str, target: str) -> PartitionsMoved:
    return PartitionsMoved(target=target, partitions=(Transition("t", 0, -1, source),))


def replica_moved(source: str, target: str) -> ReplicasMoved:
    return ReplicasMoved(target=target, replicas=(Transition("t", 0, 2, source),))


@accepts("C9")
def a_partition_and_a_replica_go_through_all_states() -> History:
    history = History()
    history.log(
        1,
        partition_moved("NonExistentPartition", "NewPartition"),
        partition_moved("NewPartition", "OnlinePartition"),
        partition_moved("OnlinePartition", "OfflinePartition"),
        partition_moved("OfflinePartition", "OnlinePartition"),
        replica_moved("NonExistentReplica", "NewReplica"),
        replica_moved("NewReplica", "OnlineReplica"),
        replica_moved("OnlineReplica", "OfflineReplica"),
        partition_moved("OnlinePartition", "OfflinePartition"),
        partition_moved("OfflinePartition", "NonExistentPartition"),
        replica_moved("OfflineReplica", "ReplicaDeletionStarted"),
        replica_moved("ReplicaDeletionStarted", "ReplicaDeletionSuccessful"),
        replica_moved("ReplicaDeletionSuccessful", "NonExistentReplica"),
    )
    history.log(1, elected(1, 2), partition_moved("OnlinePartition", "OfflinePartition"))
    return history


@accepts("C9")
def a_topic_is_created_again_after_an_operator_deleted_its_znode() -> History:
    history = History()
    new_partition = partition_moved("NonExistentPartition", "NewPartition")
    history.log(
        1, new_partition, TopicsChanged(new=(), deleted=("t",)), TopicsChanged(new=("t",), deleted=()), new_partition
    )
    return history


@rejects("C9", "left NonExistentPartition, though it was in NewPartition")
def a_partition_is_new_twice_after_another_topic_was_deleted() -> History:
    history = History()
    new_partition = partition_moved("NonExistentPartition", "NewPartition")
    history.log(1, new_partition, TopicsChanged(new=(), deleted=("other",)), new_partition)
    return history


@rejects("C9", "t-0 went from NewPartition to NonExistentPartition")
def a_new_partition_becomes_non_existent() -> History:
    history = History()
    history.log(1, partition_moved("NewPartition", "NonExistentPartition"))
    return history


@rejects("C9", "t-0 went from OnlineReplica to ReplicaDeletionStarted")
def the_deletion_of_an_online_replica_starts() -> History:
    history = History()
    history.log(1, replica_moved("OnlineReplica", "ReplicaDeletionStarted"))
    return history


@rejects("C9", "left OfflinePartition, though it was in OnlinePartition")
def a_transition_starts_from_another_state() -> History:
    history = History()
    history.log(
        1, partition_moved("NewPartition", "OnlinePartition"), partition_moved("OfflinePartition", "OnlinePartition")
    )
    return history


@rejects("C9", "an invalid transition of t-0 from NonExistentPartition to OnlinePartition")
def an_invalid_transition_is_requested() -> History:
    history = History()
    invalid = InvalidTransition(target="OnlinePartition", source="NonExistentPartition", topic="t", partition=0)
    history.log(1, invalid)
    return history


# ------------------------------------------------------------------ C10: UpdateMetadata before LeaderAndIsr


@accepts("C10")
def update_metadata_comes_before_leader_and_isr() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(3, 0), live_leaders=(3,)), metadata(2))
    history.log(2, leader_and_isr(leadership(1, 1), epoch=2, live_leaders=(1,)))
    return history


@accepts("C10")
def a_leader_that_is_not_live_need_not_be_in_the_metadata() -> History:
    history = History()
    history.log(2, metadata(2, live=(1, 2)), leader_and_isr(leadership(3, 0), epoch=2))
    return history


@rejects("C10", "came before that controller's UpdateMetadata")
def a_new_controller_sends_leader_and_isr_first() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(3, 0), epoch=2))
    return history


@rejects("C10", "LeaderAndIsr names leader 3 for t-0, which is not in the metadata")
def a_live_leader_is_not_in_the_metadata() -> History:
    history = History()
    history.log(2, metadata(1, live=(1, 2)), leader_and_isr(leadership(3, 0), live_leaders=(3,)))
    return history
