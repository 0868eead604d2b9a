"""`understudy replay` as a process: on a machine without Java, and what is left of it when it is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller

pytestmark = pytest.mark.slow

PATIENCE_S = 120.0


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "broker-1" / "events"
    folder.mkdir(parents=True)
    for name, lines in killed_controller().lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return tmp_path / "run"


def start(*arguments: object) -> subprocess.Popen[str]:
    """The command with nothing in its environment that could lead it to a Java or a Spark."""
    return subprocess.Popen(
        [sys.executable, "-m", "understudy.cli.main", "replay", *map(str, arguments)],
        env={"PATH": "/nowhere", "HOME": "/nowhere", "LANG": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def test_no_java_home_and_no_java_on_path_is_enough(run_folder: Path) -> None:
    with start(run_folder) as process:
        wait_for(lambda: children(process.pid), "it starts a Java")
        (java,) = children(process.pid)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    assert "Failover to epoch 2: broker 1 → 2 (kill, noticed by broker-3), 3,050.0 ms without a controller" in out
    assert err.startswith("Spark starts with Java 25"), "and it says which one"
    assert len(err.splitlines()) == 1, "Spark's own talk stays out of the terminal"
    assert is_gone(java)


def test_java_does_not_outlive_an_owner_that_was_killed(run_folder: Path) -> None:
    with start(run_folder) as process:
        wait_for(lambda: children(process.pid), "it starts a Java")
        (java,) = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: is_gone(java), f"Java {java} ends with its owner")


def test_nothing_to_replay_is_one_sentence(tmp_path: Path) -> None:
    with start("--engine", "python", tmp_path) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert out == ""
    assert err.startswith("understudy replay: there is no record to replay")
    assert str(tmp_path) in err
    assert os.linesep.join(err.splitlines()[1:]).strip().startswith("no event-log files")
