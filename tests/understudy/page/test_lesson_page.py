"""Lessons, clicked through in a browser: their questions, their stops on the pages of both runs, what to read.

`test_lesson_evidence.py` walks through all of them, and compares the words of each stop with the page of its run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import FrameLocator, Locator, Page, expect

from tests.browser import SCREENSHOTS, drawn
from understudy.cli.main import main
from understudy.foundation.times import moment
from understudy.trials.lessons.library import names

pytestmark = pytest.mark.xdist_group("browser lessons")

FRAMES_PASS = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
FITS = """() => [document.documentElement, ...document.querySelectorAll(".broker, footer")].every(
  (each) => each.scrollWidth <= each.clientWidth)"""


def answer(page: Page, question: dict[str, Any]) -> None:
    """Give the right answer."""
    expect(page.locator("#next")).to_be_disabled()
    if question["choices"]:
        page.locator("input[type=radio]").nth(question["right_choice"]).check()
    else:
        page.locator("input[type=number]").fill(str(question["right_number"]))


def is_shown(page: Page, side: dict[str, Any], stop: dict[str, Any]) -> None:
    """The page of the run is at the record of a stop, and has the same text for its moment as the words."""
    frame = page.frame_locator(f"iframe[title='the run: {side['title']}']")
    node, incarnation, seq = stop["record"]
    expect(frame.locator("#why .line")).to_contain_text(f"{node}, incarnation {incarnation}, line {seq}:")
    at = moment(stop["at_ms"])
    expect(frame.locator("#clock")).to_have_text(at)
    expect(page.locator("#lesson-step .faint").first).to_have_text(f"{side['title']}, {at}")


def has_in_view(page: Page, figure: Locator) -> bool:
    """Whether all of a run is within the window, and nothing of the page lies over its middle."""
    box, size = figure.bounding_box(), page.viewport_size
    assert box is not None
    assert size is not None
    inside = box["x"] >= 0 and box["y"] >= 0
    inside = inside and box["x"] + box["width"] <= size["width"] and box["y"] + box["height"] <= size["height"]
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    return inside and figure.evaluate("(figure, [x, y]) => figure.contains(document.elementFromPoint(x, y))", middle)


def second_at(frame: FrameLocator, x: float) -> float:
    """Click on a timeline, and return the time since the first record that it shows then."""
    strips = frame.locator("#strips")
    strips.click(position={"x": x, "y": 8})
    strips.evaluate(FRAMES_PASS)
    value = strips.get_attribute("aria-valuenow")
    assert value is not None
    return float(value)


def have_one_scale(frames: Sequence[FrameLocator]) -> None:
    """The same place of both timelines is the same time; the pages learn of each other's length a moment later."""
    for x in (100, 120):
        for _ in range(100):
            one, other = (second_at(frame, x) for frame in frames)
            if one == pytest.approx(other, abs=0.01):  # a quarter of a pixel
                break
        else:
            pytest.fail(f"{x} pixels are {one} s of one run and {other} s of the other")
    assert one > 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lessons")


def file_of(folder: Path, name: str) -> Path:
    """The page of a lesson as one file, written once."""
    file = folder / f"{name}.html"
    if not file.exists():
        # In a thread of its own: Playwright's event loop runs in this one. A process would import everything once more.
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(main, ["lesson", name, "--recorded", "--page", str(file)]).result() == 0
    return file


@pytest.mark.parametrize("name", names())
def test_a_recorded_lesson_has_at_most_900_kilobytes(folder: Path, name: str) -> None:
    assert file_of(folder, name).stat().st_size <= 900_000


def test_an_address_names_a_step_of_a_lesson(page: Page, folder: Path) -> None:
    page.goto(file_of(folder, "zombie").as_uri() + "#step=4")
    expect(page.locator("#progress")).to_contain_text("4 of")
    page.evaluate("location.hash = 'step=6'")
    expect(page.locator("#progress")).to_contain_text("6 of")
    page.evaluate("location.hash = 'step=999'")
    expect(page.locator("#next")).to_be_disabled()


