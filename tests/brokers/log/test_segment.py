"""Tests of one segment: appends, look-ups, reads, rolls, truncation, indexes and recovery."""

from __future__ import annotations

import random
from itertools import pairwise
from zlib import crc32

import pytest

from tests.brokers.log.parts import NOW_MS, ORDERS_0, batch, config
from understudy.brokers.config.log_config import LogConfig
from understudy.brokers.log.indexes import TimestampOffset
from understudy.brokers.log.segment import LogSegment, roll_jitter_ms
from understudy.brokers.world import Disk
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import read_header
from understudy.foundation.records.errors import CorruptRecord, UnsupportedMagic

FOLDER = "orders-0"
LOG = f"{FOLDER}/00000000000000000100.log"
INDEX = f"{FOLDER}/00000000000000000100.index"
TIMES = f"{FOLDER}/00000000000000000100.timeindex"
BASE = 100


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_folder(FOLDER)
    return disk


def created(disk: Disk, log_config: LogConfig | None = None) -> LogSegment:
    return LogSegment.create(disk, FOLDER, BASE, log_config or config(index_interval_bytes=100), now_ms=NOW_MS)


def opened(disk: Disk, log_config: LogConfig | None = None) -> LogSegment:
    return LogSegment.open(disk, FOLDER, BASE, log_config or config(index_interval_bytes=100), now_ms=NOW_MS)


def append(segment: LogSegment, data: bytes) -> bytes:
    header = read_header(data)
    segment.append(
        data,
        last_offset=header.last_offset,
        max_timestamp=header.max_timestamp,
        offset_of_max_timestamp=header.last_offset,
    )
    return data


def filled(segment: LogSegment, count: int = 20, *, records: int = 3, size: int = 30) -> list[bytes]:
    """Append batches with ascending timestamps; return them."""
    return [
        append(segment, batch(*[bytes(size)] * records, offset=BASE + records * place, timestamp=NOW_MS + 1000 * place))
        for place in range(count)
    ]


def test_find_returns_the_first_batch_that_ends_at_or_after_an_offset() -> None:
    segment = created(new_disk())
    data = filled(segment)
    assert len(segment.offset_index) > 5, "the search begins at entries of the index"
    position = 0
    for place, each in enumerate(data):
        for offset in range(BASE + 3 * place, BASE + 3 * place + 3):
            assert segment.find(offset) == (BASE + 3 * place, position, len(each))
        position += len(each)
    assert segment.find(0) == (BASE, 0, len(data[0])), "an offset before the segment"
    assert segment.find(BASE + 60) is None


def test_what_the_last_append_added_is_found_also_after_a_truncation() -> None:
    segment = created(new_disk())
    data = filled(segment)
    before = sum(map(len, data[:-1]))
    last = BASE + 57
    assert segment.find(last) == (last, before, len(data[-1]))
    segment.truncate_to(BASE + 6)
    assert segment.find(last) is None
    added = append(segment, batch(b"after", offset=BASE + 40, timestamp=NOW_MS))
    assert segment.find(last) is None
    assert segment.find(BASE + 6) == (BASE + 40, len(data[0]) + len(data[1]), len(added))
    assert segment.find(BASE + 5) == (BASE + 3, len(data[0]), len(data[1]))


def test_a_batch_that_compaction_left_out_is_skipped_by_find() -> None:
    segment = created(new_disk())
    append(segment, batch(b"a", offset=BASE))
    append(segment, batch(b"b", offset=BASE + 10))
    found = segment.find(BASE + 5)
    assert found is not None
    assert found.base_offset == BASE + 10


@pytest.mark.parametrize("max_bytes", [0, 1, 61, 200, 5_000, 1_000_000])
@pytest.mark.parametrize("min_one", [False, True])
@pytest.mark.parametrize("end_offset", [None, BASE, BASE + 1, BASE + 7, BASE + 30, BASE + 100])
def test_read_returns_batches_up_to_both_limits(max_bytes: int, min_one: bool, end_offset: int | None) -> None:
    segment = created(new_disk())
    data = filled(segment)
    for offset in range(BASE, BASE + 60):
        first = (offset - BASE) // 3
        readable = [each for place, each in enumerate(data) if end_offset is None or BASE + 3 * place < end_offset]
        expected = b"".join(readable[first:])
        limit = max(max_bytes, len(data[first])) if min_one else max_bytes
        read = segment.read(offset, max_bytes, end_offset=end_offset, min_one=min_one)
        assert read is not None
        assert bytes(read) == expected[:limit]
    assert segment.read(BASE + 60, max_bytes, end_offset=end_offset, min_one=min_one) is None


