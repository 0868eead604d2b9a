"""The picture of a run: its parts have names and explain themselves, and it is shown slim in a frame and to a room."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import SCREENSHOTS, drawn, press
from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import (
    AssignedMember,
    BrokerRegistered,
    ControllerElected,
    FaultInjected,
    FenceHit,
    GroupAssigned,
    GroupOffset,
    GroupsLoaded,
    GroupTransition,
    Leadership,
    LeadershipWritten,
    LoggedBatch,
    LogOpened,
    LogTruncated,
    OffsetsCommitted,
    ProcessStarted,
    RecordsAcknowledged,
    RecordsAppended,
    RequestSent,
    SessionOpened,
)
from understudy.page.export import page_of

pytestmark = pytest.mark.xdist_group("browser")

ORDERS: dict[str, Any] = {"topic": "orders", "topic_id": "id", "partition": 0}
GROUP: dict[str, Any] = {"group": "readers", "partition": 7}
NAME = re.compile(
    r"(znode|tree):/\S*|(session|process|metadata|fence|queue):\S+|(replica|high-watermark):broker-\d+:\S+-\d+|isr:\S+-\d+"
    r"|(request|link):(broker|zookeeper)-\d+:\S+|group:broker-\d+:\S+|member:\S+:\S+|client:\S+"
)

BROKEN_WORDS = """() => {
  const range = document.createRange();
  const broken = [];
  const texts = document.createTreeWalker(document.getElementById("brokers"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { currentNode } = texts;
    for (const { 0: word, index } of currentNode.textContent.matchAll(/\\p{L}+/gu)) {
      range.setStart(currentNode, index);
      range.setEnd(currentNode, index + word.length);
      if (range.getClientRects().length > 1) { broken.push(word); }
    }
  }
  return broken;
}"""


def a_run() -> Logs:
    """Three brokers with a controller and a partition on two of them; a group, a cut, a request and a fence."""
    logs = Logs()
    for broker in (1, 2, 3):
        name = f"broker-{broker}"
        logs.at(8000, name, ProcessStarted(role="broker", broker_id=broker))
        logs.at(8001, name, SessionOpened(session_id=broker, timeout_ms=6000))
        logs.at(8002, name, BrokerRegistered(broker_id=broker, broker_epoch=10 + broker, session_id=broker))
    logs.at(8100, "broker-2", ControllerElected(broker_id=2, epoch=2, epoch_zk_version=1, session_id=2))
    written = (Leadership("orders", 0, 2, 1, (2, 3), 1, 2),)
    logs.at(8200, "broker-2", LeadershipWritten(why="initialise", partitions=written))
    for name, role in (("broker-2", "leader"), ("broker-3", "follower")):
        logs.at(9000, name, LogOpened(**ORDERS, log_start_offset=0, log_end_offset=0, high_watermark=0, epochs=()))
        appended = RecordsAppended(**ORDERS, role=role, leader_epoch=1, batches=(LoggedBatch(0, 4, 1, 1),))
        logs.at(9001, name, appended)
    acknowledged = RecordsAcknowledged(**ORDERS, leader_epoch=1, base_offset=0, last_offset=1, acks=-1)
    logs.at(9002, "broker-2", acknowledged)
    cut = LogTruncated(
        **ORDERS, leader_epoch=1, to_offset=2, is_full=False, log_end_offset=4, high_watermark=0, epochs=((1, 0),)
    )
    logs.at(9003, "broker-3", cut)
    logs.at(9004, "broker-2", GroupsLoaded(partition=7, leader_epoch=0, groups=0, offsets=0, unreadable=0))
    stable = GroupTransition(**GROUP, source="Empty", target="Stable", generation=3, members=1, reason="x")
    logs.at(9005, "broker-2", stable)
    members = (AssignedMember("alice-1", "", "alice", (("orders", 0),)),)
    assigned = GroupAssigned(
        **GROUP, generation=3, protocol_type="consumer", protocol="range", leader="alice-1", members=members
    )
    logs.at(9006, "broker-2", assigned)
    offsets = (GroupOffset("orders", 0, 1),)
    logs.at(9007, "broker-2", OffsetsCommitted(**GROUP, generation=3, appended_at=1, offsets=offsets))
    logs.at(9008, "testbed", FaultInjected(fault="cut", target="broker-2 -> broker-3"))
    logs.at(9008, "testbed", FaultInjected(fault="cut", target="broker-1 -> zookeeper-2, zookeeper-3"))
    logs.at(9008, "testbed", FaultInjected(fault="cut", target="zookeeper-3 -> zookeeper-1, zookeeper-2"))
    sent = RequestSent(to=3, api="UpdateMetadata", api_version=8, client_id="2", correlation_id=9, controller_epoch=2)
    logs.at(9009, "broker-2", sent)
    logs.at(9010, "broker-3", FenceHit(fence="broker.controller-epoch", what="LeaderAndIsr", offered=1, known=2))
    return logs


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for name, lines in a_run().lines.items():
        (tmp_path / name).write_bytes(b"".join(lines))
    found = tmp_path / "page.html"
    found.write_text(page_of([tmp_path]), encoding="utf-8")
    return found


def open_at_end(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    press(page, "End")


@pytest.fixture
def opened(page: Page, file: Path) -> Page:
    open_at_end(page, file.as_uri() + "#partition=orders/0")
    return page


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("session:broker-2", "session"),
        ("process:broker-2", "running"),
        ("metadata:broker-2", "no controller"),
        ("queue:broker-2", "in progress|idle"),
        ("replica:broker-2:orders-0", "log 0 to 4, high watermark 0; acknowledged below 2"),
        ("replica:broker-3:orders-0", "log 0 to 2, high watermark 0; acknowledged below 2; 2 to 4 cut away"),
        ("isr:orders-0", "leader"),
        ("group:broker-2:readers", "Stable, generation 3, 1 member; committed offset of orders-0: 1"),
        ("member:readers:alice", "its leader, is assigned orders-0"),
        ("link:broker-2:broker-3", "cut"),
        ("link:zookeeper-3:zookeeper-2", "connection between ZooKeeper's servers 3 and 2: cut"),
        ("link:broker-1:zookeeper-2", "broker 1: ZooKeeper's servers 2, 3: cut"),
        ("request:broker-2:broker-3", "UpdateMetadata from broker 2 to broker 3, controller epoch 2"),
        ("fence:broker-3", "refuses LeaderAndIsr: offered 1, known 2"),
    ],
)
def test_each_part_explains_itself(opened: Page, part: str, text: str) -> None:
    found = opened.locator(f"[data-part='{part}']")
    expect(found).to_be_visible()
    words = found.get_attribute("title") or found.get_attribute("aria-label") or ""
    assert re.search(text, words), words


def test_cuts_of_zookeepers_servers_are_drawn_until_they_end(page: Page, tmp_path: Path) -> None:
    logs = a_run()
    target = "zookeeper-3 -> zookeeper-1, zookeeper-2"
    logs.at(9020, "testbed", FaultInjected(fault="heal", target=target))
    for name, lines in logs.lines.items():
        (tmp_path / name).write_bytes(b"".join(lines))
    file = tmp_path / "page.html"
    file.write_text(page_of([tmp_path]), encoding="utf-8")
    open_at_end(page, file.as_uri())
    expect(page.locator("#server-links")).to_be_hidden()
    press(page, "ArrowLeft")
    expect(page.locator("#server-links .chip")).to_have_text(["server 3 ✕ 1", "server 3 ✕ 2"])


def test_parts_have_the_names_that_lessons_use(opened: Page) -> None:
    names = opened.locator("[data-part]").evaluate_all("(all) => all.map((each) => each.dataset.part)")
    assert [name for name in names if not NAME.fullmatch(name)] == []
    assert {"znode:/controller", "znode:/controller_epoch", "znode:/brokers/ids"} <= set(names)
    assert len(names) == len(set(names))


def test_a_part_with_the_focus_shows_its_words(opened: Page) -> None:
    opened.keyboard.press("Tab")
    opened.locator("[data-part='replica:broker-3:orders-0']").focus()
    expect(opened.locator("#explained")).to_contain_text("2 to 4 cut away")
    opened.locator("#play").focus()
    expect(opened.locator("#explained")).to_be_hidden()


def test_rows_are_aligned_and_one_height_is_one_offset(opened: Page) -> None:
    for row in ("session", "process", "metadata", "wire", "replica"):
        tops = opened.locator(f".broker > .{row}").evaluate_all(
            "(all) => all.map((e) => e.getBoundingClientRect().top)"
        )
        assert len(tops) == 3
        assert max(tops) - min(tops) < 1, row
    bottoms = opened.locator(".replica .block").evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect().bottom)"
    )
    assert len(bottoms) == 2
    assert bottoms[0] == pytest.approx(bottoms[1], abs=1)
    expect(opened.locator(".replica .ghost")).to_have_count(1)
    opened.screenshot(path=SCREENSHOTS / "picture.png")


def test_the_moment_is_there_as_a_table(opened: Page) -> None:
    """A reader who does not see the picture has the same state in rows, and axe finds nothing in them."""
    table = opened.locator("#moment-table table")
    expect(table).to_be_hidden()
    opened.locator("#moment-table summary").click()
    titles = ["broker", "session", "process", "metadata", "replica of orders-0", "log end", "high watermark", "groups"]
    expect(table.locator("thead th")).to_have_text(titles)
    rows = table.locator("tbody tr").evaluate_all(
        "(all) => all.map((row) => [...row.children].map((cell) => cell.textContent.replaceAll('\\u00a0', ' ')))"
    )
    assert rows == [
        ["broker 1", "connected", "running, leads 0, follows 0", "no controller", "none", "", "", ""],
        [
            "broker 2, ♛ epoch 2, not ready yet", "connected", "running, leads 0, follows 0", "no controller", "leader",
            "4", "0", "group readers, Stable, generation 3, 1 member, alice★: orders-0",
        ],
        ["broker 3", "connected", "running, leads 0, follows 0", "no controller", "in sync", "2", "0", ""],
    ]  # fmt: skip
    found = Axe().run(opened)
    assert found.violations_count == 0, found.generate_report()
    press(opened, "Home")
    expect(table.locator("tbody tr")).to_have_count(0)


def test_long_names_break_only_between_their_parts(opened: Page) -> None:
    """No letter of a word of the columns is on another line than the one before it."""
    opened.set_viewport_size({"width": 800, "height": 800})
    drawn(opened)
    assert opened.evaluate(BROKEN_WORDS) == []


def test_the_strips_are_two_rows_until_a_key_opens_all(page: Page, file: Path) -> None:
    """In a frame of a lesson, 830 pixels wide: strips of at most 90 pixels below one line of controls."""
    page.set_viewport_size({"width": 860, "height": 700})
    frame = f"<iframe style='width: 830px; height: 600px' src='{file.as_uri()}'></iframe>"
    outer = file.with_name("outer.html")
    outer.write_text(f'<!doctype html><link rel="icon" href="data:,">{frame}', encoding="utf-8")
    page.goto(outer.as_uri())
    inner = page.frame_locator("iframe")
    expect(inner.locator("body")).to_have_attribute("data-ready", "true")
    height = "(canvas) => canvas.getBoundingClientRect().height"
    assert inner.locator("#strips").evaluate(height) <= 90
    tops = inner.locator(".transport > :visible").evaluate_all(
        "(all) => all.map((e) => { const box = e.getBoundingClientRect(); return (box.top + box.bottom) / 2; })"
    )
    assert max(tops) - min(tops) < 8, "the controls are not in one line"
    assert inner.locator(".transport").evaluate("(line) => line.scrollWidth <= line.clientWidth")
    inner.locator("#strips").press("t")
    drawn(page)
    expect(inner.locator("#all-strips")).to_have_attribute("aria-pressed", "true")
    assert inner.locator("#strips").evaluate(height) > 90


def test_a_room_sees_the_picture_and_a_remote_goes_along_the_story(page: Page, file: Path) -> None:
    open_at_end(page, file.as_uri() + "?present")
    expect(page.locator("header")).to_be_hidden()
    expect(page.locator("#story")).to_be_hidden()
    assert page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)") == 24
    press(page, "Home", "Space", "PageDown")
    forward = page.locator("#clock").inner_text()
    press(page, "PageDown", "PageUp")
    assert page.locator("#clock").inner_text() == forward
    page.screenshot(path=SCREENSHOTS / "present.png")


@pytest.mark.parametrize("width", [390, 1280])
def test_twelve_brokers_have_narrow_columns_on_any_screen(page: Page, tmp_path: Path, width: int) -> None:
    logs = a_run()
    for broker in range(4, 13):
        logs.at(9000, f"broker-{broker}", ProcessStarted(role="broker", broker_id=broker))
    for name, lines in logs.lines.items():
        (tmp_path / name).write_bytes(b"".join(lines))
    found = tmp_path / "page.html"
    found.write_text(page_of([tmp_path]), encoding="utf-8")
    page.set_viewport_size({"width": width, "height": 800})
    open_at_end(page, found.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator(".broker")).to_have_count(12)
    assert page.locator(".broker").evaluate_all("(all) => all.every((each) => each.scrollWidth <= each.clientWidth)")


HEIGHTS = """() => Object.fromEntries(Object.entries({
  "plot": ".replica text.end", "high watermark": ".watermark text", "request": ".api", "epoch": ".mark .sign",
  "column": ".metadata", "strips": "#strips",
}).map(([name, selector]) => [name, document.querySelector(selector).getBoundingClientRect().height]))"""


def test_what_scripts_draw_grows_with_the_type_of_the_page(page: Page, file: Path) -> None:
    page.set_viewport_size({"width": 1920, "height": 1080})
    open_at_end(page, file.as_uri() + "#partition=orders/0")
    page.locator("#all-strips").click()
    drawn(page)
    usual = page.evaluate(HEIGHTS)
    open_at_end(page, file.as_uri() + "?present#partition=orders/0")
    larger = page.evaluate(HEIGHTS)
    grown = {name: larger[name] / usual[name] for name in usual}
    column = grown.pop("column")
    assert column > 1.2
    assert grown == pytest.approx(dict.fromkeys(grown, 1.5), rel=0.03)
