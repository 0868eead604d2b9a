"""A class in a browser: the teacher's page and two phones, from the QR code to the right answers."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser import SCREENSHOTS
from tests.understudy.page.classroom.steps import BEGIN, CHECK, MOMENT, PREDICT
from understudy.page.classroom.class_server import ClassServer

pytestmark = pytest.mark.xdist_group("browser class")

FITS = "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
SMALL_AND_DARK = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
SMALL = {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"}


class Addresses(NamedTuple):
    teacher: str
    phones: str


@pytest.fixture
def addresses(browser: Browser, tmp_path: Path) -> Iterator[Addresses]:
    """Serve lesson `takeover`, whose prediction is a number and whose check has choices, with a class."""
    command = [sys.executable, "-P", "-u", "-m", "understudy.cli.main", "lesson", "takeover", "--recorded"]
    with subprocess.Popen(
        [*command, "--class", "127.0.0.1"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        found: dict[str, str] = {}
        for line in process.stdout:
            found |= dict([line.split()[:2]])
            if "Ctrl-C ends" in line:
                break
        yield Addresses(found["page"], found["class"])
        process.terminate()
        process.stdout.read()
        assert process.wait(60) == 0


@contextmanager
def opened(browser: Browser, address: str, **settings: object) -> Iterator[Page]:
    """Open an address as another device does. Errors of its scripts fail the test."""
    context = browser.new_context(reduced_motion="reduce", **settings)  # type: ignore[arg-type]  # its keywords have many types
    errors: list[str] = []
    page = context.new_page()
    # A request that fails because a test ends the class, or gives a wrong code, is no error of the page.
    page.on("console", lambda message: errors.append(message.text) if _is_error(message) else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    yield page
    context.close()
    assert errors == []


def _is_error(message: ConsoleMessage) -> bool:
    return message.type == "error" and not re.search("ERR_CONNECTION|ERR_INCOMPLETE|status of 401", message.text)


def is_readable(phone: Page) -> None:
    assert phone.evaluate(FITS)
    found = Axe().run(phone)
    assert found.violations_count == 0, found.generate_report()


def send(phone: Page, number: int) -> None:
    phone.locator("#number").fill(str(number))
    phone.get_by_role("button", name="Send").click()
    expect(phone.locator("#said")).to_contain_text("Sent")


def go_to(teacher: Page, kind: str) -> None:
    """Click on until the step of the teacher's page is of a kind."""
    while teacher.locator("html").get_attribute("data-kind") != kind:
        teacher.locator("#next").click()


def test_two_phones_follow_the_teacher_and_see_their_votes(browser: Browser, addresses: Addresses) -> None:
    with ExitStack() as stack:
        teacher = stack.enter_context(opened(browser, addresses.teacher, viewport={"width": 1280, "height": 720}))
        one = stack.enter_context(opened(browser, addresses.phones, **SMALL))
        expect(one.locator("#moment")).to_contain_text("Look at the screen at the front.")
        expect(teacher.locator("#class-phones")).to_have_text("1 phone")
        expect(teacher.locator(".class-joining img")).to_be_visible()
        expect(teacher.locator(".class-joining")).to_contain_text(addresses.phones.partition("#")[2])
        is_readable(teacher)
        teacher.locator("#next").click()

        send(one, 700)
        send(one, 3000)
        other = stack.enter_context(opened(browser, addresses.phones, **SMALL_AND_DARK))
        send(other, 9000)
        is_readable(one)
        is_readable(other)
        expect(teacher.locator("#class-answered")).to_have_text("2 of 2 have answered")
        expect(teacher.locator(".class-dots")).to_have_count(0)
        teacher.locator("#class-reveal").click()
        expect(teacher.locator(".class-dots circle")).to_have_count(2)
        expect(teacher.locator("#class-said")).to_have_text("2 answers. Median 6,000 ms.")
        for phone, own in ((one, "3000"), (other, "9000")):
            expect(phone.locator("#moment")).to_contain_text(f"Your answer: {own} ms")
            expect(phone.locator("#moment")).to_contain_text("Median of the class: 6,000 ms")
        teacher.screenshot(path=SCREENSHOTS / "class-teacher.png")
        is_readable(teacher)

        teacher.locator("#next").click()
        expect(one.locator("#moment")).to_contain_text("Look at the screen at the front.")
        go_to(teacher, "answer")
        expect(one.locator(".right")).to_have_text("✓ That is right.")
        expect(other.locator(".wrong")).to_contain_text("✗ It is: 3,189 ms")
        expect(teacher.locator("#class-said")).to_contain_text("2 answers, 1 of them right.")
        votes_are_bars(teacher, one, other)


