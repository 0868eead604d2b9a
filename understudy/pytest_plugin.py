"""The pytest plug-in: the fixture `understudy_cluster` and the marker `understudy`, for tests of Kafka clients.

    @pytest.mark.understudy(brokers=3, topics={"orders": 1})
    def test_the_client_goes_on(understudy_cluster):
        understudy_cluster.controller.kill()

pytest loads it by its entry point; no other module imports it. It loads the rest of the product when a test first uses
the fixture. See docs/guides/testing-clients.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from understudy.clusters.testing.arguments import ClusterArguments
    from understudy.clusters.testing.cluster_pool import ClusterPool, Loan
    from understudy.testing import ClusterUnderTest

SECTION = "understudy"
"""The title of the section in the report of a failed test."""
MARKER = (
    "understudy(brokers=3, racks=None, topics=None, session_timeout_ms=3000, properties=None, proxied=False, "
    "scope='function'): the cluster of the fixture understudy_cluster; with scope='session', tests with the same "
    "arguments share it"
)

_SIMULATED = "understudy.testing.simulated_tests.decorator"
"""The module that declares simulated tests."""

_POOL: pytest.StashKey[ClusterPool] = pytest.StashKey()
_LOAN: pytest.StashKey[Loan] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("understudy")
    group.addoption(
        "--understudy-keep",
        action="store_true",
        help="also keep the run folders of passed tests, and print their paths",
    )
    group.addoption(
        "--understudy-seeds",
        metavar="N",
        help="run each simulated test for N seeds, instead of its own number (UNDERSTUDY_SEEDS)",
    )
    group.addoption(
        "--understudy-seed",
        metavar="N",
        help="run simulated tests for seed N only, as the report of a failure says (UNDERSTUDY_SEED)",
    )
    group.addoption(
        "--understudy-page",
        metavar="DIR",
        help="write the event logs and the page of a simulated test's failing run into DIR (UNDERSTUDY_PAGE)",
    )
    group.addoption(
        "--understudy-workers",
        metavar="N",
        help="run seeds in at most N processes at a time; by default as many as there are cores (UNDERSTUDY_WORKERS)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Register the plug-in that runs simulated tests, if a module has declared any."""
    if _SIMULATED not in sys.modules:
        return
    from understudy.testing.simulated_tests.arguments import BadArguments  # noqa: PLC0415  when a test uses it
    from understudy.testing.simulated_tests.workers.pytest_side import register  # noqa: PLC0415  when a test uses it

    try:
        register(session)
    except BadArguments as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture
def understudy_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterUnderTest]:
    """A cluster of broker processes with a real ZooKeeper, as the marker `understudy` describes it: three brokers
    without it. Its run folder is removed if the test passes."""
    from understudy.clusters.cluster import ClusterError  # noqa: PLC0415  when a test uses it
    from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted  # noqa: PLC0415  when a test uses it

    arguments = _arguments(request.node)
    pool = _pool(request.config, tmp_path_factory)
    try:
        loan = pool.lend(arguments, request.node.name)
    except (ClusterError, ZooKeeperNotStarted) as error:
        pytest.fail(f"the cluster of {request.node.nodeid} has not started: {error}", pytrace=False)
    request.node.stash[_LOAN] = loan
    yield loan.cluster
    pool.give_back(loan)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that has armed an answer which its cluster never gave."""
    yield
    loan = item.stash.get(_LOAN, None)
    if loan is not None:
        loan.cluster.assert_answers_given()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a section to the report of a failed test, and remove the run folder after a passed one."""
    report = yield
    loan = item.stash.get(_LOAN, None)
    if loan is None:
        return report
    pool = item.config.stash[_POOL]
    if report.failed:
        loan.failed = loan.keep = True
    if report.failed or (loan.keep and report.when == "call"):
        report.sections.append((SECTION, _described(loan, call)))
    if report.when == "teardown":
        pool.give_back(loan)  # a shared cluster whose test has failed only in its teardown
        pool.remove_folder(loan)
        del item.stash[_LOAN]
    return report


def _described(loan: Loan, call: pytest.CallInfo[None]) -> str:
    """Describe the run of a test; if it has failed while its cluster was there, also with the page of the run."""
    from understudy.clusters.testing.run_faults import describe_run  # noqa: PLC0415  when a test uses it
    from understudy.testing.process_tests.failure import describe_failure  # noqa: PLC0415  when a test uses it

    if call.excinfo is not None and call.when == "call":
        return describe_failure(loan.cluster, call.excinfo.exconly(tryshort=True).partition("\n")[0])
    return describe_run(loan.cluster.directory)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """With `--understudy-keep`, print the sections of passed tests, which pytest itself does not print."""
    if not config.getoption("--understudy-keep"):
        return
    for report in terminalreporter.getreports("passed"):
        for title, text in report.sections:
            if title == SECTION:
                terminalreporter.section(f"{SECTION}: {report.nodeid}", sep="-")
                terminalreporter.line(text)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End all clusters and ZooKeeper."""
    pool = session.config.stash.get(_POOL, None)
    if pool is not None:
        pool.close()


def _arguments(item: pytest.Item) -> ClusterArguments:
    """Merge the arguments of the markers of a test; those nearer to the test override others."""
    from understudy.clusters.testing.arguments import BadArguments, ClusterArguments  # noqa: PLC0415  when a test uses it

    merged: dict[str, Any] = {}
    for marker in reversed(list(item.iter_markers("understudy"))):
        if marker.args:
            pytest.fail(
                f"{item.nodeid}: the arguments of the marker understudy have names, as in "
                f"understudy(brokers=5); found {marker.args[0]!r}",
                pytrace=False,
            )
        merged.update(marker.kwargs)
    try:
        return ClusterArguments.of(merged)
    except BadArguments as error:
        pytest.fail(f"{item.nodeid}: the marker understudy: {error}", pytrace=False)


def _pool(config: pytest.Config, folders: pytest.TempPathFactory) -> ClusterPool:
    """Return the pool of this process; the first call creates it."""
    from understudy.clusters.testing.cluster_pool import ClusterPool  # noqa: PLC0415  when a test uses it

    if _POOL not in config.stash:
        config.stash[_POOL] = ClusterPool(
            lambda test: folders.mktemp(f"understudy-{re.sub(r'[^0-9A-Za-z_]', '_', test)[:40]}"),
            keep=config.getoption("--understudy-keep"),
        )
    return config.stash[_POOL]
