"""Histories of logs that checks R1 to R12 must accept or reject."""

from __future__ import annotations

from tests.understudy.checks.controller_histories import stop_replica
from tests.understudy.checks.histories import History, accepts, cluster, leadership, rejects
from understudy.foundation.eventlog.records import (
    HighWatermarkChanged,
    LeadershipWritten,
    LeaderStarted,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    RecordsAcknowledged,
    RecordsAppended,
)

ID = "id-of-t"
MAX_SEQUENCE = 2**31 - 1


def opened(end: int = 0, *epochs: tuple[int, int], high_watermark: int = 0, topic_id: str = ID) -> LogOpened:
    return LogOpened(
        topic="t",
        topic_id=topic_id,
        partition=0,
        log_start_offset=0,
        log_end_offset=end,
        high_watermark=high_watermark,
        epochs=epochs,
    )


def started(leader_epoch: int, end: int, *epochs: tuple[int, int], high_watermark: int = 0) -> LeaderStarted:
    return LeaderStarted(
        topic="t",
        topic_id=ID,
        partition=0,
        leader_epoch=leader_epoch,
        log_end_offset=end,
        high_watermark=high_watermark,
        epochs=epochs,
    )


def batch(base: int, leader_epoch: int = 0, *, crc: int | None = None, size: int = 1) -> LoggedBatch:
    return LoggedBatch(base, base + size, leader_epoch, 100 * leader_epoch + base if crc is None else crc)


def sent(base: int, sequence: int, *, epoch: int = 0, producer: int = 7, size: int = 1) -> LoggedBatch:
    last = (sequence + size - 1) & MAX_SEQUENCE
    return LoggedBatch(base, base + size, 0, base, producer, epoch, sequence, last)


def appended(
    *batches: LoggedBatch, leader_epoch: int = 0, role: str = "follower", topic_id: str = ID
) -> RecordsAppended:
    return RecordsAppended(
        topic="t", topic_id=topic_id, partition=0, role=role, leader_epoch=leader_epoch, batches=batches
    )


def watermark(
    offset: int, end: int, *replicas: tuple[int, int], leader_epoch: int = 0, role: str = "follower"
) -> HighWatermarkChanged:
    return HighWatermarkChanged(
        topic="t",
        topic_id=ID,
        partition=0,
        role=role,
        leader_epoch=leader_epoch,
        high_watermark=offset,
        log_end_offset=end,
        replica_end_offsets=replicas,
    )


def truncated(
    to: int, *epochs: tuple[int, int], leader_epoch: int, before: int, high_watermark: int = 0, full: bool = False
) -> LogTruncated:
    return LogTruncated(
        topic="t",
        topic_id=ID,
        partition=0,
        leader_epoch=leader_epoch,
        to_offset=to,
        is_full=full,
        log_end_offset=before,
        high_watermark=high_watermark,
        epochs=epochs,
    )


def acknowledged(
    last: int,
    *,
    leader_epoch: int = 0,
    acks: int = -1,
    isr_at_append: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    min_isr: int = 2,
    answered_in: int = -1,
) -> RecordsAcknowledged:
    return RecordsAcknowledged(
        topic="t",
        topic_id=ID,
        partition=0,
        leader_epoch=leader_epoch,
        base_offset=last,
        last_offset=last,
        acks=acks,
        isr_at_append=isr_at_append,
        isr=isr,
        min_insync_replicas=min_isr,
        answered_in_epoch=answered_in,
    )


def three_replicas() -> History:
    """Broker 1 leads at epoch 0; offsets 0 to 2 are everywhere, committed and acknowledged."""
    history = cluster(topic_id=ID)
    batches = batch(0), batch(1), batch(2)
    history.log(1, opened(), started(0, 0, (0, 0)), appended(*batches, role="leader"))
    history.log(1, watermark(3, 3, (1, 3), (2, 3), (3, 3), role="leader"), acknowledged(2))
    for broker in (2, 3):
        history.log(broker, opened(), appended(*batches), watermark(3, 3))
    return history


def clean_failover() -> History:
    """Broker 1 has one record more, at 3, when it dies; broker 2 leads at epoch 1 and writes another one there."""
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.state(2, 1, [2, 3])
    history.log(
        2, started(1, 3, (0, 0), (1, 3), high_watermark=3), appended(batch(3, 1), leader_epoch=1, role="leader")
    )
    history.log(3, appended(batch(3, 1), leader_epoch=1))
    history.log(2, watermark(4, 4, (2, 4), (3, 4), leader_epoch=1, role="leader"), acknowledged(3, leader_epoch=1))
    history.log(3, watermark(4, 4, leader_epoch=1))
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R5")
@accepts("R6")
@accepts("R7")
@accepts("R9")
@accepts("R10")
def a_deposed_leader_truncates_what_was_not_committed() -> History:
    history = clean_failover()
    history.log(1, opened(4, (0, 0), high_watermark=3), incarnation=2)
    history.log(1, truncated(3, (0, 0), leader_epoch=1, before=4, high_watermark=3), incarnation=2)
    history.log(1, appended(batch(3, 1), leader_epoch=1), watermark(4, 4, leader_epoch=1), incarnation=2)
    return history


