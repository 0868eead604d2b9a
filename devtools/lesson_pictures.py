"""Writes the pictures of the page in the README and the guides: steps of lessons, as a browser shows them.

`make lesson-pictures` needs Chromium, as the tests of the page do.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from devtools.lesson_sheet import chromium
from devtools.lesson_steps import lesson_of, steps_of
from understudy.cli.main import main as understudy

FOLDER: Final = Path("docs/pictures")
PICTURES: Final = {"page.png": ("zombie", "refused"), "lesson.png": ("zombie", "let-through")}
"""The lesson of each picture, and the stop that it shows."""
_WIDTH, _HEIGHT = 1440, 810


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="understudy-pictures-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for picture, (name, wanted) in PICTURES.items():
            file = Path(folder) / f"{name}.html"
            if understudy(["lesson", name, "--recorded", "--page", str(file)]) != 0:
                return 1
            page = browser.new_page(viewport={"width": _WIDTH, "height": _HEIGHT}, reduced_motion="reduce")
            page.goto(file.as_uri())
            for _, stop in steps_of(page, lesson_of(page)):
                if stop is not None and stop["name"] == wanted:
                    page.screenshot(path=FOLDER / picture)
                    break
            page.close()
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
