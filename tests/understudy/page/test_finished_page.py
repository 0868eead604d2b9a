"""The page of a finished run in a browser: from one file, by keyboard alone, at every width, for everyone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser import SCREENSHOTS, drawn, press, understudy

pytestmark = pytest.mark.xdist_group("browser")

THEMES = ("light", "dark")
ROOM_AROUND_THE_CURRENT_SENTENCE = """() => {
  const list = document.getElementById("sentences");
  const { top, bottom } = list.getBoundingClientRect();
  const current = list.querySelector("[aria-current]").getBoundingClientRect();
  return [current.top - top, bottom - current.bottom];
}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of an experiment whose controller is paused until another one rules, and then continues."""
    found = tmp_path_factory.mktemp("finished") / "zombie"
    understudy("experiment", "run", "zombie-controller-writes", "--engine", "sim", "--dir", str(found))
    return found


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    """The page of that run as one file."""
    found = folder.parent / "page.html"
    understudy("page", str(folder), "-o", str(found))
    return found


@pytest.fixture
def opened(page: Page, file: Path) -> Iterator[Page]:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    yield page
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def moment(page: Page) -> int:
    """The number of records before the moment that is shown."""
    drawn(page)
    found = re.fullmatch(r"record ([\d,]+) of ([\d,]+)", page.locator("#position").inner_text())
    assert found is not None
    return int(found[1].replace(",", ""))


def go_to_resignation(page: Page) -> None:
    """Step by key to the end of the controller's pause, then along the story to the record with which it resigns."""
    press(page, "End")
    while "last fault: resume" not in page.locator("#step").inner_text():
        before = moment(page)
        press(page, "F")
        assert moment(page) < before, "no fault of the run ends with resume"
    for _ in range(200):
        press(page, "n")
        if "resigns from controller epoch 1" in page.locator("#why > p").first.inner_text():
            return
    raise AssertionError("no sentence says that the controller resigns")


def test_a_run_is_first_shown_at_its_first_fault(opened: Page) -> None:
    expect(opened.locator("#step")).to_contain_text("last fault: kill broker-2")
    expect(opened.locator("#live")).to_have_text("ended")
    expect(opened.locator(".broker[data-node=broker-2]")).to_have_attribute("data-life", "dead")


def test_every_step_is_one_record(opened: Page) -> None:
    before = moment(opened)
    press(opened, "ArrowRight")
    press(opened, "ArrowRight")
    press(opened, "ArrowLeft")
    assert moment(opened) == before + 1
    press(opened, "Home")
    assert moment(opened) == 0
    expect(opened.locator("#znode-controller output")).to_have_text("none")
    press(opened, "End")
    total = opened.locator("#position").inner_text().split(" of ")[1]
    assert moment(opened) == int(total.replace(",", ""))


def test_the_timeline_is_a_slider_with_a_value_in_words(opened: Page) -> None:
    slider = opened.get_by_role("slider", name="moment of the run")
    slider.focus()
    press(opened, "Home")
    assert moment(opened) == 0
    expect(slider).to_have_attribute("aria-valuenow", "0.000")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^0\.000 s of [\d.]+ s: before the first record$"))
    announced = opened.locator("#now").inner_text()
    press(opened, "ArrowUp", "ArrowUp", "ArrowRight", "ArrowDown")
    assert moment(opened) == 2
    press(opened, "PageUp")
    words = opened.locator("#sentences [aria-current] span").inner_text()
    expect(slider).to_have_attribute(
        "aria-valuetext", re.compile(rf"^[\d.]+ s of [\d.]+ s: .* {re.escape(words.strip())}$")
    )
    assert opened.locator("#now").inner_text() == announced, "what the slider says is announced once more"
    before = moment(opened)
    press(opened, "PageUp", "PageDown")
    assert moment(opened) == before
    press(opened, "End")
    end = slider.get_attribute("aria-valuemax")
    assert float(end or 0) > 0
    expect(slider).to_have_attribute("aria-valuenow", str(end))
    assert opened.evaluate("window.scrollY") == 0, "a key of the slider has scrolled the page"


@pytest.mark.representative("a page in a browser")
def test_a_zombie_is_shown_beside_the_controller(opened: Page) -> None:
    go_to_resignation(opened)
    press(opened, "p")
    zombie, controller = opened.locator(".crown.zombie"), opened.locator(".crown:not(.zombie):not(:empty)")
    expect(opened.locator("#znode-epoch output")).to_have_text("2")
    expect(zombie).to_have_count(1)
    expect(zombie).to_contain_text("epoch 1")
    expect(controller).to_contain_text("epoch 2")
    opened.screenshot(path=SCREENSHOTS / "zombie.png")
    press(opened, "n")
    expect(zombie).to_have_count(0)


def test_a_record_has_its_chain_of_causes(opened: Page) -> None:
    go_to_resignation(opened)
    expect(opened.locator("#why .line")).to_contain_text(re.compile(r"^broker-\d, incarnation \d, line \d+: Contr"))
    causes = opened.locator("#why .causes li")
    expect(causes.last).to_contain_text("is notified that its session has expired")
    causes.last.locator("button").click()
    expect(opened.locator("#why > p").first).to_contain_text("is notified that its session has expired")


