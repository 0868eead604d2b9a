"""`understudy dump-log` on files that a test has written: damage is shown, and nothing is changed."""

from __future__ import annotations

import asyncio
import io
import struct
from pathlib import Path
from typing import NamedTuple

from tests.brokers.parts import StillClock
from tests.foundation.records.compressed import lz4_frame, lz4_linked
from tests.understudy.kafka_tools.test_command_lines import NoNetwork
from understudy.brokers.log import producer_snapshot
from understudy.brokers.log.producer_snapshot import ProducerEntry
from understudy.foundation.records.batch import encode_batch
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Header, Record, encode_records
from understudy.foundation.wire.messages.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from understudy.foundation.wire.version_prefixed import encode_prefixed
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.dump_log import TOOL

FIRST = [Record(0, 1_000, b"k", b"v", (Header("h", None),)), Record(1, 1_500, None, b"w")]
SECOND = [Record(4, 2_000, None, None)]


class Result(NamedTuple):
    code: int
    out: list[str]
    err: list[str]


def dump(*words: str) -> Result:
    out, err = io.StringIO(), io.StringIO()
    surroundings = Surroundings(Console(out, err, str), NoNetwork(), StillClock(), "1")
    code = asyncio.run(TOOL.main(words, surroundings))
    return Result(code, out.getvalue().splitlines(), err.getvalue().splitlines())


def segment(folder: Path, *batches: bytes, extra: bytes = b"") -> Path:
    path = folder / "00000000000000000000.log"
    path.write_bytes(b"".join(batches) + extra)
    return path


def test_a_gap_between_offsets_and_bytes_that_are_no_batch_are_shown(tmp_path: Path) -> None:
    path = segment(tmp_path, encode_records(FIRST), encode_records(SECOND), extra=b"\0\0")
    result = dump("--files", str(path), "--deep-iteration")
    assert result.code == 0
    assert result.out[-1] == "Found 2 invalid bytes at the end of 00000000000000000000.log"
    assert "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [h]" in result.out
    assert result.err == [f"Non-consecutive offsets in {path}", "  1 is followed by 4"]


def test_a_batch_with_a_wrong_checksum_is_shown_as_invalid(tmp_path: Path) -> None:
    batch = bytearray(encode_records(FIRST))
    batch[-1] ^= 1
    line = dump("--files", str(segment(tmp_path, bytes(batch)))).out[-1]
    assert line.endswith("isvalid: false")


def test_a_size_that_no_batch_has_ends_the_tool_with_kafkas_error(tmp_path: Path) -> None:
    path = segment(tmp_path, encode_records(FIRST), extra=struct.pack(">qi", 2, 3) + bytes(20))
    result = dump("--files", str(path))
    assert result.code == 1
    assert len(result.out) == 3
    assert result.err[0].startswith('Exception in thread "main" org.apache.kafka.common.errors.CorruptRecordException')


def test_records_that_cannot_be_read_end_the_tool_with_kafkas_error(tmp_path: Path) -> None:
    for records, kind in (
        (lz4_linked(b"abc"), "org.apache.kafka.common.KafkaException: records in lz4"),
        (lz4_frame(b""), "org.apache.kafka.common.InvalidRecordException: "),
    ):
        path = segment(tmp_path, encode_records(FIRST), encode_batch(records, count=1, compression=Compression.LZ4))
        assert dump("--files", str(path)).code == 0
        result = dump("--files", str(path), "--deep-iteration")
        assert (result.code, "compresscodec: lz4" in result.out[-1]) == (1, True)
        assert result.err[0].startswith(f'Exception in thread "main" {kind}')


def test_an_unknown_codec_ends_the_tool_with_kafkas_error(tmp_path: Path) -> None:
    batch = bytearray(encode_records(FIRST))
    batch[22] = 6
    result = dump("--files", str(segment(tmp_path, bytes(batch))))
    message = "java.lang.IllegalArgumentException: Unknown compression type id: 6"
    assert (result.code, result.err[0]) == (1, f'Exception in thread "main" {message}')


def test_the_marker_of_a_transaction_is_decoded(tmp_path: Path) -> None:
    marker = Record(0, 1, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 7))
    path = segment(tmp_path, encode_records([marker], producer_id=5, is_control=True, is_transactional=True))
    assert dump("--files", str(path), "--print-data-log").out[-1].endswith(" endTxnMarker: COMMIT coordinatorEpoch: 7")


def test_a_batch_that_compaction_has_emptied_has_a_time_for_its_tombstones(tmp_path: Path) -> None:
    path = segment(tmp_path, encode_batch(b"", count=0, last_offset_delta=2, base_timestamp=9, has_delete_horizon=True))
    assert "count: 0" in dump("--files", str(path)).out[-1]
    assert "deleteHorizonMs: OptionalLong[9] position: 0" in dump("--files", str(path)).out[-1]


