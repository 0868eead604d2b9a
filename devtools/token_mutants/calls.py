"""A pytest plug-in that writes which functions of the rooms each test has called, and how long the test took.

`python -m pytest -p devtools.token_mutants.calls --calls FILE …` writes JSON lines `{"test", "seconds", "functions"}`,
without the tests that did not pass. A function is `file:qualified name`. What a test calls in other processes is not
seen.
"""

from __future__ import annotations

import cProfile
import json
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from types import CodeType
from typing import IO

import pytest

from devtools.pages.source import ROOT
from devtools.token_mutants.sites import ROOMS

_PACKAGE = ROOT / "understudy"  # Python finds the rooms through its links
_FOLDERS = tuple(f"{_PACKAGE / room}/" for room in ROOMS)
_FILE = pytest.StashKey[IO[str]]()
_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--calls", type=Path, required=True, help="the file to write")


def pytest_configure(config: pytest.Config) -> None:
    # One line at a time, so that a run that is interrupted keeps what it has seen.
    config.stash[_FILE] = config.getoption("--calls").open("w", buffering=1)


def pytest_unconfigure(config: pytest.Config) -> None:
    config.stash[_FILE].close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.stash[_PASSED] = item.stash.get(_PASSED, True) and report.passed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    # In C, and by function: twenty times faster than a trace of lines in Python.
    profile, started = cProfile.Profile(builtins=False), time.perf_counter()
    profile.enable()
    try:
        return (yield)
    finally:
        profile.disable()
        if item.stash.get(_PASSED, False):
            seconds = round(time.perf_counter() - started, 3)
            called = functions(entry.code for entry in profile.getstats())
            line = {"test": item.nodeid, "seconds": seconds, "functions": called}
            item.config.stash[_FILE].write(json.dumps(line) + "\n")


def functions(codes: Iterable[CodeType | str]) -> list[str]:
    """The functions of the rooms among these code objects, in order."""
    return sorted(
        f"{Path(code.co_filename).relative_to(_PACKAGE).as_posix()}:{code.co_qualname}"
        for code in codes
        if isinstance(code, CodeType) and code.co_filename.startswith(_FOLDERS)
    )
