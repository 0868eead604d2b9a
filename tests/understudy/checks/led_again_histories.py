"""Histories of a leader that loses power and leads again in the same leader epoch, seen in the leader epochs after it.

The first beginning of the epoch is at 3. Records before it are lost as well, so that the second one is at 2. Replicas
that have a record of the epoch from the first time keep their other record at 2 for good, as in Kafka.

If the first beginning is at 4 and such a replica leads, the broker that led twice follows it from offset 3 on, where
that leader has an earlier epoch: the leader epochs of the follower's log descend. The follower's cache then lacks the
higher epoch, and an earlier epoch begins too late in it. The cache is still like this when that broker leads.
"""

from __future__ import annotations

from tests.understudy.checks.histories import History, accepts, rejects
from tests.understudy.checks.replication_histories import (
    appended,
    batch,
    opened,
    started,
    three_replicas,
    truncated,
    watermark,
)


def led_again(*of_broker_2: int) -> History:
    """Broker 1 leads twice at epoch 1; broker 2 has these offsets of the first time, broker 3 nothing of either."""
    history = three_replicas()
    history.state(1, 1, [1, 2, 3])
    first = [batch(offset, 1) for offset in of_broker_2]
    history.log(1, started(1, 3, (0, 0), (1, 3)), appended(*first, leader_epoch=1, role="leader"))
    history.log(2, appended(*first, leader_epoch=1))
    history.log(1, opened(2, (0, 0), high_watermark=2), incarnation=2)
    history.log(1, started(1, 2, (0, 0), (1, 2)), incarnation=2)
    history.log(1, appended(batch(2, 1, size=2), leader_epoch=1, role="leader"), incarnation=2)
    return history


def next_epoch(history: History) -> History:
    """Broker 1 leads at epoch 2 as well, and waits for broker 2."""
    history.state(1, 2, [1, 2])
    history.log(1, started(2, 4, (0, 0), (1, 2), (2, 4)), incarnation=2)
    history.log(1, appended(batch(4, 2), leader_epoch=2, role="leader"), incarnation=2)
    history.log(1, watermark(5, 5, (2, 5), leader_epoch=2, role="leader"), incarnation=2)
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R6")
@accepts("R7")
@accepts("R9")
def a_follower_keeps_another_record_that_leader_epochs_do_not_show() -> History:
    """The logs end at the same offset when the next leader epoch begins, so the follower truncates nothing."""
    history = next_epoch(led_again(3))
    history.log(2, appended(batch(4, 2), leader_epoch=2), watermark(5, 5, leader_epoch=2))
    return history


@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R6")
@accepts("R9")
def a_follower_truncates_to_where_the_epoch_ends_in_its_leader() -> History:
    history = next_epoch(led_again(3, 4, 5))
    history.log(2, truncated(4, (0, 0), (1, 3), leader_epoch=2, before=6))
    history.log(2, appended(batch(4, 2), leader_epoch=2), watermark(5, 5, leader_epoch=2))
    return history


def a_follower_truncates_below_what_the_next_epoch_committed(to_offset: int) -> History:
    history = next_epoch(led_again(3))
    history.log(2, appended(batch(4, 2), leader_epoch=2), watermark(5, 5, leader_epoch=2))
    history.log(1, started(3, 5, (0, 0), (1, 2), (2, 4), (3, 5)), incarnation=2)
    history.log(2, truncated(to_offset, (0, 0), leader_epoch=3, before=5, high_watermark=5))
    return history


@accepts("R6")
def a_follower_removes_a_record_of_the_epoch_that_began_twice() -> History:
    return a_follower_truncates_below_what_the_next_epoch_committed(3)


@rejects("R6", "t-0: broker 2 truncated to 4 below its high watermark 5")
def a_follower_removes_a_record_of_the_epoch_after_it() -> History:
    return a_follower_truncates_below_what_the_next_epoch_committed(4)


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R9")
def the_replica_with_the_other_record_leads() -> History:
    """Broker 1 follows it and keeps its own record at 2. Broker 3 has lost everything and gets the other one."""
    history = a_follower_keeps_another_record_that_leader_epochs_do_not_show()
    history.state(2, 3, [1, 2, 3])
    history.log(2, started(3, 5, (0, 0), (1, 3), (2, 4), (3, 5)))
    history.log(2, appended(batch(5, 3), leader_epoch=3, role="leader"))
    history.log(1, appended(batch(5, 3), leader_epoch=3), incarnation=2)
    history.log(2, watermark(6, 6, (1, 6), leader_epoch=3, role="leader"))
    history.log(1, watermark(6, 6, leader_epoch=3), incarnation=2)
    copied = batch(0), batch(1), batch(2), batch(3, 1), batch(4, 2), batch(5, 3)
    history.log(3, opened(), appended(*copied, leader_epoch=3), watermark(6, 6, leader_epoch=3), incarnation=2)
    return history


