"""`understudy watch --compose`, with a script in place of the docker command."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.understudy.cli.terminal import UNDERSTUDY, eventually, line_starting_with
from tests.understudy.clusters.control.scripted_project import Project
from tests.understudy.page.served.test_live import line, log
from tests.understudy.page.test_watch import Served
from understudy.cli.main import main
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.page.recorded.runs import NoSuchRun
from understudy.page.served.compose import compose_run
from understudy.page.served.live import LiveRun

ENDED = {"broker_1": "exited", "broker_2": "exited", "zookeeper": "exited"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("PATH", str(tmp_path))
    project = Project(tmp_path)
    log(tmp_path / "events", "broker-1").write(line(1, 1000.0, run="evening"))
    return project


def test_a_project_is_followed_while_a_container_runs_or_is_paused(project: Project) -> None:
    described = ComposeProject.of_folder(project.folder)
    run, folder, has_ended = compose_run(described)
    assert isinstance(run, LiveRun)
    assert (run.name, run.folder, folder) == ("evening", project.folder / "events", project.folder / "events")
    assert not has_ended()
    project.write(**{**ENDED, "broker_1": "paused"})
    assert not has_ended()
    project.write(**ENDED)
    assert has_ended()


def test_an_engine_that_does_not_answer_ends_no_run(project: Project) -> None:
    _, _, has_ended = compose_run(ComposeProject.of_folder(project.folder))
    (project.folder / "docker").write_text(f"#!{sys.executable}\nimport sys\nsys.exit('no engine')\n")
    assert not has_ended()


def test_the_run_of_a_project_that_has_ended_is_read_at_once(project: Project) -> None:
    project.write(**ENDED)
    run, folder, has_ended = compose_run(ComposeProject.of_folder(project.folder))
    assert (run.name, run.is_live, len(run.chunks), has_ended()) == ("evening", False, 1, True)
    assert folder == project.folder / "events"


def test_a_run_that_the_logs_do_not_have_is_named(project: Project) -> None:
    described = ComposeProject.of_folder(project.folder)
    with pytest.raises(NoSuchRun, match="no run 'morning'; it has evening; choose one by --run-id, or set UNDERSTUDY_"):
        compose_run(described, "morning")


def test_a_project_without_logs_yet_is_followed(project: Project) -> None:
    for path in sorted((project.folder / "events").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    run, _, _ = compose_run(ComposeProject.of_folder(project.folder))
    assert run.is_live


def test_a_project_that_shares_no_logs_is_refused(project: Project) -> None:
    described = ComposeProject.of_folder(project.folder)
    described._config["services"]["broker-1"]["volumes"] = []
    with pytest.raises(ClusterError, match="the compose file mounts no folder at /run/understudy of broker-1"):
        compose_run(described)


def test_only_one_project_can_be_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path), str(tmp_path), "--compose"]) == 2
    assert "--compose takes one RUN: the folder of the compose file" in capsys.readouterr().err


def test_the_page_of_a_project_takes_commands_until_its_last_container_has_ended(project: Project) -> None:
    project.ports = {"zookeeper": [{"published": "1"}]}
    project.write()
    command = [*UNDERSTUDY, "watch", str(project.folder), "--compose"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        page = Served.at(line_starting_with("page", process.stdout))
        facts = page.get("/run.json")
        assert (facts["run"], facts["is_live"], facts["can_command"]) == ("evening", True, True)
        assert [verb["name"] for verb in facts["verbs"]] == [
            "kill", "pause", "resume", "stop", "start", "restart", "depose", "isolate", "heal",
        ]  # fmt: skip
        assert page._replace(token="wrong").post("/control/verbs/kill", {"target": "1"})[0] == 401
        status, answer = page.post("/control/verbs/kill", {"target": "1"})
        assert (status, answer["message"]) == (200, "broker-1 killed")
        found, _ = page.records_until(lambda record: record[4] == "FaultInjected")
        assert [record[8]["fault"] for record in found if record[4] == "FaultInjected"] == ["kill"]
        page.post("/control/verbs/isolate", {"target": "2", "for": "1h"})

        project.write(**ENDED)
        eventually(lambda: not page.get("/run.json")["is_live"], "the page shows that the run has ended")
        assert page.post("/control/verbs/kill", {"target": "1"})[0] == 409
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert "broker-2 isolated; to be healed after 1 h" in out
    finally:
        process.kill()
        process.communicate()
    assert project.faults == [("kill", "broker-1", ""), ("isolate", "broker-2", "")]
