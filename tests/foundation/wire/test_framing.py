"""Tests of `FrameReader`: frames are read whole and in order, in any pieces in which their bytes arrive."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.foundation.wire.values import QUICK
from understudy.foundation.wire.errors import InvalidReceive, MalformedMessage
from understudy.foundation.wire.framing import FrameReader

FRAMES = [b"first", b"", b"x" * 300, b"\0\0\0\1"]
STREAM = b"".join(pack(">i", len(frame)) + frame for frame in FRAMES)


def test_frames_received_in_two_pieces() -> None:
    for cut in range(len(STREAM) + 1):
        reader = FrameReader(1000)
        assert reader.feed(STREAM[:cut]) + reader.feed(STREAM[cut:]) == FRAMES
        assert not reader.has_unfinished_frame


def test_frames_received_byte_by_byte() -> None:
    reader = FrameReader(1000)
    assert [frame for byte in STREAM for frame in reader.feed(bytes([byte]))] == FRAMES


@QUICK
@given(frames=st.lists(st.binary(max_size=50)), sizes=st.lists(st.integers(0, 60)))
def test_frames_received_in_any_pieces(frames: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(pack(">i", len(frame)) + frame for frame in frames)
    reader, read = FrameReader(50), []
    for size in [*sizes, len(stream)]:
        read += reader.feed(stream[:size])
        stream = stream[size:]
    assert read == frames


@pytest.mark.parametrize("size", [-1, -(1 << 31), 1001, 0x7FFFFFFF])
def test_a_frame_size_out_of_range_is_refused_before_the_frame_arrives(size: int) -> None:
    with pytest.raises(
        InvalidReceive, match=rf"frame announces {size} bytes; expected 0 to 1000 \(socket\.request\.max\.bytes\)"
    ):
        FrameReader(1000).feed(pack(">i", size))


def test_bytes_of_another_protocol_are_refused_at_once() -> None:
    with pytest.raises(MalformedMessage, match="1195725856 bytes"):
        FrameReader().feed(b"GET / HTTP/1.1\r\n")


def test_the_largest_allowed_frame_is_read() -> None:
    assert FrameReader(1000).feed(pack(">i", 1000) + b"x" * 1000) == [b"x" * 1000]


def test_the_reader_keeps_no_bytes_of_returned_frames() -> None:
    reader = FrameReader(1000)
    for _ in range(3):
        assert reader.feed(STREAM) == FRAMES
        assert not reader.has_unfinished_frame
    assert reader.feed(STREAM[:-1]) == FRAMES[:-1]
    assert reader.has_unfinished_frame