NEVER_HAD = "t-0: broker 2, awaited by the leader in leader epoch 2, never had all of the leader's records below"


@rejects("R3a", NEVER_HAD)
@rejects("R3b", "t-0: broker 2, in the last ISR in ZooKeeper in leader epoch 2, never had")
@rejects("R9", "broker 2 took over a high watermark in leader epoch 2 with a record of epoch 1 at 4")
def a_follower_keeps_more_of_the_epoch_than_its_leader_has() -> History:
    """Leader epochs show this one: the epoch ends at 4 in the leader."""
    history = next_epoch(led_again(3, 4))
    history.log(2, watermark(5, 5, leader_epoch=2))
    return history


@rejects("R3a", NEVER_HAD)
def a_follower_truncates_and_does_not_get_the_records() -> History:
    """Before, its log was long enough."""
    history = next_epoch(led_again(3, 4, 5))
    history.log(2, truncated(4, (0, 0), (1, 3), leader_epoch=2, before=6))
    return history


@rejects("R3a", NEVER_HAD)
@rejects("R3b", "t-0: broker 2, in the last ISR in ZooKeeper in leader epoch 2, never had")
@rejects("R9", "broker 2 took over a high watermark in leader epoch 2 with a record of epoch 0 at 2")
def a_follower_has_no_record_of_the_epoch_and_does_not_truncate() -> History:
    """Leader epochs show this one: epoch 0 ends at 2 in the leader."""
    history = next_epoch(led_again())
    history.log(2, appended(batch(3), leader_epoch=1), appended(batch(4, 2), leader_epoch=2))
    history.log(2, watermark(5, 5, leader_epoch=2))
    return history


@rejects("R3a", NEVER_HAD)
@rejects("R9", "broker 2 took over a high watermark in leader epoch 2 with a record of epoch 0 at 2")
def a_leader_that_lost_nothing_begins_its_epoch_earlier() -> History:
    """Epoch 1 begins at different offsets in two logs, and no loss of power explains it."""
    history = three_replicas()
    history.log(2, appended(batch(3, 1), leader_epoch=1))
    history.state(1, 2, [1, 2])
    history.log(1, started(2, 4, (0, 0), (1, 2), (2, 4)), appended(batch(4, 2), leader_epoch=2, role="leader"))
    history.log(1, watermark(5, 5, (2, 5), leader_epoch=2, role="leader"))
    history.log(2, appended(batch(4, 2), leader_epoch=2), watermark(5, 5, leader_epoch=2))
    return history


@rejects("R2", "t-0: brokers 1 and 3 committed different batches at 4")
def replicas_commit_different_batches_of_epochs_after_it() -> History:
    history = a_follower_keeps_another_record_that_leader_epochs_do_not_show()
    history.log(3, opened(4, (0, 0), (1, 3)), appended(batch(4, 3), leader_epoch=3), incarnation=2)
    history.log(3, watermark(5, 5, leader_epoch=3), incarnation=2)
    return history


COPIED = batch(3, 1), batch(4, 2), batch(5, 3)
"""What the leader has from offset 3 on."""


def follows_with_the_later_beginning() -> History:
    """Broker 1 leads twice at epoch 2, from 4 and from 2, and follows broker 2, which has the records of the first."""
    history = three_replicas()
    history.state(1, 2, [1, 2, 3])
    history.log(1, started(1, 3, (0, 0), (1, 3)), appended(COPIED[0], leader_epoch=1, role="leader"))
    history.log(1, started(2, 4, (0, 0), (1, 3), (2, 4)), appended(COPIED[1], leader_epoch=2, role="leader"))
    history.log(2, appended(COPIED[0], leader_epoch=1), appended(COPIED[1], leader_epoch=2))
    history.log(1, opened(2, (0, 0)), started(2, 2, (0, 0), (2, 2)), incarnation=2)
    history.log(1, appended(batch(2, 2), leader_epoch=2, role="leader"), incarnation=2)
    history.state(2, 3, [2, 1])
    history.log(2, started(3, 5, (0, 0), (1, 3), (2, 4), (3, 5)))
    history.log(2, appended(COPIED[2], leader_epoch=3, role="leader"))
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R6")
@accepts("R7")
@accepts("R9")
def a_follower_gets_an_earlier_epoch() -> History:
    """Both have epoch 2, and it does not end before 3 in the leader."""
    history = follows_with_the_later_beginning()
    history.log(1, appended(*COPIED, leader_epoch=3), watermark(6, 6, leader_epoch=3), incarnation=2)
    history.log(2, watermark(6, 6, (1, 6), leader_epoch=3, role="leader"))
    return history