def test_a_batch_larger_than_what_is_read_at_once_is_read_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.brokers.log.segment.SCAN_BYTES", 1000)
    disk = new_disk()
    segment = created(disk)
    values = [b"a", bytes(100_000), b"c", bytes(2_500), b"e"]
    data = [append(segment, batch(value, offset=BASE + place)) for place, value in enumerate(values)]
    assert [bytes(each.data) for _, each in segment.batches()] == data
    for place, each in enumerate(data):
        assert bytes(segment.read(BASE + place, 10, end_offset=None, min_one=True) or b"") == each
    again = opened(disk)
    assert [bytes(each.data) for each in again.recover()] == data
    assert again.size == segment.size


# ------------------------------------------------------------------ rolls


def rolls(segment: LogSegment, **changes: float) -> bool:
    arguments = {"max_timestamp": NOW_MS, "last_offset": BASE + 1000, **changes}
    return segment.should_roll(
        int(arguments.get("size", 100)),
        int(arguments["max_timestamp"]),
        int(arguments["last_offset"]),
        now_ms=arguments.get("now_ms", NOW_MS),
        jitter_ms=int(arguments.get("jitter_ms", 0)),
    )


def test_a_segment_is_full_at_segment_bytes() -> None:
    segment = created(new_disk(), config(segment_bytes=1000))
    assert not rolls(segment, size=1000), "an empty segment takes any append"
    append(segment, batch(bytes(300), offset=BASE))
    assert not rolls(segment, size=1000 - segment.size)
    assert rolls(segment, size=1000 - segment.size + 1)


def test_a_segment_is_closed_by_the_age_of_its_first_record() -> None:
    disk = new_disk()
    logs = config(segment_ms=5000)
    segment = created(disk, logs)
    append(segment, batch(b"a", offset=BASE, timestamp=NOW_MS))
    append(segment, batch(b"b", offset=BASE + 1, timestamp=NOW_MS + 4000))
    for each in (segment, opened(disk, logs)):
        assert not rolls(each, max_timestamp=NOW_MS + 5000, now_ms=NOW_MS + 10**9), "by the records, not by the clock"
        assert rolls(each, max_timestamp=NOW_MS + 5001)
        assert rolls(each, max_timestamp=NOW_MS + 4001, jitter_ms=1000)
        assert not rolls(each, max_timestamp=-1)


def test_a_segment_whose_records_have_no_timestamps_is_closed_by_the_clock() -> None:
    segment = created(new_disk(), config(segment_ms=5000))
    append(segment, batch(b"a", offset=BASE, timestamp=-1))
    assert not rolls(segment, now_ms=NOW_MS + 5000)
    assert rolls(segment, now_ms=NOW_MS + 5001)


@pytest.mark.parametrize(("step_ms", "appends"), [(-1, 7), (1, 4)])
def test_a_segment_is_closed_when_an_index_is_full(step_ms: int, appends: int) -> None:
    """The first batch gets no entry. In 48 bytes the offset index has room for six entries, the time index for three
    and the one at closing. If timestamps descend, the time index has one entry.
    """
    segment = created(new_disk(), config(index_interval_bytes=0, segment_index_bytes=48))
    full = []
    for place in range(8):
        append(segment, batch(b"a", offset=BASE + place, timestamp=NOW_MS + place * step_ms))
        full.append(rolls(segment))
    assert full == [place + 1 >= appends for place in range(8)]


def test_offsets_that_are_too_far_from_the_base_offset_need_a_new_segment() -> None:
    segment = created(new_disk())
    assert not rolls(segment, last_offset=BASE + 2**31 - 1)
    assert rolls(segment, last_offset=BASE + 2**31), "even when it is empty"


def test_the_jitter_differs_between_partitions_and_is_the_same_in_every_run() -> None:
    jitters = [roll_jitter_ms(TopicPartition("orders", place), 0, 10_000) for place in range(50)]
    assert all(0 <= jitter < 10_000 for jitter in jitters)
    assert len(set(jitters)) > 40
    assert roll_jitter_ms(ORDERS_0, 0, 0) == 0


# ------------------------------------------------------------------ indexes


def closed() -> tuple[SimulatedDisk, LogSegment, list[bytes]]:
    disk = new_disk()
    segment = created(disk)
    data = filled(segment)
    assert segment.close()
    return disk, segment, data


def assert_same(segment: LogSegment, expected: LogSegment) -> None:
    for offset in range(BASE - 5, BASE + 65):
        assert segment.find(offset) == expected.find(offset)
    assert segment.max_timestamp == expected.max_timestamp
    assert segment.end() == expected.end()


def test_index_files_are_read_again() -> None:
    disk, segment, _ = closed()
    again = opened(disk)
    assert_same(again, segment)
    assert again.offset_index.encode() == disk.read(INDEX)
    assert again.time_index.encode() == disk.read(TIMES)


