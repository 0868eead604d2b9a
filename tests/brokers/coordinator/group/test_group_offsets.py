"""Tests of a group's committed and pending offsets."""

from __future__ import annotations

from tests.brokers.coordinator.group.parts import ORDERS_0, ORDERS_1
from understudy.brokers.coordinator.group.group_offsets import CommittedOffset, GroupOffsets, OffsetAndMetadata

FIVE, SIX = OffsetAndMetadata(5), OffsetAndMetadata(6)


def offset(offsets: GroupOffsets) -> int | None:
    found = offsets.get(ORDERS_0)
    return None if found is None else found.offset


def test_an_offset_is_committed_when_its_record_is_replicated() -> None:
    offsets = GroupOffsets()
    offsets.prepare({ORDERS_0: FIVE})
    assert (offset(offsets), offsets.is_pending(ORDERS_0), offsets.is_empty) == (None, True, False)
    offsets.complete({ORDERS_0: FIVE}, 10)
    assert (offset(offsets), offsets.is_pending(ORDERS_0), len(offsets)) == (5, False, 1)


def test_a_failed_commit_leaves_the_former_offset() -> None:
    offsets = GroupOffsets()
    offsets.prepare({ORDERS_0: FIVE})
    offsets.complete({ORDERS_0: FIVE}, 10)
    offsets.prepare({ORDERS_0: SIX})
    offsets.fail({ORDERS_0: SIX})
    assert (offset(offsets), offsets.is_pending(ORDERS_0)) == (5, False)


def test_a_failed_commit_does_not_take_a_later_one_with_it() -> None:
    offsets = GroupOffsets()
    offsets.prepare({ORDERS_0: FIVE})
    offsets.prepare({ORDERS_0: SIX})
    offsets.fail({ORDERS_0: FIVE})
    assert offsets.is_pending(ORDERS_0)
    offsets.complete({ORDERS_0: SIX}, 11)
    assert (offset(offsets), offsets.is_pending(ORDERS_0)) == (6, False)


def test_the_commit_that_was_appended_last_counts_whichever_is_completed_first() -> None:
    offsets = GroupOffsets()
    offsets.prepare({ORDERS_0: FIVE})
    offsets.prepare({ORDERS_0: SIX})
    offsets.complete({ORDERS_0: SIX}, 11)
    offsets.prepare({ORDERS_0: OffsetAndMetadata(7)})
    offsets.complete({ORDERS_0: FIVE}, 10)
    assert (offset(offsets), offsets.is_pending(ORDERS_0)) == (6, True)


def test_a_partition_that_is_removed_while_its_commit_is_pending_stays_removed() -> None:
    offsets = GroupOffsets()
    offsets.prepare({ORDERS_0: FIVE})
    assert offsets.remove([ORDERS_0, ORDERS_1]) == {}
    offsets.complete({ORDERS_0: FIVE}, 10)
    assert (offset(offsets), offsets.is_empty) == (None, True)


def test_removal_returns_what_was_committed() -> None:
    offsets = GroupOffsets()
    offsets.load({ORDERS_0: CommittedOffset(1, FIVE), ORDERS_1: CommittedOffset(2, SIX)})
    assert list(offsets) == [ORDERS_0, ORDERS_1]
    assert offsets.has_any(frozenset({ORDERS_1})) is True
    assert offsets.remove([ORDERS_1]) == {ORDERS_1: SIX}
    assert offsets.has_any(frozenset({ORDERS_1})) is False
    assert offsets.remove_all() == {ORDERS_0: FIVE}
    assert offsets.is_empty


def test_offsets_expire_by_their_base_time_or_by_a_time_of_their_own() -> None:
    offsets = GroupOffsets()
    offsets.load(
        {
            ORDERS_0: CommittedOffset(1, OffsetAndMetadata(5, commit_timestamp=1_000)),
            ORDERS_1: CommittedOffset(2, OffsetAndMetadata(6, commit_timestamp=1_000, expire_timestamp=9_000)),
        }
    )

    def expire(now_ms: int, **kept: frozenset[str]) -> list[int]:
        removed = offsets.remove_expired(now_ms, 500, base_timestamp=lambda value: value.commit_timestamp, **kept)
        return [value.offset for value in removed.values()]

    assert expire(1_499) == []
    assert expire(20_000, kept_topics=frozenset({"orders"})) == []
    offsets.prepare({ORDERS_0: SIX})
    assert expire(1_500) == [], "a commit is pending"
    offsets.fail({ORDERS_0: SIX})
    assert expire(1_500) == [5]
    assert expire(8_999) == []
    assert expire(9_000) == [6]
