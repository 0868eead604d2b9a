"""Histories of logs that are compacted, and of such that only look so."""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, rejects
from tests.understudy.checks.replication_histories import (
    appended,
    batch,
    opened,
    sent,
    started,
    three_replicas,
    truncated,
    watermark,
)
from understudy.foundation.eventlog.records import LogCleaned


def cleaned(from_offset: int, to_offset: int) -> LogCleaned:
    return LogCleaned(
        topic="t",
        topic_id="id-of-t",
        partition=0,
        from_offset=from_offset,
        to_offset=to_offset,
        segments=1,
        records_read=9,
        records_kept=2,
        bytes_read=900,
        bytes_written=200,
    )


def two_epochs() -> History:
    """Broker 1 has led at epochs 0 and 1; broker 4 has nothing yet."""
    history = three_replicas()
    history.log(1, started(1, 3, (0, 0), (1, 3), high_watermark=3))
    history.log(1, appended(batch(3, 1), leader_epoch=1, role="leader"))
    history.log(2, appended(batch(3, 1), leader_epoch=1))
    history.log(1, watermark(4, 4, (1, 4), (2, 4), leader_epoch=1, role="leader"))
    return history


def broker_4_leads(history: History, *batches: int) -> History:
    """Broker 4 has fetched batches of broker 1, that at 1 with other records in it, and leads at epoch 2."""
    fetched = [batch(offset, 1 if offset == 3 else 0, crc=77 if offset == 1 else None) for offset in batches]
    history.log(4, opened(), appended(*fetched, leader_epoch=1), watermark(4, 4, leader_epoch=1))
    history.log(4, started(2, 4, (0, 0), (1, 3), (2, 4), high_watermark=4))
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R5")
@accepts("R7")
@accepts("R9")
def a_follower_gets_a_compacted_log() -> History:
    """Of the acknowledged records at 0 and 2 newer ones of their keys are left."""
    history = two_epochs()
    history.log(1, cleaned(0, 3))
    return broker_4_leads(history, 1, 3)


@rejects("R1", "t-0: brokers 1 and 4 had different batches at offset 1 and leader epoch 0")
@rejects("R2", "t-0: brokers 1 and 4 committed different batches at 1")
@rejects(
    "R4", "t-0: broker 4 leads at leader epoch 2 without the record at 2 of epoch 0, which was acknowledged in epoch 0"
)
def records_are_missing_that_no_compaction_has_removed() -> History:
    history = two_epochs()
    history.log(1, cleaned(0, 1))
    return broker_4_leads(history, 1, 3)


@rejects("R1", "t-0: brokers 1 and 4 had different batches at offset 1 and leader epoch 0")
def a_compacted_batch_has_other_offsets() -> History:
    history = two_epochs()
    history.log(1, cleaned(0, 3))
    history.log(4, opened(), appended(batch(1, size=3), leader_epoch=1))
    return history


def the_leader_of_a_compacted_log(to_offset: int) -> History:
    """Broker 4 has got nothing of epoch 1 but the batch at 5: there that epoch begins in its cache."""
    history = two_epochs()
    more = batch(4, 1), batch(5, 1)
    history.log(1, appended(*more, leader_epoch=1, role="leader"), cleaned(0, to_offset))
    history.log(2, appended(*more, leader_epoch=1), watermark(6, 6, leader_epoch=1))
    history.log(4, opened(), appended(batch(2), batch(5, 1), leader_epoch=1))
    history.log(4, started(2, 6, (0, 2), (1, 5), (2, 6), high_watermark=4))
    history.log(4, watermark(6, 6, (2, 6), (4, 6), leader_epoch=2, role="leader"))
    history.log(2, watermark(6, 6, leader_epoch=2))
    return history


@accepts("R3a")
@accepts("R3b")
@accepts("R9")
def a_leader_epoch_begins_later_in_a_compacted_log() -> History:
    return the_leader_of_a_compacted_log(5)


@rejects("R3a", "t-0: broker 2, awaited by the leader in leader epoch 2, never had all of the leader's records below")
@rejects("R9", "t-0: broker 2 took over a high watermark in leader epoch 2 with a record of epoch 1 at 4")
def a_leader_epoch_begins_later_than_what_was_compacted() -> History:
    return the_leader_of_a_compacted_log(4)


