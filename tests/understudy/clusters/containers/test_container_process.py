"""The process in a container: its states and faults, with a scripted docker command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.understudy.clusters.containers.scripted_docker import ScriptedDocker
from understudy.clusters.containers.compose_file import ComposePlan
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.containers.container_process import ContainerProcess
from understudy.clusters.processes.processes import ProcessDied


@pytest.fixture
def project(docker: ScriptedDocker, tmp_path: Path) -> ComposeProject:
    plan = ComposePlan(
        project="p", folder=tmp_path, image="understudy", user="1:1", zookeeper_port=1, broker_ports={1: 2, 2: 3}
    )
    docker.set(broker_1=["running", 0, 0], broker_2=["exited", 0, 0], zookeeper=["running", 0, 0])
    found = ComposeProject(tmp_path, plan.config(), ("--project-name", "p"))
    found.create()
    return found


def process(project: ComposeProject) -> ContainerProcess:
    return ContainerProcess(project, "broker-1")


def test_containers_are_created_by_name_of_the_project_and_not_built(
    project: ComposeProject, docker: ScriptedDocker
) -> None:
    assert docker.changes == ["compose --project-name p create --no-build"]
    assert project.ids["broker-2"] == "id-of-broker-2"


@pytest.mark.parametrize(
    ("state", "exit_code", "is_paused"),
    [
        (["running", 0, 0], None, False),
        (["paused", 0, 0], None, True),
        (["exited", 1, 0], 1, False),
        (["exited", 137, 0], -9, False),
        (["exited", 128, 0], 128, False),
    ],
)
def test_the_state_is_that_of_the_container(
    project: ComposeProject, docker: ScriptedDocker, state: list[Any], exit_code: int | None, is_paused: bool
) -> None:
    docker.set(broker_1=state, broker_2=["running", 0, 0], zookeeper=["running", 0, 0])
    found = process(project)
    assert (found.exit_code, found.is_paused) == (exit_code, is_paused)
    assert found.is_running is (exit_code is None)


def test_a_removed_container_does_not_run(project: ComposeProject, docker: ScriptedDocker) -> None:
    docker.set()
    assert process(project).exit_code == -9


def test_another_container_that_was_removed_changes_nothing(project: ComposeProject, docker: ScriptedDocker) -> None:
    docker.set(broker_1=["running", 0, 0])
    assert process(project).is_running


def test_faults_are_commands_on_the_container(project: ComposeProject, docker: ScriptedDocker) -> None:
    found = process(project)
    found.pause()
    found.resume()
    found.ask_to_end()
    found.kill()
    assert docker.changes[1:] == [
        "pause id-of-broker-1",
        "unpause id-of-broker-1",
        "kill --signal SIGTERM id-of-broker-1",
        "kill id-of-broker-1",
    ]
    assert found.exit_code == -9


def test_a_paused_process_that_is_asked_to_end_is_resumed_first(
    project: ComposeProject, docker: ScriptedDocker
) -> None:
    found = process(project)
    found.pause()
    found.ask_to_end()
    assert docker.changes[2:] == ["unpause id-of-broker-1", "kill --signal SIGTERM id-of-broker-1"]


def test_what_has_ended_is_left_alone_and_its_exit_code_stays(project: ComposeProject, docker: ScriptedDocker) -> None:
    found = process(project)
    found.kill()
    before = docker.changes
    project.change("start", "broker-1")
    assert not found.is_running, "the container runs another process now"
    found.kill()
    found.pause()
    found.resume()
    found.ask_to_end()
    assert docker.changes == [*before, "start id-of-broker-1"]


def test_a_signal_to_a_container_that_has_just_ended_is_harmless(
    project: ComposeProject, docker: ScriptedDocker
) -> None:
    docker.refuse(kill="Cannot kill container: Container id is not running")
    process(project).ask_to_end()


def test_the_check_ends_with_what_the_container_has_written(project: ComposeProject, docker: ScriptedDocker) -> None:
    docker.set(broker_1=["exited", 1, 0])
    with pytest.raises(ProcessDied, match="broker-1 ended with exit code 1"):
        process(project).check()
    assert docker.calls[-1].endswith("logs --no-color --no-log-prefix --tail 20 broker-1")
