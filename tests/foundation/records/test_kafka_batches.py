"""Batches that Kafka 3.9.1 has written are read, and written alike. `MemoryRecords` made them, in each compression."""

from __future__ import annotations

import pytest

from understudy.foundation.records.batch import batches, check_crc
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Header, Record, check_records, encode_records, records

RECORDS = [
    Record(7, 1000, b"key", b"value 1", (Header("h", b"x"), Header("none", None))),
    Record(8, 1005, None, b"v" * 300),
    Record(9, 990, b"gone", None),
]

_UNCOMPRESSED = (
    "00000000000000070000018c000000020221801ad300000000000200000000000003e800000000000003ed00000000000000630003000000"
    "050000000334000000066b65790e76616c756520310402680278086e6f6e6501e604000a0201d804"
    + "76" * 300
    + "001400130408676f6e650100"
)

BATCHES = {
    Compression.NONE: _UNCOMPRESSED,
    Compression.GZIP: (
        "0000000000000007000000770000000202ea9b1b3d00010000000200000000000003e800000000000003ed00000000000000630003000000"
        "05000000031f8b08000000000000ff3361606060cb4eade42b4bcc294d55306461ca60aae0c8cbcf4b657cc6c2c0c5c47883a56c14100d18"
        "4418845938d241c1c70000234e85b95b010000"
    ),
    Compression.SNAPPY: (
        "0000000000000007000000890000000202b8c014d000020000000200000000000003e800000000000003ed00000000000000630003000000"
        "050000000382534e4150505900000000010000000100000044db029034000000066b65790e76616c756520310402680278086e6f6e6501e6"
        "04000a0201d8047676fe0200fe0200fe0200fe0200a602002c001400130408676f6e650100"
    ),
    Compression.LZ4: (
        "0000000000000007000000770000000202b392df9700030000000200000000000003e800000000000003ed00000000000000630003000000"
        "050000000304224d1860408237000000ff1534000000066b65790e76616c756520310402680278086e6f6e6501e604000a0201d804760100"
        "ff19c0001400130408676f6e65010000000000"
    ),
    Compression.ZSTD: (
        "00000000000000070000007500000002029135b1c900040000000200000000000003e800000000000003ed00000000000000630003000000"
        "050000000328b52ffd0058c40100040334000000066b65790e76616c756520310402680278086e6f6e6501e604000a0201d8047600140013"
        "0408676f6e65010001004451c113010000"
    ),
}

COMMIT = (
    "000000000000000c0000004200000004024712060e0030000000000000000000001388000000000000138800000000000000630003ffffffff"
    "000000012000000008000000010c00000000000800"
)


@pytest.mark.parametrize("compression", Compression)
def test_batches_of_kafka_are_read(compression: Compression) -> None:
    (found,) = batches(bytes.fromhex(BATCHES[compression]))
    check_crc(found)
    assert list(records(found)) == RECORDS
    assert check_records(found) == found.header.max_timestamp == 1005
    assert found.header.compression is compression
    assert (found.header.producer_id, found.header.producer_epoch, found.header.base_sequence) == (99, 3, 5)
    assert (found.header.partition_leader_epoch, found.header.last_sequence) == (2, 7)


@pytest.mark.parametrize("compression", Compression)
def test_batches_are_written_as_by_kafka(compression: Compression) -> None:
    """Byte for byte without compression; compressed, the codecs' libraries differ, and Kafka's records come back."""
    written = encode_records(
        RECORDS, compression=compression, leader_epoch=2, producer_id=99, producer_epoch=3, base_sequence=5
    )
    if compression is Compression.NONE:
        assert written.hex() == BATCHES[compression]
    (found,) = batches(written)
    assert list(records(found)) == RECORDS


def test_the_marker_of_a_transactions_end_is_a_control_batch() -> None:
    (found,) = batches(bytes.fromhex(COMMIT))
    check_crc(found)
    assert found.header.is_control
    assert found.header.is_transactional
    (marker,) = records(found)
    assert (marker.offset, marker.timestamp, marker.key) == (12, 5000, bytes.fromhex("00000001"))
    written = encode_records(
        [marker], leader_epoch=4, producer_id=99, producer_epoch=3, is_transactional=True, is_control=True
    )
    assert written.hex() == COMMIT