def unclean_failover() -> History:
    """Broker 3 lacks what the others have committed at epoch 1 and becomes leader at epoch 2, from outside the ISR."""
    history = clean_failover()
    history.log(1, opened(4, (0, 0), high_watermark=3), incarnation=2)
    history.log(1, truncated(3, (0, 0), leader_epoch=1, before=4, high_watermark=3), incarnation=2)
    history.log(1, appended(batch(3, 1), batch(4, 1), leader_epoch=1), incarnation=2)
    history.log(2, appended(batch(4, 1), leader_epoch=1, role="leader"))
    history.log(2, watermark(5, 5, (2, 5), (1, 5), leader_epoch=1, role="leader"), acknowledged(4, leader_epoch=1))
    return history


def broker_3_leads_and_broker_2_follows(history: History) -> History:
    history.log(3, started(2, 4, (0, 0), (1, 3), (2, 4)), appended(batch(4, 2), leader_epoch=2, role="leader"))
    history.log(3, watermark(5, 5, (3, 5), leader_epoch=2, role="leader"))
    history.log(2, truncated(4, (0, 0), (1, 3), leader_epoch=2, before=5, high_watermark=5))
    history.log(2, appended(batch(4, 2), leader_epoch=2), watermark(5, 5, leader_epoch=2))
    return history


@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R6")
@accepts("R9")
def an_unclean_election_loses_records() -> History:
    history = unclean_failover()
    history.state(2, 1, [2, 1])
    history.state(3, 2, [3], recovery=1)
    return broker_3_leads_and_broker_2_follows(history)


@accepts("R2")
@accepts("R4")
@accepts("R6")
def an_unclean_election_is_in_the_controllers_records_alone() -> History:
    history = unclean_failover()
    history.log(1, LeadershipWritten(why="unclean", partitions=(leadership(3, 2, (3,), 3),)), incarnation=2)
    return broker_3_leads_and_broker_2_follows(history)


@rejects("R2", "t-0: broker 2 committed different batches at 4")
@rejects(
    "R4", "t-0: broker 3 leads at leader epoch 2 without the record at 4 of epoch 1, which was acknowledged in epoch 1"
)
@rejects("R6", "t-0: broker 2 truncated to 4 below its high watermark 5")
def a_clean_election_loses_records() -> History:
    history = unclean_failover()
    history.state(3, 2, [3, 2])
    return broker_3_leads_and_broker_2_follows(history)


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R6")
@accepts("R9")
@accepts("R11")
def a_leader_lost_records_in_a_loss_of_power() -> History:
    """It alone had them, leads again in the same leader epoch, and writes others."""
    history = three_replicas()
    history.log(1, appended(batch(3), batch(4), role="leader"))
    history.log(1, watermark(4, 5, (1, 5), (2, 4), role="leader"), acknowledged(3))
    history.log(2, appended(batch(3)), watermark(4, 4))
    history.log(1, opened(2, (0, 0), high_watermark=2), incarnation=2)
    history.log(1, started(0, 2, (0, 0)), appended(batch(2, crc=8), role="leader"), incarnation=2)
    history.log(1, started(1, 3, (0, 0), (1, 3)), incarnation=2)
    history.log(2, truncated(2, (0, 0), leader_epoch=1, before=4, high_watermark=4))
    history.log(2, appended(batch(2, crc=8), leader_epoch=1), watermark(3, 3, leader_epoch=1))
    return history


@accepts("R2")
@accepts("R6")
def a_follower_truncates_in_the_epoch_in_which_its_leader_has_lost_records() -> History:
    """No controller is there to elect another leader while the power of the leader is lost."""
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.log(1, watermark(4, 4, (1, 4), (2, 4), role="leader"), acknowledged(3))
    history.log(2, appended(batch(3)), watermark(4, 4))
    history.log(1, opened(3, (0, 0), high_watermark=0), incarnation=2)
    history.log(1, started(0, 3, (0, 0)), appended(batch(3, crc=8), role="leader"), incarnation=2)
    history.log(2, truncated(3, (0, 0), leader_epoch=0, before=4, high_watermark=4))
    history.log(2, appended(batch(3, crc=8)))
    history.log(1, watermark(4, 4, (1, 4), (2, 4), role="leader"), incarnation=2)
    return history


@accepts("R1")
@accepts("R2")
def batches_of_a_leader_that_led_again_are_committed_in_the_next_epoch() -> History:
    """The follower has the first batch at 3, the leader the one after its loss of power."""
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.log(2, appended(batch(3)))
    history.log(1, opened(3, (0, 0), high_watermark=0), incarnation=2)
    history.log(1, started(0, 3, (0, 0)), appended(batch(3, crc=8), role="leader"), incarnation=2)
    history.log(1, started(1, 4, (0, 0), (1, 4)), watermark(4, 4, leader_epoch=1, role="leader"), incarnation=2)
    history.log(2, watermark(4, 4, leader_epoch=1))
    return history


@accepts("R1")
def a_batch_follows_different_ones_of_an_epoch_in_which_its_leader_led_again() -> History:
    """The logs end at the same offset when the next leader epoch begins, so the follower truncates nothing."""
    history = three_replicas()
    history.log(1, appended(batch(3), batch(4), role="leader"))
    history.log(2, appended(batch(3), batch(4)))
    history.log(1, opened(3, (0, 0), high_watermark=0), incarnation=2)
    history.log(1, started(0, 3, (0, 0)), appended(batch(3, crc=8, size=2), role="leader"), incarnation=2)
    history.log(1, started(1, 5, (0, 0), (1, 5)), incarnation=2)
    history.log(1, appended(batch(5, 1), leader_epoch=1, role="leader"), incarnation=2)
    history.log(2, appended(batch(5, 1), leader_epoch=1))
    return history


