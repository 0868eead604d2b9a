"""`understudy demo` as a process: without Java, in a folder with spaces, interrupted, and when a broker is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.shares import at_night

pytestmark = pytest.mark.xdist_group("demo")

DEMO = [sys.executable, "-P", "-m", "understudy.cli.main", "demo", "--fast"]


def without_java() -> dict[str, str]:
    """Return this environment without a Java on the PATH and without JAVA_HOME."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    folders = [folder for folder in environment["PATH"].split(os.pathsep) if not (Path(folder) / "java").exists()]
    environment["PATH"] = os.pathsep.join(folders)
    return environment


def processes_naming(folder: Path) -> list[int]:
    """Return the running processes whose working directory is in `folder` or whose command line names it."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            directory = (entry / "cwd").readlink()
        except OSError:
            continue
        if str(folder) in command or directory.is_relative_to(folder):
            found.append(int(entry.name))
    return found


def processes_with(variable: str) -> list[str]:
    """Return the command lines of the running processes that have `variable` in their environment, as `NAME=VALUE`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and variable.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


def eventually_none(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while left := processes_naming(folder):
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.05)


def test_processes_are_found_by_their_environment() -> None:
    """Otherwise the demo would leave none, whatever it leaves."""
    marked = os.environ | {"A_MARK": "of this test"}
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=marked, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # The kernel shows the environment of a process a moment after Popen has returned.
        process.stdin.write(b"started\n")
        assert process.stdout.readline() == b"started\n"
        assert processes_with("A_MARK=of this test") == ["cat "]


def run_into_files(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command and return at its end, also if a process that it has started continues."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=out, stderr=err, timeout=560, check=False)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read())
    return subprocess.CompletedProcess(command, done.returncode, *texts)


@pytest.mark.representative("a cluster of processes")
def test_the_demo_succeeds_without_java_in_a_folder_with_spaces(tmp_path: Path) -> None:
    """The working directory has folders with the names of our packages, and the only Java is the one from pip."""
    folder = tmp_path / "a folder with spaces"
    for name in ("controller", "brokers", "foundation"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    caches, mark = tmp_path / "caches", f"UNDERSTUDY_TEST_OF_THE_DEMO={tmp_path}"
    environment = without_java() | {"UNDERSTUDY_CLASS_CACHE": str(caches)} | dict([mark.split("=", 1)])
    done = run_into_files(DEMO, folder, environment)
    assert processes_with(mark) == []
    assert not caches.exists(), "a cache takes as long again as the demo; `understudy replay` makes it"
    assert done.returncode == 0, done.stdout + done.stderr
    for line in ("controller, epoch 2", "controller, epoch 3", "refuses LeaderAndIsr", "The story happened as told"):
        assert line in done.stdout
    records = re.search(r"Records: ([\d,]+) acknowledged while this happened; all are there, each once", done.stdout)
    assert records is not None
    assert int(records[1].replace(",", "")) > 10  # how many depends on the machine
    for step in ("waiting for Spark", "computing the tables", "checking the invariants"):
        assert f"… {step}" in done.stdout, "Spark takes seconds"
    assert len(done.stdout.splitlines()) <= 75, "readable without scrolling back"
    assert done.stderr == ""


@pytest.mark.parametrize(
    "line_part",
    [
        "The cast",
        "SIGKILL to broker",
        pytest.param("refuses LeaderAndIsr", marks=at_night("the demo is interrupted earlier each time")),
    ],
)
def test_ctrl_c_ends_all_processes(tmp_path: Path, line_part: str) -> None:
    command = [*DEMO, "--dir", str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while line_part not in (line := demo.stdout.readline()):
            assert line, "the demo ended before this line"
        demo.send_signal(signal.SIGINT)
        output = demo.stdout.read() + (demo.stderr.read() if demo.stderr else "")
        assert demo.wait(timeout=60) == 130, output
    eventually_none(tmp_path)


@at_night("steps of lessons and experiments that fail are reported each time")
def test_a_demo_that_fails_prints_the_reason(tmp_path: Path) -> None:
    """The test kills a second broker: the exit code is 1, and the reason names that broker."""
    command = [*DEMO, "--dir", str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while "SIGKILL to broker" not in (line := demo.stdout.readline()):
            assert line, "the demo ended before this line"
        cluster = json.loads((tmp_path / "run" / "cluster.json").read_bytes())
        other = next(broker for broker in cluster["brokers"] if broker["pid"] and f"broker {broker['id']}," not in line)
        os.kill(other["pid"], signal.SIGKILL)
        output = demo.stdout.read()
        assert demo.wait(timeout=180) == 1, output
    assert "The story did not happen" in output
    assert f"broker-{other['id']}" in output
    eventually_none(tmp_path)
