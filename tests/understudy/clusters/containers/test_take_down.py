"""Removing a project: by its name, whatever state it is in, and until nothing is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.clusters.containers.scripted_docker import ScriptedDocker
from understudy.clusters.containers import take_down as module
from understudy.clusters.containers.docker_command import DockerFailed
from understudy.clusters.containers.take_down import leftovers, take_down

DOWN = "compose --project-name p down --volumes --remove-orphans --timeout 0"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 0.0)


def test_one_command_is_enough_where_nothing_is_left(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["running", 0, 0])
    take_down(tmp_path, "p")
    assert docker.changes == [DOWN]
    assert "container ls --all --quiet --filter label=com.docker.compose.project=p" in docker.calls


def test_what_the_command_leaves_is_removed_by_its_id(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["paused", 0, 0])
    docker.refuse(compose="cannot stop a paused container")
    take_down(tmp_path, "p")
    assert docker.changes == [DOWN, "container rm --force --volumes id-of-broker-1"]


def test_what_cannot_be_removed_is_named(docker: ScriptedDocker, tmp_path: Path) -> None:
    docker.set(broker_1=["running", 0, 0])
    docker.refuse(compose="busy", container_rm="busy")
    with pytest.raises(DockerFailed, match="project p these cannot be removed: container id-of-broker-1"):
        take_down(tmp_path, "p")
    assert leftovers(tmp_path, "p") == {"container": ["id-of-broker-1"]}