@accepts("R6")
def a_checkpoint_brings_back_a_high_watermark_of_before_an_unclean_election() -> History:
    """Broker 2 loses its power before the high watermark that it has since the election is in the checkpoint."""
    history = unclean_failover()
    history.state(2, 1, [2, 1])
    history.state(3, 2, [3], recovery=1)
    history.log(3, started(2, 4, (0, 0), (1, 3), (2, 4)), appended(batch(4, 2), leader_epoch=2, role="leader"))
    history.log(2, truncated(4, (0, 0), (1, 3), leader_epoch=2, before=5, high_watermark=5))
    history.log(2, watermark(4, 4, leader_epoch=2), appended(batch(4, 2), leader_epoch=2))
    history.log(2, opened(5, (0, 0), (1, 3), (2, 4), high_watermark=5), incarnation=2)
    history.log(2, truncated(4, (0, 0), (1, 3), leader_epoch=3, before=5, high_watermark=5), incarnation=2)
    return history


@accepts("R4")
@accepts("R6")
def records_that_one_replica_acknowledged_may_be_lost() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"), acknowledged(3, acks=1))
    history.log(2, started(1, 3, (0, 0), (1, 3)))
    history.log(1, truncated(3, (0, 0), leader_epoch=1, before=4, high_watermark=3))
    return history


@accepts("R4")
def a_deposed_leader_reads_late_that_it_led_at_an_earlier_epoch() -> History:
    history = clean_failover()
    history.log(3, started(0, 4, (0, 0), (1, 3)))
    return history


@accepts("R1")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R7")
@accepts("R9")
@accepts("R11")
def a_log_that_was_there_before_the_detailed_level() -> History:
    history = cluster()
    history.log(1, opened(50, (3, 0), (4, 20)), started(5, 50, (3, 0), (4, 20), (5, 50)))
    history.log(1, appended(LoggedBatch(50, 51, 5, 1, 7, 0, 99, 99), leader_epoch=5, role="leader"))
    history.log(2, appended(LoggedBatch(50, 51, 5, 1, 7, 0, 99, 99), leader_epoch=5))
    history.log(1, watermark(51, 51, (1, 51), (2, 51), (3, 51), leader_epoch=5, role="leader"))
    history.log(2, watermark(51, 51, leader_epoch=5))
    history.log(1, acknowledged(50, leader_epoch=5))
    history.log(2, started(6, 51, (3, 0), (4, 20), (5, 50), (6, 51)))
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R6")
@accepts("R7")
@accepts("R9")
def a_follower_begins_where_its_leaders_log_begins() -> History:
    history = three_replicas()
    history.log(3, truncated(40, leader_epoch=0, before=3, high_watermark=3, full=True))
    history.log(1, appended(*(batch(n) for n in range(3, 42)), role="leader"))
    history.state(1, 0, [1, 3])
    history.log(1, watermark(42, 42, (1, 42), (3, 42), role="leader"))
    history.log(3, appended(batch(40), batch(41)), watermark(42, 42))
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R6")
@accepts("R9")
def a_topic_and_a_replica_are_created_again() -> History:
    history = three_replicas()
    history.log(3, stop_replica(1, delete=True), opened(), appended(batch(0), batch(1)))
    for broker in (1, 2):
        history.log(broker, stop_replica(-2, delete=True), opened(topic_id="another"))
        history.log(broker, appended(batch(0, crc=5), topic_id="another", role="leader"))
    return history


# ------------------------------------------------------------------ R1


@rejects("R1", "t-0: brokers 1 and 2 had different batches at offset 3 and leader epoch 0")
def two_replicas_have_other_bytes() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.log(2, appended(batch(3, crc=1)))
    return history


@rejects("R1", "different batches at offset 3")
def two_replicas_have_batches_of_another_size() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.log(2, appended(batch(3, size=2)))
    return history


@rejects("R1", "t-0: brokers 1 and 2 had batches at offset 4 and leader epoch 2 that follow different ones")
def a_follower_keeps_a_batch_that_its_leader_never_had() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3, 1), leader_epoch=1, role="leader"))
    history.log(1, appended(batch(4, 2), leader_epoch=2, role="leader"))
    history.log(2, appended(batch(3, 0)), appended(batch(4, 2), leader_epoch=2))
    return history


@rejects("R1", "t-0: a batch at 2, though the log ends at 3")
def a_batch_is_appended_twice() -> History:
    history = three_replicas()
    history.log(2, appended(batch(2)))
    return history


@rejects("R1", "different batches at offset 3")
def a_leader_that_lost_nothing_writes_another_batch() -> History:
    history = three_replicas()
    history.log(2, appended(batch(3)))
    history.log(1, opened(3, (0, 0)), started(0, 3, (0, 0)), incarnation=2)
    history.log(1, appended(batch(3, crc=8), role="leader"), incarnation=2)
    return history


# ------------------------------------------------------------------ R2


@rejects("R2", "t-0: brokers 1 and 3 committed different batches at 2")
def a_follower_takes_the_high_watermark_before_it_truncates() -> History:
    history = cluster()
    history.log(1, opened(), started(0, 0, (0, 0)), appended(batch(0), batch(1), role="leader"))
    history.log(1, appended(batch(2, 2), leader_epoch=2, role="leader"))
    history.log(1, watermark(3, 3, (1, 3), leader_epoch=2, role="leader"))
    history.log(3, opened(), appended(batch(0), batch(1)), appended(batch(2, 1), leader_epoch=1))
    history.log(3, watermark(3, 3, leader_epoch=2), truncated(2, (0, 0), leader_epoch=2, before=3, high_watermark=3))
    return history


