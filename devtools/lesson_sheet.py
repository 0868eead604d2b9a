"""Writes one picture for each lesson, with all its steps in a grid, so that someone can look at each of them.

`make lesson-sheet` writes to build/lesson-sheets/. It needs Chromium, as the tests of the page do.
"""

from __future__ import annotations

import argparse
import base64
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, sync_playwright

from devtools.lesson_steps import lesson_of, steps_of
from understudy.cli.main import main as understudy
from understudy.trials.lessons.library import names

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_COLUMNS: Final = 3
_NARROW_COLUMNS: Final = 6
_WIDTH: Final = 800
_STYLE: Final = "body{margin:0;display:grid;gap:12px;padding:12px;background:#888;width:max-content}img{width:100%}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.lesson_sheet", description=__doc__)
    parser.add_argument("names", metavar="NAME", nargs="*", help="lessons; by default all")
    parser.add_argument("--dir", type=Path, default=Path("build/lesson-sheets"), metavar="DIR")
    parser.add_argument("--size", default="1280x720", metavar="WIDTHxHEIGHT", help="of the window of each step")
    parser.add_argument("--query", default="", metavar="TEXT", help="of the page's address, for example ?present")
    parser.add_argument("--dark", action="store_true", help="in the dark theme")
    options = parser.parse_args(arguments)
    width, height = map(int, options.size.split("x"))
    options.dir.mkdir(parents=True, exist_ok=True)
    lessons = options.names or names()
    with tempfile.TemporaryDirectory(prefix="understudy-lessons-") as folder:
        files = [Path(folder) / f"{name}.html" for name in lessons]
        for name, file in zip(lessons, files, strict=True):
            if understudy(["lesson", name, "--recorded", "--page", str(file)]) != 0:
                return 1
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for name, file in zip(lessons, files, strict=True):
                address = file.as_uri() + options.query
                sheet = options.dir / f"{name}-{options.size}.png"
                pictures = _pictures(browser, address, width, height, is_dark=options.dark)
                _write_sheet(browser, pictures, sheet, is_narrow=width < height)
                print(f"{sheet}: {len(pictures)} steps", flush=True)
            browser.close()
    return 0


def _pictures(browser: Browser, address: str, width: int, height: int, *, is_dark: bool) -> list[bytes]:
    """Return a PNG of each step of a lesson."""
    theme = "dark" if is_dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, reduced_motion="reduce", color_scheme=theme)  # type: ignore[arg-type]
    page.goto(address)
    found = [page.screenshot() for _ in steps_of(page, lesson_of(page))]
    page.close()
    return found


def _write_sheet(browser: Browser, pictures: Sequence[bytes], file: Path, *, is_narrow: bool) -> None:
    columns, width = (_NARROW_COLUMNS, _WIDTH // 2) if is_narrow else (_COLUMNS, _WIDTH)
    page = browser.new_page()
    images = "".join(f'<img src="data:image/png;base64,{base64.b64encode(each).decode()}">' for each in pictures)
    style = f"{_STYLE}body{{grid-template-columns:repeat({columns},{width}px)}}"
    page.set_content(f"<style>{style}</style>{images}")
    page.screenshot(path=file, full_page=True)
    page.close()


def chromium() -> str:
    """Return the path of the browser."""
    return next(path for name in BROWSERS if (path := shutil.which(name)))


if __name__ == "__main__":
    sys.exit(main())
