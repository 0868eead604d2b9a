"""The runs of a sweep on the page of a lesson, in a browser: a picture, a table at a key, and the run of a dot."""

from __future__ import annotations

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from understudy.cli.main import main

pytestmark = pytest.mark.xdist_group("browser lessons")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("runs") / "two-hundred-runs.html"
    assert main(["lesson", "two-hundred-runs", "--recorded", "--page", str(file)]) == 0
    return file


def open_check(page: Page, file: Path) -> None:
    """Go to the question at the end, which shows the runs of both sides."""
    page.goto(file.as_uri())
    page.locator("#next").click()
    page.locator("input[type=number]").fill("99")
    while not page.get_by_role("heading", name="Check").is_visible():
        page.locator("#next").click()


def test_the_answer_shows_the_runs_of_one_side_and_the_check_those_of_both(page: Page, file: Path) -> None:
    page.goto(file.as_uri())
    page.locator("#next").click()
    page.locator("input[type=number]").fill("99")
    while not page.locator("[data-part=runs]").is_visible():
        page.locator("#next").click()
    expect(page.locator(".runs circle")).to_have_count(100)
    open_check(page, file)
    expect(page.locator(".runs circle")).to_have_count(200)
    expect(page.get_by_role("img", name="Distribution of outage in ms")).to_be_visible()


def test_a_key_shows_the_table_in_place_of_the_picture_and_the_picture_again(page: Page, file: Path) -> None:
    open_check(page, file)
    table = page.get_by_role("group", name="the runs as a table")
    expect(table).to_be_hidden()
    page.keyboard.press("t")
    expect(table).to_be_visible()
    expect(page.locator(".plots")).to_be_hidden()
    first = table.locator("tbody").first.locator("tr[data-run]")
    outages = [float(text.replace(",", "")) for text in first.locator("td:last-child").all_text_contents()]
    assert outages == sorted(outages)
    assert all(name.isdecimal() for name in first.locator("button").all_text_contents())
    page.keyboard.press("t")
    expect(page.locator(".plots")).to_be_visible()


def test_a_dot_says_its_phases_and_the_command_that_opens_its_run(page: Page, file: Path) -> None:
    open_check(page, file)
    dot = page.locator(".runs circle[data-run$='-kill-7']").first
    dot.dispatch_event("click")
    chosen = page.locator(".runs .chosen")
    expect(chosen).to_contain_text("Run 7 of session timeout 3 s")
    expect(chosen.locator("code")).to_contain_text("--session-timeout-ms 3000 --repeat 1 --seed 7 --dir runs && ")
    expect(chosen.locator("code")).to_contain_text("understudy watch runs/b3-p20-t3000-kill-7")
    expect(dot).to_have_attribute("aria-current", "")
    page.keyboard.press("t")
    row = page.locator("tr[data-run='b3-p20-t9000-kill-7'] button")
    row.focus()
    page.keyboard.press("Enter")
    expect(chosen).to_contain_text("Run 7 of session timeout 9 s")


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (390, 844)])
def test_the_words_of_the_picture_are_large_enough_and_inside_it(
    page: Page, file: Path, width: int, height: int
) -> None:
    page.set_viewport_size({"width": width, "height": height})
    open_check(page, file)
    sizes, is_inside = page.evaluate("""() => {
      const picture = document.querySelector(".plot").getBoundingClientRect();
      const texts = [...document.querySelectorAll(".plot text")];
      const isInside = ({ left, right }) => left >= picture.left - 1 && right <= picture.right + 1;
      return [texts.map((text) => parseFloat(getComputedStyle(text).fontSize)),
        texts.every((text) => isInside(text.getBoundingClientRect()))];
    }""")
    assert min(sizes) >= 12
    assert is_inside


def test_axe_finds_nothing_in_the_picture_and_the_table(page: Page, file: Path) -> None:
    open_check(page, file)
    for _ in range(2):
        results = Axe().run(page, context=".runs")
        assert results.violations_count == 0, results.generate_report()
        page.keyboard.press("t")