@rejects("R2", "t-0: brokers 1 and 2 committed different batches at 2")
def a_record_is_replaced_below_the_high_watermark() -> History:
    history = three_replicas()
    history.log(2, truncated(2, (0, 0), leader_epoch=1, before=3, high_watermark=3))
    history.log(2, appended(batch(2, 1), leader_epoch=1), watermark(3, 3, leader_epoch=1))
    return history


@rejects("R2", "t-0: brokers 2 and 3 committed different batches at 3")
def different_batches_of_an_epoch_in_which_none_led_again_are_committed_in_the_next() -> History:
    history = three_replicas()
    history.log(2, appended(batch(3)), watermark(4, 4, leader_epoch=1))
    history.log(3, appended(batch(3, crc=8)), watermark(4, 4, leader_epoch=1))
    return history


# ------------------------------------------------------------------ R3a and R3b


@accepts("R3a")
@accepts("R3b")
def a_follower_loses_records_after_it_had_them() -> History:
    """A loss of power takes them, while it still is in the ISR."""
    history = three_replicas()
    history.log(2, opened(1, (0, 0)), appended(batch(1)), incarnation=2)
    return history


@accepts("R3a")
@accepts("R3b")
def a_follower_leaves_the_isr_and_the_leader_goes_on() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.state(1, 0, [1, 2])
    history.log(2, appended(batch(3)))
    history.log(1, watermark(4, 4, (2, 4), role="leader"))
    return history


@accepts("R3b")
def a_topic_is_created_again_with_the_same_leader_epoch() -> History:
    """Broker 3, which is in the ISR of the new topic, did not have the records of the one before."""
    history = cluster(topic_id=ID)
    history.log(1, opened(), started(0, 0, (0, 0)), appended(batch(0), batch(1), role="leader"))
    history.state(1, 0, [1, 2])
    history.log(2, opened(), appended(batch(0), batch(1)))
    history.log(1, watermark(2, 2, (2, 2), role="leader"))
    history.log(3, opened(), appended(batch(0)))
    history.commit(0x11, history.delete("/brokers/topics/t/partitions/0/state"))
    history.commit(0x11, history.delete("/brokers/topics/t"))
    history.topic("t", {"0": [1, 2, 3]}, topic_id="another")
    history.state(1, 0, [1, 2, 3])
    return history


@rejects(
    "R3a",
    "t-0: broker 3, awaited by the leader in leader epoch 0, never had all of the leader's records below its high "
    "watermark 5",
)
@rejects(
    "R3b",
    "t-0: broker 3, in the last ISR in ZooKeeper in leader epoch 0, never had all of the leader's records below its "
    "high watermark 5",
)
def a_leader_counts_records_that_a_follower_does_not_have() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), batch(4), role="leader"))
    history.log(2, appended(batch(3), batch(4)))
    history.log(3, appended(batch(3)))
    history.log(1, watermark(5, 5, (2, 5), (3, 5), role="leader"))
    return history


@rejects("R3a", "t-0: broker 3, awaited by the leader in leader epoch 1, never had")
@rejects("R3b", "t-0: broker 3, in the last ISR in ZooKeeper in leader epoch 1, never had")
def a_follower_keeps_another_record_and_counts_as_in_sync() -> History:
    history = three_replicas()
    history.log(3, appended(batch(3)))
    history.state(2, 1, [2, 3])
    history.log(2, started(1, 3, (0, 0), (1, 3), high_watermark=3))
    history.log(2, appended(batch(3, 1), batch(4, 1), leader_epoch=1, role="leader"))
    history.log(3, appended(batch(4, 1), leader_epoch=1))
    history.log(2, watermark(5, 5, (3, 5), leader_epoch=1, role="leader"))
    return history


@rejects("R3a", "t-0: broker 3, awaited by the leader in leader epoch 1, never had")
def a_follower_gets_the_records_in_a_later_leader_epoch_only() -> History:
    history = three_replicas()
    history.state(2, 1, [2, 3])
    history.log(2, started(1, 3, (0, 0), (1, 3)), appended(batch(3, 1), leader_epoch=1, role="leader"))
    history.log(2, watermark(4, 4, (3, 4), leader_epoch=1, role="leader"))
    history.log(3, truncated(3, (0, 0), leader_epoch=2, before=3, high_watermark=3))
    history.log(3, appended(batch(3, 1), leader_epoch=2))
    return history


@rejects("R3a", "t-0: broker 3, awaited by the leader in leader epoch 2, never had")
def a_follower_had_the_records_in_an_earlier_leader_epoch_only() -> History:
    history = three_replicas()
    history.log(3, truncated(2, (0, 0), leader_epoch=1, before=3, high_watermark=2))
    history.log(2, started(2, 3, (0, 0), (2, 3)), watermark(3, 3, (3, 3), leader_epoch=2, role="leader"))
    return history


