"""The page of a run whose records are missing in part, and whose brokers have two clocks, in a browser."""

from __future__ import annotations

import re
import shutil
import threading
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser import SCREENSHOTS, drawn, press, understudy
from tests.understudy.page.incomplete_runs import on_two_clocks, without_controller, write, write_run
from understudy.page.served.live import LiveRun
from understudy.page.served.server import PageServer

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run in which the first controller, broker 1, has no log, and the log of broker 3 has lost its
    end."""
    folder = tmp_path_factory.mktemp("incomplete") / "zombie"
    understudy("experiment", "run", "zombie-controller-writes", "--engine", "sim", "--dir", str(folder))
    shutil.rmtree(folder / "broker-1")
    (log,) = (folder / "broker-3" / "events").iterdir()
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: len(lines) // 2]))
    found = folder.parent / "page.html"
    understudy("page", str(folder), "-o", str(found))
    return found


@pytest.fixture
def opened(page: Page, file: Path) -> Page:
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    return page


def test_the_head_leads_to_each_stretch_and_its_evidence(opened: Page) -> None:
    expect(opened.locator("#missing-mark")).to_have_text("records are missing")
    opened.locator("#missing-mark").click()
    expect(opened.locator("#missing")).to_be_focused()
    rows = opened.locator("#missing-rows li")
    expect(rows.filter(has_text="broker 1")).to_have_count(1)
    expect(rows.filter(has_text="broker 3, incarnation 1")).to_have_count(1)
    witness = rows.filter(has_text="broker 3, incarnation 1").get_by_role("button", name="evidence:")
    name = re.fullmatch(r"evidence: (.+)/(\d+)#(\d+)", witness.inner_text())
    assert name is not None
    witness.click()
    expect(opened.locator("#why .line")).to_contain_text(f"{name[1]}, incarnation {name[2]}, line {name[3]}: ")


def test_a_card_in_a_stretch_shows_the_last_state_on_record_and_the_evidence_on_demand(opened: Page) -> None:
    press(opened, "End")
    broker = opened.locator(".broker[data-node=broker-3]")
    expect(broker).to_have_attribute("data-missing", "")
    expect(broker.locator(".word")).to_contain_text("running")
    expect(broker.locator(".role")).to_have_text(re.compile(r"^leads \d+ \?, follows \d+ \?$"))
    expect(broker.locator("details.missing p")).not_to_be_visible()
    broker.locator("summary").click()
    expect(broker.locator("details.missing p")).to_contain_text("evidence: ")
    expect(opened.locator("#missing-now")).to_contain_text("Records of broker 1, broker 3 are missing at this moment")
    opened.screenshot(path=SCREENSHOTS / "missing.png", full_page=True)
    press(opened, "Home", "f")
    expect(broker).not_to_have_attribute("data-missing", "")
    expect(broker.locator("details.missing")).not_to_be_visible()


def test_a_broker_without_a_log_has_a_card_without_a_state(opened: Page) -> None:
    press(opened, "End")
    broker = opened.locator(".broker[data-node=broker-1]")
    expect(broker).to_have_attribute("data-life", "unknown")
    expect(broker.locator(".word")).to_have_text("no record so far")
    expect(broker.locator("summary")).to_have_text("records missing")


def test_counts_are_marked_and_the_slider_names_what_is_missing(opened: Page) -> None:
    press(opened, "End")
    expect(opened.locator("#grid-summary")).to_have_text(
        re.compile(r"^\d+ partitions? \?, \d+ without a live leader \?, \d+ under-replicated \?$")
    )
    slider = opened.get_by_role("slider", name="moment of the run")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("; records of broker 1, broker 3 are missing$"))
    drawn(opened)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, file: Path, theme: str) -> None:
    context = browser.new_context(color_scheme="dark" if theme == "dark" else "light")
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    press(page, "End")
    page.locator(".broker[data-node=broker-3] summary").click()
    found = Axe().run(page)
    context.close()
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1920, 1080)])
def test_nothing_is_wider_than_the_screen(opened: Page, width: int, height: int) -> None:
    opened.set_viewport_size({"width": width, "height": height})
    press(opened, "End")
    opened.locator(".broker[data-node=broker-3] summary").click()
    drawn(opened)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


def test_a_page_that_is_open_gets_the_verdict_when_its_run_ends(page: Page, tmp_path: Path) -> None:
    folder = write_run(without_controller(), tmp_path)
    ended = threading.Event()
    with PageServer(LiveRun(folder, "run-1"), folder=folder, has_ended=ended.is_set, look_every_s=0.05) as server:
        page.goto(server.url)
        expect(page.locator("body")).to_have_attribute("data-ready", "true")
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#missing-mark")).not_to_be_visible()
        ended.set()
        expect(page.locator("#missing-mark")).to_have_text("records are missing")
        expect(page.locator("#missing-rows li").first).to_contain_text("broker 2")
        expect(page.locator("#live")).to_have_text("ended")


def test_a_live_page_says_that_wall_clocks_align_its_boots(page: Page, tmp_path: Path) -> None:
    """No boot of the run is this machine's."""
    folder = write_run(on_two_clocks(), tmp_path)
    with PageServer(LiveRun(folder, "run-1"), folder=folder) as server:
        page.goto(server.url)
        expect(page.locator("body")).to_have_attribute("data-ready", "true")
        expect(page.locator("#clocks-note")).to_contain_text("the clocks of 3 boots")
        expect(page.locator("#clocks-rows li")).to_have_count(3)
        page.keyboard.press("End")
        expect(page.locator("#znode-epoch output")).to_have_text("2")
        page.goto("about:blank")  # it would look for the server that ends


def test_a_page_on_two_clocks_lists_them_and_each_time_has_its_uncertainty(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    understudy("page", str(write(on_two_clocks(), tmp_path / "logs")), "-o", str(file))
    page.goto(file.as_uri() + "#at=broker-2.1.6")
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    expect(page.locator("#missing-mark")).not_to_be_visible()
    rows = page.locator("#clocks-rows li")
    expect(rows).to_have_text(
        [
            "host of boot-a, boot boot-a: broker 1, broker 3, testbed; the reference",
            re.compile(r"^host of boot-b, boot boot-b: broker 2; ± [\d.]+ (µs|ms|s) at most, by the wall clock$"),
        ]
    )
    expect(page.locator("#why .line")).to_contain_text(re.compile(r"broker-2, .*, at its time ± [\d.]+ (µs|ms|s)$"))
    page.goto(file.as_uri() + "#at=broker-1.1.4")
    expect(page.locator("#why .line")).to_contain_text("broker-1, incarnation 1, line 4: ")
    expect(page.locator("#why .line")).not_to_contain_text("±")
