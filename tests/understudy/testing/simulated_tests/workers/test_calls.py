"""Simulated tests that are called as functions, and those that unittest runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from understudy.testing import simulated
from understudy.testing.simulated_tests.arguments import BadArguments
from understudy.testing.simulated_tests.workers.calls import Options, SimulatedTestFailed, number_of

PROGRAM = """
import asyncio
import sys
import unittest
from understudy.testing import simulated

@simulated(seeds=3, faults="none")
async def check(cluster, failing):
    print("seed", cluster.seed, "prints")
    await asyncio.sleep(1)
    assert cluster.seed != failing, f"seed {failing} has come"

class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.failing = 1

    @simulated(seeds=3, faults="none")
    async def test_fails(self, cluster):
        self.assertNotEqual(cluster.seed, self.failing)

    @simulated(seeds=3, faults="none")
    async def test_skips(self, cluster):
        self.skipTest("there is no Thursday in it")

class AsyncCases(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.failing = 7

    @simulated(seeds=3, faults="none")
    async def test_passes(self, cluster):
        self.assertNotEqual(cluster.seed, self.failing)

if __name__ == "__main__":
    check(9)
    try:
        check(1)
    except AssertionError as error:
        print(error)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "cases.py").write_text(PROGRAM)
    return tmp_path


def run(project: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("UNDERSTUDY", "PYTHONH"))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=project,
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_function_of_the_main_program_runs_in_workers(project: Path) -> None:
    ended = run(project, "cases.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "seed 1 fails: at" in ended.stdout
    assert "AssertionError: seed 1 has come" in ended.stdout
    assert "UNDERSTUDY_SEED=1 python cases.py" in ended.stdout.replace(Path(sys.executable).name, "python")
    assert ended.stdout.count("seed 1 prints") == 1
    assert "seed 0 prints" not in ended.stdout


def test_unittest_runs_methods_in_workers(project: Path) -> None:
    ended = run(project, "-m", "unittest", "cases")
    assert "Ran 3 tests" in ended.stderr
    assert "FAILED (failures=1, skipped=1)" in ended.stderr
    assert "AssertionError: 1 == 1" in ended.stderr
    assert "UNDERSTUDY_SEED=1 python -m unittest cases.Cases.test_fails" in ended.stderr


def test_the_environment_chooses_one_seed(project: Path) -> None:
    ended = run(project, "-m", "unittest", "cases.Cases.test_fails", UNDERSTUDY_SEED="2")
    assert ended.returncode == 0, ended.stderr


def test_a_value_of_the_environment_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_SEED", "twelve")
    with pytest.raises(BadArguments, match="UNDERSTUDY_SEED is a whole number from 0, and not 'twelve'"):
        Options.of_environment()
    assert number_of("seeds", "") is None
    assert number_of("seeds", "12") == 12


def test_a_function_within_a_function_is_run_without_workers() -> None:
    @simulated(seeds=4, faults="none")
    async def inner(cluster: Any) -> None:
        assert cluster.seed != 2

    with pytest.raises(SimulatedTestFailed) as failed:
        inner()
    assert "seed 2 fails" in str(failed.value)
    assert "set PYTHONHASHSEED=0 to run the same again, or declare the test in a module" in str(failed.value)


def test_a_coroutine_that_never_awaits_is_ended_at_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.testing.simulated_tests.workers import watchdog  # noqa: PLC0415  the limit is changed

    monkeypatch.setattr(watchdog, "LIMIT_S", 1)

    @simulated(seeds=1, faults="none")
    async def spins(cluster: Any) -> None:
        try:
            while True:
                pass
        except Exception:  # noqa: BLE001  as loops of services have it
            pass

    with pytest.raises(SimulatedTestFailed) as failed:
        spins()
    assert "has used 1 s of processor time without awaiting anything" in str(failed.value)
    assert "test_calls.py" in str(failed.value)
    assert "in spins" in str(failed.value)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="only Linux lists its processes in /proc")
def test_an_interrupt_ends_all_processes(project: Path) -> None:
    """Also the ones that workers have forked."""
    (project / "endless.py").write_text(
        "import os, signal\nfrom understudy.testing import simulated\n\n@simulated(seeds=50, faults='none')\n"
        "async def check(cluster):\n    open(f'{os.getppid()}-{cluster.seed}', 'w').close()\n    while True: pass\n\n"
        # A shell lets what runs in its background ignore the signal.
        "if __name__ == '__main__':\n    signal.signal(signal.SIGINT, signal.default_int_handler)\n    check()\n"
    )
    program = subprocess.Popen(
        [sys.executable, "endless.py"], cwd=project, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while program.poll() is None and not list(project.glob("*-*")):
        os.sched_yield()
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=60)
    print(errors)
    assert "KeyboardInterrupt" in errors
    assert processes_in(program.pid) == []


def processes_in(session: int) -> list[str]:
    """The command lines of the processes of a session that have not ended."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of_session) == session and state != "Z":
                found.append((folder / "cmdline").read_text())
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return found


def test_strings_hash_in_workers_whatever_they_do_in_the_process_that_starts_them(project: Path) -> None:
    (project / "order.py").write_text(
        "from understudy.testing import simulated\n\n@simulated(seeds=1, faults='none')\n"
        "async def check(cluster):\n    names = {f'broker-{number}' for number in range(20)}\n"
        "    raise AssertionError(f'{list(names)}')\n"
    )
    program = "import order\ntry: order.check()\nexcept AssertionError as error: print(error)"
    found = {run(project, "-c", program, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(found) == 1
    assert "broker-19" in found.pop()


def test_objects_that_a_module_makes_while_it_is_imported_hash_by_numbers_in_workers(project: Path) -> None:
    (project / "order.py").write_text(
        "import os, random\nfrom understudy.testing import simulated\n\nclass Topic:\n    pass\n\n"
        "freed = [bytes(size) for size in range(1, 200, 8) for _ in range(200)]\n"
        "random.Random(os.environ['DISPLACED']).shuffle(freed)\ndel freed[1000:]\n"
        "topics = [Topic() for _ in range(20)]\nnames = {topic: number for number, topic in enumerate(topics)}\n"
        "topics = set(topics)\n\n@simulated(seeds=1, faults='none')\n"
        "async def check(cluster):\n    raise AssertionError(f'{[names[topic] for topic in topics]}')\n"
    )
    program = "import order\ntry: order.check()\nexcept AssertionError as error: print(error)"
    found = {run(project, "-c", program, DISPLACED=displaced).stdout for displaced in ("1", "2", "3")}
    assert len(found) == 1
    assert "19" in found.pop()
