"""Whether this machine can run the tests marked `docker`, and why not."""

from __future__ import annotations

import functools
import shutil
import subprocess

PROBE_TIMEOUT_S = 10


@functools.cache
def why_no_engine() -> str | None:
    """None where a Docker engine answers and the compose plugin is there; otherwise the reason, in one line.

    A client on the PATH proves nothing: the engine has to tell its version.
    """
    return (
        _why_not(["docker", "version", "--format", "{{.Server.Version}}"], "the docker engine does not answer")
        or why_no_compose()
    )


@functools.cache
def why_no_compose() -> str | None:
    """None where `docker compose` is there; it needs no engine to read a file."""
    return _why_not(["docker", "compose", "version"], "docker has no compose plugin")


def _why_not(probe: list[str], reason: str) -> str | None:
    if shutil.which(probe[0]) is None:
        return f"there is no {probe[0]} on the PATH"
    try:
        answer = subprocess.run(probe, capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{reason} (not within {PROBE_TIMEOUT_S} s)"
    return None if answer.returncode == 0 else reason
