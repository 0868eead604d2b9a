"""The first difference between two traces."""

from __future__ import annotations

from understudy.testing.simulated_tests.workers.difference import first_difference

TRACE = (
    "1.000000 billing main billing.py:3",
    "1.000001 test test_it test_it.py:7",
    "2.500000 billing main billing.py:9",
)


def test_equal_traces_have_no_difference() -> None:
    assert first_difference(TRACE, list(TRACE)) is None


def test_the_first_line_that_differs_is_named_with_the_line_before_it() -> None:
    other = (TRACE[0], "1.000001 billing main billing.py:5", "3.000000 test test_it test_it.py:8")
    found = first_difference(TRACE, other)
    assert found is not None
    assert [line.strip() for line in found.splitlines()] == [
        f"after {TRACE[0]}",
        f"one run:     {TRACE[1]}",
        f"the other:   {other[1]}",
    ]


def test_a_trace_that_ends_earlier_differs_at_its_end() -> None:
    found = first_difference(TRACE, TRACE[:2])
    assert found is not None
    assert "the other:   the end of the run" in found