@accepts("R3a")
@rejects("R3b", "t-0: broker 3, in the last ISR in ZooKeeper in leader epoch 0, never had")
def a_leader_forgets_the_isr_that_it_has_proposed() -> History:
    """The controller has written the ISR with broker 3, and the leader does not wait for that broker (KIP-497)."""
    history = cluster(topic_id=ID)
    history.state(1, 0, [1, 2])
    history.log(1, opened(), started(0, 0, (0, 0)), appended(batch(0), role="leader"))
    history.log(2, opened(), appended(batch(0)))
    history.log(3, opened())
    history.state(1, 0, [1, 2, 3])
    history.log(1, watermark(1, 1, (2, 1), role="leader"))
    return history


# ------------------------------------------------------------------ R4


@rejects("R4", "without the record at 2 of epoch 0, which was acknowledged in epoch 0")
def a_leader_is_elected_from_a_shorter_log() -> History:
    history = three_replicas()
    history.log(3, truncated(2, (0, 0), leader_epoch=0, before=3), started(1, 2, (0, 0), (1, 2)))
    return history


@rejects("R4", "without the record at 2 of epoch 0, which was acknowledged in epoch 0")
def a_leader_has_another_record_at_the_offset() -> History:
    history = three_replicas()
    history.log(3, truncated(2, (0, 0), leader_epoch=1, before=3), appended(batch(2, 1), leader_epoch=1))
    history.log(3, started(2, 3, (0, 0), (1, 2), (2, 3)))
    return history


@rejects("R4", "broker 3 leads at leader epoch 1 without the record at 2")
def a_loss_of_power_is_made_up_for_before_another_loss() -> History:
    """Broker 3 fetches again what it lost; later it loses a record without a loss of power."""
    history = three_replicas()
    history.log(3, opened(1, (0, 0)), appended(batch(1), batch(2)), incarnation=2)
    history.log(3, truncated(2, (0, 0), leader_epoch=0, before=3), started(1, 2, (0, 0), (1, 2)), incarnation=2)
    return history


@rejects("R2", "t-0: broker 2 committed different batches at 4")
@rejects(
    "R4", "t-0: broker 1 leads at leader epoch 3 without the record at 4 of epoch 2, which was acknowledged in epoch 2"
)
def records_are_lost_after_an_unclean_election() -> History:
    history = unclean_failover()
    history.state(2, 1, [2, 1])
    history.state(3, 2, [3], recovery=1)
    broker_3_leads_and_broker_2_follows(history)
    history.log(3, acknowledged(4, leader_epoch=2))
    history.log(1, truncated(4, (0, 0), (1, 3), leader_epoch=2, before=5), incarnation=2)
    history.log(1, started(3, 4, (0, 0), (1, 3), (3, 4)), incarnation=2)
    history.log(2, truncated(4, (0, 0), (1, 3), leader_epoch=3, before=5, high_watermark=4))
    history.log(2, appended(batch(4, 3), leader_epoch=3), watermark(5, 5, leader_epoch=3))
    return history


@accepts("R4")
@accepts("R11")
def records_are_missing_in_the_event_log() -> History:
    history = three_replicas()
    history.log(1, appended(sent(3, 0), sent(4, 1), role="leader"), acknowledged(4))
    history.log(2, appended(sent(3, 0)), opened(5, (0, 0)), started(1, 5, (0, 0), (1, 5)))
    history.log(2, appended(sent(5, 2), role="leader", leader_epoch=1))
    return history


@accepts("R4")
def a_leader_begins_with_a_log_of_which_nothing_is_known() -> History:
    """The event logs are read from a moment on at which the records were in all logs already."""
    history = cluster(topic_id=ID)
    history.log(1, acknowledged(2))
    history.log(2, started(1, 3, (0, 0), (1, 3)))
    return history


@rejects("R4", "broker 2 leads at leader epoch 1 without the record at 2 of epoch 0")
def a_leader_begins_with_an_unknown_log_that_is_too_short() -> History:
    history = cluster(topic_id=ID)
    history.log(1, acknowledged(2))
    history.log(2, started(1, 2, (0, 0), (1, 2)))
    return history


@accepts("R4")
def a_record_is_acknowledged_when_it_is_sent_again_after_elections() -> History:
    """Broker 2 led without it at epoch 1, before broker 1, which still has it, leads at epoch 2 and answers."""
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"))
    history.log(2, started(1, 3, (0, 0), (1, 3)))
    history.log(1, started(2, 4, (0, 0), (2, 4)), acknowledged(3, answered_in=2))
    return history


@rejects("R4", "broker 2 leads at leader epoch 3 without the record at 3 of epoch 0, which was acknowledged in epoch 2")
def a_record_that_was_sent_again_is_missing_after_the_next_election() -> History:
    history = a_record_is_acknowledged_when_it_is_sent_again_after_elections()
    history.log(2, started(3, 3, (0, 0), (1, 3), (3, 3)))
    return history


@accepts("R4")
def a_lagging_follower_begins_where_its_leaders_log_begins() -> History:
    history = three_replicas()
    history.log(3, truncated(1, (0, 0), leader_epoch=0, before=3), truncated(40, leader_epoch=1, before=1, full=True))
    history.log(3, appended(batch(40, 1), leader_epoch=1), started(2, 41, (1, 40), (2, 41)))
    return history


@rejects(
    "R4", "broker 2 leads at leader epoch 1 without the record at 46 of epoch 0, which was acknowledged in epoch 0"
)
def a_log_that_was_there_before_is_truncated() -> History:
    history = cluster()
    history.log(1, acknowledged(46))
    history.log(2, opened(50, (0, 0)), truncated(40, (0, 0), leader_epoch=0, before=50))
    history.log(2, appended(batch(40, size=5)), started(1, 45, (0, 0), (1, 45)))
    return history


