"""Snapshots of producers come back, and damage is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.brokers.log.producer_snapshot import CorruptSnapshot, ProducerEntry, decode, encode

NAME = "00000000000000000042.snapshot"
longs, ints, shorts = st.integers(-1, 2**63 - 1), st.integers(-1, 2**31 - 1), st.integers(-1, 2**15 - 1)
entries = st.lists(st.builds(ProducerEntry, longs, shorts, ints, longs, ints, longs, ints, longs), max_size=4)

ONE = ProducerEntry(4000, 1, 8, 41, 2, 1_700_000_000_000, -1, -1)


@given(entries)
def test_snapshots_come_back(given_entries: list[ProducerEntry]) -> None:
    assert decode(NAME, encode(given_entries)) == given_entries


def test_the_bytes_are_those_of_kafkas_schema() -> None:
    """Version, checksum, number of producers, then the fields of each in the order of `ProducerStateManager`."""
    text = encode([ONE]).hex()
    assert (text[:4], text[12:20]) == ("0001", "00000001")
    assert text[20:] == ("0000000000000fa00001000000080000000000000029000000020000018bcfe56800ffffffffffffffffffffffff")


@given(st.data())
def test_any_changed_byte_is_found(data: st.DataObject) -> None:
    text = bytearray(encode([ONE, ONE]))
    text[data.draw(st.integers(0, len(text) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptSnapshot, match=f"Snapshot {NAME} "):
        decode(NAME, bytes(text))


@pytest.mark.parametrize("cut", [0, 5, 9, 30, 55])
def test_a_snapshot_that_is_cut_off_is_refused(cut: int) -> None:
    with pytest.raises(CorruptSnapshot, match="is corrupt"):
        decode(NAME, encode([ONE])[:cut])
