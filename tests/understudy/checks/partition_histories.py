"""Histories of partitions that checks P1 to P9 and R8 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.controller_histories import leader_and_isr, metadata
from tests.understudy.checks.histories import History, accepts, cluster, leadership, rejects
from understudy.foundation.eventlog.records import IsrProposed, IsrResult, Leadership, LeadershipWritten

STATE = "/brokers/topics/t/partitions/0/state"


@accepts("P1")
@accepts("P2")
@accepts("P3")
@accepts("P5")
@accepts("P8")
def leaders_change() -> History:
    history = cluster()
    history.state(2, 1, [2, 3])
    history.state(2, 1, [2, 3, 1])
    history.state(-1, 2, [3, 1])
    history.state(3, 3, [3])
    history.state(-1, 4, [3])
    return history


@rejects("P1", "leader 1 is not in ISR [2, 3]")
def a_leader_outside_its_isr() -> History:
    history = cluster()
    history.state(1, 1, [2, 3])
    return history


@accepts("P2")
def a_reassignment_removes_a_replica_before_it_leaves_the_isr() -> History:
    history = cluster()
    history.commit(0x11, history.fence(), history.set("/brokers/topics/t", {"partitions": {"0": [1, 2]}}))
    history.state(1, 1, [1, 2, 3])
    return history


@accepts("P2")
def a_second_reassignment_begins_before_the_replica_that_the_first_removed_leaves_the_isr() -> History:
    history = cluster()
    history.state(1, 1, [1, 2, 3])
    history.commit(0x11, history.fence(), history.set("/brokers/topics/t", {"partitions": {"0": [1, 2]}}))
    history.commit(0x11, history.fence(), history.set("/brokers/topics/t", {"partitions": {"0": [2, 1]}}))
    history.state(2, 2, [1, 2, 3])
    history.state(2, 3, [1, 2])
    return history


@rejects("P2", "holds 3, which is not assigned")
def a_replica_that_a_reassignment_removed_joins_the_isr_again() -> History:
    history = cluster()
    history.state(1, 1, [1, 2, 3])
    history.commit(0x11, history.fence(), history.set("/brokers/topics/t", {"partitions": {"0": [1, 2]}}))
    history.state(1, 2, [1, 2])
    history.commit(0x11, history.fence(), history.set("/brokers/topics/t", {"partitions": {"0": [2, 1]}}))
    history.state(1, 3, [1, 2, 3])
    return history


@rejects("P2", "the ISR is empty")
def an_isr_is_empty() -> History:
    history = cluster()
    history.state(-1, 1, [])
    return history


@rejects("P2", "holds 9, which is not assigned")
def an_isr_has_a_replica_that_is_not_assigned() -> History:
    history = cluster()
    history.state(1, 0, [1, 9])
    return history


@rejects("P2", "names a replica twice")
def an_isr_names_a_replica_twice() -> History:
    history = cluster()
    history.state(1, 0, [1, 2, 2])
    return history


@accepts("P3")
def a_topic_created_again_starts_at_leader_epoch_0() -> History:
    history = cluster()
    history.state(2, 5, [2, 3])
    history.commit(0x11, history.fence(), history.delete(STATE))
    history.state(1, 0, [1, 2, 3])
    return history


@accepts("P3")
def the_controllers_records_match_its_writes() -> History:
    history = cluster()
    history.state(2, 1, [2, 3])
    history.state(2, 1, [2, 3, 1])
    history.log(1, LeadershipWritten(why="offline", partitions=(leadership(2, 1, (2, 3), 1),)))
    history.log(1, LeadershipWritten(why="alter-partition", partitions=(leadership(2, 1, (2, 3, 1), 2),)))
    return history


@accepts("P3")
def a_topic_created_again_has_an_equal_state_at_an_equal_version() -> History:
    history = cluster()
    history.state(1, 0, [1, 2])
    history.state(2, 1, [2, 3])
    history.log(1, LeadershipWritten(why="offline", partitions=(leadership(2, 1, (2, 3), 2),)))
    history.commit(0x11, history.fence(), history.delete(STATE))
    history.state(2, 0, [2])
    history.state(2, 1, [2])
    history.state(2, 1, [2, 3])
    return history


@rejects("P3", "leader epoch 1 after 2")
def a_leader_epoch_goes_back() -> History:
    history = cluster()
    history.state(2, 2, [2, 3])
    history.state(2, 1, [2, 3])
    return history


@rejects("P3", "leader 1 became 2 at the same leader epoch 0")
def a_leader_changes_at_the_same_leader_epoch() -> History:
    history = cluster()
    history.state(2, 0, [2, 3])
    return history


@rejects("P3", "created at leader epoch 3")
def a_partition_starts_at_leader_epoch_3() -> History:
    history = cluster(topic=False)
    history.state(1, 3, [1])
    return history


@rejects("P3", "offline took t-0 from leader epoch 0 to 0")
def an_election_keeps_the_leader_epoch() -> History:
    history = cluster()
    history.state(1, 0, [1, 2])
    history.log(1, LeadershipWritten(why="offline", partitions=(leadership(1, 0, (1, 2), 1),)))
    return history


@accepts("P4")
def each_epoch_has_one_leader() -> History:
    history = cluster()
    history.log(1, leader_and_isr(leaders=(leadership(1, 0),)))
    history.state(2, 1, [2, 3])
    history.log(2, leader_and_isr(leaders=(leadership(2, 1, (2, 3), 1),)))
    return history


@rejects("P4", "2 leads t-0 at leader epoch 0; ZooKeeper names [1]")
def two_leaders_at_one_epoch() -> History:
    history = cluster()
    history.log(1, leader_and_isr(leaders=(leadership(1, 0),)))
    history.log(2, leader_and_isr(leaders=(leadership(2, 0),)))
    return history


@rejects("P4", "t-0 is led by [1, 2] at leader epoch 0")
def two_leaders_at_one_epoch_in_event_logs_alone() -> History:
    history = History()
    history.log(1, leader_and_isr(leaders=(leadership(1, 0),)))
    history.log(2, leader_and_isr(leaders=(leadership(2, 0),)))
    return history


@rejects("P4", "3 became leader of t-0 by a LeaderAndIsr that names leader 1")
def a_broker_becomes_leader_by_a_request_that_names_another() -> History:
    history = cluster()
    history.log(3, leader_and_isr(leaders=(leadership(1, 0),)))
    return history


@accepts("P5")
def an_unclean_election_is_marked_in_the_state() -> History:
    history = cluster()
    history.state(-1, 1, [1])
    history.state(3, 2, [3], recovery=1)
    history.state(3, 2, [3])
    return history


def after_two_reassignments(*, registration: int) -> History:
    """Broker 4 leads t-0 after a reassignment to broker 2 was cancelled and one to broker 3 has begun."""
    history = cluster()
    history.register(4, version=registration)
    for replicas in ([1, 2, 3, 4], [4, 2], [4], [4, 3]):
        history.commit(0x11, history.set("/brokers/topics/t", {"partitions": {"0": replicas}}))
    history.state(4, 1, [4])
    return history


@accepts("P2")
def a_leader_older_than_alter_partition_adds_a_replica_that_is_no_longer_assigned() -> History:
    history = after_two_reassignments(registration=4)
    history.state(4, 1, [4, 2], by=4, controller_epoch=1, fence=False)
    history.state(4, 2, [4, 2])
    return history


@rejects("P2", "ISR [4, 2] holds 2, which is not assigned")
def the_controller_adds_a_replica_that_is_no_longer_assigned() -> History:
    history = after_two_reassignments(registration=4)
    history.state(4, 1, [4, 2])
    return history


@rejects("P2", "ISR [4, 2] holds 2, which is not assigned")
def a_leader_with_alter_partition_adds_a_replica_that_is_no_longer_assigned() -> History:
    history = after_two_reassignments(registration=5)
    history.state(4, 1, [4, 2], by=4, controller_epoch=1, fence=False)
    return history


@accepts("P5")
def an_unclean_election_before_the_recovery_state_existed() -> History:
    history = cluster()
    history.commit(0x11, history.create("/feature", {"features": {}, "version": 1, "status": 0}))
    history.state(-1, 1, [1])
    history.state(3, 2, [3])
    history.log(1, LeadershipWritten(why="unclean", partitions=(leadership(3, 2, (3,), version=2),)))
    return history


@rejects("P5", "in an election recorded as offline")
def an_unclean_election_before_the_recovery_state_existed_is_recorded_as_clean() -> History:
    history = cluster()
    history.commit(0x11, history.create("/feature", {"features": {}, "version": 1, "status": 0}))
    history.state(-1, 1, [1])
    history.state(3, 2, [3])
    history.log(1, LeadershipWritten(why="offline", partitions=(leadership(3, 2, (3,), version=2),)))
    return history


@rejects("P5", "3 became leader from outside ISR [1], with ISR [3, 2]")
def an_unclean_leader_has_others_in_its_isr() -> History:
    history = cluster()
    history.state(-1, 1, [1])
    history.state(3, 2, [3, 2], recovery=1)
    return history


@rejects("P5", "in an election recorded as offline")
def an_unclean_election_is_recorded_as_clean() -> History:
    history = cluster()
    history.state(-1, 1, [1])
    history.state(3, 2, [3], recovery=1)
    history.log(1, LeadershipWritten(why="offline", partitions=(leadership(3, 2, (3,), version=2),)))
    return history


@rejects("P5", "3 became leader from outside ISR [1]")
def an_unclean_election_is_not_marked_in_the_state() -> History:
    history = cluster()
    history.state(-1, 1, [1])
    history.state(3, 2, [3])
    return history


def proposed(
    isr: tuple[int, ...], version: int, *, joining: tuple[int, ...] = (), end_offset: int = 10, fetched_at: int = 0
) -> IsrProposed:
    return IsrProposed(
        topic="t",
        partition=0,
        leader_epoch=0,
        partition_epoch=version,
        isr=isr,
        joining=joining,
        leaving=(),
        leader_end_offset=12,
        follower_end_offsets=tuple((replica, end_offset) for replica in joining),
        high_watermark=10,
        epoch_start_offset=4,
        follower_leader_epochs=tuple((replica, fetched_at) for replica in joining),
    )


def result(isr: tuple[int, ...], version: int, error: str = "NONE") -> IsrResult:
    return IsrResult(topic="t", partition=0, error=error, leader_epoch=0, partition_epoch=version, isr=isr)


@accepts("P6")
def proposals_replace_the_version_they_name() -> History:
    history = cluster()
    history.state(1, 0, [1, 2])
    history.log(1, LeadershipWritten(why="alter-partition", partitions=(leadership(1, 0, (1, 2), 1),)))
    history.log(1, proposed((1, 2), 0), result((1, 2), 1), proposed((1,), 1), result((), -1, "INVALID_UPDATE_VERSION"))
    history.log(1, proposed((1, 2), 1), result((1, 2), 1))
    return history


@rejects("P6", "proposed over version 0 and accepted as 3")
def a_proposal_replaces_another_version() -> History:
    history = cluster()
    history.log(1, proposed((1, 2), 0), result((1, 2), 3))
    return history


@rejects("P6", "is not in ZooKeeper's history")
def a_controller_records_a_write_that_is_not_in_zookeeper() -> History:
    history = cluster()
    history.log(1, LeadershipWritten(why="offline", partitions=(leadership(2, 1, (2, 3), 1),)))
    return history


@accepts("P7")
def a_follower_joins_when_it_has_caught_up() -> History:
    history = cluster()
    history.state(1, 0, [1, 2])
    history.log(1, proposed((1, 2, 3), 1, joining=(3,)))
    history.state(1, 0, [1, 2, 3])
    return history


@accepts("R8")
def followers_join_by_fetches_at_the_leader_epoch_or_without_one() -> History:
    history = cluster()
    history.log(1, proposed((1, 2, 3), 1, joining=(3,)), proposed((1, 2, 3), 1, joining=(2,), fetched_at=-1))
    return history


@rejects("R8", "t-0: 3 joins by a Fetch at leader epoch 4 instead of 0")
def a_follower_joins_by_a_fetch_at_another_leader_epoch() -> History:
    history = cluster()
    history.log(1, proposed((1, 2, 3), 1, joining=(3,), fetched_at=4))
    return history


@rejects("P7", "3 joins the ISR of t-0 at offset 9 instead of 10")
def a_lagging_follower_joins() -> History:
    history = cluster()
    history.log(1, proposed((1, 2, 3), 1, joining=(3,), end_offset=9))
    return history


@rejects("P7", "4 joined the ISR and never registered")
def a_broker_that_never_registered_joins() -> History:
    history = cluster()
    history.commit(0xFF, history.set("/brokers/topics/t", {"partitions": {"0": [1, 2, 3, 4]}}))
    history.state(1, 0, [1, 2, 3, 4])
    return history


@rejects("P8", "without a leader, ISR [1, 2, 3] became [2, 9]")
def an_isr_grows_without_a_leader() -> History:
    history = cluster()
    history.state(-1, 1, [2, 9])
    return history


@rejects("P8", "without a leader, ISR [3] became []")
def the_last_isr_member_is_removed() -> History:
    history = cluster()
    history.state(3, 1, [3])
    history.state(-1, 2, [])
    return history


@accepts("P9")
def metadata_epochs_increase() -> History:
    history = cluster()
    history.log(
        2,
        metadata(1, leadership(1, 0)),
        metadata(1, leadership(1, 0, (1, 2), 1)),
        metadata(1, leadership(2, 1, (2,), 2)),
    )
    history.log(2, metadata(1, leadership(-2, 0)), metadata(1, leadership(1, 0)))
    return history


@accepts("P9")
def epochs_start_over_after_a_deletion_that_the_broker_was_not_informed_of() -> History:
    history = cluster()
    history.state(2, 5, [2, 3])
    history.commit(0x11, history.fence(), history.delete(STATE))
    history.state(1, 0, [1, 2, 3])
    history.log(2, metadata(1, leadership(2, 5, (2, 3), 1)), metadata(1, leadership(1, 0)))
    return history


@rejects("P9", "t-0 went from leader epoch and version (1, 1) back to (0, 0)")
def a_partition_of_a_topic_created_again_goes_back() -> History:
    history = cluster()
    history.commit(0x11, history.fence(), history.delete(STATE))
    history.state(1, 0, [1, 2, 3])
    history.state(2, 1, [2, 3])
    history.log(
        2, metadata(1, leadership(-2, 0)), metadata(1, leadership(2, 1, (2, 3), 1)), metadata(1, leadership(1, 0))
    )
    return history


@rejects("P9", "t-0 went from leader epoch and version (1, 2) back to (1, 1)")
def metadata_goes_back() -> History:
    history = cluster()
    history.log(2, metadata(1, leadership(2, 1, (2,), 2)), metadata(1, leadership(2, 1, (2, 3), 1)))
    return history


def state_of_controller_2() -> Leadership:
    return leadership(2, 1, (2,), 2, controller_epoch=2)


@accepts("P9")
def a_deposed_controller_sends_a_state_before_the_controller_that_wrote_it() -> History:
    history = cluster()
    history.log(
        2,
        metadata(1, state_of_controller_2()),
        metadata(2, leadership(1, 0)),
        metadata(2, state_of_controller_2()),
    )
    return history


@rejects("P9", "t-0 went from leader epoch and version (1, 2) back to (0, 0)")
def a_deposed_controller_sends_a_state_and_then_an_older_one() -> History:
    history = cluster()
    history.log(2, metadata(1, state_of_controller_2()), metadata(1, leadership(1, 0)))
    return history


@rejects("P9", "t-0 went from leader epoch and version (1, 2) back to (0, 0)")
def a_controller_sends_its_state_and_the_next_one_an_older_state() -> History:
    history = cluster()
    history.log(
        2,
        metadata(1, state_of_controller_2()),
        metadata(2, state_of_controller_2()),
        metadata(3, leadership(1, 0)),
    )
    return history
