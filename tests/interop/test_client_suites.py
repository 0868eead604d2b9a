"""The tests that stock clients bring along pass with our brokers, or stand in docs/inside/fidelity.md with the reason.

`make client-suites` runs them: `CLIENT_SUITES=all`. If a program that fetches or builds a suite is missing, that
suite is skipped; `REQUIRE_CLIENT_SUITES=1` turns the skip into a failure.
"""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from devtools.judges.client_suites import (
    BUILD_TIMEOUT_S,
    FETCH_TIMEOUT_S,
    SUITE_TIMEOUT_S,
    SUITES,
    Suite,
    cluster_for,
    of_cases,
    of_go,
    of_librdkafka,
)
from devtools.judges.tests_of_clients import ClientTests, Left
from understudy.clusters.processes.kafka_jars import NotFetched

FIDELITY = Path(__file__).parents[2] / "docs" / "inside" / "fidelity.md"
ALL = [suite.tests for suite in SUITES.values()]


@pytest.mark.interop
@pytest.mark.timeout(2 * FETCH_TIMEOUT_S + BUILD_TIMEOUT_S + SUITE_TIMEOUT_S)
@pytest.mark.skipif(os.environ.get("CLIENT_SUITES") != "all", reason="only `make client-suites` runs them")
@pytest.mark.parametrize("client", SUITES)
def test_the_tests_of_a_client_pass(client: str, tmp_path: Path) -> None:
    suite = SUITES[client](tmp_path)
    try:
        suite.prepare()
    except NotFetched as why:
        if os.environ.get("REQUIRE_CLIENT_SUITES") == "1":
            pytest.fail(f"REQUIRE_CLIENT_SUITES=1, but {why}")
        pytest.skip(f"the tests of {client}: {why}")
    assert unlisted(suite) == set()
    with cluster_for(suite.tests, tmp_path / "run") as cluster:
        outcomes = suite.run(cluster.bootstrap, suite.tests.run)
    assert [outcome for outcome in outcomes if outcome.result != "passed"] == []
    assert [outcome.test for outcome in outcomes] == list(suite.tests.run)


def unlisted(suite: Suite) -> set[str]:
    """The tests in the sources that are neither run nor left out, and those listed that are not in the sources."""
    return suite.asking() ^ {name.partition("/")[0] for name in (*suite.tests.run, *suite.tests.all_left())}


@pytest.mark.parametrize("tests", [pytest.param(each, id=each.client) for each in ALL])
def test_a_test_is_either_run_or_left_out_for_one_reason(tests: ClientTests) -> None:
    names = [*tests.run, *tests.all_left()]
    assert sorted(set(names)) == sorted(names)


def test_a_suite_without_its_program_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for client, program in (("franz-go", "go"), ("sarama", "go"), ("librdkafka", "cargo")):
        with pytest.raises(NotFetched, match=f"no {program} on the PATH; install "):
            SUITES[client](tmp_path).prepare()


def test_go_prints_the_outcomes_of_several_tests() -> None:
    output = "--- PASS: TestPing (0.01s)\n    --- FAIL: TestIssue1/sticky (0.1s)\n--- FAIL: TestIssue1 (0.2s)\n"
    output += "--- SKIP: TestPooling (0.00s)\n"
    tests = ("TestPing", "TestIssue1", "TestPooling", "TestIssue")
    assert [of_go(test, output).result for test in tests] == ["passed", "failed", "skipped", "failed"]


def test_librdkafka_passes_a_part_of_a_test_only_where_it_was_run() -> None:
    passed = "===== Test 0081_admin PASSED =====\n"
    ran = "[ do_test_CreateTopics:101: main queue: PASS (0.00s) ]\n"
    part = "0081_admin/do_test_CreateTopics"
    assert of_librdkafka("0081_admin", passed).result == "passed"
    assert of_librdkafka(part, passed).result == "skipped"
    assert of_librdkafka(part, ran + passed).result == "passed"
    assert of_librdkafka(part, ran + passed.replace("PASSED", "FAILED")).result == "failed"
    assert of_librdkafka("0001_multiobj", "Segmentation fault").result == "failed"


@pytest.mark.parametrize(
    ("cases", "result"),
    [
        ("<testcase/><testcase/>", "passed"),
        ("<testcase/><testcase><failure>AssertionError</failure></testcase>", "failed"),
        ("<testcase/><testcase><skipped>no codec</skipped></testcase>", "skipped"),
        ("<testcase><skipped/></testcase><testcase><error/></testcase>", "failed"),
        ("", "failed"),
    ],
)
def test_pytest_reports_every_case_of_a_test(cases: str, result: str) -> None:
    assert of_cases("test_x", ElementTree.fromstring(f"<suite>{cases}</suite>")).result == result


def section() -> str:
    """The section of docs/inside/fidelity.md about the tests of clients."""
    _, found = FIDELITY.read_text(encoding="utf-8").split("\n## Tests of stock clients\n")
    return found.split("\n## ")[0]


def test_the_page_names_every_client_and_how_many_of_its_tests_pass() -> None:
    rows = re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| .+ \| (\d+) \| (\d+) \|$", section(), re.MULTILINE)
    assert rows == [
        (each.client, each.version, str(len(each.run) + len(each.all_left())), str(len(each.run))) for each in ALL
    ]


def test_the_page_lists_every_test_that_is_left_out_under_its_reason() -> None:
    listed = {}
    for item in re.split(r"^- ", section(), flags=re.MULTILINE)[1:]:
        bold = re.match(r"\*\*(.+?)\*\*", item, re.DOTALL)
        assert bold is not None, item
        listed[" ".join(bold[1].split())] = set(re.findall(r"`((?:test_|Test|\d{4}_)[\w/]+)`", item))
    assert listed == {reason.value: {name for each in ALL for name in each.left.get(reason, ())} for reason in Left}
