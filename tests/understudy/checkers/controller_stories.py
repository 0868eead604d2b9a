"""Histories of controllers: what checks C1 to C10 must accept and reject."""

from __future__ import annotations

from foundation.eventlog.records import (
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
from tests.understudy.checkers.histories import History, accepts, cluster, leadership, rejects


def elected(broker: int, epoch: int, session: int | None = None) -> ControllerElected:
    owner = broker * 16 + 1 if session is None else session
    return ControllerElected(broker_id=broker, epoch=epoch, epoch_zk_version=epoch, session_id=owner)


def resigned(epoch: int) -> ControllerResigned:
    return ControllerResigned(epoch=epoch, why="expire")


def metadata(epoch: int, live: tuple[int, ...] = (1, 2, 3), broker_epoch: int = -1) -> MetadataUpdated:
    return MetadataUpdated(
        controller_id=1,
        request_controller_epoch=epoch,
        request_broker_epoch=broker_epoch,
        live_brokers=live,
        partitions=(),
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


# ------------------------------------------------------------------ C1, C2: the race


@accepts("C1")
def each_epoch_has_its_winner() -> History:
    history = cluster()
    history.log(1, elected(1, 1))
    history.end(0x11, "/controller", "/brokers/ids/1")
    history.elect(2)
    history.log(2, elected(2, 2))
    return history


@rejects("C1", "won by broker-1 and by broker-2")
def two_brokers_win_one_epoch() -> History:
    history = cluster()
    history.log(1, elected(1, 1))
    history.log(2, elected(2, 1))
    return history


@rejects("C1", "no transaction of session")
def a_broker_believes_a_lost_race_was_won() -> History:
    history = cluster()
    history.log(2, elected(2, 2))
    return history


@accepts("C2")
def the_race_is_one_transaction() -> History:
    history = cluster()
    history.commit(0x11, history.delete("/controller"))
    history.elect(2)
    return history


@accepts("C2")
def an_operator_may_spoil_the_epoch() -> History:
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
def the_epoch_is_raised_beside_the_race() -> History:
    history = cluster()
    history.commit(0x21, history.set("/controller_epoch", 2))
    return history


# ------------------------------------------------------------------ C3: the fence in ZooKeeper


@accepts("C3")
def every_state_is_fenced() -> History:
    history = cluster()
    history.state(2, 1, [2, 3])
    history.commit(0x11, history.fence(), history.delete("/controller"))
    history.elect(2)
    history.state(3, 2, [3], by=2)
    return history


@accepts("C3")
def a_handler_adds_partitions_unfenced() -> History:
    history = cluster()
    history.commit(0x11, history.set("/brokers/topics/t", {"partitions": {"0": [1, 2, 3], "1": [2, 3, 1]}}))
    return history


@accepts("C3")
def a_dying_session_takes_the_controller_along_without_a_fence() -> History:
    history = cluster()
    history.end(0x11, "/controller", "/brokers/ids/1")
    return history


def under_an_old_leader(*, registration: int = 4) -> History:
    """Broker 4, older than AlterPartition, leads t-0 as controller 1 decided, and 2 has taken over from that."""
    history = cluster()
    history.register(4, version=registration)
    history.state(4, 1, [4, 2])
    history.commit(0x11, history.fence(), history.delete("/controller"))
    history.elect(2)
    history.state(2, 1, [2, 3], by=2, partition=1)
    return history


@accepts("C3")
def a_leader_older_than_alter_partition_changes_its_isr_itself() -> History:
    history = under_an_old_leader()
    history.state(4, 1, [4], by=4, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def an_old_broker_changes_an_isr_that_it_does_not_lead() -> History:
    history = under_an_old_leader()
    history.register(5, version=4)
    history.state(4, 1, [4], by=5, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def an_old_leader_changes_more_than_its_isr() -> History:
    history = under_an_old_leader()
    history.state(4, 2, [4], by=4, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def a_leader_that_could_ask_writes_its_isr_itself() -> History:
    history = under_an_old_leader(registration=5)
    history.state(4, 1, [4], by=4, controller_epoch=1, fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 1")
def a_state_is_written_without_fence() -> History:
    history = cluster()
    history.state(2, 1, [2, 3], fence=False)
    return history


@rejects("C3", "without a check of /controller_epoch at version 2")
def a_zombie_checks_the_version_of_its_own_time() -> History:
    history = cluster()
    history.commit(0x11, history.delete("/controller"), history.fence())
    history.elect(2)
    path = "/brokers/topics/t/partitions/0/state"
    zombie = {"controller_epoch": 1, "leader": 3, "leader_epoch": 1, "isr": [3]}
    history.commit(0x11, history.fence(1), history.set(path, zombie))
    return history


@rejects("C3", "delete /admin/preferred_replica_election")
def an_election_request_is_deleted_without_fence() -> History:
    history = cluster()
    history.commit(0xFF, history.create("/admin/preferred_replica_election", {}))
    history.commit(0x11, history.delete("/admin/preferred_replica_election"))
    return history


@rejects("C3", "at controller epoch 1, after 2 was seen")
def an_old_epoch_is_written_into_a_state() -> History:
    history = cluster()
    history.commit(0x11, history.fence(), history.delete("/controller"))
    history.elect(2)
    history.state(2, 1, [2, 3], by=2)
    history.state(3, 2, [3], by=2, controller_epoch=1)
    return history


@rejects("C3", "at controller epoch 1, after 9 was seen")
def what_an_operator_wrote_in_the_name_of_a_newer_epoch_is_overwritten() -> History:
    history = cluster()
    path = "/brokers/topics/t/partitions/0/state"
    history.commit(0xFF, history.set(path, {"controller_epoch": 9, "leader": 1, "leader_epoch": 0, "isr": [1, 2, 3]}))
    history.state(2, 1, [2, 3])
    return history


# ------------------------------------------------------------------ C4: the fences of brokers


@accepts("C4a")
def equal_and_newer_controllers_are_heard() -> History:
    history = History()
    history.log(2, metadata(1), metadata(1), leader_and_isr(epoch=2), stop_replica(-1, epoch=2))
    history.log(2, metadata(1), incarnation=2)
    return history


@rejects("C4a", "MetadataUpdated of epoch 1 applied after 2")
def a_deposed_controller_is_heard() -> History:
    history = History()
    history.log(2, metadata(2), metadata(1))
    return history


@rejects("C4a", "not older")
def a_current_controller_is_refused() -> History:
    history = History()
    history.log(2, FenceHit(fence="broker.controller-epoch", what="LeaderAndIsr from 1", offered=2, known=2))
    return history


@accepts("C4b")
def a_newer_registration_is_known_to_the_controller_first() -> History:
    history = History()
    history.log(2, BrokerRegistered(broker_id=2, broker_epoch=5, session_id=0x21), metadata(1, broker_epoch=9))
    history.log(2, metadata(1, broker_epoch=5), BrokerRegistered(broker_id=2, broker_epoch=9, session_id=0x22))
    history.log(2, metadata(1, broker_epoch=9), metadata(1, broker_epoch=-1))
    return history


@rejects("C4b", "for broker epoch 5 applied under 9")
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
def leader_epochs_rise_on_a_broker() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(1, 0)), leader_and_isr(leadership(3, 1)))
    history.log(2, stop_replica(1), stop_replica(-2, delete=True), leader_and_isr(leadership(1, 0)))
    history.log(2, metadata(1), leader_and_isr(leadership(1, 0)), incarnation=2)
    return history


@accepts("C4c")
def a_follower_of_an_unknown_leader_may_be_told_again() -> History:
    history = History()
    history.log(2, metadata(1, live=(1, 2)), leader_and_isr(leadership(3, 4)), leader_and_isr(leadership(3, 4)))
    return history


@rejects("C4c", "t-0 taken at leader epoch 3 over 3")
def the_same_leader_epoch_is_taken_twice() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(1, 3)), leader_and_isr(leadership(1, 3)))
    return history


@rejects("C4c", "stopped at leader epoch 1 under 3")
def a_late_stop_replica_strikes() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(1, 3)), stop_replica(1))
    return history


