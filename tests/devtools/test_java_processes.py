"""Processes of tests are ended with the program that started them, and a process that fails is reported."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.java_processes import JavaProcesses, ProcessFailed, home_for_executors
from tests.devtools.process_groups import assert_ends, process_group_exists
from understudy.clusters.java import JavaRuntime


def test_output_is_matched_as_it_is_written(tmp_path: Path) -> None:
    with JavaProcesses(tmp_path) as processes:
        processes.start(
            "server",
            ["sh", "-c", f"echo first; while [ ! -e {tmp_path}/go ]; do :; done; echo $WORD"],
            {"WORD": "second"},
        )
        assert processes.wait_for("server", "(first)") == ["first"]
        (tmp_path / "go").touch()
        assert processes.wait_for("server", "(first|second)", 2) == ["first", "second"]
        assert processes.log("server").startswith("first\nsecond\n")


def test_a_process_that_ends_is_reported_with_its_output(tmp_path: Path) -> None:
    with JavaProcesses(tmp_path) as processes:
        processes.start("server", ["sh", "-c", "echo broken >&2; exit 3"], {})
        with pytest.raises(ProcessFailed, match="the server ended:\nbroken\nThe process ended with exit code 3"):
            processes.wait_for("server", "started")


def test_processes_end_with_the_block(tmp_path: Path) -> None:
    with JavaProcesses(tmp_path) as processes:
        group = processes.start("server", ["sleep", "600"], {}).pid
        assert process_group_exists(group)
    assert_ends(group)


STARTED_AND_KILLED = """
import os, signal, sys
from pathlib import Path
from devtools.java_processes import JavaProcesses

with JavaProcesses(Path(sys.argv[1])) as processes:
    process = processes.start("server", ["sh", "-c", "sleep 600 & echo started; sleep 600"], {})
    processes.wait_for("server", "started")
    print(process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED_AND_KILLED, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert_ends(int(done.stdout))


def test_executors_start_with_a_java_that_lacks_a_module(tmp_path: Path) -> None:
    """The Java prints its arguments, one a line."""
    (tmp_path / "small" / "bin").mkdir(parents=True)
    small = JavaRuntime(home=tmp_path / "small", version=None, why="a test")
    small.executable.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    small.executable.chmod(0o755)
    java = str(home_for_executors(small, tmp_path / "home") / "bin" / "java")
    command = [java, "-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dwords=two words", "Main"]
    assert subprocess.check_output(command, text=True).splitlines() == ["-Xmx1g", "-Dwords=two words", "Main"]
