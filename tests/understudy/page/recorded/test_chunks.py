"""Records are kept in compressed chunks, and can be read from any position."""

from __future__ import annotations

import gzip
import json

import pytest

from understudy.page.recorded import chunks as chunks_module
from understudy.page.recorded.chunks import Chunks


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks_module, "CHUNK_RECORDS", 3)


def filled(records: int) -> Chunks:
    chunks = Chunks()
    chunks.add(json.dumps([number, ",\n]"]).encode() for number in range(records))
    return chunks


@pytest.mark.parametrize("records", range(8))
def test_all_chunks_together_are_all_records(records: int) -> None:
    chunks = filled(records)
    assert (len(chunks), chunks.full) == (records, records // 3)
    texts = [gzip.decompress(chunks.chunk(number)) for number in range(chunks.count)]
    assert [record[0] for text in texts for record in json.loads(text)] == list(range(records))
    assert [chunks.records_in(number) for number in range(chunks.count)] == [len(json.loads(text)) for text in texts]


@pytest.mark.parametrize("position", range(9))
def test_records_since_a_position_are_read_in_steps(position: int) -> None:
    chunks = filled(8)
    found: list[int] = []
    while records := chunks.since(position + len(found), 2):
        assert len(records) <= 2
        found += [json.loads(record)[0] for record in records]
    assert found == list(range(position, 8))


def test_the_chunk_after_the_last_full_one_is_empty_and_the_next_does_not_exist() -> None:
    chunks = filled(6)
    assert json.loads(gzip.decompress(chunks.chunk(2))) == []
    for number in (3, -1):
        with pytest.raises(IndexError, match=f"no chunk {number}; the chunks are 0 to 2"):
            chunks.chunk(number)


def test_a_full_chunk_does_not_change() -> None:
    chunks = filled(4)
    before = chunks.chunk(0)
    chunks.add([b"[9]"])
    assert chunks.chunk(0) is before
    assert chunks.compressed_bytes == len(before) + len(chunks.chunk(1))


def test_chunks_that_are_compressed_later_have_the_same_records() -> None:
    at_once, later = filled(8), Chunks(later=True)
    later.add(at_once.since(0, 3) + at_once.since(3, 3) + at_once.since(6, 3))
    assert (later.can_compress, later.is_compressed(0)) == (True, False)
    for _ in range(2):
        assert [later.chunk(number) for number in range(3)] == [at_once.chunk(number) for number in range(3)]
        assert [later.since(position, 2) for position in range(9)] == [
            at_once.since(position, 2) for position in range(9)
        ]
        assert later.compressed_bytes == at_once.compressed_bytes
        later.compress()
        assert not later.can_compress
        assert [later.is_compressed(number) for number in range(4)] == [True, True, False, False]
