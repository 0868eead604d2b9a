"""The tiers of the tests, and the line at the end of a run that says which tests it left out.

| command | tests | how they are chosen |
|---|---|---|
| `make fast` | quick ones | not `slow` |
| `make test` | those, the slow ones, and a real run of each kind | not `long`, or `representative` |
| `make test-all` | all but those that need Apache Kafka | not `interop` |
| `make nightly` | all, with the whole of each search (`tests/shares.py`) | |

The marks `slow` and `long` follow measured times: they are not written in the tests, but come from
tests/slow_tests.tsv, which `python -m devtools.durations` writes.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from devtools.durations import LONG_S, TestTime, listed

KINDS = (
    "a cluster of processes",
    "a golden run",
    "the contract on the real ZooKeeper",
    "a Spark job",
    "twenty seeds",
    "an experiment on processes",
    "a lesson",
    "a page in a browser",
    "a cluster in containers",
    "programs in virtual time",
)
"""Kinds of real runs. `make test` has one of each, marked `representative(kind)`, however long it takes."""

QUICK = "not slow and not docker and not interop"
NEWCOMERS = "(not long or representative) and not interop"
REST = "long and not representative and not interop"
"""What `make test` leaves out of `make test-all`."""
_COMMAND_BY_MARK = {"long": "make test-all", "slow": "make test", "interop": "make interop"}
_UNLISTED_S = 20 * LONG_S
"""Seconds from which a test that has no line in the list is named at the end of a run."""


NODE_ID = pytest.StashKey[str]()
"""The node id of a test without the group that pytest-xdist appends to it."""
TIME = pytest.StashKey[TestTime]()
"""The time of a test that the list has."""


class Tiers:
    """A pytest plugin that marks tests by their times, counts those that a run leaves out, and prints what runs them.

    With pytest-xdist the workers count, for only they collect tests; their counts reach the process that started them.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._count_by_mark: dict[str, int] = {}
        self._unlisted: list[tuple[float, str]] = []

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist changes node ids, and before marks choose tests
    def pytest_collection_modifyitems(self, items: Iterable[pytest.Item]) -> None:
        times = listed()
        for item in items:
            item.stash[NODE_ID] = item.nodeid
            time = times.get(item.nodeid)
            if time is None:
                continue
            item.stash[TIME] = time
            item.add_marker(pytest.mark.slow)
            if time.total_s >= LONG_S:
                item.add_marker(pytest.mark.long)
            if time.shared_s >= LONG_S and item.get_closest_marker("xdist_group") is None:
                # One worker runs the tests that share a costly fixture, so that it is set up once.
                item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        if self._config.getoption("keyword"):
            return  # words of the user's have chosen, not only marks
        for item in items:
            marks = {mark.name for mark in item.iter_markers()}
            for mark in ("interop", "long", "slow"):
                if mark in marks:
                    self._count_by_mark[mark] = self._count_by_mark.get(mark, 0) + 1
                    break

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["left_out"] = self._count_by_mark

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self._count_by_mark = getattr(node, "workeroutput", {}).get("left_out", self._count_by_mark)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        is_listed = "interop" in report.keywords or report.nodeid.partition("@")[0] in listed()
        if report.duration >= _UNLISTED_S and not is_listed:
            self._unlisted.append((report.duration, report.nodeid))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for seconds, test in sorted(self._unlisted, reverse=True):
            terminalreporter.write_line(f"took {seconds:.0f} s and is not in tests/slow_tests.tsv: {test}")
        if self._count_by_mark:
            parts = (
                f"{count} {mark} tests ({_COMMAND_BY_MARK[mark]})"
                for mark, count in sorted(self._count_by_mark.items())
            )
            terminalreporter.write_line(f"left out: {', '.join(parts)}")
