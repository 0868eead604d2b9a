"""The undos that wait: at most one for each process and verb, left out if another verb has ended the fault."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from understudy.clusters.control.job_thread import JobThread
from understudy.clusters.control.waiting_undos import WaitingUndos

TIMEOUT_S = 10.0


@pytest.fixture
def jobs() -> Iterator[JobThread]:
    jobs = JobThread("understudy-test")
    yield jobs
    jobs.close(TIMEOUT_S)


def test_an_undo_runs_once_and_waits_no_more(jobs: JobThread) -> None:
    undos, done = WaitingUndos(jobs), threading.Event()
    undos.later("broker-1", "resume", 1.0, done.set)
    assert done.wait(TIMEOUT_S)
    assert undos.take() == []


def test_a_later_undo_replaces_an_earlier_one_of_the_same_process(jobs: JobThread) -> None:
    undos = WaitingUndos(jobs)
    done: list[str] = []
    changed = threading.Event()

    def second() -> None:
        done.append("second")
        changed.set()

    undos.later("broker-1", "resume", 3_600_000.0, lambda: done.append("first"))
    undos.later("broker-2", "resume", 3_600_000.0, lambda: done.append("other"))
    undos.later("broker-1", "resume", 1.0, second)
    assert changed.wait(TIMEOUT_S)
    assert done == ["second"]
    assert undos.take() == [("broker-2", "resume")]


@pytest.mark.parametrize(
    ("verb", "left"),
    [
        ("resume", [("broker-1", "heal"), ("broker-1", "start")]),
        ("kill", [("broker-1", "heal"), ("broker-1", "start")]),
        ("restart", [("broker-1", "heal")]),
        ("heal", [("broker-1", "resume"), ("broker-1", "start")]),
        ("depose", [("broker-1", "heal"), ("broker-1", "resume"), ("broker-1", "start")]),
    ],
)
def test_a_verb_that_ends_a_fault_leaves_its_undo_out(jobs: JobThread, verb: str, left: list[tuple[str, str]]) -> None:
    undos = WaitingUndos(jobs)
    for undo in ("resume", "heal", "start"):
        undos.later("broker-1", undo, 3_600_000.0, lambda: None)
    undos.note(verb, "broker-1")
    assert undos.take() == left
    assert undos.take() == []