@rejects("R4", "broker 3 leads at leader epoch 1 without the record at 3")
def a_replica_that_fetched_its_lost_records_again_leads_without_a_later_one() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), role="leader"), acknowledged(3))
    history.log(3, opened(1, (0, 0)), appended(batch(1), batch(2)), started(1, 3, (0, 0), (1, 3)), incarnation=2)
    return history


@rejects("R4", "broker 3 leads at leader epoch 1 without the record at 2")
def a_replica_that_was_created_again_leads_too_early() -> History:
    history = three_replicas()
    history.log(3, stop_replica(1, delete=True), opened(), appended(batch(0)), started(1, 1, (0, 0), (1, 1)))
    return history


# ------------------------------------------------------------------ R5


@accepts("R5")
def a_high_watermark_waits_for_the_slowest_replica() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), batch(4), role="leader"))
    history.log(1, watermark(4, 5, (1, 5), (2, 4), (3, 4), role="leader"))
    # A new incarnation begins with its checkpoint, which is older.
    history.log(1, opened(5, (0, 0), high_watermark=2), started(1, 5, (0, 0), (1, 5), high_watermark=2), incarnation=2)
    history.log(1, watermark(3, 5, (1, 5), (2, 3), leader_epoch=1, role="leader"), incarnation=2)
    history.log(2, watermark(2, 3))
    return history


@rejects("R5", "t-0: high watermark 5 above broker 3's log end offset 3")
def a_high_watermark_ignores_a_replica() -> History:
    history = three_replicas()
    history.log(1, appended(batch(3), batch(4), role="leader"))
    history.log(1, watermark(5, 5, (1, 5), (2, 5), (3, 3), role="leader"))
    return history


@rejects("R5", "t-0: high watermark 2 after 3 in one leader epoch")
def a_leaders_high_watermark_goes_back() -> History:
    history = three_replicas()
    history.log(1, watermark(2, 3, (1, 3), role="leader"))
    return history


@rejects("R5", "t-0: high watermark 2 after 3 in one leader epoch")
def a_leader_begins_with_a_high_watermark_and_lowers_it() -> History:
    history = three_replicas()
    history.log(2, started(1, 3, (0, 0), (1, 3), high_watermark=3))
    history.log(2, watermark(2, 3, (2, 3), leader_epoch=1, role="leader"))
    return history


@rejects("R5", "t-0: high watermark 4 above its own log end offset 3")
def a_followers_high_watermark_is_above_its_log() -> History:
    history = three_replicas()
    history.log(2, watermark(4, 4))
    return history


# ------------------------------------------------------------------ R6


@rejects("R6", "t-0: broker 2 truncated to 1 below its high watermark 3")
def a_follower_truncates_below_its_high_watermark() -> History:
    history = three_replicas()
    history.log(2, truncated(1, (0, 0), leader_epoch=0, before=3, high_watermark=3))
    return history


@rejects("R6", "t-0: broker 2 removed the record at 1 of leader epoch 0, which was acknowledged in epoch 0")
def a_follower_removes_an_acknowledged_record_above_its_high_watermark() -> History:
    history = three_replicas()
    history.log(2, truncated(1, (0, 0), leader_epoch=1, before=3, high_watermark=1))
    return history


# ------------------------------------------------------------------ R7


@accepts("R7")
def leaders_come_and_go_without_records() -> History:
    history = three_replicas()
    history.log(2, started(1, 3, (0, 0), (1, 3)))
    # It leads again in the same epoch, as when a controller repeats its LeaderAndIsr.
    history.log(2, appended(batch(3, 1), leader_epoch=1, role="leader"), started(1, 4, (0, 0), (1, 3)))
    history.log(3, started(2, 3, (0, 0), (2, 3)), started(4, 3, (0, 0), (4, 3)))
    history.log(3, truncated(3, (0, 0), leader_epoch=5, before=3, high_watermark=3))
    history.log(3, appended(batch(3, 1), batch(4, 5), leader_epoch=5), started(6, 5, (0, 0), (1, 3), (5, 4), (6, 5)))
    return history


@rejects("R7", "t-0: leader epoch (1, 5) follows (2, 3)")
def epochs_go_back() -> History:
    history = three_replicas()
    history.log(2, opened(3, (0, 0), (2, 3), (1, 5)), incarnation=2)
    return history


@rejects("R7", "t-0: the batch at 3 is of leader epoch 1, in the cache of 0")
def an_epoch_is_missing_in_the_cache() -> History:
    history = three_replicas()
    history.log(2, appended(batch(3, 1), leader_epoch=1), opened(4, (0, 0)))
    return history


@rejects("R7", "t-0: the batch at 2 is of leader epoch 0, in the cache of 1")
def an_epoch_begins_too_early() -> History:
    history = three_replicas()
    history.log(2, opened(3, (0, 0), (1, 2)))
    return history


@rejects("R7", "t-0: led at leader epoch 1 with epochs ((0, 0),)")
def a_leader_does_not_add_its_epoch() -> History:
    history = three_replicas()
    history.log(2, started(1, 3, (0, 0)))
    return history


@rejects("R7", "t-0: leader epoch 1 begins at 4 instead of 3")
def a_leader_that_leads_again_moves_the_start_of_its_epoch() -> History:
    history = three_replicas()
    history.log(2, started(1, 3, (0, 0), (1, 3)), started(1, 4, (0, 0), (1, 4)))
    return history