@accepts("R7")
def its_cache_has_the_epochs_as_they_were_appended() -> History:
    """The earlier epoch removes the later one from the cache, and the record at 2 seems to be of epoch 0."""
    history = a_follower_gets_an_earlier_epoch()
    history.log(1, opened(6, (0, 0), (1, 3), (2, 4), (3, 5)), incarnation=3)
    history.log(1, started(4, 6, (0, 0), (1, 3), (2, 4), (3, 5), (4, 6)), incarnation=3)
    history.log(1, truncated(5, (0, 0), (1, 3), (2, 4), leader_epoch=5, before=6), incarnation=3)
    history.log(1, truncated(3, (0, 0), leader_epoch=6, before=5), incarnation=3)
    return history


@accepts("R1")
@accepts("R7")
def another_replica_copies_it() -> History:
    """Its leader has only the first record of those from offset 3 on, so that epoch 2 is no longer in its cache."""
    history = follows_with_the_later_beginning()
    history.log(1, appended(COPIED[0], leader_epoch=3), incarnation=2)
    history.log(1, started(4, 4, (0, 0), (1, 3), (4, 4)), incarnation=2)
    history.log(3, opened(2, (0, 0)), appended(batch(2, 2), COPIED[0], leader_epoch=4), incarnation=2)
    return history


@accepts("R7")
def its_cache_is_made_again_when_the_earlier_epoch_was_truncated() -> History:
    """The cache lacks epoch 2 until the log is opened again after an unclean end."""
    history = a_follower_gets_an_earlier_epoch()
    history.log(1, truncated(3, (0, 0), leader_epoch=4, before=6), incarnation=2)
    history.log(1, opened(3, (0, 0), (2, 2)), incarnation=3)
    return history


EARLIER = "t-0: a follower at leader epoch 3 appended a batch of epoch"


@rejects("R7", f"{EARLIER} 0 after one of epoch 2")
def a_follower_gets_an_epoch_that_its_leader_has_elsewhere() -> History:
    history = follows_with_the_later_beginning()
    history.log(1, appended(batch(3, 0), leader_epoch=3), incarnation=2)
    return history


@rejects("R7", f"{EARLIER} 1 after one of epoch 3")
def a_follower_gets_an_earlier_epoch_after_one_that_did_not_begin_twice() -> History:
    history = follows_with_the_later_beginning()
    history.log(3, appended(batch(3, 3), batch(4, 1), leader_epoch=3))
    return history


@rejects("R7", f"{EARLIER} 1 after one of epoch 2")
def a_follower_gets_an_earlier_epoch_though_no_leader_led_again() -> History:
    history = three_replicas()
    history.log(2, appended(COPIED[0], leader_epoch=1), appended(COPIED[1], leader_epoch=2))
    history.log(2, started(3, 5, (0, 0), (1, 3), (2, 4), (3, 5)))
    history.log(3, opened(2, (0, 0)), appended(batch(2, 2), leader_epoch=2), incarnation=2)
    history.log(3, appended(*COPIED, leader_epoch=3), incarnation=2)
    return history


@rejects("R7", "t-0: a follower at leader epoch 2 appended a batch of epoch 1 after one of epoch 2")
def a_follower_gets_an_earlier_epoch_from_the_leader_that_led_again() -> History:
    """That one has nothing after its record at 2."""
    history = follows_with_the_later_beginning()
    history.log(3, opened(2, (0, 0)), appended(batch(2, 2), batch(3, 1), leader_epoch=2), incarnation=2)
    return history


@rejects("R7", "t-0: the batch at 3 is of leader epoch 1, in the cache of 2")
def the_earlier_epoch_does_not_get_into_the_cache() -> History:
    history = a_follower_gets_an_earlier_epoch()
    history.log(1, started(4, 6, (0, 0), (2, 2), (3, 5), (4, 6)), incarnation=2)
    return history


@rejects("R7", "t-0: the batch at 3 is of leader epoch 1, in the cache of 2")
def a_cache_that_is_made_again_has_only_the_later_epoch() -> History:
    history = a_follower_gets_an_earlier_epoch()
    history.log(1, opened(6, (0, 0), (2, 2), (3, 5)), incarnation=3)
    return history


