"""`understudy watch` as a process, and pages of it in Chromium, for measurements."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page, sync_playwright

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_MS: Final = 300_000
_DRAWN: Final = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_NOTE_FIRST_MOMENT: Final = """
new MutationObserver((changes, observer) => {
  if (document.body?.dataset.shown === "true") {
    observer.disconnect();
    requestAnimationFrame(() => requestAnimationFrame(() => {
      window.shownAt = (performance.timeOrigin + performance.now()) / 1000;
    }));
  }
}).observe(document, { subtree: true, attributes: true });
"""
"""Takes the time in the page: asked from outside, a page that reads on answers late."""


class Watched(NamedTuple):
    """A process that serves a page."""

    pid: int
    address: str
    began_s: float
    """The clock of `time.time` when the process was started."""

    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self, what: str = "VmRSS") -> float:
        """The resident memory now, or with `VmHWM` its largest."""
        return _megabytes(self.pid, what)


@contextmanager
def watched(folder: Path) -> Iterator[Watched]:
    """Start `understudy watch`, and yield it once it has printed its address."""
    began = time.time()
    command = [sys.executable, "-P", "-m", "understudy.cli.main", "watch", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = next((line for line in process.stdout if line.startswith("page ")), None)
            if line is None:
                raise SystemExit(f"`understudy watch {folder}` ended with {process.wait()}")
            yield Watched(process.pid, line.split()[1], began)
        finally:
            process.terminate()


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Chromium, without a window."""
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise SystemExit(f"none of {', '.join(_NAMES)} is installed; Debian's package is chromium")
    with sync_playwright() as playwright:
        # The sandbox of Chromium does not start for root, which tests in containers are.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def shown(browser: Browser, address: str) -> Iterator[Page]:
    """Open a page in a new tab, and yield it once it has drawn its first moment; it may read on."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(_TIMEOUT_MS)
    page.add_init_script(_NOTE_FIRST_MOMENT)
    page.goto(address)
    page.wait_for_function("() => window.shownAt")
    yield page
    page.close()


@contextmanager
def opened(browser: Browser, address: str) -> Iterator[Page]:
    """Open a page, and yield it once it has read everything and has drawn its state after the last record."""
    with shown(browser, address) as page:
        page.wait_for_selector("body[data-ready=true]")
        page.keyboard.press("End")
        drawn(page)
        yield page


def shown_s(page: Page) -> float:
    """Return when the page had drawn its first moment, by the clock of `time.time`."""
    seconds: float = page.evaluate("window.shownAt")
    return seconds


def drawn(page: Page) -> None:
    """Wait until the page has drawn what was done before."""
    page.evaluate(_DRAWN)


def heap_megabytes(page: Page) -> float:
    """The memory of the page's objects in JavaScript, without long texts, after garbage was collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used: float = session.send("Runtime.getHeapUsage")["usedSize"]
    session.detach()
    return used / (1 << 20)


class PageProcess(NamedTuple):
    """The browser's process for a page."""

    megabytes: float
    processor_seconds: float


def page_process(browser: Browser) -> PageProcess:
    """Return the largest process for pages, which is the one that has a page of a long run."""
    session = browser.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    return max(
        PageProcess(_megabytes(process["id"], "VmRSS"), process["cpuTime"])
        for process in processes
        if process["type"] == "renderer"
    )


def _megabytes(pid: int, what: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{what}:")) / 1024
