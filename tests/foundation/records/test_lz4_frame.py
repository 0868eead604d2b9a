"""Frames of lz4 are taken or refused as by Kafka, whatever other readers of lz4 make of them."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.foundation.records.compressed import (
    BLOCK_CHECKSUM,
    CONTENT_CHECKSUM,
    CONTENT_SIZE,
    INDEPENDENT,
    LINKED,
    lz4_frame,
    lz4_linked,
    skippable_frame,
)
from understudy.foundation.records.errors import NotDecompressed
from understudy.foundation.records.lz4_frame import checked_frame

BLOCKS = (b"a" * 60_000, b"b" * 60_000)
CONTENT = b"".join(BLOCKS)
ALL = INDEPENDENT | BLOCK_CHECKSUM | CONTENT_SIZE | CONTENT_CHECKSUM


def content(frame: bytes, *, ignores_header_checksum: bool = False) -> bytes:
    checked = checked_frame(memoryview(frame), ignores_header_checksum=ignores_header_checksum)
    return bytes(cramjam.lz4.decompress(checked))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("flags", [INDEPENDENT, INDEPENDENT | BLOCK_CHECKSUM, INDEPENDENT | CONTENT_SIZE, ALL])
def test_a_frame_of_independent_blocks_is_taken(flags: int, stored: bool) -> None:
    assert content(lz4_frame(*BLOCKS, flags=flags, stored=stored)) == CONTENT


def test_a_frame_that_the_library_reads_as_kafka_is_not_copied() -> None:
    frame = lz4_frame(*BLOCKS)
    assert checked_frame(memoryview(frame)).obj is frame


@pytest.mark.parametrize(
    "frame",
    [
        lz4_frame(*BLOCKS, flags=ALL, content_size=7),
        lz4_frame(*BLOCKS, flags=ALL, content_checksum=7),
        lz4_frame(*BLOCKS, end=b"\0\0\0\x80"),
        *(lz4_frame(*BLOCKS) + behind for behind in (b"\0", b"garbage", lz4_frame(b"more"), lz4_frame(b"more")[:9])),
        *(lz4_frame(*BLOCKS, block_sizes=size << 4) for size in (5, 6, 7)),
    ],
)
def test_what_kafka_does_not_look_at_is_ignored(frame: bytes) -> None:
    """Size and checksum of the content, the bit of a stored block in the end mark, and the bytes behind the frame."""
    assert content(frame) == CONTENT


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (lz4_linked(CONTENT), "Dependent block stream is unsupported"),
        (lz4_linked(b"one block"), "Dependent block stream is unsupported"),
        (lz4_frame(*BLOCKS, flags=LINKED, stored=True), "Dependent block stream is unsupported"),
        (lz4_frame(*BLOCKS, flags=INDEPENDENT | 1), "Reserved bits must be 0"),
        (lz4_frame(*BLOCKS, flags=INDEPENDENT | 2), "Reserved bits must be 0"),
        *((lz4_frame(*BLOCKS, version=each << 6), f"Version {each} is unsupported") for each in (0, 2, 3)),
        (lz4_frame(*BLOCKS, block_sizes=0x41), "Reserved2 field must be 0"),
        (lz4_frame(*BLOCKS, block_sizes=0xC0), "Reserved3 field must be 0"),
        *((lz4_frame(*BLOCKS, block_sizes=each << 4), f"and is {each}") for each in (0, 3)),
        (lz4_frame(*BLOCKS, magic=0x184C2102), "begin with 02214c18, not 04224d18"),
        (skippable_frame() + lz4_frame(*BLOCKS), "begin with 502a4d18"),
        (lz4_frame(*BLOCKS, header_checksum=7), "checksum of the frame's header is 7, not 130"),
        (lz4_frame(*BLOCKS, flags=ALL, header_checksum=7), "checksum of the frame's header is 7"),
        (lz4_frame(b"c" * 65_537, stored=True), "Block size 65537 exceeded max: 65536"),
        (lz4_frame(*BLOCKS, end=b""), "Stream ended prematurely"),
        (lz4_frame(*BLOCKS, end=b"\0\0\0"), "Stream ended prematurely"),
        (lz4_frame(*BLOCKS, flags=ALL)[:-1], "Stream ended prematurely"),
        *((lz4_frame(*BLOCKS, flags=ALL)[:size], "Stream ended prematurely") for size in (0, 5, 6, 14, 15, 40)),
    ],
)
def test_what_kafka_refuses_is_refused(frame: bytes, reason: str) -> None:
    with pytest.raises(NotDecompressed, match=reason):
        checked_frame(memoryview(frame))


def test_a_wrong_checksum_of_the_header_is_corrected_for_old_formats() -> None:
    for flags in (INDEPENDENT, ALL):
        assert content(lz4_frame(*BLOCKS, flags=flags, header_checksum=7), ignores_header_checksum=True) == CONTENT


@given(st.integers(0, 2**64 - 1), st.sampled_from([INDEPENDENT, INDEPENDENT | BLOCK_CHECKSUM]))
def test_the_checksum_of_a_header_is_that_of_the_library(size: int, flags: int) -> None:
    frame = lz4_frame(b"a", flags=flags | CONTENT_SIZE, content_size=size)
    assert content(frame) == b"a"
