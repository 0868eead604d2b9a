"""Starts the processes on which runs of the simulator are shared out."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.pool import Pool


def worker_pool(workers: int, *, runs_per_process: int) -> Pool:
    """Return a pool of forked processes, each replaced after so many runs, so that their memory stays bounded.

    Only the process that has started them handles Ctrl-C and SIGTERM; it ends them.
    """
    return multiprocessing.get_context("fork").Pool(
        workers, initializer=_leave_signals_to_the_starter, maxtasksperchild=runs_per_process
    )


def _leave_signals_to_the_starter() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
