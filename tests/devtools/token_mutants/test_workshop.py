"""A mutant is judged in a copy, and leaves neither the copy nor the repository changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.token_mutants import workshop as workshops
from devtools.token_mutants.sites import Mutant, sites_of
from devtools.token_mutants.workshop import Verdict, Workshop, first_workshop

SOURCE = "def limit():\n    return 1\n"
TEST = "import os\nfrom controller import limit\n\n\ndef test_limit():\n    assert limit.limit() == 1\n"
SEEDS = "import sys\nprint('seed 1: C1 two controllers')\nsys.exit(1)\n"


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    files = {
        "controller/limit.py": SOURCE,
        "tests/test_limit.py": TEST,
        "tests/test_nothing.py": "def test_nothing(): ...\n",
        "devtools/token_mutants/seeds.py": SEEDS,
        ".gitignore": "ignored\n",
        "ignored": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    with first_workshop(tmp_path) as first:
        yield first
        assert (tmp_path / "controller/limit.py").read_text() == SOURCE
    assert not first.folder.exists()


@pytest.fixture
def mutant() -> Mutant:
    ((two, _),) = sites_of("controller/limit.py", SOURCE, {})
    return two


def judge(workshop: Workshop, mutant: Mutant, *tests: str) -> Verdict:
    verdict = workshop.judge(mutant, tests, 1, range(1, 2), 30)
    assert (workshop.folder / mutant.file).read_text() == SOURCE
    return verdict


def test_the_copy_has_what_git_knows_or_would_add(workshop: Workshop) -> None:
    assert (workshop.folder / "controller/limit.py").exists()
    assert not (workshop.folder / "ignored").exists()


def test_a_test_that_fails_has_noticed_the_mutant(workshop: Workshop, mutant: Mutant) -> None:
    tests = ("tests/test_nothing.py::test_nothing", "tests/test_limit.py::test_limit")
    assert judge(workshop, mutant, *tests) == Verdict("tests", "tests/test_limit.py::test_limit")


def test_a_test_whose_name_contains_the_value_that_is_changed_is_run(workshop: Workshop, mutant: Mutant) -> None:
    named = "import pytest\nfrom controller import limit\n\n\n"
    named += "@pytest.mark.parametrize('n', [limit.limit()])\ndef test_named(n):\n    assert n == {}\n"
    file = workshop.folder / "tests/test_named.py"
    file.write_text(named.format("limit.limit()"))
    assert judge(workshop, mutant, "tests/test_named.py::test_named[1]").step == "seeds"
    file.write_text(named.format(1))
    assert judge(workshop, mutant, "tests/test_named.py::test_named[1]").by == "tests/test_named.py::test_named[2]"


def test_seeds_judge_what_tests_do_not_notice(workshop: Workshop, mutant: Mutant) -> None:
    found = judge(workshop, mutant, "tests/test_nothing.py::test_nothing")
    assert found == Verdict("seeds", "seed 1: C1 two controllers")


def test_a_mutant_that_nothing_notices_has_survived(workshop: Workshop, mutant: Mutant) -> None:
    (workshop.folder / "devtools/token_mutants/seeds.py").write_text("")
    assert judge(workshop, mutant) == Verdict("survived")


def test_a_mutant_that_does_not_end_is_noticed(
    workshop: Workshop, mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workshop.folder / "devtools/token_mutants/seeds.py").write_text("while True: pass\n")
    monkeypatch.setattr(workshops, "SEED_TIMEOUT_S", 0.2)
    assert judge(workshop, mutant).by == "no end within 0.2 s"


def test_a_module_that_cannot_be_imported_is_noticed(workshop: Workshop, mutant: Mutant) -> None:
    (workshop.folder / "tests/test_limit.py").write_text("from controller import limit\n1 / (limit.limit() - 2)\n")
    assert judge(workshop, mutant, "tests/test_limit.py").step == "tests"


def test_a_copy_of_a_workshop_is_apart_from_it(workshop: Workshop, mutant: Mutant) -> None:
    other = workshop.copy(workshop.folder.parent / "1")
    (other.folder / "controller/limit.py").write_text("")
    assert (workshop.folder / "controller/limit.py").read_text() == SOURCE