# ------------------------------------------------------------------ C5: silence after resignation


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
def a_resigned_controller_only_gives_the_role_back() -> History:
    history = History()
    history.log(1, elected(1, 1), request(1), resigned(1), write("/controller", version=1))
    history.log(1, elected(1, 3), request(3), write("/brokers/topics/t/partitions/0/state", version=3))
    return history


@rejects("C5", "LEADER_AND_ISR of epoch 1 sent to 2 after resigning from 1")
def a_resigned_controller_sends() -> History:
    history = History()
    history.log(1, elected(1, 1), resigned(1), request(1))
    return history


@rejects("C5", "after resigning from epoch 1")
def a_resigned_controller_writes() -> History:
    history = History()
    history.log(1, elected(1, 1), resigned(1), write("/brokers/topics/t/partitions/0/state", version=1))
    return history


# ------------------------------------------------------------------ C6: the context


def idle(history: History, *, live: tuple[tuple[int, int], ...], digest: str) -> ContextAtIdle:
    return ContextAtIdle(epoch=history.epoch_version, live_brokers=live, leadership_digest=digest)


ALL_THREE = ((1, 1), (2, 2), (3, 3))


@accepts("C6")
def an_idle_controller_knows_the_past_it_has_read() -> History:
    history = cluster()
    seen = history.zxid
    history.state(2, 1, [2, 3])
    history.log(1, idle(history, live=ALL_THREE, digest=leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])), zxid=seen)
    history.log(1, idle(history, live=ALL_THREE, digest=leadership_digest([("t", 0, 2, 1, (2, 3), 1)])))
    return history


