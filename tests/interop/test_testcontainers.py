"""The example suites of testcontainers in four languages pass with our image in place of Kafka's.

Slow because each starts containers, one after the other and in a cluster. They alone see that the scripts which the
modules write and call are in the image. They are skipped, with the reason, if there is no Docker engine, no toolchain,
or packages cannot be fetched; `REQUIRE_DOCKER=1` and `REQUIRE_CLIENT_SUITES=1` turn that into a failure.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.judges.client_suites import fetch, find_go, find_program, run_to_end
from devtools.pages.source import ROOT
from tests.compose.compose_cluster import run
from tests.compose.conftest import image as image  # the fixture
from tests.interop.test_examples import prepared

pytestmark = [
    pytest.mark.interop,
    pytest.mark.docker,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("compose"),
]

SUITE_TIMEOUT_S = 600


@pytest.fixture(scope="module")
def tagged(image: str) -> Iterator[str]:
    """The image with the tag of a version of cp-kafka, which some modules ask for."""
    name = f"{image}:7.9.0"
    run(["docker", "tag", image, name], ROOT, 60)
    yield name
    run(["docker", "image", "rm", name], ROOT, 60)


def in_a_copy(language: str, tmp_path: Path) -> Path:
    """A copy of an example, which is built there."""
    return Path(shutil.copytree(ROOT / "examples" / "testcontainers" / language, tmp_path / language))


def output_of(command: list[str], folder: Path, tagged: str) -> str:
    """Return what a suite printed. Fails the test if the suite failed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {"UNDERSTUDY_IMAGE": tagged, "TESTCONTAINERS_RYUK_DISABLED": "true"}
    found = run_to_end(command, cwd=folder, timeout_s=SUITE_TIMEOUT_S, environment=environment)
    assert found.code == 0, found.output[-4000:]
    return found.output


def test_the_suite_in_python(tagged: str, tmp_path: Path) -> None:
    folder = in_a_copy("python", tmp_path)
    output = output_of([sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", ".", "-q"], folder, tagged)
    assert "3 passed" in output


def test_the_suite_in_java(tagged: str, tmp_path: Path) -> None:
    folder = in_a_copy("java", tmp_path)
    prepared(lambda: fetch([find_program("mvn", "Maven"), "-B", "-q", "dependency:resolve"], cwd=folder))
    output_of(["mvn", "-B", "test"], folder, tagged)
    reports = list((folder / "target" / "surefire-reports").glob("TEST-*.xml"))
    assert [report.read_text(encoding="utf-8").count("<testcase ") for report in reports] == [6]


def test_the_suite_in_go(tagged: str, tmp_path: Path) -> None:
    folder = in_a_copy("go", tmp_path)
    prepared(lambda: fetch([find_go(), "mod", "download"], cwd=folder))
    assert output_of(["go", "test", "-v", "-count=1", "./..."], folder, tagged).count("--- PASS: ") == 2


def test_the_suite_in_node(tagged: str, tmp_path: Path) -> None:
    folder = in_a_copy("node", tmp_path)
    install = ["install", "--no-audit", "--no-fund"]
    prepared(lambda: fetch([find_program("npm", "Node, 20 or newer"), *install], cwd=folder))
    assert "# pass 3" in output_of(["node", "--test"], folder, tagged)
