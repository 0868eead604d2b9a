"""The tree of znodes on the page: what it shows of a moment, its keys, and what it leaves out."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.browser import press, understudy
from understudy.clusters.simulated.cluster import SimulatedCluster

pytestmark = pytest.mark.xdist_group("browser")

TOPICS = 34


def simulate(folder: Path) -> None:
    """Write the event logs of a cluster with many topics whose `/controller` is deleted by hand."""
    with SimulatedCluster(2, brokers=3) as cluster:
        cluster.start()
        for number in range(TOPICS):
            cluster.create_topic(f"orders-{number}", partitions=2, replication_factor=3)
        cluster.settle()
        cluster.depose()
        cluster.settle()
        cluster.dump(folder)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    # Playwright has an event loop in this thread.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(simulate, folder / "run").result()
    understudy("page", str(folder / "run"), "-o", str(folder / "run.html"))
    return folder / "run.html"


@pytest.fixture
def opened(page: Page, file: Path) -> Page:
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    return page


def row(page: Page, path: str) -> Locator:
    return page.locator(f"#znode-rows > [data-path='{path}']")


def show_fault(page: Page) -> None:
    press(page, "Home", "f")
    while "depose" not in page.locator("#step").inner_text():
        press(page, "f")


def test_a_deletion_by_hand_and_the_election_after_it(opened: Page) -> None:
    show_fault(opened)
    expect(opened.locator("#znode-changes")).to_contain_text("This moment changes 1 znode.")
    controller, epoch = row(opened, "/controller"), row(opened, "/controller_epoch")
    expect(controller).to_have_class("gone")
    expect(controller).to_have_attribute("aria-label", "/controller, none, deleted now by hand")
    expect(epoch.locator(".data")).to_have_text("1")
    expect(epoch.locator(".rest")).to_have_text(re.compile(r"^version 1 · changed [\d.]+ \w+ ago by broker \d$"))
    expect(row(opened, "/brokers/ids/1").locator(".rest")).to_have_text(
        re.compile(r"^ephemeral, of broker 1, session 0x\w+ · broker epoch \d+ · (created .* by broker 1|since \?)$")
    )
    while epoch.locator(".data").inner_text() == "1":
        press(opened, "ArrowRight")
    expect(opened.locator("#znode-changes")).to_contain_text("This moment changes 2 znodes.")
    expect(epoch).to_have_class("now")
    expect(epoch.locator(".rest")).to_have_text("version 2")
    expect(epoch.locator(".tag")).to_have_text(re.compile(r"^changed now by broker \d$"))
    expect(controller.locator(".data")).to_have_text(re.compile(r'^\{"brokerid":\d,…\}$'))
    expect(controller.locator(".rest")).to_have_text(
        re.compile(r"^version 0 · ephemeral, of broker \d, session 0x\w+$")
    )
    expect(controller.locator(".tag")).to_have_text(re.compile(r"^created now by broker \d$"))


def test_a_watch_and_a_write_under_way_are_notes_of_their_znodes(opened: Page) -> None:
    show_fault(opened)
    tag = row(opened, "/controller").locator(".tag")
    seen = set()
    for _ in range(40):
        press(opened, "ArrowRight")
        seen.add(re.sub(r"\d", "N", tag.inner_text()))
    assert "watch of broker N: deleted" in seen
    assert "broker N is writing (election)" in seen


def test_levels_open_by_keys_and_say_what_they_leave_out(opened: Page) -> None:
    press(opened, "End")
    last = row(opened, "/brokers/topics/…")
    expect(last).to_have_attribute("aria-label", f"{TOPICS - 30} more znodes below /brokers/topics: Enter lists more")
    names = opened.locator("#znode-rows [data-path^='/brokers/topics/orders-']")
    expect(names).to_have_count(30)
    row(opened, "/controller").focus()
    press(opened, "ArrowDown", "ArrowDown")
    expect(row(opened, "/brokers")).to_be_focused()
    expect(opened.locator("#position")).to_have_text(re.compile(r"^record ([\d,]+) of \1$"))
    press(opened, "ArrowLeft")
    expect(row(opened, "/brokers")).to_have_attribute("aria-expanded", "false")
    expect(names).to_have_count(0)
    press(opened, "ArrowRight", "ArrowRight")
    expect(names).to_have_count(30)
    last.focus()
    last.click()
    expect(names).to_have_count(TOPICS)
    topic = row(opened, "/brokers/topics/orders-7")
    topic.click()
    row(opened, "/brokers/topics/orders-7/partitions").click()
    expect(row(opened, "/brokers/topics/orders-7/partitions/1/state").locator(".data")).to_have_text(
        re.compile(r'^\{"controller_epoch":1,"leader":\d,"leader_epoch":0,"isr":\[\d,\d,\d\],…\}$')
    )
    press(opened, "ArrowLeft", "ArrowLeft")
    expect(row(opened, "/brokers/topics/orders-7/partitions")).to_have_attribute("aria-expanded", "false")


def test_topics_are_found_by_a_part_of_their_name(opened: Page) -> None:
    press(opened, "End")
    opened.locator("#znode-topic").fill("-33")
    expect(opened.locator("#znode-rows [data-path^='/brokers/topics/']")).to_have_count(1)
    expect(row(opened, "/brokers/topics/orders-33")).to_be_visible()


@pytest.mark.parametrize("size", [(1280, 720), (390, 844)])
def test_it_fits_and_can_be_read_by_everyone(opened: Page, size: tuple[int, int]) -> None:
    opened.set_viewport_size({"width": size[0], "height": size[1]})
    show_fault(opened)
    opened.locator("#tree").scroll_into_view_if_needed()
    assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.locator("#znode-rows").evaluate("(rows) => rows.scrollWidth <= rows.clientWidth")
    assert opened.locator("#znode-rows > [tabindex='0']").count() == 1
    found = Axe().run(opened)
    assert found.violations_count == 0, found.generate_report()


def test_a_link_shows_a_znode_below_levels_that_are_closed(opened: Page, file: Path) -> None:
    path = "/brokers/topics/orders-31/partitions/0/state"
    show_fault(opened)
    at = opened.evaluate("location.hash").split("&")[0]
    opened.goto("about:blank")
    opened.goto(f"{file.as_uri()}{at}&show=tree:{path}")
    expect(row(opened, path)).to_have_attribute("data-evidence", "1")
    expect(row(opened, path)).to_be_in_viewport()
