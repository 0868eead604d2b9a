"""Tests of the probes for a Docker engine, with scripts in place of the docker client."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import docker_engine
from tests.docker_engine import base_image, skip_or_fail, why_no_base_image, why_no_compose, why_no_engine

ROOT = Path(__file__).resolve().parents[2]
ANSWERS = 'case "$1" in version|compose) exit 0;; esac\n'
"""A client with an engine and the compose plugin."""


class FakeDocker:
    """The only program on the PATH is `docker`, a shell script."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = folder / "docker"

    def write(self, script: str) -> None:
        self.client.write_text(f"#!/bin/sh\n{script}")
        self.client.chmod(0o755)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDocker]:
    """Create a docker client from a script; the cached results of the probes are cleared before and after the test."""
    monkeypatch.setenv("PATH", str(tmp_path))
    probes = (why_no_engine, why_no_compose, why_no_base_image)
    for probe in probes:
        probe.cache_clear()
    yield FakeDocker(tmp_path)
    for probe in probes:
        probe.cache_clear()


def test_there_is_no_docker_client(docker: FakeDocker) -> None:
    assert not docker.client.exists()
    assert why_no_engine() == "there is no docker on the PATH"


def test_the_engine_does_not_answer(docker: FakeDocker) -> None:
    docker.write('echo Client: 1.2.3\necho "Cannot connect to the Docker daemon." >&2\nexit 1\n')
    assert why_no_engine() == "the docker engine does not answer: Cannot connect to the Docker daemon."


def test_the_engine_does_not_answer_in_time(docker: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_engine, "PROBE_TIMEOUT_S", 0.05)
    docker.write("while :; do :; done\n")
    assert why_no_engine() == "the docker engine does not answer (not within 0.05 s)"


def test_there_is_no_compose_plugin(docker: FakeDocker) -> None:
    docker.write('[ "$1" = version ] && exit 0\necho "docker: unknown command: docker compose" >&2\nexit 1\n')
    assert why_no_engine() == "docker has no compose plugin: docker: unknown command: docker compose"


def test_the_engine_holds_the_base_image(docker: FakeDocker) -> None:
    docker.write('[ "$*" = "image inspect python:3.11-slim" ]\n')
    assert base_image() == "python:3.11-slim"
    assert why_no_base_image() is None


def test_the_engine_pulls_the_base_image(docker: FakeDocker) -> None:
    docker.write('[ "$*" = "pull --quiet python:3.11-slim" ]\n')
    assert why_no_base_image() is None


def test_the_engine_cannot_pull_the_base_image(docker: FakeDocker) -> None:
    docker.write('echo "Get https://registry: no route to host" >&2\nexit 1\n')
    assert why_no_base_image() == (
        "the docker engine cannot pull python:3.11-slim: Get https://registry: no route to host"
    )


def test_a_reason_skips_and_require_docker_makes_it_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUIRE_DOCKER", raising=False)
    with pytest.raises(pytest.skip.Exception, match="docker tests: no engine"):
        skip_or_fail("no engine")
    monkeypatch.setenv("REQUIRE_DOCKER", "1")
    with pytest.raises(pytest.fail.Exception, match="REQUIRE_DOCKER=1, but no engine"):
        skip_or_fail("no engine")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("exit 1\n", "the docker engine does not answer", id="no engine"),
        pytest.param(f"{ANSWERS}exit 1\n", "the docker engine cannot pull python:3.11-slim", id="no base image"),
    ],
)
@pytest.mark.parametrize("required", [False, True], ids=["may skip", "REQUIRE_DOCKER=1"])
def test_compose_tests_skip_or_fail_with_the_reason(
    docker: FakeDocker, script: str, reason: str, required: bool
) -> None:
    """Runs pytest on this folder with a scripted docker client."""
    docker.write(script)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "REQUIRE_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/compose/test_volumes.py"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment | ({"REQUIRE_DOCKER": "1"} if required else {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    output = done.stdout + done.stderr
    if required:
        assert done.returncode != 0, output
        assert f"REQUIRE_DOCKER=1, but {reason}" in output
    else:
        assert done.returncode == 0, output
        assert "2 skipped" in output
        assert f"docker tests: {reason}" in output
