"""Checks appends to a log and reads from it against its state. Plain functions; mirrors `UnifiedLog`."""

from __future__ import annotations

from collections.abc import Iterable

from understudy.brokers.log.append_info import LogAppendInfo
from understudy.brokers.log.producer_state import ProducerStateManager
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import BatchHeader


def answer_to_duplicate(
    headers: Iterable[BatchHeader],
    producers: ProducerStateManager,
    *,
    from_client: bool,
    has_log_append_time: bool,
    log_start_offset: int,
) -> LogAppendInfo | None:
    """Return where a batch was appended that is sent again; None if every batch is new.

    Raises:
        ApiError: a batch of a client has a stale epoch, or a sequence number that is not the next one.
    """
    for header in headers:
        if header.has_producer_id:
            duplicate = producers.duplicate_of(header)
            if duplicate is not None:
                return LogAppendInfo.of_duplicate(
                    duplicate, has_log_append_time=has_log_append_time, log_start_offset=log_start_offset
                )
            if from_client:
                producers.check(header)
    return None


def check_fits_segment(size: int, segment_bytes: int, topic_partition: TopicPartition) -> None:
    """Check that an append of `size` bytes fits into one segment.

    Raises:
        ApiError: RECORD_LIST_TOO_LARGE.
    """
    if size > segment_bytes:
        raise ApiError(
            Errors.RECORD_LIST_TOO_LARGE,
            f"Message batch size is {size} bytes in append to partition {topic_partition}, which exceeds the maximum "
            f"configured segment size of {segment_bytes}.",
        )


def check_in_range(offset: int, log_start_offset: int, log_end_offset: int, topic_partition: TopicPartition) -> None:
    """Check that an offset is one of the log, or its end.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE.
    """
    if not log_start_offset <= offset <= log_end_offset:
        raise ApiError(
            Errors.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {offset} for partition {topic_partition}, but we only have log segments upto "
            f"{log_end_offset}.",
        )


def check_new_start(offset: int, high_watermark: int, topic_partition: TopicPartition) -> None:
    """Check that a log may begin at an offset.

    Raises:
        ApiError: OFFSET_OUT_OF_RANGE, it is above the high watermark.
    """
    if offset > high_watermark:
        raise ApiError(
            Errors.OFFSET_OUT_OF_RANGE,
            f"Cannot increment the log start offset to {offset} of partition {topic_partition} since it is larger than "
            f"the high watermark {high_watermark}",
        )
