"""The guardian: it takes a project down where the program that has started it was killed, and only there."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.understudy.clusters.containers.scripted_docker import ScriptedDocker
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers import guardian as module
from understudy.clusters.containers.guardian import LOG, Guardian
from understudy.clusters.processes import linux

OWNER = """\
import pathlib, sys, time
from understudy.clusters.containers.guardian import Guardian
guardian = Guardian(pathlib.Path(sys.argv[1]), "p")
print(guardian.pid, flush=True)
time.sleep(600)
"""
DOWN = "compose --project-name p down --volumes --remove-orphans --timeout 0"


def eventually(predicate: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not predicate():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_dismissed_guardian_ends_and_does_nothing(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["running", 0, 0])
    with Guardian(tmp_path, "p") as guardian:
        assert linux.start_time(guardian.pid) is not None
    assert linux.start_time(guardian.pid) is None
    assert docker.calls == []
    assert (tmp_path / LOG).read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_project_is_taken_down_where_its_owner_is_killed(
    docker: ScriptedDocker, tmp_path: Path, number: signal.Signals
) -> None:
    docker.set(broker_1=["paused", 0, 0])
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert docker.calls == [], "while its owner lives it waits"
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    eventually(lambda: linux.start_time(pid) is None, "the guardian ends")
    assert docker.changes == [DOWN, DOWN], "once more for what was being created meanwhile"
    assert "p is taken down" in (tmp_path / LOG).read_text()


def test_signals_to_its_group_do_not_end_it(docker: ScriptedDocker, tmp_path: Path) -> None:
    with Guardian(tmp_path, "p") as guardian:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            subprocess.run(["/bin/kill", f"-{int(number)}", str(guardian.pid)], check=True)
        assert linux.start_time(guardian.pid) is not None
    assert guardian._process.returncode == 0


def test_a_guardian_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "understudy.clusters.containers.missing")
    with pytest.raises(ClusterError, match=r"did not start; .*guardian\.log says why"):
        Guardian(tmp_path, "p")
    assert "missing" in (tmp_path / LOG).read_text()
