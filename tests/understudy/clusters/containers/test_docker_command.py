"""Messages if there is no docker command, no engine, no compose plugin or no image."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.clusters.containers.scripted_docker import ScriptedDocker
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.docker_command import DockerFailed, NoDocker, docker, require_engine, require_image


def test_without_a_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = "no Docker engine: there is no docker on the PATH; containers need docker compose"
    with pytest.raises(NoDocker) as refused:
        require_engine(tmp_path)
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    ("start", "message"),
    [("version", "Cannot connect to the Docker daemon."), ("compose_version", "docker: 'compose' is not a command.")],
)
def test_without_an_engine_or_the_plugin(docker: ScriptedDocker, tmp_path: Path, start: str, message: str) -> None:
    docker.refuse(**{start: message})
    with pytest.raises(NoDocker) as refused:
        require_engine(tmp_path)
    assert str(refused.value) == f"no Docker engine: {message}; containers need docker compose"


def test_an_image_that_is_missing_is_named_and_not_pulled(docker: ScriptedDocker, tmp_path: Path) -> None:
    require_image(tmp_path, "understudy")
    docker.refuse(image_inspect="Error: No such image: mine")
    with pytest.raises(ClusterError, match="no image 'mine'; build it with `docker compose build`"):
        require_image(tmp_path, "mine")
    assert all(call.startswith("image inspect") for call in docker.calls)


def test_a_command_that_fails_or_takes_too_long(tmp_path: Path, docker: ScriptedDocker) -> None:
    docker.refuse(kill="no such container")
    with pytest.raises(DockerFailed, match="`docker kill it` failed: no such container"):
        run(tmp_path, "kill", "it")
    (docker.folder / "docker").write_text("#!/bin/sh\nread -r line < /dev/stdin\nexec /bin/sleep 60\n")
    with pytest.raises(DockerFailed, match=r"not done within 0\.2 s: docker ps"):
        run(tmp_path, "ps", timeout_s=0.2)


run = docker
