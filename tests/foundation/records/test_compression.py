"""Compressed records come back, and data that is malformed or becomes too large is refused."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.foundation.records.compressed import (
    BLOCK_CHECKSUM,
    INDEPENDENT,
    gzip_members,
    lz4_frame,
    lz4_linked,
    skippable_frame,
    snappy_stream,
    zstd_frames,
)
from understudy.foundation.records.compression import Compression, RecordsTooLarge, compress, decompress
from understudy.foundation.records.errors import NotDecompressed

CODECS = [codec for codec in Compression if codec is not Compression.NONE]


@pytest.mark.parametrize("codec", Compression)
@given(data=st.binary(max_size=300), times=st.sampled_from([1, 1000]))
def test_data_come_back(codec: Compression, data: bytes, times: int) -> None:
    whole = data * times
    assert bytes(decompress(compress(whole, codec), codec, len(whole))) == whole


@pytest.mark.parametrize("codec", CODECS)
def test_views_and_data_without_patterns_come_back(codec: Compression) -> None:
    data = random.Random(7).randbytes(100_000)
    compressed = compress(memoryview(data), codec)
    assert bytes(decompress(memoryview(compressed), codec, 200_000)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_no_more_comes_out_than_the_limit(codec: Compression) -> None:
    """Zstandard packs a thousand times as tightly as here; no more than the limit is ever allocated."""
    data = bytes(10_000_000)
    compressed = compress(data, codec)
    assert len(bytes(decompress(compressed, codec, len(data)))) == len(data)
    with pytest.raises(RecordsTooLarge, match=f"records in {codec.name.lower()} would have more than 9999999 bytes"):
        decompress(compressed, codec, len(data) - 1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"no compressed data at all, and long enough for every header", b"\x00" * 40])
def test_what_is_not_compressed_is_refused(codec: Compression, data: bytes) -> None:
    with pytest.raises(NotDecompressed, match=f"records are no {codec.name.lower()}"):
        decompress(data, codec, 1_000_000)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damage_raises_nothing_else(codec: Compression, data: st.DataObject) -> None:
    compressed = bytearray(compress(b"some records of a batch, " * 40, codec))
    place = data.draw(st.integers(0, len(compressed) - 1))
    compressed[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(compressed)))
    with suppress(NotDecompressed, RecordsTooLarge):
        decompress(compressed[:cut], codec, 100_000)


def test_blocks_of_lz4_are_independent() -> None:
    """`KafkaLZ4BlockInputStream` refuses others: "Dependent block stream is unsupported"."""
    flags = compress(b"hello" * 100_000, Compression.LZ4)[4]
    assert flags & 0x20


def test_snappy_is_framed_as_by_snappy_java() -> None:
    data = bytes(range(256)) * 400
    compressed = compress(data, Compression.SNAPPY)
    assert compressed.startswith(bytes.fromhex("82534e41505059000000000100000001"))
    with pytest.raises(NotDecompressed, match="block of"):
        decompress(compressed[:-1], Compression.SNAPPY, len(data))


def test_large_members_of_gzip_are_decompressed_in_chunks() -> None:
    parts = [random.Random(number).randbytes(30_000) for number in range(3)]
    assert bytes(decompress(gzip_members(parts) + b"behind", Compression.GZIP, 90_000)) == b"".join(parts)
    with pytest.raises(RecordsTooLarge):
        decompress(gzip_members(parts) + b"behind", Compression.GZIP, 89_999)


PARTS = (b"a" * 500, b"", b"b" * 500)
WHOLE = b"".join(PARTS)
GARBAGE = b"no compressed data at all, and long enough for every header"


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Compression.GZIP, gzip_members(PARTS)),
        *((Compression.GZIP, gzip_members(PARTS) + behind) for behind in (b"\0", bytes(9), GARBAGE)),
        *((Compression.GZIP, gzip_members(PARTS) + gzip_members([b"more"])[:size]) for size in (1, 3, 9)),
        (Compression.SNAPPY, snappy_stream(*PARTS)),
        (Compression.SNAPPY, b"".join(snappy_stream(part, version=2) for part in PARTS)),
        (Compression.SNAPPY, snappy_stream(*PARTS, version=0) + snappy_stream()),
        *((Compression.SNAPPY, snappy_stream(*PARTS) + behind) for behind in (b"\1", b"\1\2\3")),
        (Compression.LZ4, lz4_frame(WHOLE) + lz4_frame(b"more")),
        (Compression.LZ4, lz4_frame(WHOLE) + GARBAGE),
        (Compression.ZSTD, zstd_frames(PARTS)),
        (Compression.ZSTD, skippable_frame() + zstd_frames(PARTS) + skippable_frame()),
    ],
)
def test_what_kafkas_streams_take_is_taken(codec: Compression, data: bytes) -> None:
    """Several members or streams, and bytes behind them; of lz4 one frame alone is read."""
    assert bytes(decompress(data, codec, 1000)) == WHOLE
    with pytest.raises(RecordsTooLarge):
        decompress(data, codec, 999)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        *((codec, b"") for codec in CODECS if codec is not Compression.ZSTD),
        *((codec, b"\x04") for codec in CODECS),
        *((codec, compress(WHOLE, codec)[:-1]) for codec in CODECS),
        *((codec, skippable_frame() + compress(WHOLE, codec)) for codec in CODECS if codec is not Compression.ZSTD),
        (Compression.GZIP, gzip_members([WHOLE])[:-8] + b"abcd" + gzip_members([WHOLE])[-4:]),
        (Compression.GZIP, gzip_members([WHOLE])[:-4] + b"abcd"),
        (Compression.GZIP, gzip_members([WHOLE, WHOLE])[:-1]),
        *((Compression.SNAPPY, snappy_stream(*PARTS) + behind) for behind in (bytes(4), b"\xff\xff\xff\xff", GARBAGE)),
        (Compression.SNAPPY, snappy_stream(*PARTS) + snappy_stream()[:12]),
        (Compression.SNAPPY, snappy_stream()[:12]),
        (Compression.SNAPPY, snappy_stream(*PARTS) + snappy_stream(version=0)),
        (Compression.SNAPPY, b"\xff\xff\xff\x7f" + GARBAGE),
        (Compression.LZ4, lz4_linked(WHOLE)),
        (Compression.LZ4, lz4_frame(WHOLE, flags=INDEPENDENT | BLOCK_CHECKSUM, block_checksum=7)),
        (Compression.LZ4, lz4_frame(bytes(70_000))),
        (Compression.LZ4, lz4_frame(WHOLE, header_checksum=7)),
        *((Compression.ZSTD, zstd_frames(PARTS) + behind) for behind in (b"\0", GARBAGE)),
    ],
)
def test_what_kafkas_streams_refuse_is_refused(codec: Compression, data: bytes) -> None:
    with pytest.raises(NotDecompressed):
        decompress(data, codec, 100_000)


def test_no_frame_of_zstd_is_no_records() -> None:
    """Kafka's stream of zstd ends at once, unlike others; the records are missing then, which is another error."""
    assert bytes(decompress(b"", Compression.ZSTD, 100)) == b""


def test_the_checksum_of_a_header_of_lz4_is_not_verified_in_message_format_0() -> None:
    frame = lz4_frame(WHOLE, header_checksum=7)
    assert bytes(decompress(frame, Compression.LZ4, 1000, message_format=0)) == WHOLE
    with pytest.raises(NotDecompressed, match="checksum of the frame's header"):
        decompress(frame, Compression.LZ4, 1000, message_format=1)
