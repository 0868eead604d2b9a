"""Indexes find what a search of all entries finds, and their files are Kafka's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.brokers.log.indexes import CorruptIndex, OffsetIndex, OffsetPosition, TimeIndex, TimestampOffset

MAX_BYTES = 1200
BASE = 10**12

steps = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40)


def offset_index(pairs: list[tuple[int, int]]) -> tuple[OffsetIndex, list[OffsetPosition], bytes]:
    index, entries, data = OffsetIndex(BASE, MAX_BYTES), list[OffsetPosition](), b""
    offset, position = BASE, 0
    for more_offsets, more_bytes in pairs:
        offset, position = offset + more_offsets, position + more_bytes
        entries.append(OffsetPosition(offset, position))
        data += index.append(offset, position)
    return index, entries, data


@given(steps, st.integers(-5, 2100))
def test_the_last_batch_before_an_offset_is_found(pairs: list[tuple[int, int]], relative: int) -> None:
    index, entries, data = offset_index(pairs)
    wanted = BASE + relative
    expected = [entry for entry in entries if entry.offset <= wanted] or [OffsetPosition(BASE, 0)]
    assert index.lookup(wanted) == expected[-1]
    assert index.encode() == data
    again = OffsetIndex.decode(data + bytes(80) * bool(data), BASE, MAX_BYTES)
    assert (len(again), again.lookup(wanted)) == (len(entries), expected[-1])
    kept = [entry for entry in entries if entry.offset < wanted]
    assert index.truncate_to(wanted) == 8 * len(kept)
    assert (index.encode(), len(index)) == (data[: 8 * len(kept)], len(kept))
    assert index.last_offset == (kept[-1].offset if kept else BASE)


def test_an_offset_index_takes_ascending_offsets_within_its_segment() -> None:
    index = OffsetIndex(BASE, 16)
    assert index.append(BASE + 3, 70) == bytes.fromhex("0000000300000046")
    with pytest.raises(ValueError, match="no larger than the last one"):
        index.append(BASE + 3, 90)
    for offset in (BASE - 1, BASE + 2**31):
        with pytest.raises(ValueError, match="Integer overflow for offset"):
            index.append(offset, 90)
    index.append(BASE + 2**31 - 1, 90)
    assert index.is_full
    with pytest.raises(ValueError, match="full index"):
        OffsetIndex(BASE, 7).append(BASE + 1, 1)


times = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), max_size=40)


@given(times, st.integers(0, 700), st.integers(-2, 1300))
def test_the_last_entry_up_to_a_timestamp_is_found(pairs: list[tuple[int, int]], wanted: int, cut: int) -> None:
    index, entries, data = TimeIndex(BASE, MAX_BYTES), list[TimestampOffset](), b""
    timestamp, offset = 5, BASE
    for more_time, more_offsets in pairs:
        timestamp, offset = timestamp + more_time, offset + more_offsets
        data += index.maybe_append(timestamp, offset)
        if not entries or timestamp > entries[-1].timestamp:
            entries.append(TimestampOffset(timestamp, offset))
    nothing = TimestampOffset(-1, BASE)
    assert index.last == (entries or [nothing])[-1]
    expected = ([nothing] + [entry for entry in entries if entry.timestamp <= wanted])[-1]
    assert index.lookup(wanted) == expected
    assert index.encode() == data
    again = TimeIndex.decode(data + bytes(120) * bool(data), BASE, MAX_BYTES)
    assert (len(again), again.lookup(wanted), again.last) == (len(entries), expected, index.last)
    kept = [entry for entry in entries if entry.offset < BASE + cut]
    assert index.truncate_to(BASE + cut) == 12 * len(kept)
    assert index.encode() == data[: 12 * len(kept)]


def test_a_time_index_takes_what_does_not_go_back_and_has_room_for_a_last_entry() -> None:
    index = TimeIndex(BASE, 24)
    assert index.maybe_append(1_000, BASE + 2) == bytes.fromhex("00000000000003e800000002")
    assert index.maybe_append(1_000, BASE + 3, is_closing=True) == b""
    with pytest.raises(ValueError, match="full time index"):
        index.maybe_append(1_001, BASE + 3)
    with pytest.raises(ValueError, match="less than the last one, 1000"):
        index.maybe_append(999, BASE + 3, is_closing=True)
    with pytest.raises(ValueError, match="less than the last one, 1000000000002"):
        index.maybe_append(1_001, BASE + 1, is_closing=True)
    assert len(index.maybe_append(1_001, BASE + 3, is_closing=True)) == 12


@pytest.mark.parametrize("data", [b"\0", bytes(7), bytes.fromhex("00000002000000050000000100000009")])
def test_a_damaged_offset_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex.decode(data, BASE, MAX_BYTES)


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        bytes.fromhex("000000000000000500000002000000000000000400000003"),
        bytes.fromhex("000000000000000500000002000000000000000600000001"),
        bytes.fromhex("0000000000000005ffffffff"),
    ],
)
def test_a_damaged_time_index_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        TimeIndex.decode(data, BASE, MAX_BYTES)
