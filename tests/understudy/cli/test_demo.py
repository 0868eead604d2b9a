"""`understudy demo` as a user meets it: without Java, in an awkward folder, interrupted, and when it goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("demo")]

DEMO = [sys.executable, "-P", "-m", "understudy.cli.main", "demo", "--fast"]


def without_java() -> dict[str, str]:
    """This environment, as on a machine where no Java is on the PATH and JAVA_HOME is unset."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK", "PYSPARK"))
    }
    folders = [folder for folder in environment["PATH"].split(os.pathsep) if not (Path(folder) / "java").exists()]
    environment["PATH"] = os.pathsep.join(folders)
    return environment


def processes_naming(folder: Path) -> list[int]:
    """Living processes whose working directory or command line lies in `folder`."""
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


def eventually_none(folder: Path) -> None:
    deadline = time.monotonic() + 30
    while left := processes_naming(folder):
        assert time.monotonic() < deadline, f"still alive: {left}"
        time.sleep(0.05)


def test_the_whole_story_in_an_awkward_folder_without_java(tmp_path: Path) -> None:
    """Spaces in the path, folders of the user's with our packages' names, no Java but the one that pip brought."""
    folder = tmp_path / "a folder with spaces"
    for name in ("controller", "brokers", "foundation"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    done = subprocess.run(DEMO, cwd=folder, env=without_java(), capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("controller, epoch 2", "controller, epoch 3", "refuses LeaderAndIsr", "The story happened as told"):
        assert said in done.stdout
    for step in ("starting Java for Spark", "computing the tables", "checking the invariants"):
        assert f"… {step}" in done.stdout, "Spark takes half a minute"
    assert len(done.stdout.splitlines()) <= 75, "readable without scrolling back"
    assert done.stderr == ""
    eventually_none(folder)


@pytest.mark.parametrize("scene", ["The cast", "SIGKILL to broker", "refuses LeaderAndIsr"])
def test_ctrl_c_at_any_moment_leaves_no_process_behind(tmp_path: Path, scene: str) -> None:
    command = [*DEMO, "--dir", str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while scene not in (line := demo.stdout.readline()):
            assert line, "it ended before the scene"
        demo.send_signal(signal.SIGINT)
        said = demo.stdout.read() + (demo.stderr.read() if demo.stderr else "")
        assert demo.wait(timeout=60) == 130, said
    eventually_none(tmp_path)


def test_a_story_that_does_not_happen_ends_with_its_reason(tmp_path: Path) -> None:
    """Somebody kills a broker behind the demo's back: exit 1, and the reason names it."""
    command = [*DEMO, "--dir", str(tmp_path / "run")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        while "SIGKILL to broker" not in (line := demo.stdout.readline()):
            assert line, "it ended before the scene"
        cluster = json.loads((tmp_path / "run" / "cluster.json").read_bytes())
        victim = next(
            broker for broker in cluster["brokers"] if broker["pid"] and f"broker {broker['id']}," not in line
        )
        os.kill(victim["pid"], signal.SIGKILL)
        said = demo.stdout.read()
        assert demo.wait(timeout=180) == 1, said
    assert "The story did not happen" in said
    assert f"broker-{victim['id']}" in said
    eventually_none(tmp_path)
