"""Tests that the programs of examples/simulated pass, in a project of their own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.shares import share_of

pytest_plugins = ["pytester"]

PROGRAMS = sorted((Path(__file__).parents[4] / "examples" / "simulated").glob("test_*.py"))
TIMEOUT_S = 900


@pytest.mark.representative("programs in virtual time")
def test_each_program_passes_with_simulated_brokers(pytester: pytest.Pytester) -> None:
    """Slow, because it runs a virtual minute of each program; it alone shows that the examples pass."""
    for program in PROGRAMS:
        shutil.copy(program, pytester.path)
    seeds = share_of("example-programs")
    result = pytester.runpytest_subprocess(
        *("-p", "understudy.pytest_plugin", "-p", "no:randomly", "-p", "no:warnings", "-rs"),
        *("--understudy-seeds", str(seeds)),
        timeout=TIMEOUT_S,
    )
    outcomes = result.parseoutcomes()
    assert outcomes.keys() <= {"passed", "skipped"}
    assert outcomes["passed"] >= len(PROGRAMS) - outcomes.get("skipped", 0)


def test_each_program_has_a_place_in_the_overview() -> None:
    overview = (PROGRAMS[0].parent / "README.md").read_text()
    assert [each.name for each in PROGRAMS if f"({each.name})" not in overview] == []
