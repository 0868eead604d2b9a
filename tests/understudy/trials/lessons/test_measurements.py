"""Measured values in texts."""

from __future__ import annotations

import pytest

from understudy.clusters.problems import BadValue
from understudy.trials.lessons.measurements import fill, shown
from understudy.trials.lessons.prepared_lesson import PreparedQuestion


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("acknowledged", 1234.0, "1,234"),
        ("stop.a.isr", (1, 3), "1, 3"),
        ("stop.a.isr", (), "none"),
        ("detection_share", 98.42, "98.4 %"),
        ("between.a.b", 5.0, "5 ms"),
        ("stop.a.queued_ms", 3_154.2, "3.15 s"),
        ("stop.a.at_ms", 3_154.2, "3.154 s"),
        ("controllers", 1.5, "1.5"),
        ("stop.a.why", "offline", "offline"),
    ],
)
def test_values_as_words(name: str, value: object, words: str) -> None:
    assert shown(name, value) == words


def test_a_text_is_filled_and_a_missing_value_is_an_error_or_a_sign() -> None:
    def value(name: str) -> object:
        if name == "runs":
            return 200
        raise BadValue(f"{name} has no value in this run")

    assert fill("after {runs} runs", value) == "after 200 runs"
    assert fill("after {outage_ms}", value, "…") == "after …"
    with pytest.raises(BadValue, match="outage_ms"):
        fill("after {outage_ms}", value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It answers {between.a.b} after the election.", "It answers at the same moment as the election."),
        ("{between.a.b} after the election it answers.", "At the same moment as the election it answers."),
        ("It is there. {between.a.b} later it answers.", "It is there. At the same moment it answers."),
        ("It answers after {between.a.b}.", "It answers at once."),
        ("After {between.a.b} it answers.", "At once it answers."),
        ("It took {between.a.b}.", "It took 0 ms."),
        ("It answers {between.a.c} after the election.", "It answers 2.4 ms after the election."),
        ("It answers after {between.a.c}.", "It answers after 2.4 ms."),
    ],
)
def test_no_time_after_something_is_the_same_moment(text: str, words: str) -> None:
    assert fill(text, {"between.a.b": 4.5e-13, "between.a.c": 2.4}.__getitem__) == words


def question(**changes: object) -> PreparedQuestion:
    values: dict[str, object] = {
        "question": "?", "choices": (), "unit": "ms", "right_choice": None, "right_number": 1_000.0, "within": 20,
        "because": "",
    }  # fmt: skip
    return PreparedQuestion(**{**values, **changes})  # type: ignore[arg-type]  # one value of each type, by name


def test_a_number_is_right_within_its_bound() -> None:
    assert question().is_right("1,200 ms")
    assert question().is_right(" 800")
    assert not question().is_right("1201")
    assert not question().is_right("soon")
    assert not question(right_number=None).is_right("1000")


def test_a_choice_is_right_by_its_number() -> None:
    asked = question(choices=("a", "b"), right_choice=1, right_number=None)
    assert asked.is_right("2")
    assert not asked.is_right("1")
    assert not asked.is_right("")