def test_an_index_that_differs_from_its_log_is_shown(tmp_path: Path) -> None:
    segment(tmp_path, encode_records(FIRST), encode_records(SECOND))
    index = tmp_path / "00000000000000000000.index"
    position = len(encode_records(FIRST))
    index.write_bytes(struct.pack(">iiii", 1, 0, 3, position) + bytes(16))
    result = dump("--files", str(index))
    assert result.out[1:] == ["offset: 1 position: 0", f"offset: 3 position: {position}"]
    assert result.err == [f"Mismatches in :{index}", "  Index offset: 3, log offset: 4"]
    times = tmp_path / "00000000000000000000.timeindex"
    times.write_bytes(struct.pack(">qiqiqi", 1_500, 1, 1_200, 4, 2_000, 3))
    result = dump("--files", str(times), "--verify-index-only")
    assert result.err == [
        f"Found timestamp mismatch in :{times}",
        "  Index timestamp: 1200, log timestamp: 2000",
        f"Found out of order timestamp in :{times}",
        "  Index timestamp: 1200, Previously indexed timestamp: 1500",
        "The following indexed offsets are not found in the log.",
        "Indexed offset: 3, found log offset: 4",
    ]


def test_the_check_of_a_start_refuses_an_index_that_is_cut_off(tmp_path: Path) -> None:
    segment(tmp_path, encode_records(FIRST))
    index = tmp_path / "00000000000000000000.index"
    index.write_bytes(struct.pack(">iib", 1, 0, 0))
    result = dump("--files", str(index), "--index-sanity-check")
    assert result.code == 1
    assert "is corrupt, found 9 bytes which is neither positive nor a multiple of 8." in result.err[0]
    index.write_bytes(b"")
    assert dump("--files", str(index)).out[-1] == f"{index} is empty."


def test_producers_and_aborted_transactions_are_shown(tmp_path: Path) -> None:
    snapshot, aborted = tmp_path / "00000000000000000009.snapshot", tmp_path / "00000000000000000000.txnindex"
    snapshot.write_bytes(producer_snapshot.encode([ProducerEntry(7, 1, 5, 8, 2, 1_000, -1, 6)]))
    aborted.write_bytes(struct.pack(">hqqqq", 0, 7, 1, 2, 3))
    assert dump("--files", f"{snapshot},{aborted}").out[1::2] == [
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: -1 currentTxnFirstOffset: OptionalLong[6] "
        "lastTimestamp: 1000 firstSequence: 3 lastSequence: 5 lastOffset: 8 offsetDelta: 2 timestamp: 1000",
        "version: 0 producerId: 7 firstOffset: 1 lastOffset: 2 lastStableOffset: 3",
    ]
    snapshot.write_bytes(b"?")
    assert dump("--files", str(snapshot)).err == [f"Snapshot {snapshot} is corrupt: it has 1 bytes"]


def test_records_of_groups_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    member = MemberMetadata(member_id="m", subscription=b"?", assignment=b"")
    value = encode_prefixed(GroupMetadataValue(protocol_type="consumer", members=(member,)), 3)
    stored = [
        Record(0, 1, encode_prefixed(GroupMetadataKey(group="g"), 2), value),
        Record(1, 1, struct.pack(">h", 5), b""),
        Record(2, 1, struct.pack(">hh", 1, 9), b""),
    ]
    path = segment(tmp_path, encode_records(stored))
    result = dump("--files", str(path), "--offsets-decoder", "--skip-record-metadata")
    assert '"subscription":"Pw==","assignment":""' in result.out[-3]
    assert result.out[-2] == "| key: Unknown record type 5 at offset 1, skipping."
    assert result.out[-1].startswith("| key: Error at offset 2, skipping. ")


def test_a_file_that_does_not_exist_and_a_decoder_that_there_is_not_are_named(tmp_path: Path) -> None:
    missing = tmp_path / "00000000000000000000.log"
    assert dump("--files", str(missing)).err == [
        f'Exception in thread "main" java.nio.file.NoSuchFileException: {missing}'
    ]
    segment(tmp_path, encode_records(FIRST))
    wrong = dump("--files", str(missing), "--value-decoder-class", "a.B")
    assert "a.B; expected one of org.apache.kafka.tools.api.StringDecoder" in wrong.err[0]
    refused = dump("--files", str(missing), "--transaction-log-decoder")
    assert "--transaction-log-decoder is not supported; leave it out" in refused.err[0]
    numbers = dump("--files", str(missing), "--value-decoder-class", "org.apache.kafka.tools.api.LongDecoder")
    assert "Size of data received is not 8; it is 1" in numbers.err[0]
