"""A site of lessons, from disk and below a path of a web server: its index, and steps that links name."""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser import SCREENSHOTS
from understudy.cli.main import main
from understudy.page import static_files
from understudy.page.lessons.lesson_site import LessonSite, SiteLesson, topic_of
from understudy.trials.lessons.library import names

pytestmark = pytest.mark.xdist_group("browser lessons")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the site of two lessons at course/week-3."""
    root = tmp_path_factory.mktemp("site")
    with ThreadPoolExecutor(1) as thread:
        arguments = ["lesson", "--site", str(root / "course" / "week-3"), "zombie", "rebalance"]
        assert thread.submit(main, arguments).result() == 0
    return root


@pytest.fixture(scope="module")
def served(root: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(root))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("source", ["disk", "server"])
def test_a_link_of_a_site_shows_the_run_of_a_step(
    page: Page, root: Path, source: str, request: pytest.FixtureRequest
) -> None:
    base = f"{root.as_uri()}/" if source == "disk" else request.getfixturevalue("served")
    page.goto(f"{base}course/week-3/index.html")
    page.get_by_role("link", name="zombie").click()
    expect(page.locator("#progress")).to_contain_text("1 of")
    page.goto(f"{base}course/week-3/zombie.html#step=4")
    expect(page.locator("#progress")).to_contain_text("4 of")
    expect(page.frame_locator("figure:visible iframe").locator("#why .line")).to_contain_text("incarnation")


@pytest.mark.parametrize("name", ["index", "zombie"])
def test_all_that_a_page_links_is_named_by_its_content(root: Path, name: str) -> None:
    site = root / "course" / "week-3"
    links = re.findall(r'(?:href|src)="(?!data:|#)([^"]+)"', (site / f"{name}.html").read_text())
    shared = [link for link in links if link.startswith("shared/")]
    assert len(shared) >= 3
    for link in shared:
        digest = hashlib.sha256((site / link).read_bytes()).hexdigest()
        assert Path(link).name.split(".")[1] == digest[:12]
    assert all((site / link).is_file() for link in links)


def test_files_of_an_earlier_version_stay_as_long_as_a_lesson_links_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(*names: str) -> None:
        site = LessonSite(tmp_path, names)
        for name in names:
            site.add(SiteLesson(name, name, "", 1, b"{}", {}))
        site.finish()

    def shared() -> set[str]:
        return {each.name for each in (tmp_path / "shared").iterdir()}

    def listed() -> set[str]:
        names = (tmp_path / "understudy-lessons.txt").read_text().splitlines()
        return {Path(each).name for each in names if each.startswith("shared/")}

    write("election", "zombie")
    before = shared()
    newer = tmp_path / "static"
    shutil.copytree(static_files.FOLDER, newer)
    monkeypatch.setattr(static_files, "FOLDER", newer)
    with (newer / "lesson.css").open("a") as sheet:
        sheet.write("/* newer */")
    write("zombie")
    assert len(shared() - before) == 1
    assert before < shared() == listed(), "election.html links the earlier style sheet"
    write("election")
    (gone,) = before - shared()
    assert gone.startswith("lesson.")
    assert shared() == listed()


def test_the_index_lists_lessons_by_topic_and_fits_a_phone(page: Page, root: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto((root / "course" / "week-3" / "index.html").as_uri())
    expect(page.locator("h2")).to_have_text(["The controller", "Consumer groups"])
    expect(page.locator(".minutes")).to_have_text(["8 min", "6 min"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "zombie.html"
    page.screenshot(path=SCREENSHOTS / "lesson-site.png")
    # It would fetch the style sheets again, which the page does not allow.
    found = Axe().run(page, options={"preload": False})
    assert found.violations_count == 0, found.generate_report()


def test_every_lesson_of_understudy_has_a_topic() -> None:
    assert [name for name in names() if topic_of(name) == "More lessons"] == []


def test_a_site_replaces_its_own_files_and_no_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lesson", "--site", str(tmp_path), "zombie"]
    (tmp_path / "notes.txt").write_text("mine")
    assert main(arguments) == main(arguments) == 0
    (tmp_path / "rebalance.html").write_text("mine")
    capsys.readouterr()
    assert main([*arguments, "rebalance"]) != 0
    assert "rebalance.html is there and is not in understudy-lessons.txt" in capsys.readouterr().err
    assert (tmp_path / "rebalance.html").read_text() == (tmp_path / "notes.txt").read_text() == "mine"
