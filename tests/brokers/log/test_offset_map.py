"""Tests of the newest offset of each key."""

from __future__ import annotations

from understudy.brokers.log.offset_map import BYTES_PER_ENTRY, OffsetMap


def test_a_key_has_the_offset_that_was_put_last() -> None:
    newest = OffsetMap(100 * BYTES_PER_ENTRY, 0.9)
    assert newest.newest(b"a") == -1
    assert newest.put(b"a", 3)
    assert newest.put(b"b", 4)
    assert newest.put(b"a", 7)
    assert (newest.newest(b"a"), newest.newest(b"b"), newest.newest(b"c")) == (7, 4, -1)
    assert (len(newest), newest.utilization) == (2, 0.02)


def test_it_takes_no_more_than_its_buffer_has_room_for() -> None:
    newest = OffsetMap(10 * BYTES_PER_ENTRY, 0.5)
    assert [newest.put(b"%d" % number, number) for number in range(6)] == [True] * 5 + [False]
    assert not newest.put(b"0", 9), "so that it ends at one offset"
    assert newest.newest(b"0") == 0


def test_it_has_room_for_one_key_at_least() -> None:
    assert OffsetMap(1, 0.0).put(b"a", 1)
