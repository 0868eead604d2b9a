"""The inside of a controller in a browser: what waits in the channel to a broker that does not answer."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import SCREENSHOTS, press, understudy
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster

pytestmark = pytest.mark.xdist_group("browser")

STATUS = re.compile(r"^ LeaderAndIsr \(1 partition\) sent [\d.]+ m?s ago; 11 requests wait$")

FAILED = re.compile(
    r"^ LeaderAndIsr \(1 partition\) failed, to be sent again, last sent [\d.]+ s ago; 11 requests wait$"
)


def simulate(folder: Path) -> None:
    """Write the event logs of a run in which broker 1 is paused while topics are created, is killed, and starts."""
    with SimulatedCluster(2, brokers=3) as cluster:
        cluster.start()
        client = cluster.admin.with_bootstrap(f"{cluster.controller().node.name}:{PORT}")
        silent = next(broker for broker in cluster.brokers if broker is not cluster.controller())
        assert silent.id == 1
        silent.pause()
        for number in range(6):
            cluster.begin(client.create_topic(f"orders-{number}", assignment={0: [1]}))
            cluster.run_for(200)
        cluster.dump(folder / "waits")
        silent.kill()
        cluster.run_for(1_000)
        cluster.dump(folder / "killed")
        silent.begin_start()
        cluster.settle()
        cluster.dump(folder / "started")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("inside")
    # Playwright has an event loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(simulate, found).result()
    return found


def opened_at_the_end(page: Page, folder: Path) -> None:
    file = folder.with_suffix(".html")
    understudy("page", str(folder), "-o", str(file))
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    press(page, "End")


def test_the_requests_that_wait_for_a_paused_broker_are_counted_and_named(page: Page, folder: Path) -> None:
    opened_at_the_end(page, folder / "waits")
    channel = page.locator("#channels > li[data-to='1']")
    expect(channel).to_have_attribute("data-busy", "")
    expect(channel.locator("span")).to_have_text(STATUS)
    waiting = channel.locator("ol > li")
    expect(waiting).to_have_count(4)
    expect(waiting.nth(0)).to_have_text(re.compile(r"^UpdateMetadata \(1 partition\) · waits [\d.]+ m?s$"))
    expect(waiting.nth(1)).to_have_text(re.compile(r"^LeaderAndIsr \(1 partition\) · waits [\d.]+ m?s$"))
    expect(channel.locator("p")).to_have_text("and 7 more")
    others = page.locator("#channels > li:not([data-to='1'])")
    expect(others).to_have_count(2)
    for other in others.all():
        expect(other.locator("span")).to_have_text(" idle")
        expect(other.locator("ol")).to_be_hidden()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.set_viewport_size({"width": 1280, "height": 1800})
    page.locator("#inside-of").screenshot(path=SCREENSHOTS / "inside.png")
    page.set_viewport_size({"width": 390, "height": 1800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#inside-of").screenshot(path=SCREENSHOTS / "inside-390.png")


def test_a_request_to_a_killed_broker_is_to_be_sent_again_before_those_that_wait(page: Page, folder: Path) -> None:
    opened_at_the_end(page, folder / "killed")
    channel = page.locator("#channels > li[data-to='1']")
    expect(channel).to_have_attribute("data-busy", "")
    expect(channel.locator("span")).to_have_text(FAILED)
    expect(channel.locator("ol > li")).to_have_count(4)


def test_nothing_waits_once_the_broker_has_started(page: Page, folder: Path) -> None:
    opened_at_the_end(page, folder / "started")
    expect(page.locator("#channels > li")).to_have_count(3)
    for channel in page.locator("#channels > li").all():
        expect(channel.locator("span")).to_have_text(" idle")
        expect(channel.locator("ol")).to_be_hidden()
        expect(channel.locator("p")).to_be_hidden()
