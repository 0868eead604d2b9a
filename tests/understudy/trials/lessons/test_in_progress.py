"""A lesson during its run: which stops and values its page has after a number of records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.understudy.trials.lessons.simulated import shown
from understudy.trials.lessons.in_progress import OVER, READY, STARTING, Document, FinishedLesson, LessonInProgress
from understudy.trials.lessons.measurements import load_has_begun
from understudy.trials.lessons.prepared_lesson import MISSING
from understudy.trials.lessons.running import plan_of


def read(progress: LessonInProgress | FinishedLesson) -> Document:
    return msgspec.json.decode(progress.document(), type=Document)


def in_progress(name: str) -> LessonInProgress:
    lesson, (_, other), _, _ = shown(name)
    return LessonInProgress(lesson, plan_of(lesson, lesson.seed), Path("one"), other)


@pytest.mark.parametrize("name", ["zombie", "takeover", "isr", "kraft"])
def test_a_stop_is_there_as_soon_as_its_record_is(name: str) -> None:
    _, (one, _), prepared, _ = shown(name)
    progress = in_progress(name)
    places = {(each.node, each.incarnation, each.seq): place for place, each in enumerate(one.records)}
    wanted = {stop.name: places[stop.record] for stop in prepared.sides[0].stops if stop.record is not None}
    begun = next(place for place in range(len(one.records)) if load_has_begun(one.records[: place + 1]))
    seen = 0
    for place in sorted({begun, *wanted.values()}):
        for record in one.records[seen : place + 1]:
            progress.observe(record)
        seen = place + 1
        stops = read(progress).lesson.sides[0].stops
        assert {stop.name for stop in stops if stop.record is not None} == {
            found for found, needed in wanted.items() if needed <= place
        }


def test_before_the_run_only_what_is_planned_is_known() -> None:
    document = read(in_progress("takeover"))
    assert document.phase == READY
    assert "session timeout of the brokers is 3 s" in document.lesson.intro
    assert all(stop.record is None for stop in document.lesson.sides[0].stops)
    assert all(stop.record is not None for stop in document.lesson.sides[1].stops)


def test_while_it_runs_nothing_is_told_that_can_still_change() -> None:
    _, (one, _), _, _ = shown("takeover")
    progress = in_progress("takeover")
    for record in one.records:
        progress.observe(record)
    lesson = read(progress).lesson
    assert lesson.predict.right_number is None
    assert lesson.check.right_choice is None
    assert MISSING not in lesson.predict.because
    assert "controllers" not in lesson.sides[0].numbers
    final = {stop.name: stop.text for stop in shown("takeover").prepared.sides[0].stops}
    assert {stop.name: stop.text for stop in lesson.sides[0].stops} == final


def test_the_page_begins_the_run_once() -> None:
    progress = in_progress("zombie")
    assert not progress.has_begun
    progress.begin()
    progress.begin()
    assert progress.has_begun


def test_a_failure_is_noted() -> None:
    progress = in_progress("zombie")
    progress.fails("the cluster did not start")
    document = read(progress)
    assert (document.phase, document.note) == ("failed", "the cluster did not start")
    assert document.phase not in (READY, STARTING)


def test_a_lesson_that_has_been_run_is_whole() -> None:
    finished = FinishedLesson(shown("zombie").prepared)
    finished.begin()
    document = read(finished)
    assert document.phase == OVER
    assert document.lesson == shown("zombie").prepared
