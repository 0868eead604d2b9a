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
from understudy.testbed import linux
from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word

pytestmark = pytest.mark.slow

UNDERSTUDY = [sys.executable, "-P", "-m", "understudy.cli.main"]


def silent_port() -> tuple[socket.socket, int]:
    """A port that accepts and never answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    return listening, listening.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_zookeeper_in_the_foreground_ends_with_its_command(tmp_path: Path, number: signal.Signals) -> None:
    command = [*UNDERSTUDY, "zookeeper", "--port", "0", "--dir", str(tmp_path / "with space")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        said = serving.stdout.readline()
        found = re.match(r"ZooKeeper at 127\.0\.0\.1:(\d+), data in (.*), Java \d+ at ", said)
        assert found is not None, said + serving.stderr.read()
        assert found[2] == str(tmp_path / "with space")
        assert "Mode: standalone" in four_letter_word("127.0.0.1", int(found[1]), "srvr")
        serving.send_signal(number)
        assert serving.wait(timeout=60) == 0
        assert serving.stderr.read() == ""
    assert four_letter_word("127.0.0.1", int(found[1]), "srvr") == ""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the server's process through /proc")
def test_a_zookeeper_that_dies_takes_the_command_with_it(tmp_path: Path) -> None:
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


def test_a_java_that_does_not_fit_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zookeeper", "--dir", str(tmp_path / "data"), "--java-home", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"understudy zookeeper: --java-home={tmp_path}: there is no bin/java in it.")
    assert said.count("\n") == 1


def test_a_zookeeper_that_serves_is_healthy(zookeeper: EmbeddedZooKeeper, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["health", "--zookeeper", zookeeper.connect_string]) == 0
    assert capsys.readouterr().out == f"{zookeeper.connect_string} serves. Mode: standalone\n"


def test_a_reader_that_has_seen_enough_is_no_error(zookeeper: EmbeddedZooKeeper) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [*UNDERSTUDY, "health", "--zookeeper", zookeeper.connect_string]
    answer = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (answer.returncode, answer.stderr) == (0, "")


@pytest.mark.parametrize("flags", [["--zookeeper"], []])
def test_nobody_at_the_port_is_unhealthy(flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert main(["health", *flags, address]) == 1
    assert address in capsys.readouterr().err


@pytest.mark.parametrize("flags", [["--zookeeper"], []])
def test_a_server_that_does_not_answer_is_unhealthy(
    flags: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.cli.health.TIMEOUT_MS", 200)
    listening, port = silent_port()
    with listening:
        assert main(["health", *flags, f"127.0.0.1:{port}"]) == 1
    assert f"127.0.0.1:{port}" in capsys.readouterr().err
