"""Tests of the verbs on a compose project, with a script in place of the docker command.

tests/compose/test_verbs.py runs the verbs on an engine.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.understudy.clusters.control.scripted_project import NETWORK, Project
from understudy.cli.main import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", str(tmp_path))
    return Project(tmp_path)


@pytest.mark.parametrize(
    ("verb", "state", "command", "fault", "message"),
    [
        ("kill", "running", "compose kill broker-2", "kill", "broker-2 killed"),
        ("pause", "running", "compose pause broker-2", "pause", "broker-2 paused"),
        ("resume", "paused", "compose unpause broker-2", "resume", "broker-2 resumed"),
        ("stop", "running", "compose stop broker-2", "stop", "broker-2 stopped"),
        ("start", "exited", "compose start broker-2", "start", "broker-2 started"),
        ("restart", "running", "compose restart broker-2", "restart", "broker-2 restarted"),
        ("isolate", "running", f"network disconnect {NETWORK} id-of-broker-2", "isolate", "broker-2 isolated"),
        ("heal", "running", f"network connect --alias broker-2 {NETWORK} id-of-broker-2", "heal", "broker-2 healed"),
    ],
)
def test_a_verb_runs_one_command_after_it_is_on_record(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    verb: str,
    state: str,
    command: str,
    fault: str,
    message: str,
) -> None:
    project.write(broker_2=state)
    assert project.run(verb, "2") == 0
    assert project.commands == [(1, command)]
    assert project.faults == [(fault, "broker-2", "")]
    assert capsys.readouterr().out == f"{message}\n"


def test_a_rack_and_zookeeper_are_targets(project: Project) -> None:
    assert project.run("kill", "rack:a") == 0
    assert project.run("pause", "zookeeper") == 0
    assert project.commands == [(1, "compose kill broker-1"), (2, "compose pause zookeeper")]
    assert project.faults == [("kill", "broker-1", "rack a"), ("pause", "zookeeper", "")]


def test_a_duration_is_waited_for_and_the_verb_undone(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert project.run("isolate", "1", "--for", "10ms") == 0
    assert [command.split()[1] for _, command in project.commands] == ["disconnect", "connect"]
    assert [fault for fault, _, _ in project.faults] == ["isolate", "heal"]
    assert capsys.readouterr().out == "broker-1 isolated; to be healed after 10 ms\nbroker-1 healed\n"


def test_what_was_done_before_a_failure_is_undone_too(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.folder / "failing").write_text("id-of-broker-2")
    assert project.run("isolate", "all", "--for", "1h") == 1
    assert [fault[:2] for fault in project.faults] == [
        ("isolate", "broker-1"),
        ("isolate", "broker-2"),
        ("heal", "broker-1"),
    ]
    assert capsys.readouterr().out == "broker-1 healed\n"


@pytest.mark.parametrize(
    ("words", "states", "message"),
    [
        (("kill", "1"), {"broker_1": "exited"}, "broker-1 cannot be killed: its container is exited"),
        (("start", "1"), {}, "broker-1 cannot be started: its container is running"),
        (("resume", "1"), {}, "broker-1 cannot be resumed: its container is running"),
        (("kill", "7"), {}, "there is no broker 7; this project has 1, 2"),
        (("kill", "rack:z"), {}, "no broker is in rack 'z'; the racks are: a, b"),
        (("kill", "controller"), {}, "the compose file publishes no port of zookeeper, which a role or `depose` needs"),
    ],
)
def test_a_refusal_exits_with_code_1_and_changes_nothing(
    project: Project,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    states: dict[str, str],
    message: str,
) -> None:
    project.write(**states)
    assert project.run(*words) == 1
    assert capsys.readouterr().err == f"understudy {words[0]}: {message}\n"
    assert project.commands == []
    assert project.faults == []


def test_a_verb_on_all_acts_on_the_brokers_in_the_state_for_it(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write(broker_1="exited")
    assert project.run("start", "all") == 0
    assert project.commands == [(1, "compose start broker-1")]
    assert capsys.readouterr().out == "broker-1 started\n"


def test_a_pause_that_the_engine_refuses_for_a_moment_is_tried_again(project: Project) -> None:
    (project.folder / "refusal").write_text("unable to freeze")
    assert project.run("pause", "1") == 0
    assert [command for _, command in project.commands] == ["compose pause broker-1"] * 2
    assert project.faults == [("pause", "broker-1", "")]


def test_a_command_that_fails_exits_with_code_1(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.folder / "refusal").write_text("Cannot connect to the Docker daemon.")
    assert project.run("kill", "1") == 1
    expected = "understudy kill: `docker compose kill broker-1` failed: Cannot connect to the Docker daemon.\n"
    assert capsys.readouterr().err == expected


def test_without_docker_one_sentence_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["kill", str(tmp_path), "1", "--compose"]) == 1
    expected = "understudy kill: there is no docker on the PATH; containers need the docker command\n"
    assert capsys.readouterr().err == expected


def test_a_folder_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "missing"
    assert main(["kill", str(missing), "1", "--compose"]) == 1
    assert capsys.readouterr().err == f"understudy kill: {missing} is no folder; give that of the compose file\n"


def test_what_cannot_be_recorded_is_not_done(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    (project.folder / "events").rmdir()
    (project.folder / "events").touch()
    assert project.run("kill", "1") == 1
    folder = project.folder / "events" / "testbed" / "events"
    assert f"nothing was done: it cannot be recorded in {folder}: Not a directory" in capsys.readouterr().err
    assert project.commands == []


def test_without_a_shared_folder_of_event_logs_nothing_is_done(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    config = json.loads((project.folder / "config.json").read_text())
    config["services"]["broker-1"]["volumes"] = []
    (project.folder / "config.json").write_text(json.dumps(config))
    assert project.run("kill", "1") == 1
    assert "the compose file mounts no folder at /run/understudy of broker-1" in capsys.readouterr().err
    assert project.commands == []


def test_arm_is_only_for_processes(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        project.run("arm", "1", "partition.after_write", "--action", "pause")
    assert ended.value.code == 2
    assert "unrecognized arguments: --compose" in capsys.readouterr().err