def votes_are_bars(teacher: Page, one: Page, other: Page) -> None:
    go_to(teacher, "check")
    for phone in (one, other):
        phone.locator("input[type=radio]").first.check()
    other.locator("input[type=radio]").first.press("ArrowDown")
    expect(other.locator("input[type=radio]").nth(1)).to_be_checked()
    expect(teacher.locator("#class-answered")).to_have_text("2 of 2 have answered")
    expect(teacher.locator(".class-votes b")).to_have_count(0)
    teacher.locator("#class-reveal").click()
    expect(teacher.locator(".class-votes b").nth(1)).to_have_text("1")
    expect(one.locator(".is-yours b")).to_have_text("1")
    is_readable(teacher)
    is_readable(one)
    one.screenshot(path=SCREENSHOTS / "class-phone.png")
    place = teacher.locator("#progress").text_content()
    teacher.reload()
    expect(teacher.locator("#progress")).to_have_text(str(place))


def test_a_presented_lesson_keeps_the_right_answer_from_phones_until_the_teacher_shows_it(
    browser: Browser, addresses: Addresses
) -> None:
    presented = addresses.teacher.replace("/#", "/?present#")
    with (
        opened(browser, presented, viewport={"width": 1920, "height": 1080}) as teacher,
        opened(browser, addresses.phones, **SMALL) as phone,
    ):
        teacher.keyboard.press("PageDown")
        send(phone, 3000)
        go_to(teacher, "answer")
        expect(phone.locator("#moment")).to_contain_text("1 answered.")
        expect(phone.locator(".right")).to_have_count(0)
        teacher.get_by_role("button", name="Show the answer").click()
        expect(phone.locator(".right")).to_have_text("✓ That is right.")


def test_a_phone_without_a_camera_joins_with_the_address_and_the_code(browser: Browser, addresses: Addresses) -> None:
    address, _, code = addresses.phones.partition("#")
    with opened(browser, address, **SMALL) as phone:
        phone.locator("#code").fill(code.upper())
        phone.get_by_role("button", name="Join").click()
        expect(phone.locator("#title")).to_contain_text("The controller dies")
        expect(phone.locator("#join")).to_be_hidden()
        is_readable(phone)


def test_a_wrong_code_is_said_and_the_right_one_then_joins(browser: Browser) -> None:
    with (
        ClassServer("The zombie", ("127.0.0.1", 0)) as server,
        opened(browser, f"{server.address}#wrong", **SMALL) as phone,
    ):
        expect(phone.locator("#trouble")).to_have_text("That is not the code of this class.")
        phone.locator("#code").fill(server.code)
        phone.get_by_role("button", name="Join").click()
        expect(phone.locator("#moment")).to_contain_text("The class begins soon.")
        expect(phone.locator("#trouble")).to_have_text("")


def test_a_phone_says_that_the_class_is_gone_and_joins_the_next_one_at_its_address(browser: Browser) -> None:
    with ClassServer("The zombie", ("127.0.0.1", 0)) as server:
        server.show(BEGIN)
        server.show(MOMENT)
        stack = ExitStack()
        phone = stack.enter_context(opened(browser, server.url, **SMALL))
        expect(phone.locator("#moment")).to_contain_text("The controller dies.")
    with stack:
        expect(phone.locator("#trouble")).to_contain_text("Trying again")
        port = int(server.address.rstrip("/").rpartition(":")[2])
        with ClassServer("The leader", ("127.0.0.1", port)) as again:
            again.show(PREDICT)
            expect(phone.locator("#trouble")).to_have_text("That is not the code of this class.")
            phone.locator("#code").fill(again.code)
            phone.get_by_role("button", name="Join").click()
            expect(phone.locator("#title")).to_have_text("The leader")
            expect(phone.locator("input[type=radio]")).to_have_count(3)


def test_an_event_about_another_step_leaves_a_typed_number_only_if_it_is_the_same_question(browser: Browser) -> None:
    with ClassServer("The zombie", ("127.0.0.1", 0)) as server:
        server.show(CHECK)
        with opened(browser, server.url, **SMALL) as phone, opened(browser, server.url, **SMALL) as other:
            phone.locator("#number").fill("12")
            send(other, 700)
            expect(phone.locator("#number")).to_have_value("12")
            server.show(PREDICT)
            phone.locator("input[type=radio]").nth(2).check()
            expect(phone.locator("#said")).to_contain_text("Sent")
            server.show(CHECK)
            expect(phone.locator("#number")).to_have_value("")
            expect(other.locator("#number")).to_have_value("700")
