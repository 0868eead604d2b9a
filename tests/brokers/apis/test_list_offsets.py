"""Tests of ListOffsets: places in the log and times, for consumers and followers, and the rules of each version."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import NOW_MS, batch, config, log_with, open_log
from tests.brokers.parts import ME, OTHER, apply_leader_and_isr, leader_and_isr, state
from tests.foundation.records.compressed import lz4_frame, lz4_linked
from understudy.brokers.apis import list_offsets
from understudy.brokers.log.partition_log import PartitionLog
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.batch import encode_batch
from understudy.foundation.records.compression import Compression
from understudy.foundation.wire.codec import encode
from understudy.foundation.wire.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

CONSUMER, DEBUGGING_CONSUMER = -1, -2
NOWHERE = (Errors.NONE, -1, -1, -1)


def request(
    timestamp: int,
    *,
    replica_id: int = CONSUMER,
    isolation_level: int = 0,
    partitions: tuple[int, ...] = (0,),
    leader_epoch: int = -1,
    most: int = 1,
) -> ListOffsetsRequest:
    asked = tuple(
        ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp, max_num_offsets=most
        )
        for partition in partitions
    )
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=(ListOffsetsTopic(name="orders", partitions=asked),),
    )


def leader(log: PartitionLog) -> BrokerHarness:
    """Broker 1 as leader of `orders-0` at epoch 5, which begins at the end of `log`; its time is `NOW_MS` + 100."""
    harness = BrokerHarness(log=log)
    harness.clock.now_ms = NOW_MS + 100
    harness.become_leader("orders", 0)
    return harness


def answers(
    log: PartitionLog, *requests: ListOffsetsRequest, version: int = 9, lagging: bool = False
) -> list[ListOffsetsPartitionResponse]:
    """The answers of the first partition of each request.

    Args:
        lagging: whether the leader's high watermark is below the beginning of its epoch.
    """

    async def scenario() -> list[ListOffsetsPartitionResponse]:
        harness = leader(log)
        if not lagging:
            for partition in harness.replicas.partitions.values():
                partition.leader_epoch_start_offset = 0
        context = harness.context(version)
        found = [await list_offsets.handle(harness.services, each, context) for each in requests]
        return [each.topics[0].partitions[0] for each in found]

    return asyncio.run(scenario())


def shown(found: ListOffsetsPartitionResponse) -> tuple[int, int, int, int]:
    return found.error_code, found.timestamp, found.offset, found.leader_epoch


def answer(log: PartitionLog, asked: ListOffsetsRequest, *, version: int = 9) -> tuple[int, int, int, int]:
    return shown(answers(log, asked, version=version)[0])


def some_log() -> PartitionLog:
    """Offsets 0 to 9, one batch each and one millisecond after the other; 2 is the first offset, 6 unstable."""
    opened = open_log()
    for offset in range(10):
        data = batch(b"v", offset=offset, timestamp=NOW_MS + offset, leader_epoch=1 + offset // 4)
        if offset == 6:
            data = batch(
                b"v",
                offset=offset,
                timestamp=NOW_MS + offset,
                leader_epoch=2,
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        opened.append_as_follower(data, now_ms=NOW_MS)
    opened.update_high_watermark(8)
    opened.maybe_increment_log_start_offset(2)
    return opened


@pytest.mark.parametrize(
    ("replica_id", "isolation_level", "end"), [(CONSUMER, 0, 8), (CONSUMER, 1, 6), (OTHER, 0, 10), (OTHER, 1, 10)]
)
def test_the_end_is_that_which_the_reader_may_see(replica_id: int, isolation_level: int, end: int) -> None:
    asked = request(LATEST_TIMESTAMP, replica_id=replica_id, isolation_level=isolation_level)
    assert answer(some_log(), asked) == (Errors.NONE, -1, end, 5)


@pytest.mark.parametrize("timestamp", [EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP])
def test_the_beginning_is_the_log_start_offset(timestamp: int) -> None:
    assert answer(some_log(), request(timestamp)) == (Errors.NONE, -1, 2, 1)


def test_nothing_is_in_tiered_storage() -> None:
    assert answer(some_log(), request(LATEST_TIERED_TIMESTAMP)) == NOWHERE


@pytest.mark.parametrize(
    ("after_ms", "found"),
    [
        (-1_000, (Errors.NONE, NOW_MS + 2, 2, 1)),
        (2, (Errors.NONE, NOW_MS + 2, 2, 1)),
        (5, (Errors.NONE, NOW_MS + 5, 5, 2)),
        (7, (Errors.NONE, NOW_MS + 7, 7, 2)),
        (8, NOWHERE),
        (1_000, NOWHERE),
    ],
)
def test_the_first_record_of_a_time_is_found_below_the_high_watermark(
    after_ms: int, found: tuple[int, int, int, int]
) -> None:
    assert answer(some_log(), request(NOW_MS + after_ms)) == found


def test_a_time_is_found_within_a_batch_and_by_a_follower_above_the_high_watermark() -> None:
    opened = open_log()
    opened.append_as_leader(batch(b"a", b"b", b"c"), 1, now_ms=NOW_MS)
    assert answer(opened, request(NOW_MS + 1, replica_id=OTHER)) == (Errors.NONE, NOW_MS + 1, 1, 1)
    assert answer(opened, request(NOW_MS + 1)) == NOWHERE


def test_the_newest_record_is_the_first_with_the_largest_time() -> None:
    opened = open_log(log_config=config(segment_bytes=100))
    for timestamp in (5, 9, 9, 7):
        opened.append_as_leader(batch(b"v", timestamp=NOW_MS + timestamp), 1, now_ms=NOW_MS)
    opened.update_high_watermark(4)
    assert len(opened.segments) == 4
    assert answer(opened, request(MAX_TIMESTAMP)) == (Errors.NONE, NOW_MS + 9, 1, 1)


def small_segments(*timestamps: int) -> PartitionLog:
    """A log with a segment for each record, of which the first two are deleted but still on the disk."""
    opened = open_log(log_config=config(segment_bytes=100))
    for timestamp in timestamps:
        opened.append_as_leader(batch(b"v", timestamp=NOW_MS + timestamp), 1, now_ms=NOW_MS)
    opened.update_high_watermark(len(timestamps))
    opened.maybe_increment_log_start_offset(2)
    assert len(opened.segments) == len(timestamps)
    return opened


def test_the_newest_record_may_be_a_deleted_one() -> None:
    """As in Kafka, until the segment of the record is deleted."""
    assert answer(small_segments(5, 9, 7, 8), request(MAX_TIMESTAMP)) == (Errors.NONE, NOW_MS + 9, 1, 1)


def test_a_time_is_found_behind_a_segment_whose_records_are_deleted() -> None:
    """Kafka looks into the first segment with such a time only, and finds no record until it is deleted."""
    assert answer(small_segments(5, 9, 7, 8), request(NOW_MS + 6)) == (Errors.NONE, NOW_MS + 7, 2, 1)


@pytest.mark.parametrize("timestamp", [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP, NOW_MS])
@pytest.mark.parametrize("isolation_level", [-1, 2])
def test_an_unknown_isolation_level_of_a_consumer_is_refused(timestamp: int, isolation_level: int) -> None:
    asked = request(timestamp, isolation_level=isolation_level)
    assert answer(some_log(), asked) == (Errors.UNKNOWN_SERVER_ERROR, -1, -1, -1)
    of_a_follower = request(timestamp, isolation_level=isolation_level, replica_id=OTHER)
    assert answer(some_log(), of_a_follower) == answer(some_log(), request(timestamp, replica_id=OTHER))


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (lz4_linked(bytes(9)), Errors.UNKNOWN_SERVER_ERROR),
        (lz4_frame(bytes(9)), Errors.INVALID_RECORD),
    ],
)
def test_records_that_cannot_be_read_have_no_time(records: bytes, code: Errors) -> None:
    """A log may have them from a leader that did not look at them."""
    data = encode_batch(records, count=1, compression=Compression.LZ4, base_timestamp=NOW_MS, max_timestamp=NOW_MS)
    opened = open_log()
    opened.append_as_follower(data, now_ms=NOW_MS)
    opened.update_high_watermark(1)
    for timestamp in (NOW_MS, MAX_TIMESTAMP):
        assert answer(opened, request(timestamp)) == (code, -1, -1, -1)


@pytest.mark.parametrize(
    "timestamp", [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP, NOW_MS], ids=["end", "begin", "newest", "time"]
)
def test_an_empty_log(timestamp: int) -> None:
    code, found_timestamp, offset, _ = answer(open_log(), request(timestamp))
    places = (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP)
    assert (code, found_timestamp, offset) == (Errors.NONE, -1, 0 if timestamp in places else -1)


@pytest.mark.parametrize(
    ("timestamp", "version", "code"),
    [
        (MAX_TIMESTAMP, 6, Errors.UNSUPPORTED_VERSION),
        (MAX_TIMESTAMP, 7, Errors.NONE),
        (EARLIEST_LOCAL_TIMESTAMP, 7, Errors.UNSUPPORTED_VERSION),
        (EARLIEST_LOCAL_TIMESTAMP, 8, Errors.NONE),
        (LATEST_TIERED_TIMESTAMP, 8, Errors.UNSUPPORTED_VERSION),
        (LATEST_TIERED_TIMESTAMP, 9, Errors.NONE),
        (-6, 9, Errors.UNSUPPORTED_VERSION),
        (MAX_TIMESTAMP, 0, Errors.UNSUPPORTED_VERSION),
        (EARLIEST_TIMESTAMP, 1, Errors.NONE),
    ],
)
def test_places_are_known_from_their_versions_on(timestamp: int, version: int, code: Errors) -> None:
    assert answer(some_log(), request(timestamp), version=version)[0] == code


@pytest.mark.parametrize(
    ("version", "code"),
    [(4, Errors.LEADER_NOT_AVAILABLE), (5, Errors.OFFSET_NOT_AVAILABLE), (9, Errors.OFFSET_NOT_AVAILABLE)],
)
def test_a_new_leader_whose_high_watermark_lags_does_not_name_an_older_end(version: int, code: Errors) -> None:
    """KIP-207: the high watermark may be below what consumers have seen."""
    asked = (
        request(LATEST_TIMESTAMP),
        request(NOW_MS + 9),
        request(NOW_MS + 3),
        request(LATEST_TIMESTAMP, replica_id=OTHER),
    )
    codes = [found.error_code for found in answers(some_log(), *asked, version=version, lagging=True)]
    assert codes == [code, code, Errors.NONE, Errors.NONE]


@pytest.mark.parametrize("version", range(list_offsets.SERVES.versions[0], list_offsets.SERVES.versions[1] + 1))
@pytest.mark.parametrize("timestamp", [LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, NOW_MS], ids=["end", "begin", "time"])
def test_an_answer_fits_into_every_version(timestamp: int, version: int) -> None:
    """Versions 1 to 3 have no leader epoch; a response that carries one cannot be encoded for them."""
    (found,) = answers(some_log(), request(timestamp), version=version)
    encode(ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="orders", partitions=(found,)),)), version)
    assert (found.leader_epoch >= 0) == (version >= 4)


@pytest.mark.spec("BK-13")
@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(LATEST_TIMESTAMP, leader_epoch=5), Errors.NONE),
        (request(LATEST_TIMESTAMP, leader_epoch=4), Errors.FENCED_LEADER_EPOCH),
        (request(LATEST_TIMESTAMP, leader_epoch=6), Errors.UNKNOWN_LEADER_EPOCH),
        (request(LATEST_TIMESTAMP, partitions=(1,)), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(LATEST_TIMESTAMP, partitions=(1,), replica_id=DEBUGGING_CONSUMER), Errors.NONE),
        (request(LATEST_TIMESTAMP, partitions=(2,)), Errors.NOT_LEADER_OR_FOLLOWER),
        (request(LATEST_TIMESTAMP, partitions=(7,)), Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (request(LATEST_TIMESTAMP, partitions=(0, 0)), Errors.INVALID_REQUEST),
    ],
)
def test_only_the_leader_of_the_right_epoch_answers(asked: ListOffsetsRequest, code: Errors) -> None:
    async def scenario() -> int:
        harness = BrokerHarness()
        states = (state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5))
        apply_leader_and_isr(harness.replicas, leader_and_isr(*states))
        harness.update_metadata({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        response = await list_offsets.handle(harness.services, asked, harness.context(9))
        return response.topics[0].partitions[0].error_code

    assert Errors(asyncio.run(scenario())) is code


# ------------------------------------------------------------------ version 0


@pytest.mark.parametrize(
    ("timestamp", "most", "replica_id", "offsets"),
    [
        (LATEST_TIMESTAMP, 9, OTHER, (4, 3, 2, 1, 0)),
        (LATEST_TIMESTAMP, 2, OTHER, (4, 3)),
        (LATEST_TIMESTAMP, 9, CONSUMER, (2, 2, 1, 0)),
        (LATEST_TIMESTAMP, 2, CONSUMER, (2,)),
        (LATEST_TIMESTAMP, 1, CONSUMER, (2,)),
        (NOW_MS + 1, 9, OTHER, (1, 0)),
        (NOW_MS + 99, 9, OTHER, (3, 2, 1, 0)),
        (NOW_MS + 100, 9, OTHER, (4, 3, 2, 1, 0)),
        (NOW_MS - 1, 9, OTHER, ()),
        (EARLIEST_TIMESTAMP, 9, CONSUMER, (0,)),
        (LATEST_TIMESTAMP, 0, CONSUMER, ()),
        (LATEST_TIMESTAMP, -1, CONSUMER, ()),
    ],
)
def test_version_0_answers_with_the_base_offsets_of_segments(
    timestamp: int, most: int, replica_id: int, offsets: tuple[int, ...]
) -> None:
    opened = segments()
    opened.update_high_watermark(2)
    (found,) = answers(opened, request(timestamp, most=most, replica_id=replica_id), version=0)
    assert found.old_style_offsets == offsets


def segments() -> PartitionLog:
    """A log with the offsets 0 to 3, a segment each and one millisecond after the other."""
    opened = open_log(log_config=config(segment_bytes=100))
    for offset in range(4):
        opened.append_as_leader(batch(b"v", timestamp=NOW_MS + offset), 1, now_ms=NOW_MS + offset)
    return opened


def test_version_0_names_no_offset_before_the_log_start() -> None:
    opened = segments()
    opened.update_high_watermark(4)
    opened.maybe_increment_log_start_offset(1)
    asked = (request(EARLIEST_TIMESTAMP, most=9), request(LATEST_TIMESTAMP, most=9))
    assert [found.old_style_offsets for found in answers(opened, *asked, version=0)] == [(1,), (4, 3, 2, 1, 1)]


def test_version_0_of_an_empty_log() -> None:
    (found,) = answers(log_with(), request(LATEST_TIMESTAMP, most=5), version=0)
    assert found.old_style_offsets == (0,)
