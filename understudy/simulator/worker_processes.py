"""Starts the processes on which runs of the simulator are shared out."""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.pool import Pool

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def worker_pool(workers: int, *, runs_per_process: int) -> Pool:
    """Return a pool of forked processes, each replaced after so many runs, so that their memory stays bounded.

    Only the process that has started them handles Ctrl-C and SIGTERM; it ends them.
    """
    # A process begins with the handlers of its starter. One that raises would do so in whatever Python runs after a
    # fork, where an exception is ignored: the process would outlive SIGTERM, and the pool would wait for it for ever.
    # The threads of the pool, which fork later ones, inherit the mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return multiprocessing.get_context("fork").Pool(
            workers, initializer=_leave_signals_to_the_starter, maxtasksperchild=runs_per_process
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _leave_signals_to_the_starter() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
