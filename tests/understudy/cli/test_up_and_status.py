"""`understudy up` and `understudy status` as processes, with Ctrl-C and kill -9."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.understudy.cli.terminal import Terminal, eventually, line_starting_with
from understudy.brokers.machine.operator_log import LogFormat
from understudy.cli.main import main
from understudy.cli.up import LOG_FORMATS, ClusterState, changes
from understudy.clusters.processes import linux
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.run_folder import ClusterEntry, read_cluster_file

NO_ANSWER = "ZooKeeper does not answer"


def processes_of(cluster: ClusterEntry) -> list[tuple[int, int]]:
    """Return (pid, start time) of each process of the cluster."""
    found = [(broker.pid, broker.started) for broker in cluster.brokers if broker.pid is not None]
    server = cluster.zookeeper_process
    return [*found, (server.pid, server.started)] if server else found


def running(processes: list[tuple[int, int]]) -> list[int]:
    return [pid for pid, started in processes if linux.start_time(pid) == started]


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
def test_an_interrupted_up_leaves_no_process(up: Callable[..., Terminal], end: signal.Signals) -> None:
    terminal = up("--brokers", "2")
    processes = processes_of(terminal.wait_until_up())
    assert len(running(processes)) == len(processes) == 3
    os.killpg(terminal.process.pid, end)
    assert terminal.process.wait(timeout=60) == 0
    assert running(processes) == []
    assert all(broker.pid is None for broker in read_cluster_file(terminal.folder).brokers)
    logs = [(terminal.folder / f"broker-{broker}" / "broker.log").read_text() for broker in (1, 2)]
    assert all("Traceback" not in log for log in logs)


def test_a_second_ctrl_c_kills_the_processes(up: Callable[..., Terminal]) -> None:
    """While ZooKeeper is paused, no broker can finish its shutdown, so the first Ctrl-C waits."""
    terminal = up("--brokers", "1")
    cluster = terminal.wait_until_up()
    processes = processes_of(cluster)
    assert cluster.zookeeper_process is not None
    os.kill(cluster.zookeeper_process.pid, signal.SIGSTOP)
    assert terminal.out.readline() == "ZooKeeper does not answer\n"
    terminal.ctrl_c()
    assert terminal.process.stderr is not None
    assert terminal.process.stderr.readline() == "stopping in order; Ctrl-C again to kill\n"
    terminal.ctrl_c()
    assert terminal.process.wait(timeout=60) == 130
    eventually(lambda: not running(processes), "all processes have ended")


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a child with its parent")
def test_a_sigkill_of_up_leaves_no_process(up: Callable[..., Terminal]) -> None:
    terminal = up("--brokers", "3")
    processes = processes_of(terminal.wait_until_up())
    assert len(running(processes)) == 4
    terminal.process.kill()
    terminal.process.wait()
    eventually(lambda: not running(processes), f"{processes} have ended with their parent")


def test_packages_in_the_working_directory_do_not_hide_ours(up: Callable[..., Terminal], tmp_path: Path) -> None:
    """Neither those in the folder where the command is given, nor those in the brokers' run folders (D17)."""
    project = tmp_path / "project"
    folders = [project, tmp_path / "run 0" / "broker-1"]
    for folder in folders:
        for package in ("brokers", "controller", "foundation", "understudy"):
            (folder / package).mkdir(parents=True)
            (folder / package / "__init__.py").write_text(f"raise RuntimeError('{package} of the user')")
        (folder / "kazoo.py").write_text("raise RuntimeError('kazoo of the user')")
    terminal = up("--brokers", "1", cwd=project)
    assert terminal.wait_until_up().brokers[0].state == "running"