def test_index_files_are_written_only_where_they_changed() -> None:
    disk, segment, _ = closed()
    assert not segment.close()
    again = opened(disk)
    assert not again.close(), "not even read"
    assert again.end() == (BASE + 60, segment.size)
    assert not again.close()
    append(again, batch(b"new", offset=BASE + 60, timestamp=NOW_MS + 10**6))
    assert again.close()
    assert_same(opened(disk), again)


def test_an_empty_segment_gets_index_files_when_it_is_closed() -> None:
    disk = new_disk()
    segment = created(disk)
    assert not segment.close(), "there is nothing to flush"
    assert (disk.read(INDEX), disk.read(TIMES)) == (b"", b"")
    assert segment.max_timestamp == TimestampOffset(-1, BASE)


@pytest.mark.parametrize("path", [INDEX, TIMES])
@pytest.mark.parametrize("damage", ["missing", "odd size", "not in order", "behind the end"])
def test_a_missing_or_damaged_index_is_made_again(path: str, damage: str) -> None:
    disk, segment, _ = closed()
    data = disk.read(path) or b""
    if damage == "missing":
        disk.delete(path)
    elif damage == "odd size":
        disk.write(path, data[:-1])
    elif damage == "not in order":
        disk.write(path, data + data[:12] + data[:12])
    else:
        disk.write(INDEX, b"\0\0\0\1\x7f\0\0\0")
    assert_same(opened(disk), segment)


def test_indexes_that_end_before_the_log_are_continued() -> None:
    disk = new_disk()
    segment = created(disk)
    filled(segment, 8)
    segment.close()
    for place in range(8, 20):
        append(segment, batch(*[bytes(30)] * 3, offset=BASE + 3 * place, timestamp=NOW_MS + 1000 * place))
    assert_same(opened(disk), segment)


def test_zeros_at_the_end_of_index_files_are_reserved_room() -> None:
    disk, segment, _ = closed()
    disk.write(INDEX, (disk.read(INDEX) or b"") + bytes(80))
    disk.write(TIMES, (disk.read(TIMES) or b"") + bytes(120))
    assert_same(opened(disk), segment)


def test_the_largest_timestamp_need_not_be_the_last_one() -> None:
    disk = new_disk()
    segment = created(disk)
    times = [10, 50, 30, 70, 20, 60]
    for place, time in enumerate(times):
        append(segment, batch(bytes(80), offset=BASE + place, timestamp=NOW_MS + time))
    assert segment.max_timestamp == TimestampOffset(NOW_MS + 70, BASE + 3)
    assert opened(disk).max_timestamp == segment.max_timestamp, "from the batches"
    segment.close()
    assert opened(disk).max_timestamp == segment.max_timestamp, "from the files"
    assert segment.largest_timestamp_ms == NOW_MS + 70


def test_without_timestamps_the_time_of_opening_is_the_largest() -> None:
    segment = created(new_disk())
    append(segment, batch(b"a", offset=BASE, timestamp=-1))
    assert segment.largest_timestamp_ms == NOW_MS


# ------------------------------------------------------------------ truncation


