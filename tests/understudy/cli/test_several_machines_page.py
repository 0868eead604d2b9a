"""The commands of docs/guides/several-machines.md, in their order, on machines that are folders and clocks of this one.

Each machine has a monotonic clock of its own, by a time namespace of Linux. `ssh` runs its command here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.shares import at_night
from understudy.clusters.processes.free_ports import free_ports

PAGE = (Path(__file__).parents[3] / "docs" / "guides" / "several-machines.md").read_text()
MACHINES = ("one", "two", "three")
START = "cd /var/lib/understudy\n"
TIMEOUT_S = 120.0

_FAULT = re.compile(
    r"^\| the broker is (?P<what>killed|paused|stopped)[^|]*\| `(?P<command>[^`]+)` \| (?:`(?P<undo>[^`]+)`)?",
    re.MULTILINE,
)
_FAILOVER = re.compile(
    r"^Failover to epoch 2: broker \d → \d \([^)]*\), (?P<seconds>[\d.]+) s( ± .*s)?( \?)? without (a controller|one)",
    re.MULTILINE,
)
"""The report marks the time with a question mark if the order of two clocks decides it."""


def blocks(beginning: str) -> list[str]:
    """The blocks of the page that begin with a text."""
    found = re.findall(r"^```[a-z]*\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return [block for block in found if block.startswith(beginning)]


class Machines:
    """The machines of the page: the folders one, two and three, in which the page's paths and addresses are changed."""

    def __init__(self, folder: Path, clocks: Sequence[int]) -> None:
        self.folder = folder
        self.zookeeper, *self.ports = free_ports(4)
        programs = folder / "bin"
        programs.mkdir()
        write_program(programs / "ssh", 'while [ "$1" != -- ]; do shift; done; shift 2; exec sh -c "$*"')
        for name, clock in zip(MACHINES, clocks, strict=True):
            (folder / name / "bin").mkdir(parents=True)
            inside = f"nsenter --preserve-credentials -U -T -t {clock} "
            write_program(folder / name / "bin" / "python", f'exec {inside}{sys.executable} -P "$@"')

    def text(self, block: str, machine: str = "one") -> str:
        """Return a block with the addresses and folders of a machine."""
        for name, port in zip(MACHINES, self.ports, strict=True):
            block = block.replace(f"{name}.example:9092", f"127.0.0.1:{port}")
            block = block.replace(f"{name}.example:/var/lib/understudy", f"{name}.example:{self.folder / name}")
        block = block.replace("one.example:2181", f"127.0.0.1:{self.zookeeper}").replace("2181", str(self.zookeeper))
        return block.replace("/var/lib/understudy", str(self.folder / machine)).replace("0.0.0.0", "127.0.0.1")

    def properties(self, machine: str) -> str:
        """Return the file of the page for a machine: the id, the name and the port differ."""
        number = MACHINES.index(machine)
        (block,) = blocks("broker.id=1\n")
        block = block.replace("broker.id=1", f"broker.id={number + 1}").replace("//one.example", f"//{machine}.example")
        return self.text(block, machine).replace(":9092", f":{self.ports[number]}")

    def run(self, command: str, machine: str = "one", expected: int = 0) -> str:
        """Run a command of the page on a machine; return what it prints."""
        done = subprocess.run(
            ["sh", "-c", self.text(command, machine)],
            cwd=self.folder / machine,
            env=self.environment(machine),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def environment(self, machine: str) -> dict[str, str]:
        own = f"{self.folder / machine / 'bin'}:{self.folder / 'bin'}:{Path(sys.executable).parent}"
        return {**os.environ, "PATH": f"{own}:{os.environ['PATH']}"}

    def status_with(self, pattern: str) -> str:
        """Wait until the status has a line; return what the pattern's group finds in it."""
        deadline = time.monotonic() + TIMEOUT_S
        status = ""
        while time.monotonic() < deadline:
            with contextlib.suppress(AssertionError):
                status = self.run("understudy status --zookeeper one.example:2181")
                if found := re.search(pattern, status, re.MULTILINE):
                    return found[1]
            time.sleep(0.2)
        raise AssertionError(f"no line {pattern} in {status}")

    def pid(self, machine: str) -> int:
        return int((self.folder / machine / "broker.pid").read_text())


def write_program(file: Path, script: str) -> None:
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


@pytest.fixture
def clocks(tmp_path: Path) -> Iterator[list[int]]:
    """The processes that hold a time namespace for each machine."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        pytest.skip("there is no unshare or no nsenter on this machine")
    holders = []
    pids = []
    with contextlib.ExitStack() as stack:
        for number in range(len(MACHINES)):
            file = tmp_path / f"clock-{number}"
            command = ["unshare", "-Ur", "-T", "--monotonic", str(number * 1_000_000), "--fork", "--kill-child"]
            holder = subprocess.Popen(
                [*command, "sh", "-c", f"echo $$ > {file}.new; mv {file}.new {file}; exec sleep 900"],
                stderr=subprocess.PIPE,
            )
            holders.append(holder)
            stack.callback(end, holder)
            while not file.exists():
                if holder.poll() is not None:
                    assert holder.stderr is not None
                    pytest.skip(f"no time namespace on this machine: {holder.stderr.read().decode().strip()}")
                time.sleep(0.01)
            pids.append(int(file.read_text()))
        yield pids


def end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stderr is not None:
        process.stderr.close()


@pytest.fixture
def machines(tmp_path: Path, clocks: list[int]) -> Iterator[Machines]:
    """The machines, with a ZooKeeper that runs and brokers that have been started as the page says."""
    found = Machines(tmp_path, clocks)
    (zookeeper,) = blocks("understudy zookeeper")
    with (tmp_path / "zookeeper.log").open("wb") as log:
        command = f"exec {found.text(zookeeper)}"
        server = subprocess.Popen(["sh", "-c", command], env=found.environment("one"), stdout=log, stderr=log)
    try:
        for machine in MACHINES:
            (tmp_path / machine / "server.properties").write_text(found.properties(machine))
            found.run(blocks(START)[0], machine)
        yield found
    finally:
        for machine in MACHINES:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                os.kill(found.pid(machine), signal.SIGKILL)
        server.terminate()
        server.wait()


@at_night("collecting from machines by ssh has tests of its own")
def test_brokers_on_several_machines_are_killed_collected_and_analysed(machines: Machines) -> None:
    faults = {fault["what"]: fault["command"] for fault in _FAULT.finditer(PAGE)}
    (resume,) = (fault["undo"] for fault in _FAULT.finditer(PAGE) if fault["undo"])
    assert list(faults) == ["killed", "paused", "stopped"]
    (start,) = blocks(START)
    for number in (1, 2, 3):
        machines.status_with(rf"^(broker {number}) ")
    for command in blocks("understudy status")[0].splitlines():
        machines.run(command)
    machines.run(blocks("python -m understudy.clusters")[0])
    first = MACHINES[int(machines.status_with(r"^controller +broker (\d), epoch 1$")) - 1]
    machines.run(faults["killed"], first)
    second = MACHINES[int(machines.status_with(r"^controller +broker (\d), epoch 2$")) - 1]
    assert second != first
    machines.run(start, first)
    machines.status_with(rf"^(broker {MACHINES.index(first) + 1}) ")
    machines.run(faults["paused"], second)
    third = MACHINES[int(machines.status_with(r"^controller +broker (\d), epoch 3$")) - 1]
    machines.run(resume, second)
    machines.status_with(rf"^(broker {MACHINES.index(second) + 1}) ")
    machines.run(faults["stopped"], third)
    machines.status_with(r"^controller +broker (\d), epoch 4$")

    (collect,) = blocks("understudy collect")
    collected = machines.run(collect)
    assert "\n3 clocks; times of one are exact, others are within:\n" in collected
    assert "complete: no record shows that others are missing\n" in collected
    replay, check, page = blocks("understudy replay")[0].splitlines()
    shown = machines.run(f"{replay} --engine python")
    failover = _FAILOVER.search(shown)
    assert failover is not None, shown
    assert 1 < float(failover["seconds"]) < 60, "clocks differ by 1,000,000 s"
    assert "no violations" in machines.run(check)
    machines.run(page)
    assert (machines.folder / "one" / "weekend-1.html").stat().st_size > 100_000
    machines.run("rm -r runs/weekend-1/broker-2")
    again = machines.run(collect.replace("two.example:/var/lib/understudy ", ""), expected=3)
    assert "records missing: broker-2, " in again
