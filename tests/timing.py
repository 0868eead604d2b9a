"""A pytest plugin that times each test apart from what it shares with others, and writes a report.

`pytest --times-to FILE` writes one line of JSON a test: its node id, the seconds of the test itself (with the setup and
teardown of its own fixtures), and the seconds that the setup of the fixtures of a module or session took, and the
functions marked `shared`. The first test that asks for a shared fixture would otherwise bear its time, and tests run in
random order. `python -m devtools.durations` reads the report.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Generator, Hashable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pytest

from tests.tiers import NODE_ID

_TEST, _OWN, _SHARED = "node id", "seconds of its own", "seconds of shared fixtures"
_P = ParamSpec("_P")
_R = TypeVar("_R")

_call_s: dict[Hashable, float] = {}
"""How long the first call of each shared function took, by function and arguments."""
_calls_of_test: dict[Hashable, float] = {}
"""Calls of shared functions in the test under way, and how long each took in it: 0.0 if an earlier test was first."""


def shared(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compute each result of a function once for all tests of a process; its time counts as time of a shared fixture.

    The arguments can be hashed. A shared function calls no other one, whose time would count twice.
    """
    results: dict[Hashable, _R] = {}

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        key = (function, args, *kwargs.items())
        if key not in results:
            started = time.perf_counter()
            results[key] = function(*args, **kwargs)
            _call_s[key] = _calls_of_test[key] = time.perf_counter() - started
        _calls_of_test.setdefault(key, 0.0)
        return results[key]

    return call


class Timing:
    """Times fixtures and tests in a worker, and writes down what the workers report.

    `path` is the report; None in a worker of pytest-xdist, whose reports reach the process that started it.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[str] = []
        self._setup_s: dict[int, float] = {}
        """How long the setup of each shared fixture took, by the identity of its definition."""
        self._shared_now_s = 0.0
        """What shared fixtures took of the phase that is under way."""
        self._own_s: dict[str, float] = {}
        self._last = 0.0

    # ------------------------------------------------------------------ in a worker

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        started = time.perf_counter()
        try:
            return (yield)
        finally:
            took = time.perf_counter() - started
            if fixturedef.scope != "function":
                self._setup_s[id(fixturedef)] = took
                self._shared_now_s += took

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        now = time.perf_counter()
        if fixturedef.scope != "function":
            self._shared_now_s += now - self._last
        self._last = now

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        return (yield from self._phase(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, object, object]:
        shared = self._shared_s(item)
        try:
            return (yield from self._phase(item))
        finally:
            own = self._own_s.pop(item.nodeid)
            item.user_properties += [
                (_TEST, item.stash[NODE_ID]),
                (_OWN, round(own, 4)),
                (_SHARED, round(shared, 4)),
            ]

    def _phase(self, item: pytest.Item) -> Generator[None, object, object]:
        started = self._last = time.perf_counter()
        self._shared_now_s = 0.0
        before_s = sum(_calls_of_test.values())
        try:
            return (yield)
        finally:
            self._shared_now_s += sum(_calls_of_test.values()) - before_s
            own = time.perf_counter() - started - self._shared_now_s
            self._own_s[item.nodeid] = self._own_s.get(item.nodeid, 0.0) + own

    def _shared_s(self, item: pytest.Item) -> float:
        """How long the shared fixtures and functions of a test took, whichever test was the first to ask for them."""
        request = getattr(item, "_request", None)
        fixtures = request._fixture_defs.values() if request is not None else ()
        calls_s = sum(_call_s[each] for each in _calls_of_test)
        _calls_of_test.clear()
        return calls_s + sum(self._setup_s.get(id(each), 0.0) for each in fixtures)

    # ------------------------------------------------------------------ in the process that was started

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._path is None or report.when != "teardown":
            return
        times = dict(report.user_properties)
        line = {
            "test": times.get(_TEST, report.nodeid),
            "own_s": times.get(_OWN, 0.0),
            "shared_s": times.get(_SHARED, 0.0),
        }
        self._lines.append(json.dumps(line))

    def pytest_sessionfinish(self) -> None:
        if self._path is not None:
            self._path.write_text("".join(f"{line}\n" for line in sorted(self._lines)))
