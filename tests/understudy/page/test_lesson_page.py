"""Every lesson, clicked through in a browser: its questions, its stops on the pages of both runs, what to read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser import SCREENSHOTS, understudy
from understudy.lessons.library import names

pytestmark = pytest.mark.xdist_group("browser lessons")


def answer(page: Page, question: dict[str, Any]) -> None:
    """Give the right answer."""
    expect(page.locator("#next")).to_be_disabled()
    if question["choices"]:
        page.locator("input[type=radio]").nth(question["right_choice"]).check()
    else:
        page.locator("input[type=number]").fill(str(question["right_number"]))


def is_shown(page: Page, side: dict[str, Any], record: list[Any]) -> None:
    frame = page.frame_locator(f"iframe[title='the run: {side['title']}']")
    node, incarnation, seq = record
    expect(frame.locator("#why .line")).to_contain_text(f"{node}, incarnation {incarnation}, line {seq}:")


@pytest.mark.parametrize("name", names())
def test_a_lesson_is_clicked_through(page: Page, tmp_path: Path, name: str) -> None:
    file = tmp_path / "lesson.html"
    understudy("lesson", name, "--recorded", "--page", str(file))
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
            is_shown(page, side, stop["record"])
            button.click()
        expect(page.locator("figure:visible")).to_have_count(place + 1)
        if place == 0:
            expect(page.locator(".right")).to_contain_text("That is right")
            button.click()
    answer(page, lesson["check"])
    button.click()
    expect(page.locator(".right")).to_contain_text("That is right")
    page.screenshot(path=SCREENSHOTS / f"lesson-{name}.png")
    button.click()
    expect(page.locator("#lesson-step li")).to_have_count(len(lesson["read"]))
    expect(button).to_be_disabled()


def test_a_wrong_prediction_is_answered_with_the_right_one(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "lesson.html"
    understudy("lesson", "zombie", "--recorded", "--page", str(file))
    page.goto(file.as_uri())
    page.locator("#next").click()
    page.locator("input[type=radio]").nth(0).check()
    while not page.locator(".wrong").count():
        page.locator("#next").click()
    expect(page.locator(".wrong")).to_have_text("✗ It is: It sends them, and the brokers refuse them.")
    page.locator("#back").click()
    expect(page.locator("#lesson-step h2")).to_contain_text("resigns")
