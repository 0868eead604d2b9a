"""Reads the bytes of a partition's log into its records."""

from __future__ import annotations

from understudy.foundation.records.varint import Buffer
from understudy.testing.simulated_tests.wire_records import FinalLog


def read_final_log(
    data: Buffer, *, end: int, start: int = 0, is_compacted: bool = False, may_have_lost: str = ""
) -> FinalLog:
    """Return the records in the batches of a log, and which transactions were aborted.

    Args:
        data: whole batches, from the first that has a record at `start` or later.
        end: the high watermark; records at it and later are left out.
        start, is_compacted, may_have_lost: as of `FinalLog`.
    """
    raise NotImplementedError
