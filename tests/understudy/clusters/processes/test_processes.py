"""`ChildProcess`: starting, signals and stopping; a child ends with its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from understudy.clusters.processes import linux
from understudy.clusters.processes.processes import ChildProcess, ProcessDied, describe_exit

SLEEPER = [sys.executable, "-c", "import time; print('awake', flush=True); time.sleep(600)"]


def eventually(predicate: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def state_of(pid: int) -> str:
    """The state of a process in /proc: S for sleeping, T for stopped; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildProcess]:
    child = ChildProcess("sleeper", SLEEPER, log=tmp_path / "sleeper.log", directory=tmp_path)
    yield child
    child.kill()


def test_a_child_writes_its_log_and_is_ended_by_kill(child: ChildProcess) -> None:
    eventually(lambda: "awake" in child.log.read_text(), "its first output")
    assert child.is_running
    assert linux.start_time(child.pid) == child.started
    child.kill()
    assert child.exit_code == -signal.SIGKILL
    assert linux.start_time(child.pid) is None


def test_a_child_leads_its_own_session_so_that_a_ctrl_c_in_the_terminal_does_not_reach_it(child: ChildProcess) -> None:
    assert os.getsid(child.pid) == child.pid
    assert os.getpgid(child.pid) == child.pid


def test_a_paused_child_is_stopped_until_it_is_resumed(child: ChildProcess) -> None:
    child.pause()
    eventually(lambda: state_of(child.pid) == "T", "it is stopped")
    child.resume()
    eventually(lambda: state_of(child.pid) == "S", "it runs again")


def test_the_memory_of_a_child_is_known_until_it_ends(child: ChildProcess) -> None:
    eventually(lambda: linux.resident_memory(child.pid) > 100_000, "the child runs its program")
    child.kill()
    assert linux.resident_memory(child.pid) == 0


def test_a_paused_child_can_be_stopped(child: ChildProcess) -> None:
    child.pause()
    assert child.stop(timeout_s=30)
    assert child.exit_code == -signal.SIGTERM


def test_a_child_that_ignores_sigterm_is_killed_after_the_timeout(tmp_path: Path) -> None:
    program = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('ignoring', flush=True); time.sleep(600)"
    )
    child = ChildProcess("ignorer", [sys.executable, "-c", program], log=tmp_path / "log", directory=tmp_path)
    eventually(lambda: "ignoring" in child.log.read_text(), "it ignores SIGTERM")
    assert not child.stop(timeout_s=0.2)
    assert child.exit_code == -signal.SIGKILL


def test_signals_to_a_child_that_has_ended_are_harmless(child: ChildProcess) -> None:
    child.kill()
    child.kill()
    child.pause()
    child.resume()
    assert child.stop(timeout_s=1)


def test_a_child_that_ended_unexpectedly_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    program = "import sys; sys.exit('no such znode')"
    child = ChildProcess("broker 7", [sys.executable, "-c", program], log=tmp_path / "log", directory=tmp_path)
    eventually(lambda: not child.is_running, "its end")
    with pytest.raises(ProcessDied, match=r"(?s)broker 7 ended with exit code 1\. End of .*    no such znode"):
        child.check()


def test_a_command_that_does_not_exist_is_named_in_the_log(tmp_path: Path) -> None:
    child = ChildProcess("ghost", ["/no/such/program"], log=tmp_path / "log", directory=tmp_path)
    eventually(lambda: not child.is_running, "its end")
    assert "cannot run /no/such/program: No such file or directory" in child.log_tail()


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """PR_SET_PDEATHSIG fires when the forking thread ends, which must therefore not be the caller's."""
    children: list[ChildProcess] = []
    starter = threading.Thread(
        target=lambda: children.append(ChildProcess("sleeper", SLEEPER, log=tmp_path / "log", directory=tmp_path))
    )
    starter.start()
    starter.join()
    eventually(lambda: "awake" in children[0].log.read_text(), "the launcher has executed the command")
    assert not children[0].wait(0.3)
    children[0].kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a child with its owner")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_child_ends_with_its_owner(tmp_path: Path, end: signal.Signals) -> None:
    program = textwrap.dedent(f"""
        import signal, time
        from pathlib import Path
        from understudy.clusters.processes.processes import ChildProcess
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in its background
        child = ChildProcess("sleeper", {SLEEPER!r}, log=Path("log"), directory=Path("."))
        print(child.pid, flush=True)
        time.sleep(600)
    """)
    owner = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    eventually(lambda: "awake" in (tmp_path / "log").read_text(), "the launcher has executed the command")
    owner.send_signal(end)
    owner.wait()
    owner.stdout.close()
    eventually(lambda: linux.start_time(pid) is None, f"process {pid} has ended with its owner")


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a child with its owner")
def test_the_launcher_exits_where_its_owner_has_ended_already() -> None:
    """The launcher has another parent than its owner, and does not execute its command."""
    other_process = 1
    command = [sys.executable, "-I", "-S", linux.__file__, str(other_process), sys.executable, "-c", "print('began')"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr == "the owner, process 1, has ended\n"


def test_exit_codes_are_described() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-9) == "SIGKILL"
    assert describe_exit(-250) == "signal 250"
