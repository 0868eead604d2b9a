"""The example suites of clients in other languages pass against a cluster with a control port.

They are skipped, with the reason, if their toolchain is missing or their packages cannot be fetched;
`REQUIRE_CLIENT_SUITES=1` turns the skip into a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from devtools.judges.client_suites import fetch, find_program, run_to_end
from devtools.pages.source import ROOT
from tests.shares import at_night
from understudy.clusters.control.server import ControlServer
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.clusters.processes.local_cluster import LocalCluster

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("example suites"),
]

SUITE_TIMEOUT_S = 400


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The run folder of a cluster with a control port."""
    folder = tmp_path_factory.mktemp("run")
    with (
        LocalCluster(3, directory=folder, session_timeout_ms=3_000) as cluster,
        ControlServer(cluster, report=print),
    ):
        yield folder


def in_a_copy(name: str, tmp_path: Path) -> Path:
    """A copy of an example, which is built there."""
    return Path(shutil.copytree(ROOT / "examples" / name, tmp_path / name))


def prepared(prepare: Callable[[], object]) -> None:
    """Fetch what a suite needs; skip or fail if it cannot be fetched."""
    try:
        prepare()
    except NotFetched as why:
        if os.environ.get("REQUIRE_CLIENT_SUITES") == "1":
            pytest.fail(f"REQUIRE_CLIENT_SUITES=1, but {why}")
        pytest.skip(f"example suites: {why}")


def output_of(command: Sequence[str], folder: Path, run: Path) -> str:
    """Return what a suite printed. Fails the test if the suite failed."""
    environment = {**os.environ, "UNDERSTUDY_RUN": str(run)}
    found = run_to_end(command, cwd=folder, timeout_s=SUITE_TIMEOUT_S, environment=environment)
    assert found.code == 0, found.output[-4000:]
    return found.output


def test_the_suite_in_go(run: Path, tmp_path: Path) -> None:
    folder = in_a_copy("go", tmp_path)
    prepared(lambda: fetch([find_program("go", "a Go toolchain, 1.26 or newer"), "mod", "download"], cwd=folder))
    output = output_of(["go", "test", "-v", "-count=1", "./..."], folder, run)
    assert output.count("--- PASS: ") == 2


@at_night("the suite in Go starts and ends a cluster by the same commands")
def test_the_suite_in_java(run: Path, tmp_path: Path) -> None:
    folder = in_a_copy("java", tmp_path)
    prepared(lambda: fetch([find_program("mvn", "Maven"), "-B", "-q", "dependency:resolve"], cwd=folder))
    output_of(["mvn", "-B", "test"], folder, run)
    reports = list((folder / "target" / "surefire-reports").glob("TEST-*.xml"))
    assert [report.read_text(encoding="utf-8").count("<testcase ") for report in reports] == [2]
