"""The query of docs/guides/spark.md for times of several machines gives the times of the alignment."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from understudy.history.reading.clocks import ClockPoint, MachineClock

pytestmark = pytest.mark.xdist_group("spark")

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "spark.md"
(QUERY,) = re.findall(r'"""\n( +WITH points AS .*?)"""', PAGE.read_text(), re.DOTALL)


def clock(*points: tuple[int, int, int]) -> MachineClock:
    return MachineClock("", "", tuple(ClockPoint(*point) for point in points), "messages")


CLOCKS = {
    ("run-1", "broker-1", 1): clock((0, 0, 0)),
    ("run-1", "broker-2", 1): clock((2_000_000, 5_000_000_000, 300), (4_000_000, 5_000_000_100, 900)),
    ("run-1", "broker-2", 2): clock((0, -700_000, 50), (500_000, -700_040, 10), (3_000_000, -699_000, 1_000)),
    ("run-2", "broker-1", 1): clock((1_000_000, 9_000_000, 4), (1_500_000, 9_000_500, 8)),
}
"""The clocks of incarnations, in microseconds."""


def test_the_query_of_the_page_interpolates_the_offset_and_the_uncertainty_of_each_clock(session: SparkSession) -> None:
    """Records are before the first point, between two points, on one, and after the last."""
    generator = random.Random(1)
    records = [
        (*incarnation, seq, us, "ControllerElected" if seq else "ProcessStarted")
        for incarnation, of_it in CLOCKS.items()
        for seq, us in enumerate(
            [*(generator.randrange(6_000_000) for _ in range(20)), *(point.clock_us for point in of_it.points)]
        )
    ]
    session.createDataFrame(
        [(run, node, number, seq, us / 1000, kind) for run, node, number, seq, us, kind in records],
        "run STRING, node STRING, incarnation BIGINT, seq BIGINT, mono_ms DOUBLE, type STRING",
    ).createOrReplaceTempView("records")
    session.createDataFrame(
        [
            (*incarnation, *(number / 1000 for number in point))
            for incarnation, of_it in CLOCKS.items()
            for point in of_it.points
        ],
        "run STRING, node STRING, incarnation BIGINT, mono_ms DOUBLE, offset_ms DOUBLE, within_ms DOUBLE",
    ).createOrReplaceTempView("clocks")
    times = {
        (run, node, number, seq): us + CLOCKS[run, node, number].offset_us(us)
        for run, node, number, seq, us, _ in records
    }
    begins = {run: min(us for key, us in times.items() if key[0] == run) for run, *_ in CLOCKS}
    found = {tuple(row)[:4]: (row["at_ms"], row["within_ms"]) for row in session.sql(QUERY).collect()}
    assert found.keys() == {key for key in times if key[3]}
    for run, node, number, seq, us, _ in records:
        if seq:
            at_ms, within_ms = found[run, node, number, seq]
            # The offset of the alignment is in whole microseconds, and SQL does not round it.
            assert at_ms == pytest.approx((times[run, node, number, seq] - begins[run]) / 1000, abs=0.0021)
            assert within_ms == pytest.approx(CLOCKS[run, node, number].within_us(us) / 1000, abs=0.0011)
