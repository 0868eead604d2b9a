"""Measured values in texts."""

from __future__ import annotations

import pytest

from understudy.clusters.problems import BadValue
from understudy.trials.lessons.measurements import duration, fill, shown
from understudy.trials.lessons.prepared_lesson import PreparedQuestion


@pytest.mark.parametrize(
    ("ms", "words"), [(0, "0 ms"), (0.44, "0.4 ms"), (24.3, "24 ms"), (3_154.2, "3.15 s"), (-64.0, "-64 ms")]
)
def test_times_have_their_unit(ms: float, words: str) -> None:
    assert duration(ms) == words


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("acknowledged", 1234.0, "1,234"),
        ("stop.a.isr", (1, 3), "1, 3"),
        ("stop.a.isr", (), "none"),
        ("detection_share", 98.42, "98.4 %"),
        ("between.a.b", 5.0, "5.0 ms"),
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
