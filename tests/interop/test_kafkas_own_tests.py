"""Apache Kafka's own integration tests pass with our brokers, or stand in docs/inside/fidelity.md with the reason.

`make interop` runs the classes that are quick, `make kafka-tests` all of them. A test that is listed with a reason has
to fail, so that the list cannot outlive the reason.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from devtools.judges.kafkas_own_tests import CLASS_TIMEOUT_S, KafkasTests, Outcome, build
from devtools.judges.tests_of_kafka import CLASSES, EXCEPTIONS, Exceptional, JudgedClass, reason_of
from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from understudy.clusters.processes.kafka_jars import NotFetched

FIDELITY = Path(__file__).parents[2] / "docs" / "inside" / "fidelity.md"
RUNS_ALL = os.environ.get("KAFKA_TESTS") == "all"


@pytest.fixture(scope="session")
def kafkas_tests(tmp_path_factory: pytest.TempPathFactory) -> KafkasTests:
    try:
        return build(tmp_path_factory.mktemp("kafkas-own-tests"))
    except NotFetched as why:
        skip_or_fail(why)


@pytest.mark.interop
@pytest.mark.timeout(TIMEOUT_S + CLASS_TIMEOUT_S)
@pytest.mark.parametrize("judged", [pytest.param(each, id=each.name) for each in CLASSES if each.is_quick or RUNS_ALL])
def test_kafkas_tests_pass_or_have_a_reason(kafkas_tests: KafkasTests, judged: JudgedClass) -> None:
    outcomes = [each for each in kafkas_tests.run(judged.name) if each.result != "started-no-broker"]
    log = kafkas_tests.brokers_log(judged.name)
    assert complaints(judged, outcomes) == [], f"the brokers' log: {log}"
    assert len(outcomes) == judged.tests


def complaints(judged: JudgedClass, outcomes: list[Outcome]) -> list[str]:
    """Every test that failed without a reason, or passed in spite of one."""
    found = []
    for outcome in outcomes:
        reason = reason_of(judged.name, outcome.test)
        if reason is None and not outcome.passed:
            found.append(f"{outcome.test} failed: {outcome.reason[:500]}")
        elif reason is not None and outcome.passed:
            found.append(f"{outcome.test} passed, but is listed: {reason.value}")
    missing = judged.exceptions() - {outcome.test for outcome in outcomes}
    return found + [f"{test} is listed, but there is no such test" for test in sorted(missing)]


def test_a_failure_without_a_reason_and_a_reason_without_a_failure_are_complaints() -> None:
    judged = next(each for each in CLASSES if each.exceptions())
    listed = [Outcome(test, "failed", 1, "") for test in sorted(judged.exceptions())]
    assert complaints(judged, [*listed, Outcome("testOther", "passed", 1, "")]) == []
    assert complaints(judged, [*listed, Outcome("testOther", "failed", 1, "X")]) == ["testOther failed: X"]
    assert len(complaints(judged, listed[1:])) == 1
    assert len(complaints(judged, [listed[0]._replace(result="passed"), *listed[1:]])) == 1


def section() -> str:
    """The section of docs/inside/fidelity.md about Kafka's own tests."""
    _, found = FIDELITY.read_text(encoding="utf-8").split("\n## Apache Kafka's own tests\n")
    return found.split("\n## ")[0]


def test_the_page_names_every_class_and_how_many_of_its_tests_pass() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (\d+) \| (\d+) \|$", section(), re.MULTILINE)
    assert [(name, int(tests), int(passed)) for name, tests, passed in rows] == [
        (each.name, each.tests, each.tests - len(each.exceptions())) for each in CLASSES
    ]


def test_the_page_lists_every_exception_under_its_reason() -> None:
    listed = {}
    for item in re.split(r"^- ", section(), flags=re.MULTILINE)[1:]:
        bold = re.match(r"\*\*(.+?)\*\*", item, re.DOTALL)
        assert bold is not None, item
        listed[" ".join(bold[1].split())] = set(re.findall(r"`(\w+Test\.\w+)`", item))
    assert listed == {reason.value: set(EXCEPTIONS[reason]) for reason in Exceptional}


def test_every_exception_is_of_a_class_that_is_run_and_has_one_reason() -> None:
    names = [name for tests in EXCEPTIONS.values() for name in tests]
    assert sorted(set(names)) == sorted(names)
    assert {name.partition(".")[0] for name in names} <= {each.short_name for each in CLASSES}
