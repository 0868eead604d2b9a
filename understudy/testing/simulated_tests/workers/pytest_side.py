"""Simulated tests as pytest runs them: the plug-in that `understudy.pytest_plugin` registers if there are any.

It is in the pytest that a person has started, and in the ones of workers. The report of a failing seed is made in the
process that was forked for it, by pytest itself, and takes the place of the report of the test.
"""

from __future__ import annotations

import bdb
import os
import pickle
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, Final

import pytest
from _pytest.config import create_terminal_writer

from understudy.testing.simulated_tests.decorator import SimulatedTest, simulated_test
from understudy.testing.simulated_tests.workers import calls, forks, serving
from understudy.testing.simulated_tests.workers.calls import Options
from understudy.testing.simulated_tests.workers.pool import Pool, can_have_workers, is_like_a_worker, usual_workers
from understudy.testing.simulated_tests.workers.runs import BoundTest, Explanation
from understudy.testing.simulated_tests.workers.slots import Begin, Slot

SECTION: Final = "understudy"
"""The title of the section in the report of a failed test."""
_KEPT_S: Final = 86_400.0
"""Time after which a page in the cache is removed, in seconds."""
_SHOWN_LINES: Final = 40
"""Number of lines that the report shows of each stream, and of the log, of a failing run."""


def test_of(item: pytest.Item) -> SimulatedTest | None:
    """The simulated test that an item runs; None for any other."""
    return simulated_test(getattr(item, "obj", None))


def _last_lines(section: tuple[str, str]) -> tuple[str, str]:
    """Cut a captured section of a report to its last lines: a client logs a line for each attempt of a minute."""
    title, text = section
    lines = text.splitlines()
    left_out = len(lines) - _SHOWN_LINES
    if left_out <= 0 or title == SECTION:
        return section
    return title, "\n".join([f"… {left_out} earlier lines are left out", *lines[-_SHOWN_LINES:]])


class _Reported(bdb.BdbQuit):
    """Stands for the failure of a test, whose report was made in another process.

    For an exception of this type pytest starts no debugger: the other process has had it.
    """


def register(session: pytest.Session) -> None:
    """Register the plug-in, and start the workers that the tests of a session will need.

    Raises:
        BadArguments: an option of the command line has a value that it cannot have.
    """
    config = session.config
    environment = Options.of_environment()
    is_debugged = config.getoption("usepdb", False)
    seed = calls.number_of("--understudy-seed", config.getoption("--understudy-seed"), least=0)
    seed = environment.seed if seed is None else seed
    workers = calls.number_of("--understudy-workers", config.getoption("--understudy-workers")) or environment.workers
    options = Options(
        seeds=calls.number_of("--understudy-seeds", config.getoption("--understudy-seeds")) or environment.seeds,
        seed=seed,
        page=config.getoption("--understudy-page") or environment.page or _pages_in_cache(config),
        # A worker of pytest-xdist has one of the cores.
        workers=1 if is_debugged or (hasattr(config, "workerinput") and serving.line is None) else workers,
        is_live=(is_debugged or seed is not None) and not hasattr(config, "workerinput"),
        is_debugged=is_debugged,
    )
    side = PytestSide(session, options)
    config.pluginmanager.register(side, "understudy simulated tests")
    if not config.getoption("collectonly") and not config.getoption("setupplan", False):
        side.start_workers()


def _pages_in_cache(config: pytest.Config) -> str:
    """Return a folder for pages in pytest's cache, without pages of earlier days; empty if there is no cache."""
    cache = getattr(config, "cache", None)
    if cache is None:  # with `-p no:cacheprovider`
        return ""
    folder = cache.mkdir("understudy-pages")
    with suppress(OSError):  # another session may remove the same ones
        for page in folder.iterdir():
            if page.stat().st_mtime < time.time() - _KEPT_S:
                shutil.rmtree(page, ignore_errors=True)
    return str(folder)


