"""Compressed records come back, and data that is malformed or becomes too large is refused."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation.records.compression import Compression, RecordsTooLarge, compress, decompress
from understudy.foundation.records.errors import CorruptRecord

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
    with pytest.raises(CorruptRecord, match=f"records are no {codec.name.lower()}"):
        decompress(data, codec, 1_000_000)


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damage_raises_nothing_else(codec: Compression, data: st.DataObject) -> None:
    compressed = bytearray(compress(b"some records of a batch, " * 40, codec))
    place = data.draw(st.integers(0, len(compressed) - 1))
    compressed[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(compressed)))
    with suppress(CorruptRecord, RecordsTooLarge):
        decompress(compressed[:cut], codec, 100_000)


def test_blocks_of_lz4_are_independent() -> None:
    """`KafkaLZ4BlockInputStream` refuses others: "Dependent block stream is unsupported"."""
    flags = compress(b"hello" * 100_000, Compression.LZ4)[4]
    assert flags & 0x20


def test_snappy_is_framed_as_by_snappy_java() -> None:
    data = bytes(range(256)) * 400
    compressed = compress(data, Compression.SNAPPY)
    assert compressed.startswith(bytes.fromhex("82534e41505059000000000100000001"))
    with pytest.raises(CorruptRecord, match="block of"):
        decompress(compressed[:-1], Compression.SNAPPY, len(data))
    with pytest.raises(CorruptRecord, match="end in the size"):
        decompress(compressed + b"\0", Compression.SNAPPY, len(data))
