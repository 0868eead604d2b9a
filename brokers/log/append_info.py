"""What an append to a log answers. Mirrors `LogAppendInfo`."""

from __future__ import annotations

from typing import NamedTuple

from understudy.brokers.log.producer_state import AppendedBatch
from understudy.foundation.records.batch import NO_TIMESTAMP, BatchHeader


class LogAppendInfo(NamedTuple):
    """The batches that an append has added, or the earlier append of a batch that is sent again.

    Attributes:
        first_offset, last_offset: -1 if nothing was added.
        log_append_time: milliseconds since 1970 if the log gives its records the broker's time, -1 otherwise.
        size: bytes.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    size: int
    is_duplicate: bool = False

    @classmethod
    def nothing(cls, log_start_offset: int) -> LogAppendInfo:
        """Return what an append without a whole batch has added, as Kafka answers it."""
        return cls(-1, -1, NO_TIMESTAMP, NO_TIMESTAMP, log_start_offset, 0)

    @classmethod
    def of_duplicate(cls, batch: AppendedBatch, *, has_log_append_time: bool, log_start_offset: int) -> LogAppendInfo:
        """Return where a batch that was sent again is in the log."""
        return cls(
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
            max_timestamp=batch.timestamp,
            log_append_time=batch.timestamp if has_log_append_time else NO_TIMESTAMP,
            log_start_offset=log_start_offset,
            size=0,
            is_duplicate=True,
        )

    @classmethod
    def of(
        cls, headers: tuple[BatchHeader, ...], *, max_timestamp: int, log_append_time: int, log_start_offset: int
    ) -> LogAppendInfo:
        """Return what an append of these batches has added."""
        return cls(
            first_offset=headers[0].base_offset,
            last_offset=headers[-1].last_offset,
            max_timestamp=max_timestamp,
            log_append_time=log_append_time,
            log_start_offset=log_start_offset,
            size=sum(header.size for header in headers),
        )