@pytest.mark.parametrize("name", ["zombie", "bounced", "two-hundred-runs"])
def test_a_lesson_is_clicked_through(page: Page, folder: Path, name: str) -> None:
    file = file_of(folder, name)
    page.set_viewport_size({"width": 1700, "height": 1000})
    page.goto(file.as_uri())
    lesson = json.loads(page.locator("#lesson").inner_text())
    button = page.locator("#next")
    expect(page.locator("#lesson-title")).to_have_text(lesson["title"])
    button.click()
    answer(page, lesson["predict"])
    button.click()
    for place, side in enumerate(lesson["sides"]):
        for stop in side["stops"]:
            expect(page.locator("#lesson-step h2")).to_have_text(stop["headline"].replace("`", ""))
            is_shown(page, side, stop)
            button.click()
        shown = 0 if side["runs"] else 1 + place  # the runs of a sweep stand in place of the pages
        expect(page.locator("figure:visible")).to_have_count(shown)
        if place == 0:
            expect(page.locator(".right")).to_contain_text("That is right")
            button.click()
    answer(page, lesson["check"])
    button.click()
    expect(page.locator(".right")).to_contain_text("That is right")
    page.screenshot(path=SCREENSHOTS / f"lesson-{name}.png")
    button.click()
    button.click()
    expect(page.locator("#lesson-step li")).to_have_count(len(lesson["read"]))
    expect(button).to_be_disabled()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_a_side_that_is_only_recorded_has_its_origin_on_the_page(
    page: Page, folder: Path, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.goto(file_of(folder, "kraft").as_uri())
    lesson = json.loads(page.locator("#lesson").inner_text())
    one, other = lesson["sides"]
    made = other["recording"]
    first_of_other = len(["question", "predict", *one["stops"], "answer"]) + 1
    page.evaluate("(step) => { location.hash = `step=${step}`; }", first_of_other)
    expect(page.locator("#lesson-step .faint").first).to_contain_text("KRaft (recording), ")
    caption = page.locator("figure[aria-current] figcaption")
    expect(caption).to_contain_text(f"{made['software']}, {made['date']}")
    assert caption.locator(".made").evaluate("(each) => each.scrollWidth <= each.clientWidth")
    assert page.locator("figure:not([aria-current]) .made").count() == 0
    page.evaluate("location.hash = 'step=999'")
    origin = f"KRaft: a recording of {made['software']}, of {made['date']}. Such a run is made by {made['command']}"
    expect(page.locator("#lesson-step > p")).to_have_text(origin)


def test_a_wrong_prediction_is_answered_with_the_right_one(page: Page, folder: Path) -> None:
    page.goto(file_of(folder, "zombie").as_uri())
    page.locator("#next").click()
    page.locator("input[type=radio]").nth(0).check()
    while not page.locator(".wrong").count():
        page.locator("#next").click()
    expect(page.locator(".wrong")).to_have_text("✗ It is: It sends them, and the brokers refuse them.")
    page.locator("#back").click()
    expect(page.locator("#lesson-step h2")).to_contain_text("resigns")
    the_run_of_the_step_is_in_view_at_each_width(page)


def the_run_of_the_step_is_in_view_at_each_width(page: Page) -> None:
    """From the last stop of the first run on; the second of the zombie lasts four times as long."""
    lesson = json.loads(page.locator("#lesson").inner_text())
    first, second = (page.locator("figure").filter(has_text=side["title"]) for side in lesson["sides"])
    for _ in range(2):
        page.locator("#next").click()
    expect(page.locator("#lesson-step > .faint").first).to_contain_text(lesson["sides"][1]["title"])
    frames = [figure.frame_locator("iframe") for figure in (first, second)]
    for width, height in ((1280, 800), (1400, 900), (800, 900)):
        page.set_viewport_size({"width": width, "height": height})
        drawn(page)
        assert has_in_view(page, second), f"the run of the step is not in view at {width} pixels"
        assert first.is_visible() is (width >= 1080)
        expect(page.locator("figure[aria-current]")).to_have_count(1)
        expect(second).to_have_attribute("aria-current", "step")
        expect(second.locator("figcaption")).to_contain_text("this step")
        assert second.locator(".here").is_visible()
        assert first.locator(".here").is_hidden()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#back").click()
    assert has_in_view(page, first), "the run of the step before is not in view again"
    page.locator("#next").click()
    assert has_in_view(page, second)
    page.set_viewport_size({"width": 1280, "height": 800})
    have_one_scale(frames)
    for frame in frames:
        assert frame.locator("body").evaluate(FITS)
    page.screenshot(path=SCREENSHOTS / "lesson-two-runs.png")
