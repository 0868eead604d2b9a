"""The control port of a compose project, with a script in place of the docker command."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.understudy.clusters.control.scripted_project import NETWORK, Project
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.control.bodies import OnTargetFor
from understudy.clusters.control.client import ControlRefused
from understudy.clusters.control.compose_server import ComposeCommands, ComposeControl
from understudy.clusters.control.verbs import VerbOutcome, checked
from understudy.history.reading.reader import read

TIMEOUT_S = 60.0


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", str(tmp_path))
    project = Project(tmp_path)
    project.ports = {
        "zookeeper": [{"host_ip": "127.0.0.1", "published": "1"}],
        "broker-1": [{"host_ip": "127.0.0.1", "published": "19091"}],
        "broker-2": [{"published": "19092"}],
    }
    project.write()
    return project


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def commands(project: Project, lines: list[str]) -> Iterator[ComposeCommands]:
    commands = ComposeCommands(ComposeProject.of_folder(project.folder), "evening", lines.append)
    yield commands
    commands.close()


def do(commands: ComposeCommands, verb: str, target: str, lasts: str | None = None) -> VerbOutcome:
    return commands.begin(checked(verb, OnTargetFor(target=target, lasts=lasts))).result(TIMEOUT_S)


def eventually(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_a_verb_is_on_record_before_it_is_done(commands: ComposeCommands, project: Project, lines: list[str]) -> None:
    outcome = do(commands, "kill", "rack:b")
    assert (outcome.done, outcome.skipped) == (("broker-2 (rack b)",), ())
    assert project.commands == [(1, "compose kill broker-2")]
    assert project.faults == [("kill", "broker-2", "rack b")]
    assert lines == ["broker-2 (rack b) killed"]


def test_faults_are_recorded_in_the_run_that_is_watched(project: Project) -> None:
    """The cluster may have been started with another UNDERSTUDY_RUN_ID than this program has."""
    commands = ComposeCommands(ComposeProject.of_folder(project.folder), "morning", print)
    do(commands, "kill", "1")
    commands.close()
    assert {record.run for record in read([project.folder / "events"]).records} == {"morning"}


def test_a_verb_is_undone_after_its_duration(commands: ComposeCommands, project: Project, lines: list[str]) -> None:
    do(commands, "isolate", "1", "10ms")
    eventually(lambda: len(lines) == 2, "it is healed")
    assert [fault for fault, _, _ in project.faults] == ["isolate", "heal"]
    assert lines == ["broker-1 isolated; to be healed after 10 ms", "broker-1 healed"]


def test_at_the_end_what_has_a_duration_is_undone_and_nothing_else(
    commands: ComposeCommands, project: Project, lines: list[str]
) -> None:
    do(commands, "isolate", "1", "1h")
    do(commands, "isolate", "2")
    commands.close()
    assert [command for _, command in project.commands] == [
        f"network disconnect {NETWORK} id-of-broker-1",
        f"network disconnect {NETWORK} id-of-broker-2",
        f"network connect --alias broker-1 {NETWORK} id-of-broker-1",
    ]
    assert lines[-1] == "broker-1 healed"
    with pytest.raises(ClusterError, match="is being stopped"):
        do(commands, "kill", "1")


def test_what_was_done_before_a_failure_is_undone(
    commands: ComposeCommands, project: Project, lines: list[str]
) -> None:
    (project.folder / "failing").write_text("id-of-broker-2")
    with pytest.raises(ClusterError, match="it cannot do that"):
        do(commands, "isolate", "all", "10ms")
    eventually(lambda: bool(lines), "broker 1 is healed")
    assert lines == ["broker-1 healed"]


def test_an_undo_that_fails_is_reported(commands: ComposeCommands, project: Project, lines: list[str]) -> None:
    do(commands, "isolate", "1", "1h")
    (project.folder / "refusal").write_text("no such network")
    commands.close()
    assert lines[-1].startswith("broker-1 was not healed: `docker network connect")
    assert lines[-1].endswith("failed: no such network")


def test_clients_get_the_published_addresses_of_running_brokers(commands: ComposeCommands, project: Project) -> None:
    assert commands.bootstrap() == ["127.0.0.1:19091", "127.0.0.1:19092"]
    project.write(broker_1="paused")
    assert commands.bootstrap() == ["127.0.0.1:19092"]
    project.write(broker_2="exited")
    with pytest.raises(ClusterError, match="no broker is running that is not paused"):
        commands.bootstrap()


def test_without_a_published_port_clients_get_the_reason(project: Project) -> None:
    project.ports = {}
    project.write(broker_2="exited")
    commands = ComposeCommands(ComposeProject.of_folder(project.folder), "evening", print)
    with pytest.raises(ClusterError, match="the compose file publishes no port of broker-1, which clients need"):
        commands.bootstrap()
    commands.close()


def test_the_control_port_answers_as_that_of_a_cluster_of_processes(project: Project, lines: list[str]) -> None:
    with ComposeControl(ComposeProject.of_folder(project.folder), "evening", lines.append) as control:
        answer = control.client.verb("kill", {"target": "1"})
        assert answer == {
            "verb": "kill",
            "done": ["broker-1"],
            "skipped": [],
            "message": "broker-1 killed",
        }
        arm = {"target": "1", "point": "partition.after_write", "action": "pause"}
        for verb, body, status, message in (
            ("kill", {"target": "9"}, 409, "there is no broker 9; this project has 1, 2"),
            ("kill", {"target": "?"}, 400, "'?'"),
            ("arm", arm, 409, "arm cannot be done to containers; use a cluster of `understudy up`"),
        ):
            with pytest.raises(ControlRefused) as refused:
                control.client.verb(verb, body)
            assert refused.value.status == status
            assert message in str(refused.value)
        project.write(broker_1="exited", broker_2="exited")
        with pytest.raises(ControlRefused, match="no broker is running that is not paused"):
            control.client.post("/topics", {"name": "orders"})
    assert [command for _, command in project.commands] == ["compose kill broker-1"]


def test_a_project_whose_zookeeper_cannot_be_reached_has_no_control_port(project: Project) -> None:
    project.ports = {}
    project.write()
    with pytest.raises(ClusterError, match="publishes no port of zookeeper"):
        ComposeControl(ComposeProject.of_folder(project.folder), "evening", print)
