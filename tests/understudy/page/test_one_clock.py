"""A moment of a run has one text: on the page, in `understudy replay`, in the story of a seed, in words of a lesson."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.understudy.page.test_export import facts_and_records
from tests.understudy.trials.lessons.test_lessons import texts_in
from understudy.foundation.eventlog.records import ControllerElected, Envelope, FaultInjected
from understudy.foundation.times import moment
from understudy.history.report.replay import replay_in_python
from understudy.history.report.report import render
from understudy.page.export import page_of
from understudy.trials.lessons.library import archive_of, find, names
from understudy.trials.lessons.prepared_lesson import prepare_lesson
from understudy.trials.lessons.recording import unpack
from understudy.trials.lessons.side_run import RECORDED
from understudy.trials.seeds.story import _Player


def link_of(record: Envelope) -> str:
    return f"#at={record.node}.{record.incarnation}.{record.seq}"


def simulated(folder: Path) -> tuple[str, Sequence[Envelope]]:
    """Kill the controller of a simulated cluster, write the event logs to a folder, and return the story and the
    records."""
    player = _Player()
    player.play(("cluster brokers=3 seed=1",))
    story = "\n".join(player.play(("kill controller", "advance 9s")))
    player._cluster.dump(folder)
    records = player._cluster.records()
    player.close()
    return story, records


def test_the_report_the_page_and_the_story_of_a_run_name_the_same_moments(page: Page, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as thread:  # Playwright's event loop runs in this one
        story, records = thread.submit(simulated, tmp_path / "run").result()
    report = render(replay_in_python([tmp_path / "run"]))
    file = tmp_path / "run.html"
    file.write_text(page_of([tmp_path / "run"]), encoding="utf-8")
    killed = next(record for record in records if isinstance(record.data, FaultInjected))
    elected = next(
        record for record in records if isinstance(record.data, ControllerElected) and record.data.epoch == 2
    )
    found = {
        killed: (r"at +([\d.]+ s)  kill broker-", r"([\d.]+ s)  simulator +kill broker-"),
        elected: (r"epoch   2 .* from +([\d.]+ s)", r"([\d.]+ s)  broker-\d +wins the election: controller epoch 2"),
    }
    for record, (in_report, in_story) in found.items():
        texts = [re.search(in_report, report), re.search(in_story, story)]
        assert [text and text[1] for text in texts] == [moment(record.mono_ms - records[0].mono_ms)] * 2, story
        page.goto(file.as_uri() + link_of(record))
        expect(page.locator("#clock")).to_have_text(moment(record.mono_ms - records[0].mono_ms))
        page.goto("about:blank")


@pytest.mark.parametrize("name", names())
def test_the_words_of_a_recorded_lesson_and_its_pages_name_the_same_moments(name: str, tmp_path: Path) -> None:
    lesson = find(name)
    runs = unpack(lesson, archive_of(lesson), tmp_path)
    prepared = prepare_lesson(lesson, runs, RECORDED, lesson.seed)
    assert not [text for text in texts_in(prepared) if re.search(r"\b0 ms (after|later)|after 0 ms", text)]
    for side, run in zip(prepared.sides, runs, strict=True):
        facts, rows = facts_and_records(page_of([run.folder]))
        at_us = {tuple(row[1:4]): row[0] - facts["first_us"] for row in rows}
        for stop in side.stops:
            assert stop.record is not None
            assert stop.at_ms is not None
            assert moment(at_us[stop.record] / 1000) == moment(stop.at_ms)
