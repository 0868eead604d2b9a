"""Each step of each lesson has its words and the part of the picture that proves them in the window.

One page a lesson: at each step of a recorded one the window takes each size in turn. Whether a mark lies within the
window, uncovered and large enough, and whether the line to it covers a text, is computed by a browser, and no other
test asks it. Lessons whose runs are made anew, by another seed, show what lessons find in runs that were not recorded;
`test_lesson_live.py` judges one on processes in the same way. Axe judges each kind of step of the recorded lessons: the
elements of a step are the same in each run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from devtools.lesson_steps import drawn, lesson_of, steps_of
from tests.shares import SHARES, share_of
from tests.understudy.page.judged_steps import wrong_at
from tests.understudy.trials.lessons.simulated import SHORT
from understudy.foundation.times import moment
from understudy.trials.lessons.library import names

SIZES = ((1280, 720), (390, 844), (1440, 900), (1920, 1080))
"""Those with the least room first."""
ANOTHER_SEED = "7"
FIRST = ("zombie", "isr", "rebalance", "zookeeper-away")
"""Lessons that are made anew in each run of the tests: of a controller, a partition, a group and a session."""
MADE_ANEW = (*FIRST, *(name for name in SHORT if name not in FIRST))


def page_of(folder: Path, name: str, *world: str) -> Path:
    """Write a lesson as one file, in the world that options of the command name."""
    file = folder / f"{name}.html"
    # A process of its own: Playwright's event loop runs in this thread, and a run takes signals in the first one.
    command = [sys.executable, "-P", "-m", "understudy.cli.main", "lesson", name, *world, "--page", str(file)]
    subprocess.run(command, check=True, capture_output=True)
    return file


def test_the_usual_share_of_lessons_that_are_made_anew_has_one_of_each_kind() -> None:
    assert SHARES["lessons-made-anew"].usual == len(FIRST)
    assert SHARES["lessons-made-anew"].whole == len(MADE_ANEW) == len(SHORT)
    assert SHARES["lesson-steps"].whole == len(names())


@pytest.mark.parametrize("name", names()[: share_of("lesson-steps")])
def test_each_step_shows_its_evidence_at_each_size(page: Page, tmp_path: Path, name: str) -> None:
    page.goto(page_of(tmp_path, name, "--recorded").as_uri())
    steps_are_right(page, SIZES[: share_of("lesson-sizes")], with_axe=True)


@pytest.mark.parametrize("name", MADE_ANEW[: share_of("lessons-made-anew")])
def test_each_step_of_a_new_run_shows_its_evidence(page: Page, tmp_path: Path, name: str) -> None:
    page.goto(page_of(tmp_path, name, "--simulated", "--seed", ANOTHER_SEED).as_uri())
    steps_are_right(page, SIZES[:1])


def is_shown(page: Page, stop: dict[str, Any]) -> None:
    """The words have the headline of a stop; they and the page of its run have the same text for its moment."""
    side = page.locator("figure[aria-current] iframe").get_attribute("data-side")
    at = moment(stop["at_ms"])
    expect(page.locator("#lesson-step h2")).to_have_text(stop["headline"].replace("`", ""))
    expect(page.locator("#lesson-step .faint").first).to_contain_text(f", {at}")
    expect(page.frame_locator(f"iframe[data-side={side}]").locator("#clock")).to_have_text(at)


def steps_are_right(page: Page, sizes: Sequence[tuple[int, int]], *, with_axe: bool = False) -> None:
    """Walk through a lesson; `wrong_at` judges each step at each size, and axe the first step of each kind."""
    wrong: list[str] = []
    judged: set[str] = set()
    page.set_viewport_size({"width": sizes[0][0], "height": sizes[0][1]})
    for number, (kind, stop) in enumerate(steps_of(page, lesson_of(page)), 1):
        expect(page.locator("html")).to_have_attribute("data-step", str(number))
        if stop is not None:
            is_shown(page, stop)
        if with_axe and kind not in judged:
            judged.add(kind)
            report = Axe().run(page)
            wrong += [f"step {number}, {kind}: {report.generate_report()}"] if report.violations_count else []
        for width, height in sizes:
            page.set_viewport_size({"width": width, "height": height})
            drawn(page)
            found = wrong_at(page, stop, width)
            wrong += [
                f"step {number}, {kind} {stop['name'] if stop else ''}, {width}x{height}: {each}" for each in found
            ]
        page.set_viewport_size({"width": sizes[0][0], "height": sizes[0][1]})
    assert wrong == [], "\n".join(wrong)
