"""`understudy up` and `understudy status`, as people meet them: two terminals, Ctrl-C, kill -9."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from brokers.machine.operator_log import LogFormat
from understudy.cli.main import main
from understudy.cli.up import LOG_FORMATS, Known, changes
from understudy.testbed import linux
from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper
from understudy.testbed.run_folder import ClusterEntry, read_cluster_file

pytestmark = pytest.mark.slow

SILENT = "ZooKeeper does not answer"
UNDERSTUDY = [sys.executable, "-P", "-m", "understudy.cli.main"]


def eventually(predicate: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.02)


def processes_of(cluster: ClusterEntry) -> list[tuple[int, int]]:
    """(pid, start time) of everything the cluster consists of."""
    found = [(broker.pid, broker.started) for broker in cluster.brokers if broker.pid is not None]
    server = cluster.zookeeper_process
    return [*found, (server.pid, server.started)] if server else found


def alive(processes: list[tuple[int, int]]) -> list[int]:
    return [pid for pid, started in processes if linux.start_time(pid) == started]


def line_starting_with(start: str, stream: IO[str]) -> str:
    for line in stream:
        if line.startswith(start):
            return line
    raise AssertionError(f"the output ended without a line starting with {start!r}")


class Terminal:
    """A terminal in which `understudy up` runs."""

    def __init__(self, folder: Path, *flags: str, cwd: Path | None = None) -> None:
        self.folder = folder
        command = [*UNDERSTUDY, "up", "--dir", str(folder), *flags]
        self.process = subprocess.Popen(
            command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    @property
    def out(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def is_up(self) -> ClusterEntry:
        """Wait for the introduction to end."""
        try:
            line_starting_with("Ctrl-C stops everything.", self.out)
        except AssertionError:
            assert self.process.stderr is not None
            raise AssertionError(self.process.stderr.read()) from None
        return read_cluster_file(self.folder)

    def ctrl_c(self) -> None:
        """What the terminal does: SIGINT to the whole foreground process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def start(*flags: str, cwd: Path | None = None) -> Terminal:
        terminals.append(Terminal(tmp_path / f"run {len(terminals)}", *flags, cwd=cwd))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def status(cluster: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["status", str(cluster)]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_up_until_interrupted_leaves_nothing(up: Callable[..., Terminal], end: signal.Signals) -> None:
    terminal = up("--brokers", "2")
    processes = processes_of(terminal.is_up())
    assert len(alive(processes)) == len(processes) == 3
    os.killpg(terminal.process.pid, end)
    assert terminal.process.wait(timeout=60) == 0
    assert alive(processes) == []
    assert all(broker.pid is None for broker in read_cluster_file(terminal.folder).brokers)
    logs = [(terminal.folder / f"broker-{broker}" / "broker.log").read_text() for broker in (1, 2)]
    assert all("Traceback" not in log for log in logs)


def test_a_second_ctrl_c_kills(up: Callable[..., Terminal]) -> None:
    """While ZooKeeper stands still nobody can leave in order, and the first Ctrl-C would wait for a while."""
    terminal = up("--brokers", "1")
    cluster = terminal.is_up()
    processes = processes_of(cluster)
    assert cluster.zookeeper_process is not None
    os.kill(cluster.zookeeper_process.pid, signal.SIGSTOP)
    assert terminal.out.readline() == "ZooKeeper does not answer\n"
    terminal.ctrl_c()
    assert terminal.process.stderr is not None
    assert terminal.process.stderr.readline() == "stopping in order; Ctrl-C again to kill\n"
    terminal.ctrl_c()
    assert terminal.process.wait(timeout=60) == 130
    eventually(lambda: not alive(processes), "everything is gone")


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a child with its owner")
def test_a_sigkill_of_the_owner_leaves_nothing(up: Callable[..., Terminal]) -> None:
    terminal = up("--brokers", "3")
    processes = processes_of(terminal.is_up())
    assert len(alive(processes)) == 4
    terminal.process.kill()
    terminal.process.wait()
    eventually(lambda: not alive(processes), f"{processes} are gone with their owner")


def test_nothing_in_the_working_directory_hides_our_packages(up: Callable[..., Terminal], tmp_path: Path) -> None:
    """Where the command is given, and in the brokers' own run folders (D17)."""
    hostile = tmp_path / "project"
    folders = [hostile, tmp_path / "run 0" / "broker-1"]
    for folder in folders:
        for package in ("brokers", "controller", "foundation", "understudy"):
            (folder / package).mkdir(parents=True)
            (folder / package / "__init__.py").write_text(f"raise RuntimeError('{package} of the user')")
        (folder / "kazoo.py").write_text("raise RuntimeError('kazoo of the user')")
    terminal = up("--brokers", "1", cwd=hostile)
    assert terminal.is_up().brokers[0].state == "running"


def test_up_says_what_to_know_and_what_changes(
    up: Callable[..., Terminal], capsys: pytest.CaptureFixture[str], zookeeper: EmbeddedZooKeeper
) -> None:
    connect = f"{zookeeper.connect_string}/up-{time.monotonic_ns()}"
    terminal = up("--brokers", "2", "--racks", "a,b", "--zookeeper", connect, "--session-timeout-ms", "4000")
    assert line_starting_with("bootstrap", terminal.out).count("127.0.0.1:") == 2
    assert line_starting_with("zookeeper", terminal.out).split() == ["zookeeper", connect]
    assert line_starting_with("run folder", terminal.out).endswith(f"{terminal.folder}\n")
    controller = line_starting_with("controller", terminal.out).split()
    number, pid = int(controller[2].rstrip(",")), int(controller[4])
    cluster = terminal.is_up()
    assert {broker.id: broker.pid for broker in cluster.brokers}[number] == pid

    said = status(terminal.folder, capsys).splitlines()
    assert said[0] == f"controller   broker {number}, epoch 1"
    assert "rack a" in said[1]
    assert said[-1] == "partitions   0, all well"

    os.kill(pid, signal.SIGKILL)
    survivor = 3 - number
    told = {line_starting_with("broker", terminal.out), line_starting_with("broker", terminal.out)}
    assert told == {f"broker {number} is gone from ZooKeeper\n", f"broker {survivor} is controller now\n"}
    said = status(terminal.folder, capsys).splitlines()
    assert said[0] == f"controller   broker {survivor}, epoch 2"
    assert f"broker {number}     not registered, rack {'ab'[number - 1]}, process gone" in said

    assert main(["status", "--json", "--zookeeper", connect]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["controller"], found["controller_epoch"]) == (1, survivor, 2)
    assert [(broker["id"], broker["registered"], broker["process"]) for broker in found["brokers"]] == [
        (survivor, True, None)
    ]
    assert main(["health", next(broker["address"] for broker in found["brokers"])]) == 0
    assert "answers; it speaks" in capsys.readouterr().out


def test_the_status_of_a_cluster_that_has_ended(
    up: Callable[..., Terminal], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = up("--brokers", "1")
    terminal.is_up()
    terminal.ctrl_c()
    terminal.process.wait(timeout=60)
    assert main(["status", str(terminal.folder)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"understudy status: the cluster of {terminal.folder} has ended; ")
    assert said.endswith(f"`understudy up --dir '{terminal.folder}'` starts it again\n")


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (Known(1, frozenset({1, 2})), Known(1, frozenset({1, 2})), []),
        (Known(1, frozenset({1, 2})), Known(None, frozenset({2})), ["broker 1 is gone from ZooKeeper"]),
        (Known(1, frozenset({2})), Known(2, frozenset({2})), ["broker 2 is controller now"]),
        (Known(2, frozenset({2})), Known(2, frozenset({1, 2})), ["broker 1 has registered"]),
        (Known(2, frozenset({2})), Known(2, frozenset({2}), trouble=SILENT), [SILENT]),
        (Known(2, frozenset({2}), trouble=SILENT), Known(2, frozenset({2})), ["ZooKeeper answers again"]),
    ],
)
def test_only_changes_are_told(before: Known, now: Known, told: list[str]) -> None:
    assert changes(before, now) == told


def test_a_broker_that_cannot_start_fails_the_command(up: Callable[..., Terminal]) -> None:
    terminal = up("--brokers", "1", "--override", "process.roles=broker")
    assert terminal.process.wait(timeout=60) == 1
    assert terminal.process.stderr is not None
    said = terminal.process.stderr.read()
    assert said.startswith("understudy up: broker-1 ended with exit code 1. End of ")
    assert "Traceback" not in said


def test_brokers_write_their_logs_in_the_format_that_was_asked_for(up: Callable[..., Terminal]) -> None:
    assert tuple(each.value for each in LogFormat) == LOG_FORMATS
    terminal = up("--brokers", "1", "--log-format", "kafka")
    terminal.is_up()
    terminal.ctrl_c()
    assert terminal.process.wait(timeout=60) == 0
    lines = (terminal.folder / "broker-1" / "broker.log").read_text().splitlines()
    pattern = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (DEBUG|INFO|WARN|ERROR) .+ \([\w.]+\)")
    assert [line for line in lines if not pattern.fullmatch(line)] == []
    assert any("INFO [KafkaServer id=1] started" in line for line in lines)
