"""What an append to a log answers. Mirrors `LogAppendInfo`."""

from __future__ import annotations

from typing import NamedTuple

from foundation.records.batch import BatchHeader


class LogAppendInfo(NamedTuple):
    """What an append has added, or where a batch that is sent again was added before.

    Attributes:
        log_append_time: milliseconds since 1970 where the log gives its records the broker's time, -1 otherwise.
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
