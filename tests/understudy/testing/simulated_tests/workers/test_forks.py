"""Forked processes: their values, and how they end otherwise."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from understudy.testing.simulated_tests.workers.forks import Child, ChildDied, ChildFailed, is_child

module_state: list[int] = []


def test_a_value_comes_back_and_what_the_process_changes_stays_in_it() -> None:
    def compute() -> tuple[list[int], bool]:
        module_state.append(1)
        return list(module_state), is_child()

    assert Child(compute).result() == ([1], True)
    assert module_state == []
    assert not is_child()


def test_a_large_value_comes_back() -> None:
    assert Child(lambda: bytes(5_000_000)).result() == bytes(5_000_000)


def test_an_exception_comes_back_as_its_traceback() -> None:
    def compute() -> None:
        raise LookupError("no such topic")

    with pytest.raises(ChildFailed, match=r"(?s)in compute.*LookupError: no such topic"):
        Child(compute).result()


def test_no_finally_of_the_parent_runs_in_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    def compute() -> None:
        sys.exit(3)

    try:
        with pytest.raises(ChildFailed, match="SystemExit: 3"):
            Child(compute).result()
    finally:
        print("the end of the test", flush=True)
    assert capfd.readouterr().out == "the end of the test\n"


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda: os._exit(7), "has ended with exit code 7"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by SIGKILL, as the system ends one when memory is"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "was ended by SIGTERM"),
    ],
    ids=["exit", "kill", "terminate"],
)
def test_a_process_that_has_died_says_how(end: object, message: str) -> None:
    assert callable(end)
    with pytest.raises(ChildDied, match=message):
        Child(end).result()


def test_a_process_is_killed() -> None:
    child = Child(signal.pause)
    child.kill()
    child.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_process_ends_with_its_parent() -> None:
    reading, writing = os.pipe()

    def parent() -> None:
        Child(signal.pause)  # it has the pipe until it ends
        os._exit(0)

    with pytest.raises(ChildDied):
        Child(parent).result()
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)
