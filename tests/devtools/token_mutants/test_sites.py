"""Tests of mutants: what may change in a file, what may not, and how mutants are drawn."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from devtools.pages.source import ROOT
from devtools.token_mutants.sites import Mutant, draw, enum_members, sites_of

MEMBERS = {"Role": ("LEADER", "FOLLOWER")}


def afters(source: str) -> list[str]:
    """The changed line of every mutant of a source."""
    return [mutant.after for site in sites_of("controller/a.py", source, MEMBERS) for mutant in site]


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a == b", ["a != b"]),
        ("a and b", ["a or b"]),
        ("not a", ["a"]),
        ("a in b", ["a not in b"]),
        ("a not in b", ["a  in b"]),
        ("a is b", ["a is not b"]),
        ("a is not b", ["a is  b"]),
        ("a - b", ["a + b"]),
        ("a += b", ["a -= b"]),
        ("a | b", ["a & b"]),
        ("x = True", ["x = False"]),
        ("x = 1_000", ["x = 1001", "x = 999"]),
        ("min(a, b)", ["max(a, b)"]),
        ("any(a)", ["all(a)"]),
        ("x = Role.LEADER", ["x = Role.FOLLOWER"]),
    ],
)
def test_a_token_and_what_it_becomes(line: str, changed: list[str]) -> None:
    assert afters(line) == changed


@pytest.mark.parametrize(
    "line",
    [
        "x: int | None",
        "X: TypeAlias = int | None",
        "def f(x: int | None) -> int | None: ...",
        "@dataclass(frozen=True)\nclass A: ...",
        "class A(Struct, frozen=True): ...",
        "log.info('more than %s', 1 + a)",
        "self._log.error(a and b)",
        "raise ValueError(a + b)",
        "x = f'{a + b}'",
        "x = 'a < b'",
        "x = 1.5",
        "x = other.LEADER",
        "min = a",
    ],
)
def test_what_no_run_depends_on_is_left_out(line: str) -> None:
    assert afters(line) == []


def test_the_condition_of_a_raised_exception_may_change() -> None:
    assert afters("if a > 1:\n    raise ValueError(a > 2)") == ["if a >= 1:", "if a <= 1:", "if a > 2:", "if a > 0:"]


def test_columns_are_those_of_characters() -> None:
    assert afters("x = 'é', a < b  # ≤") == ["x = 'é', a <= b  # ≤", "x = 'é', a >= b  # ≤"]
    assert afters("x = 'é'; raise ValueError(a < b)") == []


def test_a_mutant_names_its_function_and_the_place_in_it() -> None:
    source = """
class A:
    limit = 1
    def f(self, b=2):
        x = 3
        def g():
            return 4
        x = 3
"""
    places = {(site[0].before, site[0].function, site[0].nth) for site in sites_of("controller/a.py", source, MEMBERS)}
    assert places == {
        ("limit = 1", "", 1),
        ("def f(self, b=2):", "", 1),
        ("x = 3", "A.f", 1),
        ("return 4", "A.f.<locals>.g", 1),
        ("x = 3", "A.f", 2),
    }


def test_a_mutant_is_applied_to_its_line_only() -> None:
    source = "x = 1\ndef f():\n    return 1\n"
    *_, site = sites_of("controller/a.py", source, MEMBERS)
    assert site[0].applied_to(source) == "x = 1\ndef f():\n    return 2\n"
    with pytest.raises(ValueError, match="draw again"):
        site[0].applied_to("\n" + source)


# ------------------------------------------------------------------ drawing


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for folder in ("foundation", "controller", "brokers/replication"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "controller/a.py").write_text(
        "def f(a, b):\n    for x in a:\n        if x < b + 1:\n            return x\n"
    )
    return tmp_path


def test_a_seed_draws_the_same_mutants_again(repository: Path) -> None:
    assert list(draw(repository, 1)) == list(draw(repository, 1))
    assert [mutant.change for mutant in draw(repository, 1)] != [mutant.change for mutant in draw(repository, 2)]


def test_other_code_leaves_the_mutants_that_are_drawn(repository: Path) -> None:
    before = [mutant.key for mutant in draw(repository, 1)]
    (repository / "controller/a.py").write_text("y = 5\n\n" + (repository / "controller/a.py").read_text())
    assert [mutant.key for mutant in draw(repository, 1) if mutant.function] == before


def test_mutants_that_do_not_compile_or_change_nothing_are_not_drawn(repository: Path) -> None:
    """`for x not in a` is no Python, and the constant of `if 1:` is not in the compiled code."""
    assert sorted(mutant.before for mutant in draw(repository, 1)) == ["if x < b + 1:"] * 3
    (repository / "controller/a.py").write_text("def f():\n    while 1:\n        g()\n")
    assert {mutant.after for mutant in draw(repository, 1)} <= {"while 0:"}


def test_mutants_are_drawn_from_the_product() -> None:
    assert "OFFLINE" in enum_members(ROOT)["PartitionState"]
    found: list[Mutant] = list(islice(draw(ROOT, 1, "controller/leader_election.py"), 5))
    assert len(found) == 5
    assert {mutant.file for mutant in found} == {"controller/leader_election.py"}