def a_follower_of_a_compacted_log(to_offset: int, *epochs: tuple[int, int]) -> History:
    """Broker 4 leads with these epochs, and its follower removes the batch at 3, which is the only one of epoch 1."""
    history = two_epochs()
    history.log(1, started(2, 4, (0, 0), (1, 3), (2, 4), high_watermark=4))
    history.log(1, appended(batch(4, 2), leader_epoch=2, role="leader"), cleaned(0, to_offset))
    history.log(4, opened(), appended(batch(2), batch(4, 2), leader_epoch=2))
    history.log(4, started(3, 5, *epochs, high_watermark=5))
    history.log(2, truncated(3, (0, 0), leader_epoch=3, before=4, high_watermark=4))
    return history


@accepts("R6")
def a_follower_removes_records_of_an_epoch_that_compaction_has_removed() -> History:
    return a_follower_of_a_compacted_log(4, (0, 2), (2, 4), (3, 5))


REMOVED = "t-0: broker 2 truncated to 3 below its high watermark 4"


@rejects("R6", REMOVED)
def a_follower_removes_records_of_an_epoch_that_its_leader_has() -> History:
    return a_follower_of_a_compacted_log(4, (0, 2), (1, 3), (2, 4), (3, 5))


@rejects("R6", REMOVED)
def a_follower_removes_records_that_no_compaction_has_removed() -> History:
    return a_follower_of_a_compacted_log(3, (0, 2), (2, 4), (3, 5))


def a_cache_made_again_from_a_compacted_log(to_offset: int) -> History:
    """Broker 1 has lost its checkpoint of leader epochs, and its first batch of epoch 1 is that at 5."""
    history = two_epochs()
    more = batch(4, 1), batch(5, 1)
    history.log(1, appended(*more, leader_epoch=1, role="leader"), cleaned(0, to_offset))
    history.log(1, opened(6, (0, 1), (1, 5)))
    return history


@accepts("R7")
def a_cache_begins_an_epoch_behind_the_batches_that_compaction_has_removed() -> History:
    return a_cache_made_again_from_a_compacted_log(5)


@accepts("R7")
def a_cache_begins_an_epoch_behind_two_compacted_parts() -> History:
    history = a_cache_made_again_from_a_compacted_log(5)
    history.log(1, cleaned(5, 6), opened(7, (0, 1), (1, 6)))
    return history


@rejects("R7", "t-0: the batch at 3 is of leader epoch 1, in the cache of 0")
def a_cache_begins_an_epoch_behind_a_batch_that_is_left() -> History:
    return a_cache_made_again_from_a_compacted_log(4)


@rejects(
    "R4", "t-0: broker 4 leads at leader epoch 1 without the record at 2 of epoch 0, which was acknowledged in epoch 0"
)
def a_leader_lacks_the_end_of_a_compacted_log() -> History:
    history = three_replicas()
    history.log(1, cleaned(0, 3))
    history.log(4, opened(), appended(batch(0)), started(1, 1, (0, 0), (1, 1)))
    return history


@accepts("R11")
def batches_of_a_producer_are_compacted() -> History:
    history = three_replicas()
    history.log(1, appended(sent(3, 0), sent(4, 1), sent(5, 2), role="leader"), cleaned(0, 5))
    history.log(2, appended(sent(3, 0), sent(5, 2)))
    return history


@rejects("R11", "t-0: producer 7 at epoch 0 appended sequence 2 at offset 5, after sequence 0 at epoch 0")
def a_batch_of_a_producer_is_missing_behind_what_was_compacted() -> History:
    history = three_replicas()
    history.log(1, appended(sent(3, 0), sent(4, 1), sent(5, 2), role="leader"), cleaned(0, 4))
    history.log(2, appended(sent(3, 0), sent(5, 2)))
    return history


@rejects("R11", "t-0: producer 7 at epoch 0 appended sequence 0 at offset 5, after sequence 0 at epoch 0")
def a_batch_of_a_producer_is_repeated_in_a_compacted_log() -> History:
    history = three_replicas()
    history.log(1, appended(sent(3, 0), sent(5, 0), role="leader"), cleaned(0, 9))
    return history