@rejects("R7", "t-0: truncated to 3 with leader epoch (1, 3) left in the cache")
def a_truncation_leaves_an_epoch_in_the_cache() -> History:
    history = three_replicas()
    history.log(2, started(1, 3, (0, 0), (1, 3)), truncated(3, (0, 0), (1, 3), leader_epoch=2, before=3))
    return history


@rejects("R7", "t-0: a leader at leader epoch 1 appended a batch of epoch 0 after one of epoch 0")
def a_leader_writes_another_epoch() -> History:
    history = three_replicas()
    history.log(2, started(1, 3, (0, 0), (1, 3)), appended(batch(3, 0), leader_epoch=1, role="leader"))
    return history


@rejects("R7", "t-0: a follower at leader epoch 2 appended a batch of epoch 1 after one of epoch 2")
def a_follower_appends_an_older_epoch() -> History:
    history = three_replicas()
    history.log(2, appended(batch(3, 2), batch(4, 1), leader_epoch=2))
    return history


# ------------------------------------------------------------------ R9


@accepts("R9")
def a_follower_takes_a_lower_high_watermark_and_a_later_leaders_records() -> History:
    history = three_replicas()
    history.log(3, started(4, 3, (0, 0), (4, 3)), appended(batch(3, 4), leader_epoch=4, role="leader"))
    history.log(2, watermark(2, 3, leader_epoch=4), appended(batch(3, 4), leader_epoch=4))
    history.log(2, watermark(4, 4, leader_epoch=4))
    return history


@accepts("R9")
def a_followers_other_records_are_above_the_high_watermark_that_it_takes() -> History:
    history = three_replicas()
    history.log(2, appended(batch(3)), watermark(2, 4, leader_epoch=1))
    history.log(3, started(1, 3, (0, 0), (1, 3)))
    return history


@accepts("R9")
def retention_has_removed_epochs_of_the_leader() -> History:
    history = three_replicas()
    history.log(3, started(4, 3, (4, 3)), appended(batch(3, 4), leader_epoch=4, role="leader"))
    history.log(2, appended(batch(3, 4), leader_epoch=4), watermark(4, 4, leader_epoch=4))
    return history


TAKEN_TOO_EARLY = (
    "t-0: broker 1 took over a high watermark in leader epoch 1 with a record of epoch 0 at 3, where the leader has "
    "another one"
)


@rejects("R9", TAKEN_TOO_EARLY)
def a_follower_takes_the_high_watermark_and_truncates_then() -> History:
    history = clean_failover()
    history.log(1, opened(4, (0, 0), high_watermark=3), watermark(4, 4, leader_epoch=1), incarnation=2)
    history.log(1, truncated(3, (0, 0), leader_epoch=1, before=4, high_watermark=4), incarnation=2)
    return history


@rejects("R9", TAKEN_TOO_EARLY)
def a_follower_takes_the_high_watermark_and_ends() -> History:
    history = clean_failover()
    history.log(1, opened(4, (0, 0), high_watermark=3), watermark(4, 4, leader_epoch=1), incarnation=2)
    return history


@rejects("R9", "with a record of epoch 1 at 4, where the leader has another one")
def a_follower_has_more_of_an_earlier_epoch_than_its_leader() -> History:
    """The second of two high watermarks in one leader epoch is the wrong one."""
    history = clean_failover()
    history.log(2, appended(batch(4, 1), leader_epoch=1, role="leader"))
    history.log(3, started(2, 4, (0, 0), (1, 3), (2, 4)), appended(batch(4, 2), leader_epoch=2, role="leader"))
    history.log(2, watermark(3, 5, leader_epoch=2), watermark(5, 5, leader_epoch=2))
    return history


# ------------------------------------------------------------------ R10


@accepts("R10")
def one_replica_acknowledges_with_acks_1() -> History:
    history = cluster()
    history.log(1, acknowledged(0, acks=1, isr=(1,), isr_at_append=(1,)))
    history.log(1, acknowledged(0, isr=(1, 2), isr_at_append=(1, 3)))
    return history


@rejects("R10", "t-0: 4 was appended with ISR [1], and min.insync.replicas is 2")
def a_record_is_appended_with_too_small_an_isr() -> History:
    history = cluster()
    history.log(1, acknowledged(4, isr_at_append=(1,)))
    return history


@rejects("R10", "t-0: 4 was acknowledged with ISR [1], and min.insync.replicas is 2")
def a_record_is_acknowledged_with_too_small_an_isr() -> History:
    history = cluster()
    history.log(1, acknowledged(4, isr=(1,)))
    return history


# ------------------------------------------------------------------ R11


@accepts("R11")
def sequences_continue() -> History:
    history = cluster()
    history.log(1, opened(), appended(sent(0, MAX_SEQUENCE - 2, size=5), sent(5, 2), role="leader"))
    history.log(1, appended(sent(6, 0, epoch=1), sent(7, 40, producer=8), batch(8), sent(9, 1, epoch=1), role="leader"))
    history.log(1, truncated(7, (0, 0), leader_epoch=1, before=10), appended(sent(7, 1, epoch=1), role="leader"))
    history.log(1, opened(7, (0, 0)), appended(sent(7, 1, epoch=1), role="leader"), incarnation=2)
    history.log(2, opened(5), appended(sent(5, 2)))
    return history


