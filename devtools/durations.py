"""`python -m devtools.durations REPORT…` rewrites tests/slow_tests.tsv, from which tests get the marks `slow` and
`long`.

A report is what `pytest --times-to FILE` writes (`tests/timing.py`). A test's time is the time of its own and of the
fixtures that it shares, for a run without the other tests also needs them. If several reports have a test, their median
counts. Tests that no report has keep their line, so that a part of the tests can be measured again; `--whole` drops
them, after a run of all tests.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

SLOW_S = 0.02
"""Seconds from which a test is `slow` and `make fast` leaves it out."""
LONG_S = 0.5
"""Seconds from which a test is `long`: `make test` runs it only if it is the representative of a kind."""
LIST = Path(__file__).parent.parent / "tests" / "slow_tests.tsv"
_HEADER = "# Seconds in total, of them for shared fixtures, and node id; written by python -m devtools.durations\n"


class TestTime(NamedTuple):
    """The seconds that a test takes.

    Attributes:
        total_s: of its own, and of the fixtures that it shares with other tests.
        shared_s: of these fixtures alone.
    """

    total_s: float
    shared_s: float


@cache
def listed() -> Mapping[str, TestTime]:
    """The times of slow tests by node id, as the list has them."""
    return parse(LIST.read_text())


def parse(text: str) -> dict[str, TestTime]:
    """Read a list: lines of the seconds in total, the seconds of shared fixtures, and the node id, with tabs between
    them.

    Raises:
        ValueError: a line has another form.
    """
    rows = (line.split("\t", 2) for line in text.splitlines() if not line.startswith("#"))
    return {test: TestTime(float(total), float(shared)) for total, shared, test in rows}


def format_list(times: Mapping[str, TestTime]) -> str:
    """Write the slow tests among these as a list, in the order of their node ids."""
    slow = sorted((test, time) for test, time in times.items() if time.total_s >= SLOW_S)
    return _HEADER + "".join(f"{time.total_s:.2f}\t{time.shared_s:.2f}\t{test}\n" for test, time in slow)


def measured(reports: Iterable[str]) -> dict[str, TestTime]:
    """The time of each test in reports, given as texts: the medians of the reports that have it."""
    found: dict[str, list[TestTime]] = {}
    for report in reports:
        for line in map(json.loads, report.splitlines()):
            time = TestTime(line["own_s"] + line["shared_s"], line["shared_s"])
            found.setdefault(line["test"], []).append(time)
    return {test: TestTime(*map(median, zip(*times, strict=True))) for test, times in found.items()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.durations", description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="written by pytest --times-to REPORT")
    parser.add_argument("--whole", action="store_true", help="drop tests that no report has")
    options = parser.parse_args(arguments)
    times = measured(path.read_text() for path in options.reports)
    LIST.write_text(format_list(times if options.whole else {**listed(), **times}))
    slow, long = (sum(time.total_s >= least for time in times.values()) for least in (SLOW_S, LONG_S))
    print(f"{len(times)} tests measured: {slow} are slow, {long} of them long")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