@pytest.mark.parametrize("reopen", [False, True])
def test_truncation_removes_the_batches_that_reach_an_offset(reopen: bool) -> None:
    for offset in range(BASE, BASE + 62):
        disk, segment, data = closed()
        if reopen:
            segment = opened(disk)
        kept = min((offset - BASE) // 3, 20)
        expected_end = BASE + 3 * kept if offset < BASE + 60 else offset
        assert segment.truncate_to(offset) == expected_end
        assert disk.read(LOG) == b"".join(data[:kept])
        end = BASE + 3 * kept
        assert segment.end() == (end, len(b"".join(data[:kept])))
        newest = TimestampOffset(NOW_MS + 1000 * (kept - 1) + 2, end - 1) if kept else TimestampOffset(-1, BASE)
        assert segment.max_timestamp == newest
        added = append(segment, batch(b"new", offset=end, timestamp=NOW_MS - 5))
        assert bytes(segment.read(end, 10**6, end_offset=None, min_one=True) or b"") == added
        segment.close()
        assert_same(opened(disk), segment)


def test_truncation_inside_a_batch_forgets_the_timestamps_of_its_first_records() -> None:
    disk = new_disk()
    segment = created(disk, config(index_interval_bytes=0))
    append(segment, batch(b"a", offset=BASE, timestamp=NOW_MS))
    for first in (BASE + 1, BASE + 11):
        # The first record has the largest timestamp, and the index of timestamps has its offset.
        data = batch(*[b"x"] * 10, offset=first, timestamp=NOW_MS + first)
        segment.append(data, last_offset=first + 9, max_timestamp=NOW_MS + first + 9, offset_of_max_timestamp=first)
    assert segment.truncate_to(BASE + 15) == BASE + 11
    assert segment.max_timestamp == TimestampOffset(NOW_MS + BASE + 10, BASE + 1)
    assert segment.truncate_to(BASE + 5) == BASE + 1
    assert segment.max_timestamp == TimestampOffset(NOW_MS, BASE)


# ------------------------------------------------------------------ recovery


def recovered(data: bytes) -> tuple[list[bytes], SimulatedDisk]:
    """Recover a segment with this content; return the intact batches, which are all that the file still has."""
    disk = new_disk()
    disk.append(LOG, data)
    segment = opened(disk)
    intact = [bytes(each.data) for each in segment.recover()]
    assert disk.read(LOG) == b"".join(intact)
    assert segment.size == len(b"".join(intact))
    return intact, disk


def test_recovery_cuts_off_a_batch_that_ends_anywhere() -> None:
    data = filled(created(new_disk()), 4)
    whole = b"".join(data)
    ends = [0]
    for each in data:
        ends.append(ends[-1] + len(each))
    for size in range(len(whole) + 1):
        intact, _ = recovered(whole[:size])
        assert intact == data[: sum(end <= size for end in ends) - 1]


def test_recovery_finds_a_change_of_any_byte_of_the_last_batch() -> None:
    """All but base offset and leader epoch are checked; a larger base offset is a gap as compaction leaves it."""
    data = filled(created(new_disk()), 3)
    last = data[-1]
    for place in range(len(last)):
        for flipped in (0x01, 0x80, 0xFF):
            damaged = bytearray(last)
            damaged[place] ^= flipped
            intact, _ = recovered(b"".join(data[:-1]) + damaged)
            if 12 <= place < 16 or (place < 8 and BASE + 6 <= read_header(damaged).base_offset < BASE + 2**31 - 3):
                assert intact == [*data[:-1], bytes(damaged)]
            else:
                assert intact == data[:-1], f"byte {place}"


def test_recovery_cuts_off_at_the_first_damage_with_all_that_follows() -> None:
    data = filled(created(new_disk()), 10)
    source = random.Random(5)
    for place in range(10):
        damaged = bytearray(data[place])
        damaged[source.randrange(17, len(damaged))] ^= 0x10
        intact, _ = recovered(b"".join((*data[:place], damaged, *data[place + 1 :])))
        assert intact == data[:place]


def test_recovery_cuts_off_zeros_and_random_bytes() -> None:
    data = filled(created(new_disk()), 3)
    source = random.Random(6)
    for size in (1, 11, 12, 17, 60, 61, 100, 5_000):
        assert recovered(b"".join(data) + bytes(size))[0] == data
        assert recovered(b"".join(data) + source.randbytes(size))[0] == data


def test_recovery_cuts_off_offsets_that_are_not_in_order_or_too_large() -> None:
    data = filled(created(new_disk()), 3)
    for offset in (0, BASE + 8, BASE + 2**31):
        assert recovered(b"".join(data) + batch(b"a", offset=offset))[0] == data


def test_recovery_makes_the_indexes_again() -> None:
    disk, segment, data = closed()
    disk.write(INDEX, b"\0\0\0\1\x7f\0\0\0")
    disk.delete(TIMES)
    again = opened(disk)
    assert [bytes(each.data) for each in again.recover()] == data
    assert_same(again, segment)
    assert again.close()
    assert_same(opened(disk), segment)
    positions = [again.offset_index.lookup(offset).position for offset in range(BASE, BASE + 60)]
    assert all(first <= second for first, second in pairwise(positions))


def test_an_old_message_format_is_refused_and_not_cut_off() -> None:
    """Of format 1: offset, size, CRC-32 of the rest, magic 1, attributes, timestamp, no key, a value."""
    rest = b"\1\0" + (NOW_MS).to_bytes(8, "big") + b"\xff\xff\xff\xff" + (3).to_bytes(4, "big") + b"abc"
    old = BASE.to_bytes(8, "big") + (4 + len(rest)).to_bytes(4, "big") + crc32(rest).to_bytes(4, "big") + rest
    with pytest.raises(UnsupportedMagic):
        recovered(old)
    damaged = bytearray(old)
    damaged[-1] ^= 1
    assert recovered(bytes(damaged))[0] == []


def test_damage_in_a_flushed_segment_is_an_error() -> None:
    disk, _, data = closed()
    damaged = bytearray(b"".join(data))
    damaged[len(data[0]) + 8 : len(data[0]) + 12] = b"\xff\xff\xff\xff"
    disk.delete(LOG)
    disk.append(LOG, bytes(damaged))
    with pytest.raises(CorruptRecord):
        list(opened(disk).batches())
