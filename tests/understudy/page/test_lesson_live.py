"""`understudy lesson --watch` in a browser: predicted, run on processes beside its text, and left to the learner."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, FrameLocator, Page, expect

from devtools.lesson_steps import drawn
from tests.browser import SCREENSHOTS
from tests.understudy.page.judged_steps import wrong_at

pytestmark = pytest.mark.xdist_group("browser live lesson")

WIDTH = 1700
"""Of the window, in pixels: enough for two runs beside each other."""
_RUN_MS = 180_000
"""The longest time that the run of the lesson may take, on a busy machine."""


@pytest.fixture
def address(browser: Browser, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Start `understudy lesson` with the arguments of the test and --watch, and yield the address of the page."""
    command = [sys.executable, "-P", "-m", "understudy.cli.main", "lesson", *request.param, "--watch"]
    with subprocess.Popen([*command, "-o", str(tmp_path / "runs")], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = next((line.split()[1] for line in process.stdout if line.startswith("page ")), "")
        assert found, "`lesson --watch` printed no address of the page"
        yield found
        process.terminate()
        process.stdout.read()
        assert process.wait(60) == 0


def document(page: Page, address: str) -> dict[str, Any]:
    found = page.request.get(f"{address.partition('#')[0]}lesson.json").text()
    loaded: dict[str, Any] = json.loads(found)
    return loaded


def frame_of(page: Page, side: dict[str, Any]) -> FrameLocator:
    return page.frame_locator(f"iframe[title='the run: {side['title']}']")


def stops_are_shown(page: Page, address: str, number: int) -> None:
    """Click through the stops of a side, each shown with its evidence as soon as it has happened."""
    names = [stop["name"] for stop in document(page, address)["lesson"]["sides"][number]["stops"]]
    for place, name in enumerate(names):
        expect(page.locator("#lesson-step .waiting")).to_have_count(0, timeout=_RUN_MS)
        side = document(page, address)["lesson"]["sides"][number]
        stop = side["stops"][place]
        assert stop["name"] == name
        node, incarnation, seq = stop["record"]
        expect(page.locator("#lesson-step h2")).to_have_text(stop["headline"].replace("`", ""))
        expect(frame_of(page, side).locator("#why .line")).to_contain_text(
            f"{node}, incarnation {incarnation}, line {seq}:"
        )
        drawn(page)
        assert wrong_at(page, stop, WIDTH) == [], name
        page.locator("#next").click()


def predict(page: Page, address: str) -> None:
    page.set_viewport_size({"width": WIDTH, "height": 1000})
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    page.locator("#next").click()
    expect(page.locator("#next")).to_be_disabled()
    page.locator("input[type=radio]").nth(1).check()


@pytest.mark.parametrize("address", [("zombie",)], indirect=True)
def test_the_zombie_is_run_beside_its_text_and_left_to_the_learner(browser: Browser, address: str, page: Page) -> None:
    predict(page, address)
    assert document(page, address)["phase"] == "ready"
    page.locator("#next").click()
    expect(page.locator("#lesson-step .waiting")).to_be_visible()
    expect(page.locator("#next")).to_be_disabled()
    one, other = document(page, address)["lesson"]["sides"]
    live = frame_of(page, one)
    expect(live.locator("#live")).to_have_text("live", timeout=_RUN_MS)
    live.locator(".broker .menu").first.click()
    expect(live.locator("#commands-body")).to_contain_text("an experiment acts on it")
    live.locator("#commands-close").click()
    stops_are_shown(page, address, 0)
    expect(page.locator("#lesson-step .right")).to_contain_text("That is right", timeout=_RUN_MS)
    assert document(page, address)["phase"] == "yours"
    page.locator("#next").click()
    stops_are_shown(page, address, 1)
    expect(frame_of(page, other).locator("#live")).to_have_text("ended")
    page.locator("input[type=radio]").nth(1).check()
    page.locator("#next").click()
    expect(page.locator(".right")).to_contain_text("That is right")
    page.screenshot(path=SCREENSHOTS / "lesson-live.png")
    for _ in range(3):
        page.locator("#next").click()
    expect(page.locator("#yours")).to_contain_text("takes commands now")
    expect(page.locator("#next")).to_be_disabled()
    the_controller_is_killed_from(live)
    page.screenshot(path=SCREENSHOTS / "lesson-yours.png")
    a_page_without_the_token_only_shows(browser, address.partition("#")[0])


def a_page_without_the_token_only_shows(browser: Browser, address: str) -> None:
    page = browser.new_context().new_page()
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    while not page.locator("#yours").count():
        if page.locator("input[type=radio]").count():
            page.locator("input[type=radio]").first.check()
        page.locator("#next").click()
    expect(page.locator("#yours")).to_contain_text("opened without the token")
    page.context.close()


def the_controller_is_killed_from(live: FrameLocator) -> None:
    crown = live.locator(".broker:has(.crown:has-text('epoch'))")
    expect(crown).to_have_count(1)
    old = str(crown.get_attribute("data-node"))
    live.locator(f".broker[data-node={old}] .menu").click()
    live.get_by_role("button", name="Kill (SIGKILL)", exact=True).click()
    expect(live.locator("#commands-status")).to_have_text(re.compile(f"{old} .*kill"), timeout=_RUN_MS)
    live.locator("#commands-close").click()
    expect(live.locator(f".broker[data-node={old}]")).to_have_attribute("data-life", "dead")
    new = live.locator(f".broker:has(.crown:has-text('epoch')):not([data-node={old}])")
    expect(new).to_have_count(1, timeout=_RUN_MS)


@pytest.mark.parametrize("address", [("zombie", "--recorded")], indirect=True)
def test_a_recorded_lesson_is_served_as_its_file_shows_it(address: str, page: Page) -> None:
    predict(page, address)
    assert "#" not in address
    assert document(page, address)["phase"] == "over"
    page.locator("#next").click()
    stops_are_shown(page, address, 0)
    expect(page.locator("#lesson-step .right")).to_contain_text("That is right")
    page.locator("#next").click()
    stops_are_shown(page, address, 1)
    page.locator("input[type=radio]").nth(1).check()
    for _ in range(3):
        page.locator("#next").click()
    expect(page.locator("#lesson-step h2")).to_have_text("To read")
    expect(page.locator("#next")).to_be_disabled()
