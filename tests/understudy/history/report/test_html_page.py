"""The report of `understudy replay` as HTML: phases of one run, outages of many, and a table of all failovers."""

from __future__ import annotations

import re

import msgspec
import pytest

from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.history.plots.drawn import SVG, pictures, places, texts
from understudy.history.metrics.metric_tables import RunMetrics
from understudy.history.report.html_page import html_page
from understudy.history.report.pictures import draw_failovers
from understudy.history.report.replay import Replay, replay_in_python
from understudy.history.report.report import render


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunMetrics:
    folder = tmp_path_factory.mktemp("run")
    for node, lines in killed_controller().lines.items():
        (folder / f"{node}-0001-0001.jsonl").write_bytes(b"".join(lines))
    (found,) = replay_in_python([folder]).runs
    return found


def replay_of(*runs: RunMetrics) -> Replay:
    return Replay(runs=runs, findings=(), lines=1, engine="plain Python")


def changed(run: RunMetrics, name: str, **failover: object) -> RunMetrics:
    (found,) = run.failovers
    return msgspec.structs.replace(run, run=name, failovers=(msgspec.structs.replace(found, **failover),))


def outages(page: str) -> list[str]:
    return re.findall(r"<td>([^<]*)</td></tr>", page.partition("<details>")[2])


def test_one_run_has_the_phases_of_each_failover_stacked(run: RunMetrics) -> None:
    page = html_page(replay_of(run))
    (picture,) = pictures(page)
    (failover,) = run.failovers
    assert f"epoch {failover.epoch}: broker 1 → 2" in texts(picture)
    assert "detection" in (picture.findtext(f"{SVG}desc") or "")
    assert len(outages(page)) == 1
    assert render(replay_of(run)).splitlines()[0].replace(">", "&gt;") in page


def test_many_runs_are_dots_in_groups_by_what_ended_the_controller(run: RunMetrics) -> None:
    runs = [
        changed(run, f"run-{ms}", outage_ms=float(ms), cause="kill" if ms < 300 else "pause") for ms in (100, 200, 300)
    ]
    page = html_page(replay_of(*runs))
    (picture,) = pictures(page)
    assert len(places(picture)) == 3
    assert "2 failovers, median 100 ms" in texts(picture)
    assert "1 failover, median 300 ms" in texts(picture)
    assert outages(page) == ["300", "200", "100"], "sorted, longest first"
    rows = dict(re.findall(r'<span id="(row-\d+)" title="([^"]+)">', page))
    for link in picture.iter(f"{SVG}a"):
        (circle,) = link
        assert rows[(link.get("href") or "").removeprefix("#")] == circle.get("data-run")


def test_figures_that_missing_records_may_change_are_no_dots(run: RunMetrics) -> None:
    doubtful = changed(run, "doubtful", outage_ms=900.0, doubt=("outage_ms",))
    page = html_page(replay_of(changed(run, "sound", outage_ms=100.0), doubtful))
    (picture,) = pictures(page)
    assert [circle.get("data-run") for circle in picture.iter(f"{SVG}circle")] == ["sound"]
    assert outages(page) == ["900 ?", "100"]


def test_a_run_without_a_failover_is_only_its_report(run: RunMetrics) -> None:
    page = html_page(replay_of(msgspec.structs.replace(run, failovers=())))
    assert pictures(page) == []
    assert "<pre>" in page


def test_the_same_runs_give_the_same_page(run: RunMetrics) -> None:
    assert html_page(replay_of(run)) == html_page(replay_of(run))


def test_groups_are_in_the_order_of_their_settings(run: RunMetrics) -> None:
    runs = [changed(run, name, cause=name) for name in ("2000 · 100", "10000 · 20", "2000 · 20")]
    described = pictures(draw_failovers(runs))[0].findtext(f"{SVG}desc") or ""
    names = ("2000 · 20:", "2000 · 100:", "10000 · 20:")
    assert [described.index(name) for name in names] == sorted(described.index(name) for name in names)
