"""Removing a project until nothing is left, and the process that does it if its owner was killed."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.understudy.clusters.containers.scripted_docker import ScriptedDocker
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers import cleanup as module
from understudy.clusters.containers.cleanup import LOG, CleanupProcess, leftovers, take_down
from understudy.clusters.containers.docker_command import DockerFailed
from understudy.clusters.processes import linux

OWNER = """\
import pathlib, sys, time
from understudy.clusters.containers.cleanup import CleanupProcess
cleanup = CleanupProcess(pathlib.Path(sys.argv[1]), "p")
print(cleanup.pid, flush=True)
time.sleep(600)
"""
DOWN = "compose --project-name p down --volumes --remove-orphans --timeout 0"


def eventually(predicate: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + 60
    while not predicate():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[CleanupProcess]:
    cleanup = CleanupProcess(folder, "p")
    yield cleanup
    cleanup.dismiss()


def test_a_dismissed_cleanup_process_ends_and_does_nothing(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["running", 0, 0])
    with started(tmp_path) as cleanup:
        assert linux.start_time(cleanup.pid) is not None
    assert linux.start_time(cleanup.pid) is None
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
    eventually(lambda: linux.start_time(pid) is None, "the process ends")
    assert docker.changes == [DOWN, DOWN], "once more for what was being created meanwhile"
    assert "p is taken down" in (tmp_path / LOG).read_text()


def test_signals_to_its_group_do_not_end_it(docker: ScriptedDocker, tmp_path: Path) -> None:
    with started(tmp_path) as cleanup:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            subprocess.run(["/bin/kill", f"-{int(number)}", str(cleanup.pid)], check=True)
        assert linux.start_time(cleanup.pid) is not None
    assert cleanup._process.returncode == 0


def test_a_cleanup_process_that_does_not_start_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE", "understudy.clusters.containers.missing")
    with pytest.raises(ClusterError, match=r"did not start; .*cleanup\.log says why"):
        CleanupProcess(tmp_path, "p")
    assert "missing" in (tmp_path / LOG).read_text()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_one_command_is_enough_where_nothing_is_left(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["running", 0, 0])
    take_down(tmp_path, "p")
    assert docker.changes == [DOWN]
    assert "container ls --all --quiet --filter label=com.docker.compose.project=p" in docker.calls


@pytest.mark.usefixtures("at_once")
def test_what_the_command_leaves_is_removed_by_its_id(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["paused", 0, 0])
    docker.refuse(compose="cannot stop a paused container")
    take_down(tmp_path, "p")
    assert docker.changes == [DOWN, "container rm --force --volumes id-of-broker-1"]


@pytest.mark.usefixtures("at_once")
def test_what_cannot_be_removed_is_named(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["running", 0, 0])
    docker.refuse(compose="busy", container_rm="busy")
    with pytest.raises(DockerFailed, match="project p these cannot be removed: container id-of-broker-1"):
        take_down(tmp_path, "p")
    assert leftovers(tmp_path, "p") == {"container": ["id-of-broker-1"]}
