"""The links that reports of failures print: each opens the page at the record, with what proves it marked."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser import drawn, understudy

TESTS = """
import pytest
from understudy.testing import simulated

async def bills():
    raise LookupError("no order")

@simulated(seeds=1, faults="none", brokers=1)
async def test_in_virtual_time(cluster):
    service = cluster.start(bills, name="billing")
    await cluster.wait_until(lambda: service.exits, "the service has ended")

@pytest.mark.understudy(brokers=1)
def test_on_processes(understudy_cluster):
    understudy_cluster.broker(1).pause()
    raise AssertionError("on purpose")
"""

pytestmark = pytest.mark.xdist_group("browser")


def assert_opens(page: Page, link: str) -> None:
    """Open a link, and assert that the page shows its record and marks the first of its parts."""
    page.goto(link)
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    drawn(page)
    # A record that the run does not have is named here.
    assert page.locator("#status").inner_text() == ""
    first = parse_qs(urlsplit(link).fragment)["show"][0]
    expect(page.locator("[data-mark]")).to_have_attribute("data-part", first)


def test_a_failing_seed_is_shown_where_it_violates_an_invariant(page: Page, tmp_path: Path) -> None:
    options = ("--seeds", "50", "--failures", "1", "--seconds", "9", "--shrink-runs", "1")
    output = understudy("hunt", *options, "--without", "zk.controller-epoch", "--dir", str(tmp_path), exit_code=1)
    found = re.search(r"see it: (file:\S+)", output)
    assert found is not None, output
    assert_opens(page, found[1])


def test_a_failed_test_is_shown_at_its_failure(page: Page, tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TESTS)
    options = ["-p", "understudy.pytest_plugin", "-p", "no:randomly", "--basetemp", str(tmp_path / "runs")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    links = re.findall(r"see it: +(file:\S+)", done.stdout)
    assert len(links) == 2, done.stdout + done.stderr
    assert links[0].endswith("&show=client:billing")
    for link in links:
        assert_opens(page, link)
