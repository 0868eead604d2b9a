"""`worker_pool`: the processes of a pool take over no handler of signals, and collect garbage less often."""

from __future__ import annotations

import gc
import os
import signal

from understudy.trials.seeds.worker_processes import worker_pool


def handlers(_: int) -> tuple[int, object, object]:
    return os.getpid(), signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def test_workers_ignore_ctrl_c_and_end_at_sigterm_whatever_their_starter_does() -> None:
    def on_signal(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        with worker_pool(2, runs_per_process=1) as pool:
            seen = pool.map(handlers, range(3), chunksize=1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert {(at_ctrl_c, at_sigterm) for _, at_ctrl_c, at_sigterm in seen} == {(signal.SIG_IGN, signal.SIG_DFL)}
    assert len({pid for pid, _, _ in seen} - {os.getpid()}) == 3, "each process is replaced after one run"


def garbage_collection(_: int) -> tuple[int, int]:
    return gc.get_threshold()[0], gc.get_freeze_count()


def test_workers_collect_garbage_less_often_than_their_starter() -> None:
    with worker_pool(1, runs_per_process=1) as pool:
        (seen,) = pool.map(garbage_collection, range(1))
    threshold, frozen = seen
    assert threshold > gc.get_threshold()[0]
    assert frozen > gc.get_freeze_count()
