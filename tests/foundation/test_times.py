"""Texts of moments and durations, from a table of cases that the page's functions are tested with also."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.foundation import times

TABLE: Final = Path(__file__).with_name("times.tsv")
OF_MICROS: Final = ("moment", "duration", "uncertain")
UNITS_US: Final = {"µs": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000}


class Case(NamedTuple):
    """A call and its text. Times are microseconds; None stands for an unknown uncertainty."""

    function: str
    arguments: tuple[float | None, ...]
    text: str


def cases() -> list[Case]:
    """Read the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [
            Case(row["function"], tuple(_argument(each) for each in row["arguments"].split()), row["text"])
            for row in csv.DictReader(file, delimiter="\t")
        ]


def _argument(word: str) -> float | None:
    if word == "null":
        return None
    return float(word) if "." in word else int(word)


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.function}-{case.text}")
def test_a_time_has_the_text_of_the_table(case: Case) -> None:
    arguments = [each / 1000 if each and case.function in OF_MICROS else each for each in case.arguments]
    assert getattr(times, case.function)(*arguments) == case.text


@given(st.integers(min_value=-(10**13), max_value=10**13).filter(bool))
def test_a_duration_has_three_digits_that_are_right(us: int) -> None:
    number, unit = times.duration(us / 1000).split()
    value = float(number.replace(times.MINUS, "-").replace(",", "")) * UNITS_US[unit]
    assert abs(value - us) <= abs(us) * 0.005
    assert len(number.strip(times.MINUS).replace(".", "").replace(",", "").lstrip("0")) <= 4
    assert times.duration(-us / 1000).strip(times.MINUS) == times.duration(us / 1000).strip(times.MINUS)


@given(st.integers(min_value=-(10**13), max_value=10**13))
def test_a_moment_has_milliseconds(us: int) -> None:
    number, unit = times.moment(us / 1000).split()
    assert unit == "s"
    assert abs(float(number.replace(times.MINUS, "-").replace(",", "")) * 1_000_000 - us) <= 501


def test_no_time_later_is_at_once() -> None:
    assert times.after(0.0004) == "at once"
    assert times.after(2.4) == "after 2.4 ms"
