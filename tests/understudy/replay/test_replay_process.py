"""`understudy replay` as a process: on a machine without Java, and what is left of it when it is gone."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller

pytestmark = pytest.mark.slow

PATIENCE_S = 180.0


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


def test_a_master_that_spark_does_not_know_is_told_in_one_line(run_folder: Path) -> None:
    with start(run_folder, "--master", "nowhere") as process:
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    _, told = err.splitlines()
    assert re.match("understudy replay: Spark does not run with master nowhere: .*Could not parse Master URL", told), (
        err
    )


AGREE = """
import sys
from pathlib import Path
from understudy.java import choose_java
from understudy.replay.result import replay_in_python
from understudy.replay.spark_job import SparkReplay, SparkSettings

paths = [Path(path) for path in sys.argv[1:]]
with SparkReplay(SparkSettings(java=choose_java(), quick=False)) as spark:
    found, expected = spark.replay(paths), replay_in_python(paths)
assert found.runs == expected.runs, "the tables differ"
assert found.findings == expected.findings
print(len(found.runs))
"""


def test_what_is_tuned_for_large_logs_computes_the_same(run_folder: Path, tmp_path: Path) -> None:
    """Another session with other settings: compiled, adaptive, in several partitions."""
    folders = [run_folder]
    for seed in range(2):
        folder = tmp_path / f"random-{seed}"
        folder.mkdir()
        folders.append(folder)
        for name, lines in RandomRun(seed, records=300).logs.lines.items():
            (folder / name).write_bytes(b"".join(lines))
    command = [sys.executable, "-c", AGREE, *map(str, folders)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr[-3000:]


def test_nothing_to_replay_is_one_sentence(tmp_path: Path) -> None:
    with start("--engine", "python", tmp_path) as process:
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert out == ""
    assert err.startswith("understudy replay: there is no record to replay")
    assert str(tmp_path) in err
    assert os.linesep.join(err.splitlines()[1:]).strip().startswith("no event-log files")