@accepts("C6")
def what_could_not_be_written_is_excused() -> History:
    history = cluster()
    history.log(1, LeadershipNotWritten(why="offline", partitions=(Refused("t", 0, "BadVersion"),)))
    history.log(1, idle(history, live=ALL_THREE, digest="00000000"))
    return history


@accepts("C6")
def the_state_of_a_newer_controller_is_left_alone() -> History:
    history = cluster()
    refusal = FenceHit(fence="controller.state-controller-epoch", what="t-0", offered=1, known=2)
    history.log(1, refusal, idle(history, live=ALL_THREE, digest="00000000"))
    return history


@rejects("C6", "its leaderships differ")
def that_nobody_was_eligible_excuses_nothing() -> History:
    history = cluster()
    history.log(1, LeadershipNotWritten(why="preferred", partitions=(Refused("t", 0, "StateChangeFailed"),)))
    history.log(1, idle(history, live=ALL_THREE, digest="00000000"))
    return history


@rejects("C6", "its leaderships differ")
def an_idle_controller_missed_a_state() -> History:
    history = cluster()
    old = leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])
    history.state(2, 1, [2, 3])
    history.log(1, idle(history, live=ALL_THREE, digest=old))
    return history


@accepts("C6")
def what_an_old_leader_has_just_written_is_not_known_yet() -> History:
    history = under_an_old_leader()
    history.state(4, 1, [4], by=4, controller_epoch=1, fence=False)
    before = leadership_digest([("t", 0, 4, 1, (4, 2), 1), ("t", 1, 2, 1, (2, 3), 0)])
    history.log(2, idle(history, live=(*ALL_THREE, (4, 8)), digest=before))
    return history


@rejects("C6", "it believes in brokers ((1, 1), (2, 2), (3, 3))")
def an_idle_controller_missed_a_death() -> History:
    history = cluster()
    history.end(0x31, "/brokers/ids/3")
    history.log(1, idle(history, live=ALL_THREE, digest=leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])))
    return history


# ------------------------------------------------------------------ C7: the queue


def queued(number: int) -> EventQueued:
    return EventQueued(event_id=number, event="BrokerChange")


def started(number: int) -> EventStarted:
    return EventStarted(event_id=number, event="BrokerChange", queued_ms=0.0)


def ended(number: int) -> EventEnded:
    return EventEnded(event_id=number, event="BrokerChange", took_ms=1.0)


def preempted(number: int) -> EventPreempted:
    return EventPreempted(event_id=number, event="BrokerChange")


@accepts("C7")
def events_run_one_by_one() -> History:
    history = History()
    history.log(1, queued(1), started(1), queued(2), queued(3), preempted(2), preempted(3), queued(4), ended(1))
    history.log(1, started(4), ended(4), queued(5))
    return history


@accepts("C7")
def the_event_in_progress_is_cut_short_when_the_broker_stops() -> History:
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
def an_event_jumps_the_queue() -> History:
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


# ------------------------------------------------------------------ C8: role and session


def opened(session: int) -> SessionOpened:
    return SessionOpened(session_id=session, timeout_ms=3000)


@accepts("C8")
def a_lost_session_ends_the_role_before_the_next_begins() -> History:
    history = cluster()
    digest = leadership_digest([("t", 0, 1, 0, (1, 2, 3), 0)])
    history.log(1, opened(0x11), elected(1, 1), idle(history, live=ALL_THREE, digest=digest))
    history.end(0x11, "/controller", "/brokers/ids/1")
    history.log(1, resigned(1), opened(0x12), BrokerRegistered(broker_id=1, broker_epoch=9, session_id=0x12))
    return history


