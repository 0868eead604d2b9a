"""The plug-in with clusters: shared ones, what a failed test leaves, what a passed one removes, and pytest-xdist."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devtools.pages.source import ROOT
from tests.shares import SHARES, only_nightly

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.xdist_group("pytest_plugin")

OPTIONS = ("-p", "understudy.pytest_plugin", "-p", "no:randomly")
TIMEOUT_S = 400
EXAMPLES = sorted((ROOT / "examples" / "testing").glob("test_*.py"))

SUITE = """
    import pytest

    from understudy.testing import leader_change

    def note(cluster, test):
        with open("runs.txt", "a") as runs:
            print(test, cluster.directory, cluster.local.zookeeper_connect.split("/")[0], file=runs)

    @pytest.mark.understudy(topics={"orders": 1}, scope="session")
    class TestOfOneCluster:
        def test_1_kills(self, understudy_cluster):
            note(understudy_cluster, "first")
            understudy_cluster.leader("orders").kill()
            understudy_cluster.wait_for(leader_change("orders"))
            understudy_cluster.assert_injected("kill", role="leader")

        def test_2_fails(self, understudy_cluster):
            note(understudy_cluster, "second")
            assert all(broker.is_running for broker in understudy_cluster.brokers)
            assert understudy_cluster.faults() == ()
            understudy_cluster.controller.pause()
            raise AssertionError("on purpose")

        def test_3_has_another(self, understudy_cluster):
            note(understudy_cluster, "third")

    @pytest.mark.understudy(brokers=1)
    def test_4_has_its_own(understudy_cluster):
        note(understudy_cluster, "fourth")
        understudy_cluster.controller.kill()
"""


def noted(pytester: pytest.Pytester) -> dict[str, tuple[Path, str]]:
    """The run folder and the ZooKeeper of each test of `SUITE`."""
    rows = [line.split() for line in (pytester.path / "runs.txt").read_text().splitlines()]
    return {test: (Path(folder), zookeeper) for test, folder, zookeeper in rows}


def test_shared_clusters_and_the_folders_of_failed_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess(*OPTIONS, timeout=TIMEOUT_S)
    result.assert_outcomes(passed=3, failed=1)
    runs = noted(pytester)
    folders = [runs[test][0] for test in ("first", "second", "third", "fourth")]
    assert folders[0] == folders[1], "two tests with the same arguments share a cluster"
    assert len(set(folders)) == 3, "a test after a failed one, and one with other arguments, have clusters of their own"
    assert len({zookeeper for _, zookeeper in runs.values()}) == 1, "all clusters share a ZooKeeper"
    assert [folder.exists() for folder in folders] == [True, True, False, False]
    fragment = r"#at=testbed\.1\.\d+&show=process:broker-\d&show=session:broker-\d"
    result.stdout.re_match_lines(
        [
            r"-+ understudy -+",
            rf"run folder: {folders[0]}",
            r"faults injected by the test:",
            r"  \d\d:\d\d:\d\d\.\d{3} UTC, after [\d.]+ m?s: pause broker-\d \(controller\)",
            rf"to check its invariants: understudy check {folders[0]}",
            rf"see it: {(folders[0] / 'run.html').as_uri()}{fragment}",
        ],
        consecutive=True,
    )
    assert result.stdout.str().count("run folder: ") == 1
    assert (folders[0] / "run.html").exists()


def test_kept_folders_are_printed_and_workers_of_xdist_have_clusters_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os

        import pytest

        @pytest.mark.understudy(brokers=1)
        @pytest.mark.parametrize("number", [1, 2])
        def test_it(understudy_cluster, number):
            with open(os.environ["PYTEST_XDIST_WORKER"] + ".zookeeper", "a") as file:
                print(understudy_cluster.local.zookeeper_connect.split("/")[0], file=file)
        """
    )
    result = pytester.runpytest_subprocess(
        *OPTIONS, "-n", "2", "--dist", "each", "--tx", "2*popen", "--understudy-keep", timeout=TIMEOUT_S
    )
    result.assert_outcomes(passed=4)
    folders = [Path(line.split()[2]) for line in result.stdout.lines if line.startswith("run folder: ")]
    assert len(set(folders)) == 4
    assert all(folder.is_dir() for folder in folders)
    addresses = [set(file.read_text().split()) for file in pytester.path.glob("gw*.zookeeper")]
    assert [len(each) for each in addresses] == [1, 1], "the clusters of a worker share a ZooKeeper"
    assert addresses[0].isdisjoint(addresses[1]), "each worker has a ZooKeeper of its own"


def test_a_cluster_that_does_not_start_fails_the_test_with_the_end_of_its_log(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.understudy(brokers=1, properties={"num.partitions": "many"})
        def test_it(understudy_cluster): pass
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, timeout=TIMEOUT_S)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the cluster of *.py::test_it has not started: broker-1 ended with exit code *"])
    assert "Invalid value many for configuration num.partitions" in result.stdout.str()


def test_a_test_whose_answer_was_never_given_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.understudy(brokers=1, scope="session")

        def test_never_given(understudy_cluster):
            understudy_cluster.controller.answer("Heartbeat", "REBALANCE_IN_PROGRESS")

        def test_fails_for_another_reason(understudy_cluster):
            understudy_cluster.controller.answer("Heartbeat", "REBALANCE_IN_PROGRESS")
            raise ValueError("on purpose")

        def test_of_another_cluster(understudy_cluster): pass
        """
    )
    result = pytester.runpytest_subprocess(*OPTIONS, timeout=TIMEOUT_S)
    result.assert_outcomes(passed=1, failed=2)
    missed = "AssertionError: answer: broker-1 received no request for answer-1: 1 × Heartbeat*"
    result.stdout.fnmatch_lines([f"*{missed}"])
    assert result.stdout.str().count("received no request") <= 3, "the second test has its own reason alone"


def test_the_whole_share_has_all_examples() -> None:
    assert SHARES["client-examples"].whole == len(EXAMPLES)


@only_nightly("client-examples")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_stock_clients_survive_the_errors_of_the_examples(example: Path, pytester: pytest.Pytester) -> None:
    """Slow, because a stock client waits before it tries again; it alone shows that the examples pass."""
    shutil.copy(example, pytester.path)
    result = pytester.runpytest_subprocess(*OPTIONS, "-n", "3", "-p", "no:warnings", timeout=TIMEOUT_S)
    outcomes = result.parseoutcomes()
    assert outcomes.keys() == {"passed"}
    assert outcomes["passed"] > 20


def test_the_examples_and_the_first_test_of_the_page_pass(pytester: pytest.Pytester) -> None:
    """All at once: they wait for their clusters, and for the brokers that they kill."""
    examples = sorted((ROOT / "examples" / "tests").glob("test_*.py"))
    for example in examples:
        shutil.copy(example, pytester.path)
    page = (ROOT / "docs" / "guides" / "testing-clients.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    (pytester.path / "test_my_client.py").write_text(code)
    result = pytester.runpytest_subprocess(
        *OPTIONS, "-n", "3", "--dist", "loadfile", "-p", "no:warnings", timeout=TIMEOUT_S
    )
    result.assert_outcomes(passed=2 * len(examples) + 1)
