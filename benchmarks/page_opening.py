"""Measures how soon the page of a finished run can be used, how it moves, and how it scrolls through partitions.

A run opens from the start of `understudy watch` until Chromium, which runs already, has drawn the first moment in a new
tab; the page can be used from then on, and reads the rest. A drag is the time from a movement of the pointer over the
strips to the end of the frame that it leads to, when everything was read; the movements go anywhere in the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, Page

from benchmarks.huge_run import write_huge_run
from benchmarks.long_run import write_long_run
from benchmarks.rows import Row
from benchmarks.watched import heap_megabytes, opened, page_process, shown, shown_s, watched
from understudy.history.metrics.metrics import nearest_rank

RECORDS = tuple(map(int, os.environ.get("UNDERSTUDY_BENCH_PAGE_RECORDS", "100000,1000000").split(",")))
GOALS_S: Final = {100_000: 2.0, 1_000_000: 10.0}
OPENINGS: Final = 5
MOVES: Final = 200
GOAL_MOVE_MS: Final = 50.0
LESSON: Final = "rebalance"
LESSON_STEP: Final = 3
GOAL_LESSON_KB: Final = 900.0
GOAL_LESSON_S: Final = 1.0
PARTITIONS: Final = 100_000
SCROLLED_S: Final = 5.0
GOAL_FRAME_MS: Final = 1000 / 30

_DRAG: Final = """
async (moves) => {
  const strips = document.getElementById("strips");
  const { left, top, width } = strips.getBoundingClientRect();
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  let place = 1;
  const times = [];
  for (let move = 0; move < moves; move += 1) {
    place = (place * 48_271) % 2_147_483_647;
    await frame();
    const began = performance.now();
    const clientX = left + width * (0.15 + 0.8 * (place % 1000) / 1000);
    strips.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY: top + 20 }));
    await frame();
    times.push(performance.now() - began);
  }
  return times;
}
"""
_STEPS: Final = """
async (steps) => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const times = [];
  for (let step = 0; step < steps; step += 1) {
    document.getElementById("next-sentence").click();
    const began = performance.now();
    await frame(); // the page's own callback has drawn before this one
    times.push(performance.now() - began);
    await frame();
  }
  return times;
}
"""
_SCROLL: Final = """
async (seconds) => {
  const grid = document.getElementById("grid");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const step = (grid.scrollHeight - grid.clientHeight) / (60 * seconds);
  const began = performance.now();
  let frames = 0;
  while (performance.now() - began < seconds * 1000) {
    grid.scrollTop += step;
    await frame();
    frames += 1;
  }
  return (performance.now() - began) / frames;
}
"""


@contextmanager
def finished_runs() -> Iterator[dict[int, Path]]:
    """Write the runs that are opened, and yield their folders by how many records they have."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        runs = {records: Path(folder, str(records)) for records in RECORDS}
        for records, run in runs.items():
            write_long_run(run, records)
        yield runs


def opening(browser: Browser, runs: Mapping[int, Path]) -> Iterator[Row]:
    """Runs of many records: until they are drawn, each move, and memory."""
    for records, folder in runs.items():
        yield from _long(browser, folder, records)


def _long(browser: Browser, folder: Path, records: int) -> Iterator[Row]:
    openings = sorted(_shown_after_s(browser, folder) for _ in range(OPENINGS))
    goal = GOALS_S.get(records)
    what = f"{records:,} records: command to page, median of {OPENINGS}, s"
    yield Row(what, openings[OPENINGS // 2], goal, 1.0 if goal else None)
    yield Row("  the fastest", openings[0], None, None)
    yield Row("  the slowest", openings[-1], None, None)
    with watched(folder) as served, opened(browser, served.address) as page:
        read_s = time.time() - served.began_s
        read = int(page.locator("#position").inner_text().split()[-1].replace(",", ""))
        if read != records:
            raise RuntimeError(f"the page has {read} of {records} records")
        yield Row("  until everything is read and the last state drawn, s", read_s, None, None)
        yield Row("  processor time of the server, s", served.processor_seconds(), None, None)
        yield Row("  memory of the server, largest, MB", served.megabytes("VmHWM"), None, None)
        yield from _memory(browser, page)
        yield Row(f"  a drag, p95 of {MOVES} moves, ms", _drag_ms(page), GOAL_MOVE_MS, 1.0)
        page.keyboard.press("Home")
        steps_ms = _p95(page.evaluate(_STEPS, MOVES))
        yield Row(f"  a step to the next sentence, p95 of {MOVES}, ms", steps_ms, GOAL_MOVE_MS, 1.0)


def _shown_after_s(browser: Browser, folder: Path) -> float:
    with watched(folder) as served, shown(browser, served.address) as page:
        return shown_s(page) - served.began_s


def _memory(browser: Browser, page: Page) -> Iterator[Row]:
    process = page_process(browser)
    yield Row("  processor time of the page's process, s", process.processor_seconds, None, None)
    yield Row("  memory of the page's process, MB", process.megabytes, None, None)
    yield Row("  objects of its scripts after garbage was collected, MB", heap_megabytes(page), None, None)


def _drag_ms(page: Page) -> float:
    box = page.locator("#strips").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    times: list[float] = page.evaluate(_DRAG, MOVES)
    page.mouse.up()
    return _p95(times)


def _p95(times_ms: list[float]) -> float:
    return (nearest_rank(sorted(round(ms * 1000) for ms in times_ms), 95) or 0) / 1000


def lesson(browser: Browser) -> Iterator[Row]:
    """A recorded lesson in one file: its size, and until its first picture is drawn after the prediction."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        file = Path(folder, "lesson.html")
        command = [sys.executable, "-P", "-m", "understudy.cli.main", "lesson", LESSON, "--recorded"]
        subprocess.run([*command, "--page", str(file)], check=True, capture_output=True)
        yield Row(f"lesson {LESSON} in one file, KB", file.stat().st_size / 1000, GOAL_LESSON_KB, 1.0)
        drawn_s = sorted(_lesson_drawn_s(browser, file) for _ in range(OPENINGS))
        what = f"  first picture of a step drawn, median of {OPENINGS}, s"
        yield Row(what, drawn_s[OPENINGS // 2], GOAL_LESSON_S, 1.0)


def _lesson_drawn_s(browser: Browser, file: Path) -> float:
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    began = time.time()
    page.goto(f"{file.as_uri()}#step={LESSON_STEP}")
    page.wait_for_selector("#line:not([hidden]) path[d]", state="attached")
    took = time.time() - began
    page.close()
    return took


def grid(browser: Browser) -> Iterator[Row]:
    """A run with very many partitions: frames while its grid is scrolled from end to end, and memory."""
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder:
        write_huge_run(Path(folder), partitions=PARTITIONS, controllers=2)
        with watched(Path(folder)) as served, opened(browser, served.address) as page:
            took_s = time.time() - served.began_s
            page.wait_for_function(
                "(count) => document.getElementById('grid-summary').textContent.startsWith(count)",
                arg=f"{PARTITIONS:,} partitions",
            )
            yield Row(
                f"{PARTITIONS:,} partitions: a frame while scrolling, ms", page.evaluate(_SCROLL, SCROLLED_S),
                GOAL_FRAME_MS, 1.0,
            )  # fmt: skip
            yield Row("  command to page, s", took_s, None, None)
            yield from _memory(browser, page)
            yield Row("  memory of the server, largest, MB", served.megabytes("VmHWM"), None, None)