class PytestSide:
    """Runs the simulated tests of a session."""

    def __init__(self, session: pytest.Session, options: Options) -> None:
        self.options = options
        self._config = session.config
        self._capture = session.config.pluginmanager.getplugin("capturemanager")
        self._items = [item for item in session.items if test_of(item) is not None]
        self._pool = Pool(
            "pytest", self._job, directory=str(session.config.invocation_params.dir), terminal=self._terminal
        )

    def start_workers(self) -> None:
        """Start the workers that the tests of the session will need."""
        if self._items and serving.line is None and not is_like_a_worker() and can_have_workers():
            most = max(len(self.options.seeds_of(test)) for item in self._items if (test := test_of(item)))
            self._pool.start(usual_workers(most, self.options.workers), is_live=self.options.is_live)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        if test_of(item) is None:
            return (yield)
        calls.pytest_caller = _PytestCaller(self, item)
        try:
            return (yield)
        finally:
            calls.pytest_caller = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when == "call" and call.excinfo is not None and isinstance(call.excinfo.value, _Reported):
            made = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=call.excinfo.value.args[0]
            )
            report.outcome, report.longrepr = made.outcome, made.longrepr
            report.sections = [*report.sections, *map(_last_lines, made.sections)]
            if hasattr(made, "wasxfail"):
                report.wasxfail = made.wasxfail
        if _last_run is not None and call.when == "call":
            report.sections.append((SECTION, _last_run.text))
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End a forked process with its report; after a debugger, which follows, if a person has asked for one."""
        if _last_run is not None and report.when == "call":
            _last_run.report = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
            if not self.options.is_debugged:
                _last_run.end()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self) -> None:
        """End a forked process: what was set up belongs to its parent."""
        if _last_run is not None:
            _last_run.end()

    def pytest_sessionfinish(self) -> None:
        if _last_run is not None:
            _last_run.end()
        self._pool.close()

    # ------------------------------------------------------------------ workers

    def slots(self, item: pytest.Item, count: int) -> Sequence[Slot]:
        """Return slots of workers that run a test."""
        place = self._items.index(item)
        following = self._items[place + 1].nodeid if place + 1 < len(self._items) else None
        begin = Begin((item.nodeid, following), self.options.page, self.options.is_live)
        return self._pool.slots(count, begin, is_live=self.options.is_live)

    def close(self) -> None:
        self._pool.close()

    def _job(self, number: int) -> dict[str, Any]:
        """What a worker's pytest gets: the command line of this one, and what differs."""
        config = self._config
        capture = config.getoption("capture")
        if capture == "no" and not self.options.is_live:
            capture = "fd"  # what the failing run prints is in its report
        args = [*map(str, config.invocation_params.args), f"--rootdir={config.rootpath}", f"--capture={capture}"]
        if config.pluginmanager.hasplugin("pytest_cov"):
            args.append("--no-cov")
        own_id = getattr(config, "workerinput", {}).get("workerid", "")
        worker_id = f"{own_id}understudy{number}"
        return {
            "args": args,
            "files": sorted({str(item.path) for item in self._items}),
            "options": {"usepdb": config.getoption("usepdb", False)},
            "worker_input": {"workerid": worker_id},
            "basetemp": str(self._basetemp() / worker_id),
        }

    def _basetemp(self) -> Any:
        factory: pytest.TempPathFactory = self._config._tmp_path_factory  # type: ignore[attr-defined]  # as pytest-xdist
        return factory.getbasetemp()

    def _terminal(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._capture is None else self._released()

    @contextmanager
    def _released(self) -> Generator[None, None, None]:
        self._capture.suspend(in_=True)
        try:
            yield
        finally:
            self._capture.resume()

    # ------------------------------------------------------------------ output

    def show_the_debugger(self) -> None:
        """Let a debugger, and pytest before it starts one, have the terminal."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None and sys.__stdout__ is not None:
            reporter._tw = create_terminal_writer(self._config, sys.__stdout__)

    def drop_output(self) -> None:
        if self._config.getoption("capture") == "no":
            calls.redirect_output(os.open(os.devnull, os.O_WRONLY))

    def between_runs(self, item: pytest.Item) -> None:
        """Drop what forked processes have written into the files of captured output."""
        if self._capture is not None:
            self._capture.read_global_capture()
        for name in ("capfd", "capfdbinary"):
            fixture = getattr(item, "funcargs", {}).get(name)
            if fixture is not None:
                fixture.readouterr()


class _PytestCaller:
    """pytest, while it runs one item."""

    def __init__(self, side: PytestSide, item: pytest.Item) -> None:
        self.options = side.options
        self.parameters: str = getattr(getattr(item, "callspec", None), "id", "")
        self._side = side
        self._item = item

    def slots(self, test: BoundTest, count: int) -> Sequence[Slot]:
        if not can_have_workers():
            raise calls.NotByName
        return self._side.slots(self._item, count)

    def close(self) -> None:
        self._side.close()

    def skip(self, reason: str) -> None:
        __tracebackhide__ = True
        pytest.skip(reason)

    def fail(self, explanation: Explanation) -> None:
        if explanation.report is None:
            pytest.fail(explanation.text, pytrace=False)
        raise _Reported(explanation.report)

    def drop_output(self) -> None:
        self._side.drop_output()

    def between_runs(self) -> None:
        self._side.between_runs(self._item)

    def replay(self, seed: int) -> str:
        return f"pytest {shlex.quote(self._item.nodeid)} --understudy-seed {seed}"

    def last_run(self, test: BoundTest, seed: int, text: str) -> Explanation:
        __tracebackhide__ = True
        pid, pipe = forks.fork()
        if pid == 0:
            _begin_last_run(pipe, text)
            if self.options.is_debugged:
                self._side.show_the_debugger()
            else:
                test.replace_breakpoint(seed)
            _raise_failure_of(test, seed, is_watched=not self._side.options.is_debugged)
        data = forks.read_to_end(pid, pipe)
        return Explanation(text, pickle.loads(data) if data else None)


class _LastRun:
    """The run of a failing seed in a process forked for it, whose exception pytest gets."""

    def __init__(self, pipe: int, text: str) -> None:
        self.text = text
        self.report: dict[str, Any] | None = None
        self._pipe = pipe

    def end(self) -> None:
        forks.write_and_exit(self._pipe, pickle.dumps(self.report) if self.report is not None else b"")


_last_run: _LastRun | None = None


def _begin_last_run(pipe: int, text: str) -> None:
    global _last_run
    _last_run = _LastRun(pipe, text)


def _raise_failure_of(test: BoundTest, seed: int, *, is_watched: bool) -> None:
    __tracebackhide__ = True
    assert _last_run is not None
    run, result = test.run(seed, is_watched=is_watched)
    if not result.has_failed:
        _last_run.end()
    if run.error is not None:
        raise run.error
    _fail("\n".join(map(str, result.outcome.problems)) if result.outcome else result.death)


def _fail(text: str) -> None:
    pytest.fail(text, pytrace=False)
