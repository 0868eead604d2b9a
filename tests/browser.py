"""Chromium for tests of the page: one browser for a module of tests, or a skip that says why there is none.

`REQUIRE_BROWSER=1` turns the skip into a failure. Playwright drives the machine's own Chromium, for example from
Debian's package `chromium`; it downloads nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS") or tempfile.mkdtemp(prefix="understudy-screenshots-"))
"""Folder of the tests' screenshots; the variable SCREENSHOTS names another one."""
_TIMEOUT_MS = 30_000


def chromium() -> str | None:
    """The path of Chromium; None if the machine has none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium for a module. Its tests cannot run asyncio in their own thread: Playwright does."""
    path = chromium()
    if path is None:
        _skip(f"none of {', '.join(NAMES)} is installed; Debian's package is chromium")
    expect.set_options(timeout=_TIMEOUT_MS)
    with sync_playwright() as playwright:
        # The sandbox of Chromium does not start for root, which tests in containers are.
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page with an empty profile. The test fails if the console shows an error or a script raises."""
    with checked_page(browser) as found:
        yield found


@contextlib.contextmanager
def checked_page(browser: Browser) -> Iterator[Page]:
    """Open a page with an empty profile, and require at its end that its console shows no error.

    That a command was refused (409) is no error of the page; the browser notes each such answer in the console.
    """
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(_TIMEOUT_MS)
    found = context.new_page()
    errors: list[str] = []
    found.on("console", lambda message: errors.append(message.text) if _is_error(message) else None)
    found.on("pageerror", lambda error: errors.append(str(error)))
    yield found
    context.close()
    assert not errors, f"the console of the page has errors: {errors}"


def press(page: Page, *keys: str) -> None:
    """Press keys, and wait until the page has drawn what they do."""
    for key in keys:
        page.keyboard.press(key)
    drawn(page)


def drawn(page: Page) -> None:
    """Wait until the page has drawn what was done before."""
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def understudy(*arguments: str, exit_code: int = 0) -> str:
    """Run an `understudy` command as a process: in this one Playwright's loop runs, beside which asyncio cannot.

    Returns:
        What it has printed.
    """
    command = [sys.executable, "-P", "-m", "understudy.cli.main", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == exit_code, done.stdout
    return done.stdout


def _is_error(message: ConsoleMessage) -> bool:
    return message.type == "error" and "status of 409" not in message.text


def _skip(reason: str) -> NoReturn:
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(f"REQUIRE_BROWSER=1, but {reason}", pytrace=False)
    pytest.skip(f"browser tests: {reason}")
