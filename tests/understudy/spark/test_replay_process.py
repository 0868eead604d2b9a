"""`understudy replay` as a process: without Java on the PATH, and that its Java process ends with it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.foundation.eventlog.stories import killed_controller
from tests.shares import at_night
from tests.understudy.spark.older_spark import needs_the_java_from_pip
from understudy.clusters.java import choose_java
from understudy.spark import classic
from understudy.spark.distribution import cores
from understudy.spark.failures import SparkFailed
from understudy.spark.gateway import Gateway, gateway
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings

pytestmark = pytest.mark.xdist_group("spark replay_process")

TIMEOUT_S = 180.0


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "broker-1" / "events"
    folder.mkdir(parents=True)
    for name, lines in killed_controller().lines.items():
        (folder / name).write_bytes(b"".join(lines))
    return tmp_path / "run"


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the command without any variable that names a Java or a Spark."""
    return subprocess.Popen(
        [sys.executable, "-m", "understudy.cli.main", "replay", *map(str, arguments)],
        env={"PATH": "/nowhere", "HOME": "/nowhere", "LANG": "C.UTF-8", "UNDERSTUDY_CLASS_CACHE": "off"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for(condition: object, what: str) -> None:
    assert callable(condition)
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {TIMEOUT_S:g} s: {what}"
        time.sleep(0.05)


def has_ended(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@needs_the_java_from_pip
def test_neither_java_home_nor_a_java_on_the_path_is_needed(run_folder: Path) -> None:
    with start(run_folder) as process:
        wait_for(lambda: children(process.pid), "it starts a Java")
        (java,) = children(process.pid)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    assert "Failover to epoch 2: broker 1 → 2 (kill, noticed by broker-3), 3.05 s without a controller" in out
    assert err.startswith(f"Spark starts with Java {choose_java(environment={}).version} ")
    assert len(err.splitlines()) == 1, "Spark's own messages are not printed"
    assert has_ended(java)


@needs_the_java_from_pip
@at_night("the command is started each time, and ends")
def test_java_ends_when_the_command_is_killed(run_folder: Path) -> None:
    with start(run_folder) as process:
        wait_for(lambda: children(process.pid), "it starts a Java")
        (java,) = children(process.pid)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)
    wait_for(lambda: has_ended(java), f"Java {java} ends with the command")


@needs_the_java_from_pip
def test_an_unknown_spark_master_is_one_line(run_folder: Path) -> None:
    with start(run_folder, "--master", "nowhere") as process:
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    _, message = err.splitlines()
    assert re.match(
        "understudy replay: Spark does not run with master nowhere: .*Could not parse Master URL", message
    ), err


def test_a_folder_without_event_logs_is_one_message(tmp_path: Path) -> None:
    with start("--engine", "python", tmp_path) as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert out == ""
    assert err.startswith("understudy replay: there is no record to replay")
    assert str(tmp_path) in err
    assert os.linesep.join(err.splitlines()[1:]).strip().startswith("no event-log files")


@at_night("the command is started each time, and ends")
def test_a_java_that_is_killed_is_named_and_another_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Java may be killed for the memory that it takes."""
    pids: list[int] = []

    @contextlib.contextmanager
    def noted(*arguments: Any, **options: Any) -> Iterator[Gateway]:
        with gateway(*arguments, **options) as running:
            pids.append(running.pid)
            yield running

    monkeypatch.setattr(classic, "gateway", noted)
    settings = SparkSettings(java=choose_java())
    with pytest.raises(SparkFailed, match="Spark's Java ended with exit code -9"), spark_running(settings) as spark:
        cores_after_a_kill(pids[0], spark)
    with spark_running(settings) as spark:
        assert cores(spark) >= 1


def cores_after_a_kill(pid: int, spark: SparkSession) -> int:
    os.kill(pid, signal.SIGKILL)
    return cores(spark)