def test_up_prints_its_addresses_and_each_change_of_the_cluster(
    up: Callable[..., Terminal], capsys: pytest.CaptureFixture[str], zookeeper: EmbeddedZooKeeper
) -> None:
    connect = f"{zookeeper.connect_string}/up-{time.monotonic_ns()}"
    terminal = up("--brokers", "2", "--racks", "a,b", "--zookeeper", connect, "--session-timeout-ms", "4000")
    assert line_starting_with("bootstrap", terminal.out).count("127.0.0.1:") == 2
    assert line_starting_with("zookeeper", terminal.out).split() == ["zookeeper", connect]
    assert line_starting_with("run folder", terminal.out).endswith(f"{terminal.folder}\n")
    assert "the newest 128 MiB of each partition" in line_starting_with("retention", terminal.out)
    controller = line_starting_with("controller", terminal.out).split()
    number, pid = int(controller[2].rstrip(",")), int(controller[4])
    cluster = terminal.wait_until_up()
    assert {broker.id: broker.pid for broker in cluster.brokers}[number] == pid

    output = status(terminal.folder, capsys).splitlines()
    assert output[0] == f"controller   broker {number}, epoch 1"
    assert "rack a" in output[1]
    assert output[-1] == "partitions   0, all well"

    os.kill(pid, signal.SIGKILL)
    survivor = 3 - number
    printed = {line_starting_with("broker", terminal.out), line_starting_with("broker", terminal.out)}
    assert printed == {f"broker {number} is gone from ZooKeeper\n", f"broker {survivor} is controller now\n"}
    output = status(terminal.folder, capsys).splitlines()
    assert output[0] == f"controller   broker {survivor}, epoch 2"
    assert f"broker {number}     not registered, rack {'ab'[number - 1]}, process gone" in output

    assert main(["status", "--json", "--zookeeper", connect]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["version"], found["controller"], found["controller_epoch"]) == (1, survivor, 2)
    assert [(broker["id"], broker["registered"], broker["process"]) for broker in found["brokers"]] == [
        (survivor, True, None)
    ]
    assert main(["health", next(broker["address"] for broker in found["brokers"])]) == 0
    assert "answers; it supports" in capsys.readouterr().out


def test_the_status_of_an_ended_cluster_names_the_command_that_starts_it(
    up: Callable[..., Terminal], capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = up("--brokers", "1")
    terminal.wait_until_up()
    terminal.ctrl_c()
    terminal.process.wait(timeout=60)
    assert main(["status", str(terminal.folder)]) == 1
    output = capsys.readouterr().err
    assert output.startswith(f"understudy status: the cluster of {terminal.folder} has ended; ")
    assert output.endswith(f"`understudy up --dir '{terminal.folder}'` starts it again\n")


@pytest.mark.parametrize(
    ("before", "now", "lines"),
    [
        (ClusterState(1, frozenset({1, 2})), ClusterState(1, frozenset({1, 2})), []),
        (ClusterState(1, frozenset({1, 2})), ClusterState(None, frozenset({2})), ["broker 1 is gone from ZooKeeper"]),
        (ClusterState(1, frozenset({2})), ClusterState(2, frozenset({2})), ["broker 2 is controller now"]),
        (ClusterState(2, frozenset({2})), ClusterState(2, frozenset({1, 2})), ["broker 1 has registered"]),
        (ClusterState(2, frozenset({2})), ClusterState(2, frozenset({2}), trouble=NO_ANSWER), [NO_ANSWER]),
        (
            ClusterState(2, frozenset({2}), trouble=NO_ANSWER),
            ClusterState(2, frozenset({2})),
            ["ZooKeeper answers again"],
        ),
    ],
)
def test_only_changes_are_printed(before: ClusterState, now: ClusterState, lines: list[str]) -> None:
    assert changes(before, now) == lines


def test_a_broker_that_cannot_start_fails_the_command(up: Callable[..., Terminal]) -> None:
    terminal = up("--brokers", "1", "--override", "process.roles=broker")
    assert terminal.process.wait(timeout=60) == 1
    assert terminal.process.stderr is not None
    output = terminal.process.stderr.read()
    assert output.startswith("understudy up: broker-1 ended with exit code 1. End of ")
    assert "Traceback" not in output


def test_brokers_write_their_logs_in_the_given_format(up: Callable[..., Terminal]) -> None:
    assert tuple(each.value for each in LogFormat) == LOG_FORMATS
    terminal = up("--brokers", "1", "--log-format", "kafka")
    terminal.wait_until_up()
    terminal.ctrl_c()
    assert terminal.process.wait(timeout=60) == 0
    lines = (terminal.folder / "broker-1" / "broker.log").read_text().splitlines()
    pattern = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] (DEBUG|INFO|WARN|ERROR) .+ \([\w.]+\)")
    assert [line for line in lines if not pattern.fullmatch(line)] == []
    assert any("INFO [KafkaServer id=1] started" in line for line in lines)
