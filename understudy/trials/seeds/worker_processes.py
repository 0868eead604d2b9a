"""Starts worker processes for runs of the simulator."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from multiprocessing.pool import Pool

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_GARBAGE_COLLECTION = (20_000, 20, 10)
"""Thresholds of Python's garbage collector, above its defaults. Hardly an object of a run is part of a cycle before the
run has ended, and with the defaults a fifteenth of the time is spent searching for cycles."""


def worker_pool(workers: int, *, runs_per_process: int) -> Pool:
    """Return a pool of forked processes, each replaced after some runs, so that their memory stays bounded.

    Only the process that has started them handles Ctrl-C and SIGTERM; it ends them.
    """
    # A process begins with the handlers of its starter. A handler that raises would do so in the code that Python runs
    # after a fork, in which exceptions are ignored: the process would survive SIGTERM, and the pool would wait for it
    # forever. The threads of the pool, which fork later processes, inherit the mask.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return multiprocessing.get_context("fork").Pool(
            workers, initializer=_begin_worker, maxtasksperchild=runs_per_process
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def collect_garbage_less_often() -> None:
    """Let the garbage collector of this process run less often, and ignore all objects that are in memory now."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_COLLECTION)


def _begin_worker() -> None:
    """Leave signals to the starter, and collect garbage less often."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    collect_garbage_less_often()
