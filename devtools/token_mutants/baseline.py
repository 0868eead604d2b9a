"""The functions that tests call in unchanged code: measured once per test file, then read from a file.

A mutant is judged by the tests that call its function, the fastest first; other tests cannot notice it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devtools.token_mutants.sites import Mutant
from devtools.token_mutants.workshop import Workshop

BESIDE = ("tests/stories", "tests/brokers/apis", "tests/simulation")
"""Tests that follow the tests of the mutant's room."""
LEFT_OUT = ("tests/simulation/test_seeds.py", "tests/simulation/test_determinism.py")
"""Tests that run seeds: the seeds of the tool do, and say which check has noticed."""
READ_SOURCES = (
    "tests/simulation/test_switches.py::test_every_switch_is_asked_for_where_it_decides",
    "tests/brokers/test_metrics_page.py",
    "tests/test_pages.py",
)
"""Tests that notice a change without a call, because they read the code or its tables: they judge every mutant."""
_SHARED = re.compile(r"^@(functools\.)?(lru_)?cache\b|scope=\"(module|package|session)\"", re.MULTILINE)
_PRODUCT = ("foundation", "controller", "brokers", "understudy")


@dataclass(frozen=True, slots=True)
class TestCalls:
    """A test that passes, how long it took under a profiler, and the functions of the rooms that it has called."""

    __test__ = False

    test: str
    seconds: float
    functions: frozenset[str]

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


@dataclass(slots=True)
class Baseline:
    tests: list[TestCalls] = field(default_factory=list)

    def tests_for(self, mutant: Mutant, longest_s: float) -> list[TestCalls]:
        """The tests that can notice a mutant: tests that read the code, tests of its room, then the others, each kind
        the fastest first.

        Code that runs at import is left to all tests, those that call its file first.
        """
        short = [test for test in self.tests if test.seconds <= longest_s]
        in_function, in_file = f"{mutant.file}:{mutant.function}", f"{mutant.file}:"
        if mutant.function:
            calling = {test for test in short if any(_is_or_contains(in_function, each) for each in test.functions)}
            chosen = [test for test in short if test in calling or _reads_sources(test)]
        else:
            calling = {test for test in short if any(each.startswith(in_file) for each in test.functions)}
            chosen = short
        room = f"tests/{mutant.room}/"

        def rank(test: TestCalls) -> tuple[bool, bool, bool, float, str]:
            return (
                not _reads_sources(test),
                test not in calling,
                not test.file.startswith(room),
                test.seconds,
                test.test,
            )

        return sorted(chosen, key=rank)


def _reads_sources(test: TestCalls) -> bool:
    return test.test.startswith(READ_SOURCES)


def _is_or_contains(name: str, called: str) -> bool:
    return called == name or called.startswith(f"{name}.<locals>.")


def measure(workshop: Workshop, rooms: Iterable[str], kept: Path) -> Baseline:
    """Return the baseline of the tests of these rooms; test files that `kept` knows already are not run again."""
    folder = workshop.folder
    product = _digest(folder, (path for package in _PRODUCT for path in (folder / package).rglob("*.py")))
    known = json.loads(kept.read_text()) if kept.exists() else {}
    if known.get("product") != product:
        known = {"product": product, "files": {}}
    stale = {
        name: _digest(folder, [folder / name])
        for name in _test_files(folder, [*(f"tests/{room}" for room in rooms), *BESIDE])
        if known["files"].get(name, {}).get("digest") != _digest(folder, [folder / name])
    }
    if stale:
        print(f"measuring which functions the tests of {len(stale)} files call …", flush=True)
        calls = workshop.profiled(sorted(stale))
        for name, digest in stale.items():
            seen = [line for line in calls if line["test"].partition("::")[0] == name]
            known["files"][name] = {"digest": digest, "tests": seen}
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(json.dumps(known))
    tests = [
        test
        for name, entry in known["files"].items()
        if (folder / name).exists()
        for test in _tests_of((folder / name).read_text(), entry["tests"])
    ]
    if not tests:
        sys.exit("no test has passed on unchanged code: run the tests first")
    return Baseline(tests)


def _tests_of(source: str, lines: Sequence[Mapping[str, Any]]) -> list[TestCalls]:
    """The tests of one file. If they share what the first of them has computed, each depends on all calls."""
    functions = [frozenset[str](line["functions"]) for line in lines]
    if _SHARED.search(source):
        functions = [frozenset[str]().union(*functions)] * len(lines)
    return [TestCalls(line["test"], line["seconds"], each) for line, each in zip(lines, functions, strict=True)]


def _test_files(folder: Path, under: Sequence[str]) -> list[str]:
    found = {path.relative_to(folder).as_posix() for name in under for path in (folder / name).rglob("test_*.py")}
    reading = {test.partition("::")[0] for test in READ_SOURCES if (folder / test.partition("::")[0]).exists()}
    return sorted((found | reading) - set(LEFT_OUT))


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
