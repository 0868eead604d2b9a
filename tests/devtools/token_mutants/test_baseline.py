"""Which tests judge a mutant, in which order."""

from __future__ import annotations

from devtools.token_mutants import calls
from devtools.token_mutants.baseline import READ_SOURCES, Baseline, TestCalls, _tests_of
from devtools.token_mutants.sites import Mutant
from understudy.controller.leader_election import offline_partition_leader

F = "controller/a.py:A.f"
BASELINE = Baseline(
    [
        TestCalls("tests/simulation/test_x.py::fast", 0.1, frozenset({F})),
        TestCalls("tests/controller/test_a.py::slow", 2.0, frozenset({F})),
        TestCalls("tests/controller/test_a.py::fast", 0.5, frozenset({f"{F}.<locals>.g"})),
        TestCalls("tests/controller/test_a.py::other", 0.1, frozenset({"controller/a.py:A.ff"})),
        TestCalls("tests/controller/test_b.py::elsewhere", 0.1, frozenset({"controller/b.py:f"})),
    ]
)


def judges_of(file: str, function: str, longest_s: float = 3) -> list[str]:
    mutant = Mutant(file=file, function=function, before="1", after="2", nth=1, line=1, change="1 → 2")
    return [test.test.removeprefix("tests/") for test in BASELINE.tests_for(mutant, longest_s)]


def test_tests_of_the_room_come_first_and_the_fastest_of_them() -> None:
    found = judges_of("controller/a.py", "A.f")
    assert found == ["controller/test_a.py::fast", "controller/test_a.py::slow", "simulation/test_x.py::fast"]


def test_tests_that_take_too_long_are_left_out() -> None:
    assert judges_of("controller/a.py", "A.f", 1) == ["controller/test_a.py::fast", "simulation/test_x.py::fast"]


def test_code_that_runs_at_import_is_judged_by_all_tests_and_first_by_those_that_call_its_file() -> None:
    first, *others = judges_of("controller/b.py", "")
    assert first == "controller/test_b.py::elsewhere"
    assert len(others) == 4


def test_tests_that_read_the_code_judge_every_mutant() -> None:
    name = READ_SOURCES[0]
    baseline = Baseline([TestCalls(name, 0.1, frozenset()), *BASELINE.tests])
    mutant = Mutant(file="controller/a.py", function="A.h", before="1", after="2", nth=1, line=1, change="1 → 2")
    assert [test.test for test in baseline.tests_for(mutant, 3)] == [name]


def test_tests_that_share_their_work_depend_on_all_its_calls() -> None:
    lines = [{"test": "a", "seconds": 1, "functions": [F]}, {"test": "b", "seconds": 0, "functions": []}]
    assert [sorted(test.functions) for test in _tests_of("def test_a(): ...", lines)] == [[F], []]
    assert [sorted(test.functions) for test in _tests_of("@cache\ndef lines(): ...", lines)] == [[F], [F]]


def test_a_function_that_no_test_calls_is_judged_by_seeds_alone() -> None:
    assert judges_of("controller/a.py", "A.h") == []


def test_calls_are_those_of_the_rooms() -> None:
    seen = calls.functions([offline_partition_leader.__code__, test_calls_are_those_of_the_rooms.__code__, "built in"])
    assert seen == ["controller/leader_election.py:offline_partition_leader"]
