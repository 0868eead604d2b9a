"""Tests of `devtools.behaviours`: it reads every behaviour, and reports those without a test."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from devtools.behaviours import ROOT, Behaviour, Marks, behaviours, explained, problems, table, waiting_ids

KNOWN = [Behaviour("AB-1", "one", "U"), Behaviour("AB-2", "two", "W"), Behaviour("CD-1", "three", "S")]


def test_every_behaviour_is_read_and_ids_are_unique() -> None:
    page = (ROOT / "docs/reference/behaviours.md").read_text()
    items = [line for line in page.splitlines() if re.match(r"\W*[A-Z]{2,3}-\d", line)]
    assert len(behaviours()) == len(items) == 338
    assert [behaviour for behaviour, count in Counter(row.id for row in behaviours()).items() if count > 1] == []
    assert {row.level for row in behaviours()} == {"values", "ZooKeeper", "wire", "brokers", "Kafka"}
    assert all(row.text.endswith(".") for row in behaviours())


def test_ids_that_wait_for_records_exist() -> None:
    assert waiting_ids() <= {row.id for row in behaviours()}
    assert "BK-3" in waiting_ids()


def test_explained_ids_are_read_from_the_page() -> None:
    assert {"BUG-9", "IS-11", "ZC-5"} <= explained()


def test_collected_tests_are_kept_by_behaviour() -> None:
    class Item:
        def __init__(self, nodeid: str, *marks: tuple[str, ...]) -> None:
            self.nodeid = nodeid
            self.marks = [pytest.mark.spec(*mark).mark for mark in marks]

        def iter_markers(self, name: str) -> list[pytest.Mark]:
            assert name == "spec"
            return self.marks

    marks = Marks()
    items = [
        Item("a.py::x[1]", ("AB-1", "AB-2")),
        Item("a.py::x[2]", ("AB-1", "AB-2")),
        Item("b.py::y", ("AB-1",)),
        Item("c::z"),
    ]
    marks.pytest_collection_modifyitems(items)  # type: ignore[arg-type]  # what it asks of an item
    assert marks.tests == {"AB-1": ["a.py::x", "b.py::y"], "AB-2": ["a.py::x"]}


@pytest.mark.parametrize(
    ("tests", "waiting", "fidelity"),
    [
        ({"AB-1": ["x"], "AB-2": ["x"], "CD-1": ["y"]}, (), ()),
        ({"AB-1": ["x"]}, ("AB-2",), ("CD-1",)),
        # Invariants, rules of the design and Kafka's issues have families of their own.
        ({"AB-1": ["x"], "P1": ["x"], "KAFKA-1": ["x"], "D14": ["y"]}, ("AB-2", "CD-1"), ("EF-1",)),
    ],
)
def test_ids_with_tests_or_explanations_are_no_problem(
    tests: dict[str, list[str]], waiting: tuple[str, ...], fidelity: tuple[str, ...]
) -> None:
    assert problems(KNOWN, tests, waiting, fidelity) == []


def test_ids_without_tests_and_unknown_ids_are_reported() -> None:
    found = problems(KNOWN, {"AB-1": ["x"], "AB-2": [], "AB-9": ["x"]}, ["CD-8"], ["AB-3"])
    bare = "no test names it, it is not waiting, and docs/inside/fidelity.md does not explain it"
    assert found == [
        f"AB-2: {bare}",
        f"CD-1: {bare}",
        "AB-9: named, but not in docs/reference/behaviours.md",
        "CD-8: named, but not in docs/reference/behaviours.md",
    ]


def test_table_lists_the_tests_of_each_behaviour() -> None:
    tests = {"AB-1": ["a.py::x", "b.py::y"], "AB-2": ["a.py::x"]}
    lines = [line.split() for line in table(KNOWN, tests, ["AB-2"], ["AB-2"])]
    assert lines == [
        ["AB-1", "U", "one", "2", "tests,", "a.py::x"],
        ["AB-2", "W", "two", "a.py::x;", "waits;", "docs/inside/fidelity.md"],
        ["CD-1", "S", "three", "-"],
    ]
