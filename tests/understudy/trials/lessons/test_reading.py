"""Lesson files: refusals, with their lines and proposals."""

from __future__ import annotations

import pytest

from understudy.clusters.problems import BadExperiment
from understudy.trials.experiments.language.reading import read_document
from understudy.trials.lessons.document import Lesson
from understudy.trials.lessons.reading import LESSON, json_schema
from understudy.trials.lessons.template import template

GOOD = template("mine")


def problems(text: str) -> str:
    with pytest.raises(BadExperiment) as bad:
        read_document(text, "mine.yaml", LESSON)
    return str(bad.value)


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return problems(GOOD.replace(old, new, 1))


def test_the_template_is_a_lesson() -> None:
    lesson = read_document(GOOD, "mine.yaml", LESSON)
    assert isinstance(lesson, Lesson)
    assert lesson.name == "mine"
    assert [stop.side for stop in lesson.stops] == ["one", "one", "other"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("headline: The controller is killed", "headlin: x", "'headlin' is no key of a stop; did you mean 'headline'"),
        ("find: FaultInjected", "find: FaultInject", "no record type; did you mean 'FaultInjected'"),
        ("{fault: kill}", "{fautl: kill}", "'fautl' is no field of FaultInjected; did you mean 'fault'"),
        ("Detection took {detection_ms}", "Took {detektion_ms}", "no measurement; did you mean 'detection_ms'"),
        ("{stop.killed.target} was", "{stop.kiled.target} was", "no stop of this lesson; did you mean 'killed'"),
        ("{stop.killed.target} was", "{stop.killed.targt} was", "no field of FaultInjected; did you mean 'target'"),
        ("{between.killed.elected}", "{between.killed.elect}", "did you mean 'elected'"),
        ("{other.detection_ms}", "{other.count.ControllerElect}", "did you mean 'ControllerElected'"),
        ("{other.detection_ms}", "{other.lost.producer-3}", "no producer of this lesson; did you mean 'producer-2'"),
        ("{other.detection_ms}", "{acknowledged.step-1}", "no producer of this lesson"),
        ("when: detection_ms > takeover_ms", "when: detection_ms above 3", "is no comparison"),
        ("when: detection_ms > takeover_ms", "when: detection > takeover_ms", "no measurement"),
        ("experiment: kill-controller", "experiment: kill-controler", "did you mean 'kill-controller'"),
        ("after: killed", "after: elected", "no earlier stop of the same side"),
        ("    side: other", "    side: othr", "did you mean 'other'"),
        ("nth: 2", "nth: none", "no whole number from 1"),
        ("    after: killed", "    after: killed\n    show: [repica:broker-1:orders-0]", "did you mean 'replica'"),
        ("    after: killed", "    after: killed\n    show: [replica:broker-1]", "expected replica:NODE:PARTITION"),
        (
            "    after: killed",
            "    after: killed\n    show: [runs:3]",
            "'runs:3' is no part of the picture; expected runs",
        ),
        ("    after: killed", "    after: killed\n    show: [znode:/controler]", "did you mean '/controller'"),
        ("    after: killed", '    show: ["process:{stop.kiled.target}"]', "show: 'kiled' is no stop of this lesson"),
        ("    after: killed", '    show: ["process:{controllers}"]', "controllers is no field of a stop"),
        ("    after: killed", "    beside: killed", "killed is no stop of the other side; it has elected-other"),
        ("kafka: core", "kafka: core\n    kip: KIP-1\n    ours: core", "one of kafka, ours, kip and jira"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_the_nearest_word(old: str, new: str, says: str) -> None:
    message = changed(old, new)
    assert says in message
    assert message.startswith("mine.yaml:")


def test_the_other_side_has_to_differ() -> None:
    start = GOOD.index("  # One of:")
    end = GOOD.index("intro:")
    assert "it would be the same run again" in problems(GOOD[:start] + GOOD[end:])


def with_other(*lines: str) -> str:
    """The template with other keys of its other side, and without marked values of its load."""
    before, _, rest = GOOD.partition("  # One of: `without")
    _, _, after = rest.partition("\nintro: >")
    return before + "\n".join(f"  {line}" for line in lines) + "\n\nintro: >" + after


def test_a_side_may_exist_only_as_a_recording() -> None:
    lesson = read_document(with_other("recording: make it so"), "mine.yaml", LESSON)
    assert lesson.other.recording == "make it so"
    assert lesson.other.experiment is None


@pytest.mark.parametrize(
    "more", ["without: kip-380", "set: {a: b}", "experiment: kill-controller", "sweep: {runs: 2, session: 3s}"]
)
def test_a_recorded_side_has_nothing_to_run(more: str) -> None:
    assert "a side with a recording is not run" in problems(with_other("recording: make it so", more))


def test_only_the_other_side_may_be_a_recording() -> None:
    text = with_other("recording: make it so")
    says = "the first side has no experiment: a recording may only be the other side of one"
    assert says in problems(text.replace("experiment: kill-controller\n", ""))
    assert says in problems(text.replace("experiment: kill-controller\n", "sweep: {runs: 2, session: 3s}\n"))
    assert "'recording' is no key of a lesson" in problems(text.replace("seed: 1 ", "recording: make it so "))


def test_a_switch_that_does_not_exist_is_refused() -> None:
    start = GOOD.index("  # One of:")
    end = GOOD.index("intro:")
    assert "did you mean 'kip-380'" in problems(GOOD[:start] + "  without: kip-38\n" + GOOD[end:])


def test_an_inline_experiment_is_checked_with_its_lines() -> None:
    message = changed("kill: controller}", "kil: controller}")
    line = 1 + GOOD[: GOOD.index("kill: controller}")].count("\n")
    assert message.startswith(f"mine.yaml:{line}: ")
    assert "did you mean 'kill'" in message


def test_a_question_has_choices_or_a_number() -> None:
    assert "either choices or answer" in changed("  question: What takes", "  answer: outage_ms\n  question: What")


def test_both_sides_need_a_stop() -> None:
    assert "no stop is on the side other" in changed("    side: other\n", "")


def test_a_stop_has_one_name() -> None:
    assert "two stops have the name killed" in changed("- name: elected\n", "- name: killed\n")


def test_a_lesson_needs_an_experiment() -> None:
    assert "either an experiment or a sweep" in changed("experiment: kill-controller\n", "")


def test_the_schema_names_every_key() -> None:
    schema = json_schema()
    assert {"stops", "predict", "other", "read"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False