@accepts("C8")
def a_broker_on_its_way_out_stays_resigned() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), resigned(1))
    history.log(1, ProcessExiting(reason="SIGTERM"), at_ms=60_000.0)
    return history


@rejects("C8", "registered in a new session while still controller of epoch 1")
def a_role_outlives_its_session() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), opened(0x12))
    history.log(1, BrokerRegistered(broker_id=1, broker_epoch=9, session_id=0x12))
    return history


@rejects("C8", "elected in session 0x11 after opening 0x12")
def a_role_is_won_for_a_session_of_the_past() -> History:
    history = cluster()
    history.log(1, opened(0x11), opened(0x12), elected(1, 1))
    return history


@rejects("C8", "while still controller of epoch 1")
def a_role_is_won_twice() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1), elected(1, 2))
    return history


@rejects("C8", "idle as controller of epoch 1 while broker 2 owns /controller")
def an_operator_deposed_it_unnoticed() -> History:
    history = cluster()
    history.log(1, opened(0x11), elected(1, 1))
    history.commit(0xFF, history.delete("/controller"))
    history.elect(2)
    history.log(1, idle(history, live=ALL_THREE, digest=""))
    return history


@rejects("C8", "broker-1 owns /controller, resigned from epoch 1 and stays so")
def nobody_controls_though_the_znode_stands() -> History:
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
def a_partition_lives_and_dies() -> History:
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
def a_topic_that_vanished_begins_anew() -> History:
    history = History()
    begun = partition_moved("NonExistentPartition", "NewPartition")
    history.log(1, begun, TopicsChanged(new=(), deleted=("t",)), TopicsChanged(new=("t",), deleted=()), begun)
    return history


@rejects("C9", "left NonExistentPartition, though it was in NewPartition")
def a_partition_begins_anew_though_another_topic_vanished() -> History:
    history = History()
    begun = partition_moved("NonExistentPartition", "NewPartition")
    history.log(1, begun, TopicsChanged(new=(), deleted=("other",)), begun)
    return history


@rejects("C9", "t-0 went from NewPartition to NonExistentPartition")
def a_new_partition_vanishes() -> History:
    history = History()
    history.log(1, partition_moved("NewPartition", "NonExistentPartition"))
    return history


@rejects("C9", "t-0 went from OnlineReplica to ReplicaDeletionStarted")
def an_online_replica_is_deleted() -> History:
    history = History()
    history.log(1, replica_moved("OnlineReplica", "ReplicaDeletionStarted"))
    return history


@rejects("C9", "left OfflinePartition, though it was in OnlinePartition")
def a_transition_starts_elsewhere() -> History:
    history = History()
    history.log(
        1, partition_moved("NewPartition", "OnlinePartition"), partition_moved("OfflinePartition", "OnlinePartition")
    )
    return history


@rejects("C9", "t-0 was asked to go from NonExistentPartition to OnlinePartition")
def an_illegal_transition_was_asked_for() -> History:
    history = History()
    invalid = InvalidTransition(target="OnlinePartition", source="NonExistentPartition", topic="t", partition=0)
    history.log(1, invalid)
    return history


# ------------------------------------------------------------------ C10: who is alive, before who leads


@accepts("C10")
def the_living_are_introduced_first() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(3, 0), live_leaders=(3,)), metadata(2))
    history.log(2, leader_and_isr(leadership(1, 1), epoch=2, live_leaders=(1,)))
    return history


@accepts("C10")
def a_dead_leader_needs_no_introduction() -> History:
    history = History()
    history.log(2, metadata(2, live=(1, 2)), leader_and_isr(leadership(3, 0), epoch=2))
    return history


@rejects("C10", "came before that controller's UpdateMetadata")
def a_new_controller_begins_with_leaders() -> History:
    history = History()
    history.log(2, metadata(1), leader_and_isr(leadership(3, 0), epoch=2))
    return history


@rejects("C10", "LeaderAndIsr names leader 3 for t-0, which is unknown to the broker")
def a_leader_comes_as_a_stranger() -> History:
    history = History()
    history.log(2, metadata(1, live=(1, 2)), leader_and_isr(leadership(3, 0), live_leaders=(3,)))
    return history