@rejects("R7", "t-0: the batch at 3 is of leader epoch 1, in the cache of 0")
def a_cache_that_is_made_again_lacks_both_epochs() -> History:
    history = a_follower_gets_an_earlier_epoch()
    history.log(1, opened(6, (0, 0), (3, 5)), incarnation=3)
    return history


def leads_with_a_cache_that_dropped_epochs(*, again: bool = True) -> History:
    """Broker 1 leads at epoch 4. It has epoch 1 at 3, epoch 2 at 4, and behind that epoch 1 at 5 and epoch 2 at 6.

    Args:
        again: whether it led at epoch 2 twice, from 6 and from 4. Otherwise the first one was another broker.
    """
    history = three_replicas()
    first = batch(3, 1), batch(4, 1), batch(5, 1), batch(6, 2)
    history.state(1, 2, [1, 2, 3])
    history.log(1, started(1, 3, (0, 0), (1, 3)), appended(*first[:3], leader_epoch=1, role="leader"))
    if again:
        history.log(1, started(2, 6, (0, 0), (1, 3), (2, 6)), appended(first[3], leader_epoch=2, role="leader"))
    history.log(1, opened(4, (0, 0), (1, 3)), started(2, 4, (0, 0), (1, 3), (2, 4)), incarnation=2)
    history.log(1, appended(batch(4, 2), leader_epoch=2, role="leader"), incarnation=2)
    history.log(1, appended(*first[2:], batch(7, 3), leader_epoch=3), incarnation=2)
    history.state(1, 4, [1, 2])
    history.log(1, started(4, 8, (0, 0), (1, 5), (2, 6), (3, 7), (4, 8)), incarnation=2)
    history.log(1, appended(batch(8, 4), leader_epoch=4, role="leader"), incarnation=2)
    history.log(1, watermark(9, 9, (2, 9), leader_epoch=4, role="leader"), incarnation=2)
    return history


def has_epochs(history: History, *epochs: int) -> History:
    """Broker 2 has batches of these leader epochs from offset 3 on, the last one of epoch 4."""
    *earlier, last = (batch(offset, epoch) for offset, epoch in enumerate(epochs, 3))
    history.log(2, appended(*earlier, leader_epoch=3), appended(last, leader_epoch=4), watermark(9, 9, leader_epoch=4))
    return history


@accepts("R1")
@accepts("R2")
@accepts("R3a")
@accepts("R3b")
@accepts("R4")
@accepts("R9")
def a_follower_has_the_records_of_the_earlier_epoch() -> History:
    """It has another one only if its leader has one of the epoch that was led again."""
    return has_epochs(leads_with_a_cache_that_dropped_epochs(), 1, 1, 1, 2, 3, 4)


@accepts("R3a")
@accepts("R9")
def a_follower_has_the_same_records_as_its_leader() -> History:
    return has_epochs(leads_with_a_cache_that_dropped_epochs(), 1, 2, 1, 2, 3, 4)


NEVER_HAD_4 = "t-0: broker 2, awaited by the leader in leader epoch 4, never had all of the leader's records below"
TOOK_OVER_4 = "broker 2 took over a high watermark in leader epoch 4 with a record of epoch"


@rejects("R3a", NEVER_HAD_4)
@rejects("R3b", "t-0: broker 2, in the last ISR in ZooKeeper in leader epoch 4, never had")
@rejects("R9", f"{TOOK_OVER_4} 1 at 4")
def a_follower_has_them_though_no_leader_led_again() -> History:
    return has_epochs(leads_with_a_cache_that_dropped_epochs(again=False), 1, 1, 1, 2, 3, 4)


@rejects("R3a", NEVER_HAD_4)
@rejects("R9", f"{TOOK_OVER_4} 0 at 5")
def a_follower_has_another_record_where_the_cache_has_the_earlier_epoch() -> History:
    return has_epochs(leads_with_a_cache_that_dropped_epochs(), 0, 0, 0, 2, 3, 4)


@rejects("R3a", NEVER_HAD_4)
@rejects("R9", f"{TOOK_OVER_4} 3 at 3")
def a_follower_has_another_record_where_the_cache_has_dropped_an_epoch() -> History:
    return has_epochs(leads_with_a_cache_that_dropped_epochs(), 3, 1, 1, 2, 3, 4)


@rejects("R3a", NEVER_HAD_4)
@rejects("R9", f"{TOOK_OVER_4} 2 at 7")
def a_follower_has_more_of_the_epoch_that_was_led_again() -> History:
    return has_epochs(leads_with_a_cache_that_dropped_epochs(), 1, 1, 1, 2, 2, 4)
