"""Probes for the Docker engine, the compose plugin and the base image that the tests marked `docker` need.

A probe returns None if it finds what it looks for, otherwise the reason in one line.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

PROBE_TIMEOUT_S = 10
PULL_TIMEOUT_S = 300
DOCKERFILE = Path(__file__).resolve().parents[1] / "Dockerfile"


@functools.cache
def why_no_engine() -> str | None:
    """Probe for a Docker engine that answers and for the compose plugin.

    The client on the PATH does not need an engine to start, so the probe requests the engine's version.
    """
    version = ["docker", "version", "--format", "{{.Server.Version}}"]
    return _why_not(version, "the docker engine does not answer", PROBE_TIMEOUT_S) or why_no_compose()


@functools.cache
def why_no_compose() -> str | None:
    """Probe for `docker compose`; reading a compose file with it needs no engine."""
    return _why_not(["docker", "compose", "version"], "docker has no compose plugin", PROBE_TIMEOUT_S)


@functools.cache
def why_no_base_image() -> str | None:
    """Probe for the image that the Dockerfile starts from; pull it if the engine does not hold it yet."""
    image = base_image()
    if _why_not(["docker", "image", "inspect", image], "the image is not here", PROBE_TIMEOUT_S) is None:
        return None
    return _why_not(["docker", "pull", "--quiet", image], f"the docker engine cannot pull {image}", PULL_TIMEOUT_S)


def base_image() -> str:
    """The image of the Dockerfile's first `FROM`."""
    found = re.search(r"^FROM (\S+)", DOCKERFILE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test with `reason`; fail it if REQUIRE_DOCKER=1."""
    if os.environ.get("REQUIRE_DOCKER") == "1":
        pytest.fail(f"REQUIRE_DOCKER=1, but {reason}", pytrace=False)
    pytest.skip(f"docker tests: {reason}")


def _why_not(probe: list[str], reason: str, timeout_s: float) -> str | None:
    if shutil.which(probe[0]) is None:
        return f"there is no {probe[0]} on the PATH"
    try:
        answer = subprocess.run(probe, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return f"{reason} (not within {timeout_s:g} s)"
    if answer.returncode == 0:
        return None
    errors = answer.stderr.strip().splitlines()
    return f"{reason}: {errors[-1].strip()}" if errors else reason
