"""Runs Java processes on this machine for tests and benchmarks, and ends them with the program that started them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from understudy.clusters.java import JavaRuntime

START_TIMEOUT_S = 90.0
_POLL_S = 0.05

# Spark starts every executor with `--add-modules=jdk.incubator.vector`. Small runtimes lack that module, and Java then
# does not start.
_JAVA_WITHOUT_THE_FLAG = """#!/bin/sh
for argument do
  shift
  case "$argument" in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""

_ENDED = "The process ended with exit code "
# Ends the process group when this program has ended, in whatever way: nothing else holds the other end of the pipe.
_UNTIL_THE_INPUT_ENDS = f'{{ "$@"; echo "{_ENDED}$?"; }} & read -r _; kill -KILL 0'


class ProcessFailed(Exception):
    """A process ended, or was not ready in time. The message has its output."""


class JavaProcesses:
    """Runs Java processes while its block runs, each in a process group of its own, with its output in a file.

    Args:
        folder: a folder for the output, and the processes' working directory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> JavaProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, name: str, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start a command, and return the process that leads its group.

        Args:
            name: the name by which `log` and `wait_for` find its output.
            environment: all variables but PATH.
        """
        log = self._stack.enter_context((self._folder / f"{name}.log").open("wb"))
        process = subprocess.Popen(
            ["/bin/sh", "-c", _UNTIL_THE_INPUT_ENDS, "sh", *command],
            env={"PATH": os.environ["PATH"], **environment},
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._stack.callback(_end_group, process)
        return process

    def log(self, name: str) -> str:
        """Return the output of a process."""
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name: str, pattern: str, count: int = 1) -> list[str]:
        """Return the matches of a pattern in the output of a process, as soon as there are `count` of them.

        Raises:
            ProcessFailed: the process ended, or there were fewer matches after a minute and a half.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            output = self.log(name)
            if len(found := re.findall(pattern, output)) >= count:
                return found
            if _ENDED in output:
                raise ProcessFailed(f"the {name} ended:\n{output}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"the {name} was not ready within {START_TIMEOUT_S:g} s:\n{output}")
            time.sleep(_POLL_S)


def home_for_executors(java: JavaRuntime, folder: Path) -> Path:
    """Write a Java home in which Spark can start executors, also if the Java is a small runtime.

    Args:
        folder: the home; it must not exist yet.
    """
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(_JAVA_WITHOUT_THE_FLAG.format(java=f"'{java.executable}'"))
    (folder / "bin" / "java").chmod(0o755)
    return folder


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