@accepts("R11")
def a_leader_lost_a_producers_records_and_leads_again_in_the_same_epoch() -> History:
    """The leader takes the next sequence number as an unknown producer's; the follower, which kept the lost records,
    does not learn that the leader has others there."""
    history = cluster()
    history.log(1, opened(), started(0, 0, (0, 0)), appended(sent(0, 0), sent(1, 1), role="leader"))
    history.log(2, opened(), appended(sent(0, 0), sent(1, 1)))
    history.log(1, opened(0), started(0, 0, (0, 0)), incarnation=2)
    history.log(1, appended(sent(0, 7), sent(1, 8), sent(2, 9), role="leader"), incarnation=2)
    history.log(2, appended(sent(2, 9)))
    return history


@rejects("R11", "t-0: producer 7 at epoch 0 appended sequence 2 at offset 1, after sequence 0 at epoch 0")
def a_sequence_is_missing() -> History:
    history = cluster()
    history.log(1, appended(sent(0, 0), sent(1, 2), role="leader"))
    return history


@rejects("R11", "t-0: producer 7 at epoch 0 appended sequence 0 at offset 3, after sequence 2 at epoch 0")
def a_retry_is_appended_again() -> History:
    history = cluster()
    history.log(1, appended(sent(0, 0, size=3), sent(3, 0, size=3), role="leader"))
    return history


@rejects("R11", "appended sequence 4 at offset 1, after sequence 0 at epoch 0")
def a_new_producer_epoch_does_not_begin_with_0() -> History:
    history = cluster()
    history.log(1, appended(sent(0, 0), sent(1, 4, epoch=1), role="leader"))
    return history


@rejects("R11", "t-0: producer 7 at epoch 0 appended sequence 0 at offset 1, after sequence 0 at epoch 1")
def a_producer_epoch_goes_back() -> History:
    history = cluster()
    history.log(1, appended(sent(0, 0, epoch=1), sent(1, 0), role="leader"))
    return history


# ------------------------------------------------------------------ R12

CONFIG = "/config/topics/t"


@accepts("R12")
def three_replicas_of_which_two_must_be_in_sync() -> History:
    history = three_replicas()
    history.commit(17, history.create(CONFIG, {"version": 1, "config": {"min.insync.replicas": "2"}}))
    return history


def broker_1_alone_raises_its_high_watermark(leader_epoch: int = 0) -> History:
    history = three_replicas_of_which_two_must_be_in_sync()
    history.log(1, appended(batch(3, leader_epoch), leader_epoch=leader_epoch, role="leader"))
    history.log(1, watermark(4, 4, leader_epoch=leader_epoch, role="leader"))
    return history


@accepts("R12")
def a_high_watermark_rises_with_two_of_three_replicas() -> History:
    history = three_replicas_of_which_two_must_be_in_sync()
    history.log(1, appended(batch(3), role="leader"), watermark(4, 4, (2, 4), role="leader"))
    history.log(1, acknowledged(3, isr=(1, 2), isr_at_append=(1, 2)))
    history.log(2, watermark(4, 4))
    return history


@accepts("R12")
def a_leader_requires_every_replica_until_it_has_read_the_configuration() -> History:
    history = a_high_watermark_rises_with_two_of_three_replicas()
    history.log(1, acknowledged(2, min_isr=3))
    return history


@accepts("R12")
def one_replica_is_enough_after_a_reassignment() -> History:
    """What was enough in the leader epoch before, with other replicas, says nothing about this one."""
    history = broker_1_alone_raises_its_high_watermark(leader_epoch=1)
    history.log(1, acknowledged(3, leader_epoch=0, answered_in=1, isr=(1,), isr_at_append=(1,), min_isr=1))
    return history


@accepts("R12")
def the_configuration_of_the_topic_has_changed() -> History:
    history = broker_1_alone_raises_its_high_watermark()
    history.commit(17, history.set(CONFIG, {"version": 1, "config": {"min.insync.replicas": "1"}}))
    return history


@accepts("R12")
def the_configuration_of_the_topic_says_nothing() -> History:
    history = three_replicas()
    history.commit(17, history.create(CONFIG, {"version": 1, "config": {}}))
    history.log(1, appended(batch(3), role="leader"), watermark(4, 4, role="leader"))
    return history


@accepts("R12")
def the_configuration_of_all_brokers_has_changed() -> History:
    history = broker_1_alone_raises_its_high_watermark()
    history.commit(17, history.create("/config/brokers/<default>", {"version": 1, "config": {}}))
    return history


@rejects("R12", "t-0: raised with [1], and min.insync.replicas is 2")
def a_high_watermark_rises_on_one_of_three_replicas() -> History:
    history = broker_1_alone_raises_its_high_watermark()
    history.commit(17, history.create("/config/brokers", None))
    return history


@rejects("R12", "t-0: raised with [1], and min.insync.replicas is 2")
def a_high_watermark_rises_before_the_first_record_is_acknowledged() -> History:
    history = broker_1_alone_raises_its_high_watermark(leader_epoch=1)
    history.log(1, acknowledged(3, leader_epoch=1, acks=1, isr=(1,), isr_at_append=(1,)))
    return history


@rejects("R12", "t-0: raised with [1], and min.insync.replicas is 2")
def another_key_of_the_configuration_has_changed() -> History:
    history = broker_1_alone_raises_its_high_watermark()
    config = {"min.insync.replicas": "2", "retention.ms": "1"}
    history.commit(17, history.set(CONFIG, {"version": 1, "config": config}))
    return history
