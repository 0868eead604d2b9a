"""`python -m tests.durations REPORT…` rewrites tests/slow_tests.tsv, from which tests get the marks `slow` and `long`.

A report is what `pytest --times-to FILE` writes (`tests/timing.py`). A test's time is the time of its own and of the
fixtures that it shares, for a run without the other tests needs them, too. If several reports have a test, their median
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

SLOW_S = 0.25
"""Seconds from which a test is `slow`: not among those of `make fast`."""
LONG_S = 1.0
"""Seconds from which a test is `long`: `make test` runs it only if it is the representative of a kind."""
LIST = Path(__file__).parent / "slow_tests.tsv"
_HEADER = "# Seconds and node id of each slow test. Written by: python -m tests.durations\n"


@cache
def listed() -> Mapping[str, float]:
    """The seconds of each slow test, by its node id, as the list has them."""
    return parse(LIST.read_text())


def parse(text: str) -> dict[str, float]:
    """Read a list: lines of seconds, a tab and a node id.

    Raises:
        ValueError: a line has another form.
    """
    rows = (line.split("\t", 1) for line in text.splitlines() if not line.startswith("#"))
    return {test: float(seconds) for seconds, test in rows}


def format_list(seconds_by_test: Mapping[str, float]) -> str:
    """Write the slow tests among these as a list, in the order of their node ids."""
    slow = sorted((test, seconds) for test, seconds in seconds_by_test.items() if seconds >= SLOW_S)
    return _HEADER + "".join(f"{seconds:.2f}\t{test}\n" for test, seconds in slow)


def measured(reports: Iterable[str]) -> dict[str, float]:
    """The seconds of each test in reports, given as texts: the median of the reports that have it."""
    found: dict[str, list[float]] = {}
    for report in reports:
        for line in map(json.loads, report.splitlines()):
            found.setdefault(line["test"], []).append(line["own_s"] + line["shared_s"])
    return {test: median(seconds) for test, seconds in found.items()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.durations", description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT", help="written by pytest --times-to REPORT")
    parser.add_argument("--whole", action="store_true", help="drop tests that no report has")
    options = parser.parse_args(arguments)
    seconds = measured(path.read_text() for path in options.reports)
    LIST.write_text(format_list(seconds if options.whole else {**listed(), **seconds}))
    slow, long = (sum(each >= least for each in seconds.values()) for least in (SLOW_S, LONG_S))
    print(f"{len(seconds)} tests measured: {slow} are slow, {long} of them long")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
