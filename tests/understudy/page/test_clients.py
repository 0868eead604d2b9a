"""The cards of a user's processes on the page of a test in virtual time."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import press
from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller
from understudy.foundation.eventlog.records import (
    ClientLogged,
    ClientRequestEnded,
    FaultInjected,
    ProcessExiting,
    ProcessStarted,
)
from understudy.page.export import page_of

pytestmark = pytest.mark.xdist_group("browser")


def open_page(page: Page, logs: Logs, folder: Path) -> None:
    for name, lines in logs.lines.items():
        (folder / name).write_bytes(b"".join(lines))
    file = folder / "page.html"
    file.write_text(page_of([folder]), encoding="utf-8")
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Page:
    """A run with two processes of a user: `billing` is killed, and started again."""
    logs = killed_controller()
    logs.at(1400, "billing", ProcessStarted(role="client"))
    logs.at(1410, "shop", ProcessStarted(role="client"))
    for number in range(7):
        sent = ClientRequestEnded(
            api="Produce",
            client_id="shop",
            broker="broker-1",
            topic="orders",
            partition=0,
            error="NONE" if number < 6 else "NOT_LEADER_OR_FOLLOWER",
            offset=number if number < 6 else -1,
            records=1,
            attempt=1,
        )
        logs.at(1700 + number, "shop", sent)
    logs.at(1800, "billing", ClientLogged(level="WARNING", logger="billing", text="<b>no order</b>"))
    logs.at(2000, "testbed", FaultInjected(fault="kill", target="billing"))
    logs.at(2500, "billing", ProcessStarted(role="client"), incarnation=2)
    logs.at(8000, "billing", ProcessExiting(reason="the run has ended"), incarnation=2)
    logs.at(8000, "shop", ProcessExiting(reason="the run has ended"))
    open_page(page, logs, tmp_path)
    return page


def test_each_process_of_the_user_has_a_card_with_what_it_did_last(opened: Page) -> None:
    press(opened, "End")
    cards = opened.locator("#clients .client")
    expect(cards).to_have_count(2)
    expect(cards.nth(0).locator("h3")).to_have_text("billing")
    expect(cards.nth(0)).to_have_attribute("data-part", "client:billing")
    sentences = opened.locator("#clients [data-node=shop] li")
    expect(sentences).to_have_count(5)
    expect(sentences.nth(3)).to_contain_text("sends 1 record to orders-0 at broker-1: NOT_LEADER_OR_FOLLOWER")
    expect(sentences.nth(4)).to_contain_text("exits: the run has ended")
    expect(opened.locator("#clients [data-node=billing] .word")).to_have_text("gone, start 2")
    expect(opened.locator("#clients [data-node=billing] li").nth(1)).to_contain_text("<b>no order</b>")
    expect(opened.locator("#brokers .broker")).to_have_count(3)


def test_page_without_processes_of_the_user_shows_no_cards_for_them(page: Page, tmp_path: Path) -> None:
    open_page(page, killed_controller(), tmp_path)
    expect(page.locator("#clients")).to_be_hidden()
