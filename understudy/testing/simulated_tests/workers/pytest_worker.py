"""A worker for tests that pytest runs: a pytest of its own, with the options of the pytest that has started it."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any, Final

import pytest

from understudy.testing.simulated_tests.workers.serving import Line

_OFF: Final[dict[str, Any]] = {
    "cacheclear": False,
    "collectonly": False,
    "continue_on_collection_errors": True,
    "deselect": None,
    "dist": "no",
    "distload": False,
    "durations": None,
    "failedfirst": False,
    "htmlpath": None,
    "keyword": "",
    "lf": False,
    "looponfail": False,
    "markexpr": "",
    "maxfail": 0,
    "maxprocesses": None,
    "newfirst": False,
    "numprocesses": None,
    "pastebin": None,
    "report_log": None,
    "reruns": None,
    "setuponly": False,
    "setupplan": False,
    "setupshow": False,
    "stepwise": False,
    "timeout": 0,
    "trace": False,
    "tx": [],
    "xmlpath": None,
}
"""Options of pytest and its plug-ins that choose tests, start processes or write results, as a worker has them."""


def serve_pytest(
    line: Line, args: list[str], files: list[str], options: dict[str, Any], worker_input: dict[str, Any], basetemp: str
) -> None:
    """Serve tests.

    Args:
        args: the command line of the other pytest.
        files: the files that have simulated tests.
        options: options of the command line that have other values here.
        worker_input: what fixtures and plug-ins find in `config.workerinput`, as in a worker of pytest-xdist.
        basetemp: the folder for temporary folders of tests.
    """
    overriding = _OFF | options | {"basetemp": basetemp}
    sys.exit(pytest.main(args, plugins=[_Worker(line, files, overriding, worker_input)]))


class _Worker:
    def __init__(self, line: Line, files: list[str], options: dict[str, Any], worker_input: dict[str, Any]) -> None:
        self._line = line
        self._files = files
        self._options = options
        self._worker_input = worker_input
        self._problem = ""
        self._skipped: str | None = None
        self._report = contextlib.ExitStack()

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> None:
        for name, value in self._options.items():
            if hasattr(config.option, name):
                setattr(config.option, name, value)
        config.args = self._files
        # pytest's own report on the run of tests, which now takes the standard output, is written to nowhere.
        self._report.enter_context(contextlib.redirect_stdout(open(os.devnull, "w")))  # noqa: PTH123, SIM115  it is kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._report.close()
        # Fixtures ask it for the id of the worker. Plug-ins expect more of it while they are configured.
        session.config.workerinput = self._worker_input  # type: ignore[attr-defined]  # pytest-xdist has introduced it

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_timeout_set_timer(self) -> bool:
        """The other pytest has the time limit of the test."""
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        while (begun := self._line.next()) is not None:
            nodeid, following = begun.target
            item = items.get(nodeid)
            if item is None:
                self._line.refuse(f"a worker has not collected {nodeid}: {self._problem or 'it is not in its file'}")
                continue
            self._problem, self._skipped = "", None
            # pytest-xdist and others do not run tests in the order in which they were collected: then more is torn
            # down now.
            session._setupstate.teardown_exact(item)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=items.get(following))
            if not self._line.is_answered:
                self._line.refuse(
                    self._skipped or self._problem or f"{nodeid} has not called the simulated test",
                    is_skipped=self._skipped is not None,
                )
        return True

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._problem = report.longreprtext

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._problem = report.longreprtext
        elif report.skipped:
            self._skipped = report.longrepr[2] if isinstance(report.longrepr, tuple) else "it is skipped"
