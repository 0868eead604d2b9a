"""Tests of `JobThread`: jobs run one after the other, delayed ones when they are due, none after it is closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from understudy.clusters.cluster import ClusterError
from understudy.clusters.control import job_thread
from understudy.clusters.control.job_thread import JobThread, TooManyWait

TIMEOUT_S = 30


@pytest.fixture
def jobs() -> Iterator[JobThread]:
    jobs = JobThread("test-jobs")
    yield jobs
    assert jobs.close(TIMEOUT_S)


def test_jobs_run_one_after_the_other_in_order(jobs: JobThread) -> None:
    may_end = threading.Event()
    done: list[int] = []
    first = jobs.submit(lambda: may_end.wait(TIMEOUT_S))
    later = [jobs.submit(lambda number=number: done.append(number)) for number in range(5)]  # type: ignore[misc]  # mypy infers no lambda with a default
    assert done == []
    may_end.set()
    assert first.result(TIMEOUT_S)
    for each in later:
        each.result(TIMEOUT_S)
    assert done == [0, 1, 2, 3, 4]


def test_a_delayed_job_runs_when_it_is_due_and_after_those_that_are_due_before(jobs: JobThread) -> None:
    begun = time.monotonic()
    order: list[str] = []
    delayed = jobs.later(0.2, lambda: order.append("delayed"))
    jobs.submit(lambda: order.append("at once")).result(TIMEOUT_S)
    delayed.result(TIMEOUT_S)
    assert order == ["at once", "delayed"]
    assert time.monotonic() - begun >= 0.2


def test_the_error_of_a_job_reaches_its_caller_and_the_next_job_runs(jobs: JobThread) -> None:
    with pytest.raises(ZeroDivisionError):
        jobs.submit(lambda: 1 / 0).result(TIMEOUT_S)
    assert jobs.submit(lambda: 7).result(TIMEOUT_S) == 7


def test_a_cancelled_job_does_not_run(jobs: JobThread) -> None:
    ran: list[int] = []
    cancelled = jobs.later(0.05, lambda: ran.append(1))
    assert cancelled.cancel()
    jobs.later(0.1, lambda: ran.append(2)).result(TIMEOUT_S)
    assert ran == [2]


def test_too_many_waiting_jobs_are_refused_and_those_for_later_do_not_count(
    jobs: JobThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_thread, "MOST_WAITING", 2)
    has_begun, may_end = threading.Event(), threading.Event()

    def job() -> bool:
        has_begun.set()
        return may_end.wait(TIMEOUT_S)

    running = jobs.submit(job)
    assert has_begun.wait(TIMEOUT_S)
    for _ in range(3):
        jobs.later(60, lambda: None)
    waiting = [jobs.submit(lambda: 1) for _ in range(2)]
    with pytest.raises(TooManyWait, match="2 verbs wait to be done already"):
        jobs.submit(lambda: 2)
    waiting[0].cancel()
    third = jobs.submit(lambda: 3)
    may_end.set()
    assert (running.result(TIMEOUT_S), waiting[1].result(TIMEOUT_S), third.result(TIMEOUT_S)) == (True, 1, 3)


def test_after_close_no_job_runs() -> None:
    jobs = JobThread("test-jobs")
    waiting = jobs.later(60, lambda: None)
    assert jobs.close(TIMEOUT_S)
    with pytest.raises(CancelledError):
        waiting.result(0)
    assert jobs.later(0, lambda: None).cancelled()
    with pytest.raises(ClusterError, match="the cluster is being stopped"):
        jobs.submit(lambda: None)


def test_close_does_not_wait_longer_than_it_may() -> None:
    jobs, has_begun, may_end = JobThread("test-jobs"), threading.Event(), threading.Event()

    def job() -> bool:
        has_begun.set()
        return may_end.wait(TIMEOUT_S)

    running = jobs.submit(job)
    assert has_begun.wait(TIMEOUT_S)
    assert not jobs.close(0.05)
    may_end.set()
    assert running.result(TIMEOUT_S)
    assert jobs.close(TIMEOUT_S)
