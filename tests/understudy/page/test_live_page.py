"""The page in a browser, on a live cluster: commands, the new controller, scrubbing back, a link to a moment."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import SCREENSHOTS, press

pytestmark = pytest.mark.xdist_group("browser")

_TAKEOVER_MS = 60_000


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start `understudy up --watch`, and yield the address of the page, with its token."""
    folder = tmp_path_factory.mktemp("watched") / "run"
    command = [sys.executable, "-P", "-m", "understudy.cli.main", "up", "--watch", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = ""
        for line in process.stdout:
            if line.startswith("page "):
                found = line.split()[1]
            if line.startswith("Ctrl-C"):
                break
        assert found, "`up --watch` printed no address of the page"
        yield found
        process.terminate()
        process.stdout.read()
        assert process.wait(60) == 0


def broker_with_crown(page: Page) -> str:
    crown = page.locator(".broker:has(.crown:has-text('epoch'))")
    expect(crown).to_have_count(1, timeout=_TAKEOVER_MS)
    return str(crown.get_attribute("data-node"))


def opened(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")


def command(page: Page, node: str, label: str) -> None:
    page.locator(f".broker[data-node={node}] .menu").click()
    page.get_by_role("button", name=label, exact=True).click()
    expect(page.locator("#commands-status")).not_to_have_text(re.compile("^…?$"), timeout=_TAKEOVER_MS)
    assert "not done" not in page.locator("#commands-status").inner_text()
    page.locator("#commands-close").click()


def create_topic(page: Page, name: str) -> None:
    page.get_by_role("button", name="Commands", exact=True).click()
    page.locator("input[name=topic]").fill(name)
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.locator("#commands-status")).to_have_text(re.compile("^done"), timeout=_TAKEOVER_MS)
    page.locator("#commands-close").click()
    page.locator("#grid-topic").fill(name)


def test_a_controller_is_killed_from_the_page(page: Page, browser: Browser, address: str) -> None:
    opened(page, address)
    expect(page.locator("#live")).to_have_text("live")
    create_topic(page, "orders")
    expect(page.locator("#grid-summary")).to_contain_text("6 partitions, 0 without a live leader")
    old = broker_with_crown(page)
    command(page, old, "Kill (SIGKILL)")
    expect(page.locator(f".broker[data-node={old}]")).to_have_attribute("data-life", "dead")
    expect(page.locator("#znode-epoch output")).to_have_text("2", timeout=_TAKEOVER_MS)
    new = broker_with_crown(page)
    assert new != old
    expect(page.locator("#grid-summary")).to_contain_text("6 partitions, 0 without a live leader", timeout=_TAKEOVER_MS)
    page.screenshot(path=SCREENSHOTS / "live.png", full_page=True)

    press(page, "Home")
    press(page, "f")
    for _ in range(20):
        if "kill" in page.locator("#step").inner_text():
            break
        press(page, "f")
    expect(page.locator("#step")).to_contain_text(f"last fault: kill {old}")
    press(page, "ArrowLeft")
    assert broker_with_crown(page) == old
    expect(page.locator(f".broker[data-node={old}]")).to_have_attribute("data-life", "running")
    expect(page.locator("#znode-epoch output")).to_have_text("1")

    press(page, "l")
    position = page.locator("#position").inner_text()
    other = browser.new_context().new_page()
    other.goto(page.url)
    expect(other.locator("#position")).to_contain_text(position.split(" of ")[0])
    assert broker_with_crown(other) == old
    assert other.locator("#clock").inner_text() == page.locator("#clock").inner_text()
    other.context.close()

    press(page, "End")
    assert broker_with_crown(page) == new
    command(page, old, "Start")
    expect(page.locator(f".broker[data-node={old}]")).to_have_attribute("data-life", "running", timeout=_TAKEOVER_MS)


def test_a_page_without_the_token_cannot_command(page: Page, address: str) -> None:
    opened(page, address.partition("#")[0])
    press(page, "c")
    expect(page.locator("#commands-body")).to_contain_text("opened without its token")
    page.locator("#commands-close").click()


def test_a_refused_command_says_why(page: Page, address: str) -> None:
    opened(page, address)
    page.locator(".broker .menu").first.click()
    page.get_by_role("button", name="Isolate from the network", exact=True).click()
    expect(page.locator("#commands-status")).to_contain_text("--proxied")


def test_a_named_point_is_armed(page: Page, address: str) -> None:
    """No other test deletes a topic, so that none reaches the point."""
    opened(page, address)
    page.locator(".broker .menu").first.click()
    page.locator("select[name=point]").select_option("deletion.markers.before_write")
    page.get_by_role("button", name="Arm", exact=True).click()
    expect(page.locator("#commands-status")).to_have_text("broker-1 armed")


def test_the_moment_stays_while_records_come(page: Page, address: str) -> None:
    opened(page, address)
    press(page, "ArrowLeft")
    before = page.locator("#clock").inner_text()
    create_topic(page, "payments")
    expect(page.locator("#grid-summary")).to_contain_text("0 partitions")
    assert page.locator("#clock").inner_text() == before
    page.get_by_role("button", name="Latest").click()
    expect(page.locator("#grid-summary")).to_contain_text("6 partitions")
