"""The links that reports of failures print: each opens the page at the record, with what proves it marked."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser import drawn, understudy

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
