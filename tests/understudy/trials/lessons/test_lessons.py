"""The lessons that come with Understudy: each runs, is found on both sides, and is recorded as it runs today."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devtools.pages.source import ROOT
from tests.understudy.trials.lessons.simulated import SHORT, SWEEPS, shown
from understudy.cli import sweep
from understudy.foundation.eventlog.records import Envelope, RunDescribed
from understudy.trials.lessons.document import SIDES
from understudy.trials.lessons.library import FILES, RECORDED, archive_of, find, names
from understudy.trials.lessons.measurements import MARK
from understudy.trials.lessons.prepared_lesson import PreparedLesson, prepare_lesson
from understudy.trials.lessons.reading import texts_of
from understudy.trials.lessons.recording import content_hash, described, unpack
from understudy.trials.lessons.side_run import RECORDED as FROM_A_RECORDING

ALL = [*SHORT, *SWEEPS]
MOST_BYTES = 3_000_000
COLUMNS = 120
SOURCES_OF_KAFKA = (
    "core/src/main/scala/kafka/",
    "metadata/src/main/java/org/apache/kafka/",
    "raft/src/main/java/org/apache/kafka/",
)


def texts_in(prepared: PreparedLesson) -> Iterator[str]:
    yield from (
        prepared.question,
        prepared.intro,
        prepared.explain,
        *([prepared.exercise] if prepared.exercise else []),
    )
    for question in (prepared.predict, prepared.check):
        yield from (question.question, question.because, *question.choices)
    for side in prepared.sides:
        yield side.title
        for stop in side.stops:
            yield from (stop.headline, stop.text)


def test_lessons_are_numbered_in_order() -> None:
    lessons = [find(name) for name in names()]
    assert [each.number for each in lessons] == list(range(1, len(lessons) + 1))
    assert [each.name for each in lessons] == list(names())


@pytest.mark.parametrize("name", ALL)
def test_a_lesson_runs_and_stops_on_both_sides(name: str) -> None:
    prepared = shown(name).prepared
    assert [side.side for side in prepared.sides] == list(SIDES)
    for side, run in zip(prepared.sides, shown(name).runs, strict=True):
        written = {(each.node, each.incarnation, each.seq) for each in run.records}
        assert side.stops
        assert {stop.record for stop in side.stops} <= written
    for place in range(2):
        times = [stop.at_ms for stop in prepared.sides[place].stops if stop.at_ms is not None]
        assert len(times) == len(prepared.sides[place].stops)


@pytest.mark.parametrize("name", ALL)
def test_every_question_has_an_answer_and_every_marked_value_is_filled(name: str) -> None:
    prepared = shown(name).prepared
    for question in (prepared.predict, prepared.check):
        assert (question.right_choice is None) != (question.right_number is None)
        right = question.right_number if question.right_choice is None else question.right_choice + 1
        assert question.is_right(str(right))
        assert not question.is_right("99999999")
    for text in texts_in(prepared):
        assert text
        assert not MARK.search(text)


@pytest.mark.parametrize("name", ALL)
def test_the_recording_is_what_the_simulator_gives_today(name: str, tmp_path: Path) -> None:
    lesson = shown(name).lesson
    archive = archive_of(lesson)
    assert described(archive).content == content_hash(shown(name).folder), "run `make lessons`"
    runs = unpack(lesson, archive, tmp_path)
    assert [run.title for run in runs] == [lesson.called, lesson.other.called]
    recorded = prepare_lesson(lesson, runs, FROM_A_RECORDING, lesson.seed)
    assert list(texts_in(recorded)) == list(texts_in(shown(name).prepared))


def test_the_recordings_are_small_and_belong_to_lessons() -> None:
    files = sorted(RECORDED.iterdir())
    assert [path.name for path in files] == sorted(f"{name}.tar.xz" for name in names())
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def test_the_document_is_json_that_can_be_read_again() -> None:
    prepared = shown("zombie").prepared
    assert (
        msgspec.json.decode(msgspec.json.encode(prepared), type=PreparedLesson).sides[0].stops
        == prepared.sides[0].stops
    )


@pytest.mark.parametrize("name", names())
def test_its_text_is_tidy(name: str) -> None:
    lesson = find(name)
    for _, text in texts_of(lesson):
        assert text.count("`") % 2 == 0
    text = next(FILES.glob(f"*-{name}.yaml")).read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []


@pytest.mark.parametrize("name", names())
def test_what_it_names_to_read_exists(name: str) -> None:
    for each in find(name).read:
        kind, where = each.where
        if kind == "ours":
            assert (ROOT / where).is_file(), where
        if kind == "kafka":
            assert where.startswith(SOURCES_OF_KAFKA), where
        if kind == "kip":
            assert re.fullmatch(r"KIP-\d+", where)
        if kind == "jira":
            assert re.fullmatch(r"(KAFKA|ZOOKEEPER)-\d+", where)


def test_the_zombie_is_refused_by_the_fence_and_obeyed_without_it() -> None:
    prepared = shown("zombie").prepared
    one, other = prepared.sides
    assert one.numbers["let_through"] == 0
    assert other.numbers["let_through"] > 0
    assert one.numbers["violations"] == 0
    assert other.numbers["violations"] > 0
    assert "refuse them" in prepared.predict.choices[prepared.predict.right_choice or 0]


def record_at(name: str, stop: str) -> Any:
    """The payload of the record at a stop of a lesson."""
    return record_of(name, stop).data


def record_of(name: str, stop: str) -> Envelope:
    """The record at a stop of a lesson."""
    for side, run in zip(shown(name).prepared.sides, shown(name).runs, strict=True):
        wanted = {each.record for each in side.stops if each.name == stop}
        for record in run.records:
            if (record.node, record.incarnation, record.seq) in wanted:
                return record
    raise AssertionError(f"{name} has no stop {stop}")


def test_what_was_acknowledged_survives_the_leader_and_is_lost_without_kip_497() -> None:
    acknowledged, leads = record_at("isr", "acknowledged"), record_at("isr", "leads")
    assert leads.log_end_offset > acknowledged.last_offset
    assert record_at("isr", "safe").base_offset == leads.log_end_offset
    early, leads_there = record_at("isr", "too-early"), record_at("isr", "leads-there")
    assert leads_there.log_end_offset <= early.base_offset
    assert record_at("isr", "truncated").to_offset <= early.base_offset
    one, other = shown("isr").prepared.sides
    text = next(stop.text for stop in other.stops if stop.name == "leads-there")
    assert f"Offset {early.last_offset} was acknowledged" in text
    assert one.numbers["violations"] == 0
    assert one.numbers["acknowledged"] == one.numbers["sent"]
    assert other.numbers["violations"] > 0


def test_acks_decide_which_acknowledged_records_are_lost() -> None:
    one, other = shown("acks").prepared.sides
    none, leader, every = (one.numbers[f"lost.producer-{number}"] for number in (1, 2, 3))
    assert none > leader > every == 0
    assert none + leader == one.numbers["lost"]
    truncated, leads = record_at("acks", "truncated"), record_at("acks", "leads")
    assert truncated.to_offset == leads.log_end_offset
    assert truncated.log_end_offset - truncated.to_offset >= none + leader
    assert other.numbers["lost"] == 0
    assert [other.numbers[f"acknowledged.producer-{number}"] > 0 for number in (1, 2, 3)] == [True, True, True]
    assert one.numbers["violations"] == other.numbers["violations"] == 0


def test_a_topic_gets_a_leader_from_the_next_controller() -> None:
    killed, elected, led = (record_of("new-topic", stop) for stop in ("killed", "elected", "led"))
    assert killed.mono_ms < elected.mono_ms < led.mono_ms
    assert led.controller_epoch == record_at("new-topic", "elected").epoch
    one, other = shown("new-topic").prepared.sides
    assert one.numbers["acknowledged.step-5"] == other.numbers["acknowledged.step-4"] == 2
    assert one.numbers["lost"] == other.numbers["lost"] == 0
    assert one.numbers["violations"] == other.numbers["violations"] == 0


def test_of_two_leaders_one_acknowledges_with_acks_all_and_both_with_acks_1() -> None:
    cut, refused, truncated = (record_at("two-leaders", stop) for stop in ("cut", "refused", "truncated"))
    assert "broker-3" in cut.target
    assert (refused.broker, refused.error) == ("broker-3", "REQUEST_TIMED_OUT")
    assert truncated.to_offset == record_at("two-leaders", "continued").offset
    old, new = record_at("two-leaders", "old-there"), record_at("two-leaders", "new-there")
    assert (old.broker, new.broker) == ("broker-3", "broker-2")
    there = record_at("two-leaders", "truncated-there")
    assert there.to_offset <= new.offset < there.log_end_offset
    assert there.to_offset <= old.offset < there.log_end_offset
    one, other = shown("two-leaders").prepared.sides
    assert one.numbers["lost"] == 0
    assert other.numbers["lost"] == there.log_end_offset - there.to_offset
    assert other.numbers["lost.step-4"] == 0


def test_logs_are_truncated_at_the_end_of_a_leader_epoch_and_diverge_at_high_watermarks() -> None:
    leads, truncated = record_at("truncation", "leads"), record_at("truncation", "truncated")
    assert dict(leads.epochs)[leads.leader_epoch] == leads.log_end_offset == truncated.to_offset
    there, leads_there = record_at("truncation", "truncated-there"), record_at("truncation", "leads-there")
    assert there.to_offset == there.high_watermark == leads_there.log_end_offset
    assert record_at("truncation", "diverged").to_offset > leads_there.log_end_offset
    one, other = shown("truncation").prepared.sides
    assert one.numbers["lost.step-4"] == one.numbers["violations"] == 0
    assert other.numbers["lost.step-4"] == record_at("truncation", "acknowledged").last_offset + 1 - there.to_offset
    assert other.numbers["violations"] > 0


def test_the_data_centre_with_most_zookeeper_servers_goes_on() -> None:
    proposed, led = record_at("two-data-centres", "proposed"), record_at("two-data-centres", "led")
    assert proposed.isr == (4, 5)
    assert record_at("two-data-centres", "elected").broker_id in (1, 2)
    assert led.partitions[0].isr == (1, 2)
    assert record_at("two-data-centres", "continued").broker == "broker-1"
    assert record_at("two-data-centres", "truncated").to_offset == record_at("two-data-centres", "continued").offset
    shrunk = record_at("two-data-centres", "shrunk-there").partitions[0]
    assert (shrunk.leader, shrunk.isr) == (4, (4, 5))
    assert record_at("two-data-centres", "continued-there").broker == "broker-4"
    one, other = shown("two-data-centres").prepared.sides
    assert one.numbers["controllers"] == other.numbers["controllers"] + 1
    for side in (one, other):
        assert side.numbers["lost"] == side.numbers["violations"] == 0


def test_the_same_failure_takes_one_timeout_with_zookeeper_and_two_under_kraft() -> None:
    one, other = shown("kraft").prepared.sides
    timeout = one.numbers["session_ms"]
    assert other.numbers["session_ms"] == timeout
    assert one.numbers["longest_leaderless_ms"] < 1.5 * timeout
    assert other.numbers["longest_leaderless_ms"] > 1.5 * timeout > other.numbers["outage_ms"]
    ready, fenced, led = (record_at("kraft", f"{stop}-there") for stop in ("ready", "fenced", "led"))
    assert [f"broker-{each}" for each in fenced.dead] == [record_at("kraft", "killed-there").target]
    assert set(fenced.dead) <= set(ready.brokers)
    assert led.partitions[0].leader in led.partitions[0].isr
    waited = record_of("kraft", "fenced-there").mono_ms - record_of("kraft", "ready-there").mono_ms
    assert waited >= timeout
    assert record_at("kraft", "elected-there").epoch > 1


def test_what_kraft_does_not_have_is_absent_and_not_zero() -> None:
    lesson, (_, run), prepared, _ = shown("kraft")
    assert prepared.sides[1].world == "recorded"
    assert (made := prepared.sides[1].recording) is not None
    assert re.fullmatch(r"Apache Kafka 4\.\d+\.\d+", made.software)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made.date)
    assert made.command == lesson.other.recording
    assert prepared.sides[0].recording is None
    missing = {"reading_ms", "writing_ms", "propagation_ms", "requests", "fence_hits", "longest_wait_ms", "lost"}
    assert missing & prepared.sides[1].numbers.keys() == set()
    assert missing <= prepared.sides[0].numbers.keys()
    types = {each.type for each in run.records}
    assert {name for name in types if name.startswith(("Zk", "Watch", "Session", "Event", "Request"))} == set()


def test_the_command_of_a_recording_can_be_given_and_makes_its_cluster() -> None:
    lesson, (_, run), _, _ = shown("kraft")
    words = lesson.other.recording.split()
    assert words[:2] == ["understudy", "sweep"]
    parser = argparse.ArgumentParser()
    sweep.add_arguments(parser)
    options = parser.parse_args(words[2:])
    found = (each.data for each in run.records)
    described_run = next(each for each in found if isinstance(each, RunDescribed) and each.brokers)
    assert options.processes
    assert options.brokers == (described_run.brokers,)
    assert options.partitions == (described_run.partitions,)
    assert options.session_timeout_ms == (described_run.session_timeout_ms,)
    assert list(options.kafka_kraft) == [described_run.software_version]


def test_a_deleted_controller_is_stopped_by_the_version_of_its_epoch_and_not_by_its_session() -> None:
    deleted, elected, again = (record_at("deleted-controller", name) for name in ("deleted", "elected", "again"))
    assert (elected.epoch, elected.epoch_zk_version) == (2, 2)
    assert deleted.target.startswith("broker-")
    successor, late = record_at("deleted-controller", "successor"), record_at("deleted-controller", "late")
    refused, passes = record_at("deleted-controller", "refused"), record_at("deleted-controller", "passes")
    assert again.target != f"broker-{successor.broker_id}"
    assert late.epoch_zk_version == refused.offered == passes.offered == elected.epoch_zk_version
    assert successor.epoch_zk_version == refused.known == passes.known == elected.epoch_zk_version + 1
    assert (refused.switched_off, passes.switched_off) == (False, True)
    one, other = shown("deleted-controller").prepared.sides
    assert one.numbers["count.SessionExpired"] == other.numbers["count.SessionExpired"] == 0
    assert one.numbers["outage_ms"] < 100 < one.numbers["session_ms"]
    assert (one.numbers["lost"], one.numbers["violations"], one.numbers["let_through"]) == (0, 0, 0)
    assert other.numbers["violations"] > 0
    assert other.numbers["let_through"] > 0