def test_a_drag_along_the_timeline_shows_each_moment(opened: Page) -> None:
    box = opened.locator("#strips").bounding_box()
    assert box is not None
    y = box["y"] + 30
    opened.mouse.move(box["x"] + box["width"] * 0.2, y)
    opened.mouse.down()
    seen = []
    for part in (0.3, 0.6, 0.9, 0.5):
        opened.mouse.move(box["x"] + box["width"] * part, y)
        opened.wait_for_timeout(50)
        seen.append(moment(opened))
        above, below = opened.evaluate(ROOM_AROUND_THE_CURRENT_SENTENCE)
        assert above >= 0, "the current sentence is above what is shown of the list"
        assert below >= 0, "the current sentence is below what is shown of the list"
    opened.mouse.up()
    assert seen[0] < seen[3] < seen[1] < seen[2]


def test_play_moves_the_moment_and_ends_at_the_end(opened: Page) -> None:
    before = moment(opened)
    for _ in range(6):
        press(opened, "+")
    expect(opened.locator("#speed")).to_have_text("×100")
    press(opened, "Space")
    expect(opened.locator("#play")).to_have_attribute("aria-label", "play", timeout=30_000)
    assert moment(opened) > before


def test_the_grid_shows_what_is_wrong_and_the_logs_of_a_partition(opened: Page) -> None:
    opened.locator("#grid-filter").select_option("leaderless")
    expect(opened.locator("#grid-summary")).to_contain_text("1 without a live leader")
    expect(opened.locator("#grid-summary")).to_contain_text("1 shown")
    opened.locator("#grid").focus()
    press(opened, "ArrowDown")
    replicas = opened.locator("[data-part^='replica:broker-']")
    expect(replicas).not_to_have_count(0)
    expect(replicas.first).to_have_attribute("title", re.compile(r"log \d+ to \d+, high watermark \d+"))
    expect(opened.locator("[data-part^='high-watermark:broker-']")).not_to_have_count(0)
    tops = opened.locator("#brokers .replica svg").evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect().top)"
    )
    assert len(set(tops)) == 1, "one height is one offset in every column"


def test_the_grid_is_drawn_where_it_is_scrolled_to(opened: Page) -> None:
    press(opened, "End")
    picture = "() => document.getElementById('grid-canvas').toDataURL()"
    opened.evaluate("() => { document.getElementById('grid').style.height = '60px'; }")
    opened.evaluate("() => window.dispatchEvent(new Event('resize'))")
    drawn(opened)
    before = opened.evaluate(picture)
    opened.evaluate("() => { document.getElementById('grid').scrollTop = 22; }")
    drawn(opened)
    assert opened.evaluate(picture) != before


def test_a_link_to_a_record_that_is_not_there_says_so(page: Page, file: Path) -> None:
    page.goto(file.as_uri() + "#at=broker-9.1.1")
    expect(page.locator("#status")).to_contain_text("broker-9.1.1")


def test_damage_to_the_logs_is_listed_and_a_window_is_shown(page: Page, folder: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(folder, damaged)
    (log,) = (damaged / "broker-1" / "events").iterdir()
    log.write_bytes(log.read_bytes() + b'{"version":<b>\n')
    file = tmp_path / "part.html"
    understudy("page", str(damaged), "--from", "8", "--to", "12", "-o", str(file))
    page.goto(file.as_uri())
    expect(page.locator("#findings li")).to_have_text(re.compile(r"^torn line \(broker-1/events/.*:\d+\)$"))
    expect(page.locator("#clock")).to_have_text("8.000 s")
    press(page, "End")
    assert page.locator("#clock").inner_text().startswith("11.")


def test_everything_can_be_reached_by_the_tab_key(opened: Page) -> None:
    press(opened, "?")
    expect(opened.locator("#help")).to_be_visible()
    press(opened, "Escape")
    names = set()
    for _ in range(120):
        opened.keyboard.press("Tab")
        names.add(opened.evaluate("document.activeElement.id || document.activeElement.className"))
    wanted = {
        "cluster-commands",
        "copy-link",
        "theme",
        "open-help",
        "menu",
        "detail",
        "sentences",
        "grid",
        "play",
        "edge",
        "strips",
    }
    assert wanted <= names


@pytest.mark.parametrize("theme", THEMES)
def test_the_theme_is_the_systems_until_it_is_changed(opened: Page, theme: str) -> None:
    """The colours of the page, and `color-scheme` for the browser's own controls, are of one theme."""
    colours = {"light": ("rgb(251, 250, 247)", "light"), "dark": ("rgb(20, 22, 26)", "dark")}
    shown = "() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).colorScheme]"
    opened.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    assert tuple(opened.evaluate(shown)) == colours[theme]
    [other] = set(THEMES) - {theme}
    for expected in (other, theme):
        opened.locator("#theme").click()
        assert tuple(opened.evaluate(shown)) == colours[expected]


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing(browser: Browser, file: Path, theme: str) -> None:
    context = browser.new_context(color_scheme="dark" if theme == "dark" else "light")
    page = context.new_page()
    page.goto(file.as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    found = Axe().run(page)
    context.close()
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 1024), (1920, 1080)])
def test_nothing_is_wider_than_the_screen(opened: Page, width: int, height: int) -> None:
    opened.set_viewport_size({"width": width, "height": height})
    opened.wait_for_timeout(200)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.screenshot(path=SCREENSHOTS / f"page-{width}.png")
