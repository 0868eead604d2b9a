"""What the tests call where nothing is changed: measured once per test file, then read from a file.

A mutant is judged by the tests that call its function, the fastest first; other tests cannot notice it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.token_mutants.sites import Mutant
from tests.token_mutants.workshop import Workshop

BESIDE = ("tests/stories", "tests/brokers/apis", "tests/simulation")
"""The tests that follow those of the mutant's room."""
LEFT_OUT = ("tests/simulation/test_seeds.py", "tests/simulation/test_determinism.py")
"""Tests that run seeds: the seeds of the tool do, and say which check has noticed."""
READ_SOURCES = ("tests/simulation/test_switches.py::test_every_switch_is_asked_for_where_it_decides",)
"""Tests that notice a change without a call, because they read the code: they judge every mutant."""
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
        """The tests that can notice a mutant: those of its room, then the others, each kind the fastest first.

        Code that runs at import is left to all tests of its room that call its file, or to all of them.
        """
        short = [test for test in self.tests if test.seconds <= longest_s]
        reading = [test for test in short if test.test in READ_SOURCES]
        name = f"{mutant.file}:{mutant.function}"
        if mutant.function:
            calling = [test for test in short if any(_is_or_contains(name, each) for each in test.functions)]
        else:
            calling = [test for test in short if any(each.startswith(f"{mutant.file}:") for each in test.functions)]
            calling = calling or [test for test in short if test.file.startswith(f"tests/{mutant.room}/")]
        calling.sort(key=lambda test: (not test.file.startswith(f"tests/{mutant.room}/"), test.seconds, test.test))
        return [*calling, *(test for test in reading if test not in calling)]


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
        TestCalls(line["test"], line["seconds"], frozenset(line["functions"]))
        for name, entry in known["files"].items()
        if (folder / name).exists()
        for line in entry["tests"]
    ]
    if not tests:
        sys.exit("no test has passed where nothing is changed: run the tests first")
    return Baseline(tests)


def _test_files(folder: Path, under: Sequence[str]) -> list[str]:
    found = {path.relative_to(folder).as_posix() for name in under for path in (folder / name).rglob("test_*.py")}
    return sorted(found - set(LEFT_OUT))


def _digest(folder: Path, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
