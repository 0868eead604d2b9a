"""Varints of records have Kafka's bytes, in every length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation.records.varint import read_varint, read_varlong, varint

# From `ByteUtilsTest` of Kafka.
KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    63: "7e",
    -64: "7f",
    64: "8001",
    -65: "8101",
    8191: "fe7f",
    -8192: "ff7f",
    8192: "808001",
    2147483647: "feffffff0f",
    -2147483648: "ffffffff0f",
}


@pytest.mark.parametrize(("value", "text"), KNOWN.items())
def test_known_values(value: int, text: str) -> None:
    assert varint(value).hex() == text
    assert read_varint(bytes.fromhex(text), 0) == (value, len(text) // 2)


@given(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_ints_come_back(value: int, before: bytes, after: bytes) -> None:
    data = before + varint(value) + after
    assert read_varint(data, len(before)) == (value, len(data) - len(after))
    assert read_varlong(memoryview(data), len(before)) == (value, len(data) - len(after))


@given(st.integers(-(2**63), 2**63 - 1))
def test_longs_come_back(value: int) -> None:
    assert read_varlong(varint(value), 0) == (value, len(varint(value)))


def test_what_is_too_long_or_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 5 bytes"):
        read_varint(b"\xff" * 5 + b"\x01", 0)
    with pytest.raises(ValueError, match="more than 10 bytes"):
        read_varlong(b"\xff" * 10 + b"\x01", 0)
    with pytest.raises(IndexError):
        read_varint(b"\xff", 0)
    with pytest.raises(OverflowError):
        varint(2**63)
