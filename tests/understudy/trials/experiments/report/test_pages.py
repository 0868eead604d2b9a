"""The page and the JUnit XML of a verdict, also with hostile texts in them."""

from __future__ import annotations

import html
import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.understudy.trials.experiments.simulated import run
from understudy.foundation.times import duration
from understudy.trials.experiments.report.html_page import html_page
from understudy.trials.experiments.report.junit import junit_xml
from understudy.trials.experiments.report.verdict import Verdict
from understudy.trials.experiments.running import FROZEN, JUNIT, REPORT, VERDICT, write

HOSTILE = '<script>alert(1)</script> & "quotes" ]]> \''

LINKS = {"broker-3/7#77": "#at=broker-3.7.77&show=replica:broker-3:orders-0", "zxid 17": "#at=<b>", "<b>": ""}


@pytest.fixture(scope="module")
def verdict(tmp_path_factory: pytest.TempPathFactory) -> Verdict:
    return run(
        f"title: {msgspec.json.encode(HOSTILE).decode()}\nquestion: {msgspec.json.encode(HOSTILE).decode()}\n"
        "steps:\n  - {at: 1s, as: C, kill: controller}\n  - {at: 9s, start: C}\n"
        "expect: {within: {L1: 100ms, L3: 20s}, sometimes: [unclean-election]}\n",
        tmp_path_factory.mktemp("run"),
    )


def test_the_page_is_whole_and_escapes_what_it_shows(verdict: Verdict) -> None:
    page = html_page(verdict)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"https?://", page), "the page needs no network"
    for text in (verdict.command, "broker 1", "broker 3", "violated", "unclean-election", "detection"):
        assert text in page


def test_witnesses_are_links_to_their_moment(verdict: Verdict) -> None:
    expected = tuple(
        msgspec.structs.replace(verdict.violations[0], where=where, link=link) for where, link in LINKS.items()
    )
    page = html_page(msgspec.structs.replace(verdict, expected=expected), run_page="page.html")
    links = [f"page.html{html.escape(link)}" for link in LINKS.values() if link]
    assert re.findall(r'href="([^"]*)"', page) == ["page.html", *links]
    assert "href=" not in html_page(msgspec.structs.replace(verdict, expected=expected))


def test_without_the_page_of_the_run_the_command_that_writes_it_is_named(verdict: Verdict) -> None:
    assert "<code>understudy page &#x27;a run&#x27;</code>" in html_page(verdict, folder="a run")
    assert "understudy page" not in html_page(verdict, run_page="page.html")


def test_the_junit_xml_has_a_case_for_each_expectation(verdict: Verdict) -> None:
    root = ElementTree.fromstring(junit_xml([verdict]))
    (suite,) = root
    cases = suite.findall("testcase")
    assert len(cases) == len(verdict.expected) + 1 == int(suite.attrib["tests"])
    failed = {case.attrib["name"] for case in cases if case.find("failure") is not None}
    assert failed == {f"{each.kind} {each.name}" for each in verdict.violations}
    assert int(suite.attrib["failures"]) == len(failed) >= 1


def test_what_xml_cannot_contain_is_replaced(verdict: Verdict) -> None:
    odd = msgspec.structs.replace(verdict, why="a\x00b\x1b", status="not injected", expected=())
    ElementTree.fromstring(junit_xml([odd]))


def test_everything_is_written_to_the_folder(verdict: Verdict, tmp_path: Path) -> None:
    write(verdict, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {REPORT, VERDICT, JUNIT, FROZEN}
    assert msgspec.json.decode((tmp_path / VERDICT).read_bytes(), type=Verdict) == verdict


def test_times_of_a_failover_have_their_doubt_and_their_uncertainty(verdict: Verdict) -> None:
    (failover,) = verdict.failovers
    marked = msgspec.structs.replace(
        failover, detection_ms=6012.5, outage_ms=1000.0, outage_within_ms=2.0, doubt=("detection_ms",)
    )
    page = html_page(msgspec.structs.replace(verdict, failovers=(marked,)))
    assert f"{duration(6012)} ?</td>" in page
    assert "1 s ± 2 ms</td>" in page
    assert "? may be larger, smaller or another; ± by the clocks of several machines" in page
    assert "may be larger" not in html_page(verdict)
