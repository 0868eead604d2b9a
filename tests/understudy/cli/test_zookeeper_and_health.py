"""`understudy zookeeper` and `understudy health`, as processes."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.cli.main import main
from understudy.clusters.processes import linux
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word

UNDERSTUDY = [sys.executable, "-P", "-m", "understudy.cli.main"]


def silent_server() -> tuple[socket.socket, int]:
    """Return a server that accepts connections and never answers, and its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    return listening, listening.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_command_and_its_zookeeper(tmp_path: Path, number: signal.Signals) -> None:
    command = [*UNDERSTUDY, "zookeeper", "--port", "0", "--dir", str(tmp_path / "with space")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        output = serving.stdout.readline()
        found = re.match(r"ZooKeeper at 127\.0\.0\.1:(\d+), data in (.*), Java \d+ at ", output)
        assert found is not None, output + serving.stderr.read()
        assert found[2] == str(tmp_path / "with space")
        assert "Mode: standalone" in four_letter_word("127.0.0.1", int(found[1]), "srvr")
        serving.send_signal(number)
        assert serving.wait(timeout=60) == 0
        assert serving.stderr.read() == ""
    assert four_letter_word("127.0.0.1", int(found[1]), "srvr") == ""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the server's process through /proc")
def test_the_command_fails_if_its_zookeeper_is_killed(tmp_path: Path) -> None:
    command = [*UNDERSTUDY, "zookeeper", "--port", "0", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        assert serving.stdout.readline().startswith("ZooKeeper at ")
        listings = Path(f"/proc/{serving.pid}/task").glob("*/children")
        (server,) = [int(child) for listing in listings for child in listing.read_text().split()]
        assert linux.listening_ports(server)
        os.kill(server, signal.SIGKILL)
        assert serving.wait(timeout=60) == 1
        assert "understudy zookeeper: ZooKeeper ended with SIGKILL" in serving.stderr.read()


def test_a_java_home_without_java_prints_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper", "--dir", str(tmp_path / "data"), "--java-home", str(tmp_path)]) == 1
    output = capsys.readouterr().err
    assert output.startswith(f"understudy zookeeper: --java-home={tmp_path}: there is no bin/java in it.")
    assert output.count("\n") == 1


def test_a_zookeeper_that_answers_is_healthy(zookeeper: EmbeddedZooKeeper, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--zookeeper", zookeeper.connect_string]) == 0
    assert capsys.readouterr().out == f"{zookeeper.connect_string} serves. Mode: standalone\n"


def test_a_closed_output_pipe_is_no_error(zookeeper: EmbeddedZooKeeper) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*UNDERSTUDY, "health", "--zookeeper", zookeeper.connect_string]
    answer = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("flags", [["--zookeeper"], []])
def test_a_port_without_a_server_is_unhealthy(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as not_listening:
        not_listening.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{not_listening.getsockname()[1]}"
        assert main(["health", *flags, address]) == 1
    assert address in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--zookeeper"], []])
def test_a_server_that_does_not_answer_is_unhealthy(
    flags: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.cli.health.TIMEOUT_MS", 200)
    listening, port = silent_server()
    with listening:
        assert main(["health", *flags, f"127.0.0.1:{port}"]) == 1
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
