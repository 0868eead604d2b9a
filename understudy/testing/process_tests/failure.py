"""Describes a failed test on processes: its run folder, its faults, and the page of the run at the failure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from understudy.clusters.testing.cluster_under_test import ClusterUnderTest
from understudy.clusters.testing.run_faults import TEST_BEGUN, describe_run
from understudy.foundation.eventlog.records import Envelope, FaultInjected, StepReached
from understudy.history.picture_parts import link_to, parts_of
from understudy.history.reading.reader import read
from understudy.page.export import TooLarge, page_of

TEST_FAILED: Final = "test failed"
"""The step that is recorded when a test fails, with its exception as the note."""
PAGE: Final = "run.html"
_MOST_NOTE: Final = 500


def describe_failure(cluster: ClusterUnderTest, error: str) -> str:
    """Record the failure of a test, write the page of its run so far, and describe the run.

    The page opens at the failure, and marks the target of the last fault of the test. The cluster may be running; a
    page that cannot be written is left out, with the reason.

    Args:
        error: the exception in a line.
    """
    cluster.local.record_step(TEST_FAILED, error[:_MOST_NOTE])
    return f"{describe_run(cluster.directory)}\nsee it: {_page_at_failure(cluster.directory)}"


def _page_at_failure(folder: Path) -> str:
    """Write the page of a run to its folder, and return the address that shows the failure, or why there is none."""
    page = folder / PAGE
    try:
        page.write_text(page_of([folder]), encoding="utf-8")
    except (OSError, TooLarge) as error:
        return f"the page is not written: {error}"
    return f"{page.absolute().as_uri()}{_link(read([folder]).records)}"


def _link(records: Sequence[Envelope]) -> str:
    """Return the fragment that shows the last failure, with what the last fault before it in the same test has hit."""
    failed: Envelope | None = None
    for record in reversed(records):
        match record.data:
            case StepReached(step=step) if step == TEST_FAILED and failed is None:
                failed = record
            case StepReached(step=step) if step == TEST_BEGUN:
                break
            case FaultInjected() if failed is not None and (hit := parts_of(record)):
                return link_to(failed, hit)
    return "" if failed is None else link_to(failed)
