"""The row of clients: the cards of a user's processes, and the cards of the clients of a load."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import press
from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientLogged,
    ClientRequestBegan,
    ClientRequestEnded,
    FaultInjected,
    MemberTransition,
    Payload,
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
    expect(cards.nth(0).locator("h3 .name")).to_have_text("billing")
    expect(cards.nth(0)).to_have_attribute("data-part", "client:billing")
    sentences = opened.locator("#clients [data-node=shop] li")
    expect(sentences).to_have_count(5)
    expect(sentences.nth(3)).to_contain_text("sends 1 record to orders-0 at broker-1: NOT_LEADER_OR_FOLLOWER")
    expect(sentences.nth(4)).to_contain_text("exits: the run has ended")
    expect(opened.locator("#clients [data-node=billing] .word")).to_have_text("ended, start 2")
    expect(opened.locator("#clients [data-node=billing] li").nth(1)).to_contain_text("<b>no order</b>")
    expect(opened.locator("#brokers .broker")).to_have_count(3)


def test_page_without_processes_of_the_user_shows_no_cards_for_them(page: Page, tmp_path: Path) -> None:
    open_page(page, killed_controller(), tmp_path)
    expect(page.locator("#clients")).to_be_hidden()


def produce(
    *, error: str | None = None, broker: str = "broker-1", attempt: int = 1, again: bool = False, offset: int = 40
) -> Payload:
    """The beginning of a Produce of two records, or its end with an error, or an offset if it has none."""
    if error is None:
        return ClientRequestBegan(
            api="Produce",
            client_id="producer-1",
            broker=broker,
            topic="orders",
            partition=0,
            records=2,
            attempt=attempt,
        )
    return ClientRequestEnded(
        api="Produce",
        client_id="producer-1",
        broker=broker,
        topic="orders",
        partition=0,
        error=error,
        offset=offset if error == "NONE" else -1,
        records=2,
        attempt=attempt,
        is_sent_again=again,
    )


def fetch(offset: int, *, records: int = 0, error: str = "", partition: int = 0) -> Payload:
    """The beginning of a Fetch, or its end if it has records or an error."""
    if not records and not error:
        return ClientRequestBegan(
            api="Fetch", client_id="member-1", broker="broker-2", topic="orders", partition=partition, offset=offset
        )
    return ClientRequestEnded(
        api="Fetch",
        client_id="member-1",
        broker="broker-2",
        topic="orders",
        partition=partition,
        error=error or "NONE",
        records=records,
        next_offset=offset + records,
    )


def member(target: str, *, reason: str = "") -> Payload:
    is_stable = target == "STABLE"
    return MemberTransition(
        client_id="member-1",
        group="readers",
        member_id="m-1",
        target=target,
        generation=2 if is_stable else -1,
        coordinator=3 if is_stable else -1,
        partitions=(("orders", 0), ("orders", 1)) if is_stable else (),
        reason=reason,
    )


def connection(state: str, reason: str = "") -> Payload:
    return ClientConnection(client_id="producer-1", broker="broker-1", state=state, reason=reason)


def show(page: Page, folder: Path, *of_clients: tuple[str, Payload], clients: tuple[str, ...] = ()) -> None:
    """Open a run with clients at its last record. Each record is written 100 ms after the one before."""
    logs = killed_controller()
    names = dict.fromkeys((*(name for name, _ in of_clients), *clients))
    for name in names:
        logs.at(8000, name, ProcessStarted(role="client"))
    for number, (name, payload) in enumerate(of_clients, 1):
        logs.at(8000 + 100 * number, name, payload)
    open_page(page, logs, folder)
    press(page, "End")


def go_to(page: Page, name: str, seq: int, show: str = "") -> None:
    """Show the record of a client with a number, and mark a part."""
    page.goto(f"{page.url.partition('#')[0]}#at={name}.1.{seq}{show and f'&show={show}'}")


def card(page: Page, name: str) -> Locator:
    return page.locator(f'#clients [data-part="client:{name}"]')


LINES_OF_A_BATCH: tuple[tuple[int, list[str | re.Pattern[str]]], ...] = (
    (2, [re.compile(r"^2 records wait for orders-0, no leader to send to, 0 \S+$")]),
    (3, ["2 records wait for orders-0 at broker 1, 100 ms"]),
    (4, ["2 records wait for orders-0 at broker 1, 200 ms", re.compile(r"^connects to broker 1, 0 \S+$")]),
    (5, ["2 records wait for orders-0 at broker 1, 300 ms", "cannot connect to broker 1, 100 ms"]),
    (
        6,
        [
            "2 records wait for orders-0 at broker 1, 400 ms: no answer, tries again",
            "cannot connect to broker 1, 200 ms",
        ],
    ),
    (7, ["2 records wait for orders-0 at broker 2, 500 ms, attempt 2"]),
    (8, ["orders-0: acknowledged up to offset 41"]),
)
"""The lines on the card of a producer after each of its records."""


def test_producer_shows_what_waits_until_it_is_acknowledged(page: Page, tmp_path: Path) -> None:
    show(
        page,
        tmp_path,
        ("producer-1", produce(broker="")),
        ("producer-1", produce()),
        ("producer-1", connection("connecting")),
        ("producer-1", connection("failed", "no process listens")),
        ("producer-1", produce(error="", again=True)),
        ("producer-1", produce(broker="broker-2", attempt=2)),
        ("producer-1", produce(error="NONE", broker="broker-2", attempt=2)),
    )
    found = card(page, "producer-1")
    for seq, lines in LINES_OF_A_BATCH:
        go_to(page, "producer-1", seq)
        expect(found.locator(".waits li")).to_have_text(lines)
    expect(found).not_to_have_attribute("data-waits", "")
    go_to(page, "producer-1", 5)
    expect(found).to_have_attribute("data-waits", "")
    expect(found).to_have_attribute("title", re.compile("cannot connect to broker 1, 100 ms: no process listens"))


def test_producer_with_acks_0_shows_no_offset(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, ("producer-1", produce()), ("producer-1", produce(error="NONE", offset=-1)))
    go_to(page, "producer-1", 3)
    expect(card(page, "producer-1").locator(".waits li")).to_have_text(["orders-0: acknowledged"])


def test_member_shows_its_state_and_a_position_for_each_partition(page: Page, tmp_path: Path) -> None:
    show(
        page,
        tmp_path,
        ("member-1", member("PREPARING_REBALANCE")),
        ("member-1", member("PREPARING_REBALANCE", reason="NOT_COORDINATOR")),
        ("member-1", member("STABLE")),
        ("member-1", fetch(5)),
        ("member-1", fetch(7, partition=1)),
        ("member-1", fetch(5, records=3)),
        ("member-1", fetch(7, error="NOT_LEADER_OR_FOLLOWER", partition=1)),
    )
    found = card(page, "member-1")
    expect(found.locator(".waits li")).to_have_text(["stable in group readers, generation 2"])
    expect(found.locator(".reads li")).to_have_text(["orders-0: 8", "orders-1: 7, NOT_LEADER_OR_FOLLOWER"])
    expect(found.locator(".kind")).to_have_text("member of a group")
    expect(found.locator(".reads li").nth(0)).to_have_attribute("title", "position 8 of orders-0, read at broker 2")
    expect(found).to_have_attribute(
        "title", re.compile("^member-1, member of a group, running: .*coordinator broker 3")
    )
    go_to(page, "member-1", 4)
    expect(found.locator(".reads li")).to_have_text(["orders-0: –", "orders-1: –"])
    go_to(page, "member-1", 3)
    expect(found.locator(".waits li")).to_have_text(["joins group readers, 100 ms"])
    expect(found.locator(".reads li")).to_have_count(0)
    expect(found).to_have_attribute("title", re.compile("joins group readers, 100 ms.*: NOT_COORDINATOR"))


def commit(*, error: str | None = None, broker: str = "broker-3", partition: int = 0, again: bool = False) -> Payload:
    """The beginning of an OffsetCommit of a partition, or its end with an error."""
    if error is None:
        return ClientRequestBegan(
            api="OffsetCommit", client_id="member-1", broker=broker, topic="orders", partition=partition, offset=8
        )
    return ClientRequestEnded(
        api="OffsetCommit",
        client_id="member-1",
        broker=broker,
        topic="orders",
        partition=partition,
        error=error,
        offset=8,
        group="readers",
        is_sent_again=again,
    )


def test_member_shows_its_commit_until_it_is_stored(page: Page, tmp_path: Path) -> None:
    show(
        page,
        tmp_path,
        ("member-1", member("STABLE")),
        ("member-1", commit()),
        ("member-1", commit(partition=1)),
        ("member-1", commit(error="", again=True)),
        ("member-1", commit(error="", again=True, partition=1)),
        ("member-1", commit(broker="")),
        ("member-1", commit(error="NONE", partition=1, broker="broker-2")),
        ("member-1", commit(error="NONE", broker="broker-2")),
    )
    found = card(page, "member-1")
    stable = "stable in group readers, generation 2"
    for seq, line in (
        (3, re.compile(r"^commit of offset 8 of orders-0 waits at broker 3, 0 \S+$")),
        (4, "commit of 2 offsets waits at broker 3, 100 ms"),
        (6, "commit of 2 offsets waits at broker 3, 300 ms: no answer, tries again"),
        (7, "commit of 2 offsets waits, no coordinator to send to, 400 ms"),
        (8, "commit of offset 8 of orders-0 waits, no coordinator to send to, 500 ms"),
    ):
        go_to(page, "member-1", seq)
        expect(found.locator(".waits li")).to_have_text([line, stable])
        expect(found).to_have_attribute("data-waits", "")
    expect(found).to_have_attribute("title", re.compile("commit of offset 8 of orders-0 waits, no coordinator"))
    go_to(page, "member-1", 9)
    expect(found.locator(".waits li")).to_have_text([stable])


def test_values_of_the_chosen_partition_are_marked(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, ("member-1", fetch(7, partition=1)), ("member-1", fetch(5)), ("member-1", member("STABLE")))
    go_to(page, "member-1", 3, show="isr:orders-0")
    chosen = card(page, "member-1").locator(".reads [data-chosen]")
    expect(chosen).to_have_text(["orders-0: 5"])


def test_a_client_explains_itself_to_the_keyboard(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, ("producer-1", produce()), ("producer-1", connection("connecting")))
    go_to(page, "producer-1", 3)
    expect(card(page, "producer-1")).to_have_attribute("tabindex", "0")
    waits = re.compile("^producer-1, producer, running: 2 records wait for orders-0 at broker 1, 100 ms; connects")
    expect(card(page, "producer-1")).to_have_attribute("aria-label", waits)


def test_more_than_eight_clients_are_a_list_of_one_line_each(page: Page, tmp_path: Path) -> None:
    names = tuple(f"producer-{number}" for number in range(2, 13))
    show(page, tmp_path, ("producer-1", produce()), ("producer-1", connection("connecting")), clients=names)
    go_to(page, "producer-1", 3)
    expect(page.locator("#clients")).to_have_attribute("data-form", "list")
    cards = page.locator("#clients .client")
    expect(cards).to_have_count(12)
    expect(cards.locator("h3 .name")).to_have_text([f"producer-{number}" for number in range(1, 13)])
    expect(cards.nth(0).locator(".waits li")).to_have_text(["2 records wait for orders-0 at broker 1, 100 ms"])
    expect(cards.locator("details:visible")).to_have_count(0)


def test_a_link_marks_a_client(page: Page, tmp_path: Path) -> None:
    show(page, tmp_path, ("producer-1", produce()))
    go_to(page, "producer-1", 2, show="client:producer-1")
    expect(card(page, "producer-1")).to_have_attribute("data-mark", "")


def test_a_process_that_is_killed_is_gone_and_has_not_ended(page: Page, tmp_path: Path) -> None:
    logs = killed_controller()
    logs.at(8000, "billing", ProcessStarted(role="client"))
    logs.at(8100, "testbed", FaultInjected(fault="kill", target="billing"))
    open_page(page, logs, tmp_path)
    press(page, "End")
    expect(card(page, "billing")).to_have_attribute("data-life", "dead")
    expect(card(page, "billing").locator(".word")).to_have_text("gone")
