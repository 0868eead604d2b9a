"""Builds programs in other languages that run beside our brokers, with the tools of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BUILD_TIMEOUT_S = 1_200


class NotBuilt(Exception):
    """A program cannot run here. The message names the tool that is missing, or has the end of the build's output."""


def tool(name: str, package: str = "") -> str:
    """Return the path of a tool. Raises NotBuilt, which names `package` if it is given.

    Args:
        name: its name on the PATH, for example `go`.
        package: what to install, if it is called otherwise.
    """
    found = shutil.which(name)
    if found is None:
        raise NotBuilt(f"there is no {name} on the PATH; install {package or 'it'}")
    return found


def run_build(command: list[str], folder: Path) -> str:
    """Run one command of a build in a folder, and return its output. Raises NotBuilt."""
    try:
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"{' '.join(command[:2])} took more than {BUILD_TIMEOUT_S} s") from None
    if ran.returncode != 0:
        raise NotBuilt(f"{' '.join(command[:2])} failed:\n{(ran.stdout + ran.stderr)[-2000:]}")
    return ran.stdout
