"""Measures the page of a run, and of a lesson, in Chromium: until it is drawn, drags, steps, the grid, a live cluster.

Seconds of one machine say little about another, so goals are the references here: there is no other page to compare
with. UNDERSTUDY_BENCH_PAGE_RECORDS (100000,1000000) sets how many records the finished runs have.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.page_live import live
from benchmarks.page_opening import finished_runs, grid, lesson, opening
from benchmarks.page_takeover import takeovers
from benchmarks.rows import Row
from benchmarks.watched import chromium


def run() -> Iterator[Row]:
    # The simulator has an event loop of its own, so the runs are written before the driver of Chromium has one.
    with finished_runs() as runs, chromium() as browser:
        yield from opening(browser, runs)
        yield from lesson(browser)
        yield from grid(browser)
        yield from live(browser)
    yield from takeovers()
