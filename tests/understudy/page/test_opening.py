"""The page of a long run is shown as soon as it has its first moment, and reads on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser import press
from understudy.page.recorded import chunks as chunks_module
from understudy.page.recorded.runs import finished_run
from understudy.page.served.server import PageServer
from understudy.trials.seeds.seeds import run_seed

pytestmark = pytest.mark.xdist_group("browser")

CHUNK = 200
READ_AT_ONCE = 3
"""Number of chunks that are answered at once, with the first fault among them; the others wait."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("opening") / "run"
    # In a thread of its own: Playwright's event loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(run_seed, 7, 6, events=found).result()
    return found


@pytest.fixture
def address(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(chunks_module, "CHUNK_RECORDS", CHUNK)
    with PageServer(finished_run([folder])) as server:
        yield server.url


class HeldChunks:
    """Chunks of a page that are not answered until they are released."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._routes: list[Route] = []
        self._is_released = False
        page.route(re.compile(r"/chunks/\d+$"), self._on_request)

    def _on_request(self, route: Route) -> None:
        if self._is_released or int(route.request.url.rpartition("/")[2]) < READ_AT_ONCE:
            route.continue_()
        else:
            self._routes.append(route)

    def release(self) -> None:
        self._is_released = True
        for route in self._routes:
            route.continue_()
        expect(self._page.locator("body")).to_have_attribute("data-ready", "true")


def position(page: Page) -> tuple[int, int]:
    """The number of records before the moment that is shown, and of those that were read."""
    found = re.fullmatch(r"record ([\d,]+) of ([\d,]+)", page.locator("#position").inner_text())
    assert found is not None
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


def test_the_first_fault_is_shown_while_the_rest_is_read(page: Page, address: str) -> None:
    held = HeldChunks(page)
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-shown", "true")
    expect(page.locator("#step")).to_contain_text("last fault: ")
    expect(page.locator("#status")).to_have_text(f"{READ_AT_ONCE * CHUNK} records read")
    assert page.locator("body").get_attribute("data-ready") is None
    shown, read = position(page)
    assert shown < read <= READ_AT_ONCE * CHUNK
    press(page, "ArrowRight")
    assert position(page)[0] == shown + 1
    held.release()
    press(page, "ArrowRight")
    assert position(page)[0] == shown + 2, "the rest has moved the moment"
    assert position(page)[1] > READ_AT_ONCE * CHUNK
    expect(page.locator("#status")).to_have_text("")


def test_the_end_moves_with_what_is_read(page: Page, address: str) -> None:
    held = HeldChunks(page)
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-shown", "true")
    expect(page.locator("#status")).to_have_text(f"{READ_AT_ONCE * CHUNK} records read")
    press(page, "End")
    assert position(page) == (READ_AT_ONCE * CHUNK,) * 2
    held.release()
    press(page)
    shown, read = position(page)
    assert shown == read > READ_AT_ONCE * CHUNK


def last_record(page: Page, address: str) -> str:
    """The fragment of a link to the last record."""
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    press(page, "End", "l")
    fragment: str = page.evaluate("location.hash")
    page.goto("about:blank")
    return fragment


def test_a_link_is_shown_when_its_record_has_been_read(page: Page, address: str) -> None:
    fragment = last_record(page, address)
    held = HeldChunks(page)
    page.goto(address + fragment)
    expect(page.locator("#status")).to_have_text(f"{READ_AT_ONCE * CHUNK} records read")
    assert page.locator("body").get_attribute("data-shown") is None
    held.release()
    press(page)
    shown, read = position(page)
    assert shown == read


def test_a_link_that_is_followed_while_the_page_reads_is_shown_later(page: Page, address: str) -> None:
    fragment = last_record(page, address)
    held = HeldChunks(page)
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-shown", "true")
    page.evaluate("(fragment) => { location.hash = fragment; }", fragment)
    press(page)
    assert position(page)[0] < READ_AT_ONCE * CHUNK
    held.release()
    press(page)
    shown, read = position(page)
    assert shown == read
