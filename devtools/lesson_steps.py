"""Walks through the page of a lesson in a browser, step by step. For `make lesson-sheet` and the tests of the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from playwright.sync_api import Frame, Page

FRAMES_PASS: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
"""JavaScript that waits until a page has drawn what was done before."""
_SHOWS: Final = """([node, incarnation, seq]) =>
  document.querySelector("#why .line")?.textContent.includes(`${node}, incarnation ${incarnation}, line ${seq}:`)"""


def lesson_of(page: Page) -> dict[str, Any]:
    """Return the prepared lesson of a page in one file, as JSON values."""
    lesson: dict[str, Any] = json.loads(page.locator("#lesson").inner_text())
    return lesson


def steps_of(page: Page, lesson: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Go through the steps of a page that has just been opened, each drawn when its kind is yielded.

    Yields:
        the kind of a step, and its prepared stop if it is a moment.
    """
    page.wait_for_selector("body[data-ready=true]")
    stops = [(side["side"], stop) for side in lesson["sides"] for stop in side["stops"]]
    while True:
        kind = str(page.locator("html").get_attribute("data-kind"))
        stop = None
        if kind == "moment":
            side, stop = stops.pop(0)
            frame = frame_of(page, side)
            frame.wait_for_function(_SHOWS, arg=stop["record"])
            drawn(page)
        yield kind, stop
        if kind in ("predict", "check"):
            answer(page, lesson[kind])
        if page.locator("#next").is_disabled():
            return
        page.locator("#next").click()


def answer(page: Page, question: dict[str, Any]) -> None:
    """Give the right answer."""
    if question["choices"]:
        page.locator("input[type=radio]").nth(question["right_choice"]).check()
    else:
        page.locator("input[type=number]").fill(str(question["right_number"]))


def frame_of(page: Page, side: str) -> Frame:
    """Return the page of a run that is a frame of a lesson."""
    handle = page.wait_for_selector(f"iframe[data-side={side}]")
    assert handle is not None
    frame = handle.content_frame()
    assert frame is not None
    return frame


def drawn(page: Page) -> None:
    """Wait until a lesson and the runs that it shows have drawn what was done before."""
    for frame in page.frames:
        if frame is page.main_frame or frame.frame_element().is_visible():
            frame.evaluate(FRAMES_PASS)
    page.evaluate(FRAMES_PASS)
