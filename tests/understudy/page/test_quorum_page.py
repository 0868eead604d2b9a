"""The page of an imported KRaft cluster names its quorum, and shows nothing of ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import press
from tests.understudy.history.kraft_logs.kraft_run import unpacked
from understudy.cli.main import main
from understudy.history.kraft_logs.importer import import_metadata

pytestmark = pytest.mark.xdist_group("browser")


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Page:
    """A cluster with three controllers and three brokers, at its end."""
    run = unpacked("4.2.0-separate", tmp_path / "run")
    import_metadata([("", log) for log in run.logs], tmp_path / "events")
    assert main(["page", str(tmp_path / "events"), "-o", str(tmp_path / "page.html")]) == 0
    page.goto((tmp_path / "page.html").as_uri())
    expect(page.locator("body")).to_have_attribute("data-ready", "true")
    press(page, "End")
    return page


def test_the_quorum_stands_in_place_of_zookeeper(opened: Page) -> None:
    quorum = opened.locator("#zookeeper")
    expect(quorum.locator("h3")).to_contain_text("KRaft quorum")
    expect(quorum.locator("#znode-controller")).to_contain_text("controller controller 1001")
    expect(quorum.locator("#znode-epoch")).to_contain_text("epoch 4")
    expect(quorum).to_contain_text("brokers that are not fenced")
    assert quorum.locator("#znode-ids li").all_inner_texts() == ["1", "2", "3"]


def test_what_has_no_counterpart_is_hidden(opened: Page) -> None:
    for name in (".session", ".metadata", ".queue", ".role", "#inside", "#tree", "#zookeeper-life"):
        expect(opened.locator(name).first).to_be_hidden()
    expect(opened.locator(".broker")).to_have_count(3)
    assert "ZooKeeper" not in opened.locator("#cluster").inner_text()
    without = opened.locator("#logs-none")
    expect(without).to_have_text("The log of the quorum has no records of what replicas contain.")
