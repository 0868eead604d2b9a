"""Children and their ends: nothing survives its owner, and nobody else is struck."""

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

from understudy.testbed import linux
from understudy.testbed.processes import ChildProcess, ProcessDied, describe_exit

pytestmark = pytest.mark.slow

SLEEPER = [sys.executable, "-c", "import time; print('awake', flush=True); time.sleep(600)"]


def eventually(predicate: Callable[[], object], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.01)


def state_of(pid: int) -> str:
    """The letter of /proc: S sleeping, T stopped; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.fixture
def child(tmp_path: Path) -> Iterator[ChildProcess]:
    child = ChildProcess("sleeper", SLEEPER, log=tmp_path / "sleeper.log", directory=tmp_path)
    yield child
    child.kill()


def test_a_child_has_a_pid_a_log_and_an_end(child: ChildProcess) -> None:
    eventually(lambda: "awake" in child.log.read_text(), "its first words")
    assert child.is_running
    assert linux.start_time(child.pid) == child.started
    child.kill()
    assert child.exit_code == -signal.SIGKILL
    assert linux.start_time(child.pid) is None


def test_it_leads_a_session_of_its_own_so_that_a_ctrl_c_in_the_terminal_misses_it(child: ChildProcess) -> None:
    assert os.getsid(child.pid) == child.pid
    assert os.getpgid(child.pid) == child.pid


def test_paused_it_stands_still_and_resumed_it_goes_on(child: ChildProcess) -> None:
    child.pause()
    eventually(lambda: state_of(child.pid) == "T", "it is stopped")
    child.resume()
    eventually(lambda: state_of(child.pid) == "S", "it goes on")


def test_a_paused_child_can_be_stopped_and_killed(child: ChildProcess) -> None:
    child.pause()
    assert child.stop(timeout_s=30)
    assert child.exit_code == -signal.SIGTERM


def test_a_child_that_ignores_sigterm_is_killed_after_the_bound(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    child = ChildProcess("stubborn", [sys.executable, "-c", stubborn], log=tmp_path / "log", directory=tmp_path)
    eventually(lambda: "deaf" in child.log.read_text(), "it no longer listens")
    assert not child.stop(timeout_s=0.2)
    assert child.exit_code == -signal.SIGKILL


def test_striking_one_that_has_ended_is_harmless(child: ChildProcess) -> None:
    child.kill()
    child.kill()
    child.pause()
    child.resume()
    assert child.stop(timeout_s=1)


def test_an_early_end_is_reported_with_the_end_of_the_log(tmp_path: Path) -> None:
    program = "import sys; sys.exit('no such znode')"
    child = ChildProcess("broker 7", [sys.executable, "-c", program], log=tmp_path / "log", directory=tmp_path)
    eventually(lambda: not child.is_running, "its end")
    with pytest.raises(ProcessDied, match=r"(?s)broker 7 ended with exit code 1\. End of .*    no such znode"):
        child.check()


def test_a_command_that_does_not_exist_says_so_in_the_log(tmp_path: Path) -> None:
    child = ChildProcess("ghost", ["/no/such/program"], log=tmp_path / "log", directory=tmp_path)
    eventually(lambda: not child.is_running, "its end")
    assert "cannot run /no/such/program: No such file or directory" in child.log_tail()


def test_a_child_outlives_the_thread_that_asked_for_it(tmp_path: Path) -> None:
    """PR_SET_PDEATHSIG fires when the forking thread ends: it must not be the caller's."""
    children: list[ChildProcess] = []
    asker = threading.Thread(
        target=lambda: children.append(ChildProcess("sleeper", SLEEPER, log=tmp_path / "log", directory=tmp_path))
    )
    asker.start()
    asker.join()
    eventually(lambda: "awake" in children[0].log.read_text(), "it is past its launcher")
    assert not children[0].wait(0.3)
    children[0].kill()


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a child with its owner")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_its_owner(tmp_path: Path, end: signal.Signals) -> None:
    program = textwrap.dedent(f"""
        import sys, time
        from pathlib import Path
        from understudy.testbed.processes import ChildProcess
        child = ChildProcess("sleeper", {SLEEPER!r}, log=Path("log"), directory=Path("."))
        print(child.pid, flush=True)
        time.sleep(600)
    """)
    owner = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    eventually(lambda: "awake" in (tmp_path / "log").read_text(), "the child is past its launcher")
    owner.send_signal(end)
    owner.wait()
    owner.stdout.close()
    eventually(lambda: linux.start_time(pid) is None, f"process {pid} is gone with its owner")


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends a child with its owner")
def test_an_owner_that_died_before_the_promise_was_made_leaves_nothing_either() -> None:
    """The launcher finds another parent than the owner it was promised to, and does not begin."""
    someone_else = 1
    command = [sys.executable, "-I", "-S", linux.__file__, str(someone_else), sys.executable, "-c", "print('began')"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr == "the owner, process 1, is gone\n"


def test_exits_in_words() -> None:
    assert describe_exit(3) == "exit code 3"
    assert describe_exit(-9) == "SIGKILL"
    assert describe_exit(-250) == "signal 250"
