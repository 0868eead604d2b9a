"""The verdict on missing records and on clocks, in `run.json` and in the file of a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from tests.understudy.page.incomplete_runs import on_two_clocks, without_controller, write, write_run
from tests.understudy.page.test_export import facts_and_records
from understudy.history.reading.clocks import ClockPoint, MachineClock, RunClocks
from understudy.history.reading.reader import read_lines
from understudy.page.export import page_of
from understudy.page.recorded.completeness import of_records
from understudy.page.recorded.runs import finished_run
from understudy.page.recorded.window import Window
from understudy.page.served import server
from understudy.page.served.live import LiveRun
from understudy.page.served.live_clocks import LiveClocks
from understudy.trials.seeds.seeds import run_seed

FIRST_US = 1_000_000
"""The clock of the first record of `killed_controller`."""


def test_the_missing_log_of_a_controller_is_in_run_json_with_its_evidence(tmp_path: Path) -> None:
    missing = finished_run([write(without_controller(), tmp_path / "run")]).facts()["missing"]
    [whole] = [row for row in missing if row["kind"] == "no log"]
    assert whole["node"] == "broker-2"
    assert (whole["from_us"], whole["until_us"]) == (FIRST_US, 9_200_000)
    assert whole["evidence"]
    assert whole["witness"].startswith(("broker-", "testbed/"))


def test_a_complete_run_on_one_clock_has_neither_rows_nor_a_note(tmp_path: Path) -> None:
    run_seed(7, 20, events=tmp_path)
    facts = finished_run([tmp_path]).facts()
    assert (facts["missing"], facts["clocks_note"]) == ([], "")


def test_the_file_of_a_part_of_a_run_has_the_verdict_on_the_whole_run(tmp_path: Path) -> None:
    folder = write(without_controller(), tmp_path / "run")
    whole, _ = facts_and_records(page_of([folder]))
    part, _ = facts_and_records(page_of([folder], window=Window(5_000_000, 7_000_000)))
    assert whole["missing"]
    assert part["missing"] == whole["missing"]


def test_a_live_run_has_no_verdict_before_its_end(tmp_path: Path) -> None:
    run = LiveRun(write_run(without_controller(), tmp_path), "run-1")
    run.advance(20_000.0)
    assert run.facts()["missing"] is None
    assert run.finish() is False
    run.end(run.judge())
    expected = finished_run([tmp_path]).facts()["missing"]
    assert run.facts()["missing"] == expected
    assert expected


def test_each_clock_has_its_incarnations_and_its_uncertainty_by_the_time_of_the_run() -> None:
    records = read_lines(killed_controller().lines).records
    points = (ClockPoint(5_001_000_000, -5_000_000_000, 200), ClockPoint(5_009_000_000, -5_000_000_100, 300))
    clocks = RunClocks(
        (
            MachineClock("one", "boot-a", (ClockPoint(0, 0, 0),), "reference"),
            MachineClock("two", "boot-b", points, "messages"),
        ),
        {("broker-2", 1): 1},
    )
    reference, other = of_records(records, clocks=clocks).facts()["clocks"]
    assert ("broker-1", 2) in reference["incarnations"]
    assert (other["machine"], other["evidence"]) == ("two", "messages")
    assert other["incarnations"] == [("broker-2", 1)]
    assert other["points"] == [(1_000_000, 200), (8_999_900, 300)]


def live_run(folder: Path, clocks: LiveClocks) -> LiveRun:
    run = LiveRun(write_run(on_two_clocks(), folder), "run-1")
    run.clocks = clocks
    while run.advance(20_000.0):
        pass
    return run


def test_a_live_run_puts_the_records_of_another_boot_on_this_machines_clock(tmp_path: Path) -> None:
    run = live_run(tmp_path, LiveClocks("boot-a", 1_700_000_000_000.0))
    expected = [(each.node, each.incarnation, each.seq) for each in read_lines(killed_controller().lines).records]
    shown = [json.loads(record) for record in run.chunks.since(0, 10_000)]
    assert sorted((node, incarnation, seq) for _, node, incarnation, seq, *_ in shown) == sorted(expected)
    elected = {record[8]["epoch"]: record[0] for record in shown if record[4] == "ControllerElected"}
    assert elected == {1: 1_210_000, 2: 6_010_000}
    assert run.now_us == 20_000_000


def test_a_live_run_with_several_boots_says_so_and_does_not_know_its_uncertainty(tmp_path: Path) -> None:
    run = live_run(tmp_path, LiveClocks("boot-a", 1_700_000_000_000.0))
    while_live = run.facts()
    run.finish()
    run.end(run.judge())
    for facts in (while_live, run.facts()):
        assert "the clocks of 2 boots" in facts["clocks_note"]
        reference, other = facts["clocks"]
        assert (reference["boot"], other["boot"]) == ("boot-a", "boot-b")
        assert (other["evidence"], other["incarnations"], other["points"]) == ("wall clock", [("broker-2", 1)], [])


def test_a_live_run_whose_boot_is_not_known_is_on_one_clock(tmp_path: Path) -> None:
    run = live_run(tmp_path, LiveClocks("", 0.0))
    assert (run.facts()["clocks"], run.facts()["clocks_note"]) == ([], "")


def test_a_finished_run_is_in_the_time_of_its_reference_clock(tmp_path: Path) -> None:
    run = finished_run([write(on_two_clocks(), tmp_path / "run")])
    facts = run.facts()
    assert [clock["boot"] for clock in facts["clocks"]] == ["boot-a", "boot-b"]
    assert facts["clocks"][0]["evidence"] == "reference"
    assert (facts["first_us"], facts["last_us"]) == (FIRST_US, 9_200_000)
    elected = [json.loads(each) for each in run.chunks.since(0, 1_000) if b'"ControllerElected"' in each]
    [second] = [record[0] for record in elected if record[8]["epoch"] == 2]
    [[(_, within), *_]] = [clock["points"] for clock in facts["clocks"] if clock["boot"] == "boot-b"]
    assert abs(second - 6_010_000) <= within


def test_large_logs_of_several_clocks_are_aligned_before_they_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LARGE_BYTES", 1_000)
    one, two = write_run(killed_controller().lines, tmp_path / "one"), write_run(on_two_clocks(), tmp_path / "two")
    assert isinstance(server.open_run([one])[0], LiveRun)
    run, folder, has_ended = server.open_run([two])
    assert not isinstance(run, LiveRun)
    assert (folder, has_ended(), len(run.facts()["clocks"])) == (two, True, 2)
