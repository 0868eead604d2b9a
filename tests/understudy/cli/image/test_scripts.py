"""Tests of the names in the image: which program each runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.cli.image import install, names, scripts
from understudy.cli.overview import VERBS
from understudy.clusters.processes.free_ports import free_ports


def test_a_script_of_kafkas_is_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert scripts.main(["/opt/kafka/bin/kafka-topics.sh", "--version"]) == 0
    assert scripts.main(["kafka-topics", "--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


@pytest.mark.parametrize("words", [["topics", "--version"], ["understudy", "topics", "--version"]])
def test_the_entry_point_runs_verbs(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert scripts.main(["understudy-image", *words]) == 0
    assert capsys.readouterr().out


def test_the_entry_point_runs_any_other_command(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("os.execvp", lambda program, words: ran.append((program, words)))
    scripts.main(["understudy-image", "sh", "-c", "echo a"])
    assert ran == [("sh", ["sh", "-c", "echo a"])]


def test_a_command_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert scripts.main(["understudy-image", "no-such-command"]) == 127
    assert "no-such-command: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "server"),
    [
        (["understudy-image"], ["kafka"]),
        (["understudy-image", "run"], ["kafka"]),
        (["understudy-image", "start"], ["kafka"]),
        (["understudy-image", "zookeeper"], ["zookeeper"]),
        (["kafka-server-start.sh", "server.properties"], ["kafka", "server.properties"]),
        (["/kafka/bin/zookeeper-server-start", "zoo.cfg"], ["zookeeper", "zoo.cfg"]),
        (["zkServer.sh", "start-foreground"], ["zookeeper"]),
        (["start-kafka.sh"], ["kafka"]),
    ],
)
def test_scripts_that_start_a_server_run_the_container(
    words: list[str], server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(words: list[str]) -> int:
        ran.append(words)
        return 0

    monkeypatch.setattr("understudy.cli.image.__main__.main", run)
    assert scripts.main(words) == 0
    assert ran == [server]


def test_zookeepers_script_says_whether_the_server_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    monkeypatch.setenv("ZOOKEEPER_CLIENT_PORT", str(port))
    assert scripts.main(["zkServer.sh", "status"]) == 1
    assert f"no ZooKeeper serves at localhost:{port}" in capsys.readouterr().err
    assert scripts.main(["zkServer.sh", "print-cmd"]) == 2


def test_a_variable_that_cannot_be_used_fails_the_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scripts.main(["understudy-image", "configure"]) == 0
    monkeypatch.setenv("KAFKA_NUM_PARTITIONS", "x")
    assert scripts.main(["understudy-image", "configure"]) == 1
    assert "KAFKA_NUM_PARTITIONS: Invalid value x" in capsys.readouterr().err


def test_a_class_of_kafkas_tools_is_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(names.CLASSES.values()) <= VERBS.keys()
    assert scripts.main(["kafka-run-class.sh", "kafka.tools.GetOffsetShell", "--version"]) == 0
    assert scripts.main(["kafka-run-class.sh", "kafka.Kafka"]) == 1
    assert "kafka.Kafka is not here" in capsys.readouterr().err


def test_storage_of_kraft_needs_no_format(capsys: pytest.CaptureFixture[str]) -> None:
    assert scripts.main(["kafka-storage.sh", "format", "--cluster-id", "x", "-c", "server.properties"]) == 0
    assert scripts.main(["kafka-storage", "random-uuid"]) == 0
    assert len(capsys.readouterr().out.splitlines()[-1]) == 22
    assert scripts.main(["kafka-storage", "info"]) == 2


@pytest.mark.parametrize("volume", ["kafka", "bitnami", "bitnami/kafka", "var/lib/kafka/data", "data", "datalog"])
def test_every_user_can_write_to_a_volume(tmp_path: Path, volume: str) -> None:
    """A new volume gets the permissions of the folder at which it is mounted."""
    install.main([str(tmp_path)])
    assert (tmp_path / volume).stat().st_mode & 0o777 == 0o777


def test_everything_is_installed_below_a_folder(tmp_path: Path) -> None:
    assert install.main([str(tmp_path)]) == 0
    program = tmp_path / "usr/local/bin/understudy-image"
    assert program.stat().st_mode & 0o111
    for name in ("kafka-topics", "kafka-topics.sh", "kafka-server-start.sh", "zookeeper-server-start"):
        for folder in ("usr/local/bin", "opt/kafka/bin", "opt/bitnami/kafka/bin"):
            assert (tmp_path / folder / name).readlink() == Path("/usr/local/bin/understudy-image")
    run = tmp_path / "etc/confluent/docker/run"
    assert run.read_text().startswith("#!/bin/sh\n")
    assert run.stat().st_mode & 0o777 == 0o777
    assert (tmp_path / "var/lib/kafka/data").stat().st_mode & 0o777 == 0o777


def test_wait_scripts_find_cub_and_nc(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert scripts.main(["nc", "-z", "127.0.0.1", str(port)]) == 1
    assert scripts.main(["/usr/bin/cub", "listeners", "PLAINTEXT://kafka:9092"]) == 0
    assert capsys.readouterr().out.strip() == "PLAINTEXT://0.0.0.0:9092"
