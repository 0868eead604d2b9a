"""Tests that docs/reference/metrics.md is current and lists each metric once."""

from __future__ import annotations

from tests.metrics_page import PAGE, page
from understudy.brokers.mbeans import MBEANS


def test_metrics_page_is_current() -> None:
    assert PAGE.read_text() == page(), "write it again: python -m tests.metrics_page"


def test_no_metric_is_listed_twice() -> None:
    names = [mbean.object_name for mbean in MBEANS]
    assert len(set(names)) == len(names)
