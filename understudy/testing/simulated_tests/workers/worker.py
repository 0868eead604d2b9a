"""The program of a worker process."""

from __future__ import annotations

import gc
import signal
from multiprocessing.connection import Connection

from understudy.clusters.virtual import hashes
from understudy.testing.simulated_tests.workers.serving import open_line


def main(kind: str, descriptor: int) -> None:
    """Serve tests until the process at the other end of the connection ends it.

    Args:
        kind: `pytest` or `plain`.
        descriptor: the file descriptor of the connection.
    """
    # Ctrl-C reaches each process of the terminal: the one that has started this one ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Modules leave hardly any garbage while they are loaded. `Line.serve` enables the collector again.
    gc.disable()
    # Before the test is imported: what its modules make has the same order in sets on every machine.
    hashes.install()
    connection: Connection[object, object] = Connection(descriptor)
    line = open_line(connection)
    job = connection.recv()
    assert isinstance(job, dict)
    if kind == "pytest":
        from understudy.testing.simulated_tests.workers.pytest_worker import serve_pytest  # noqa: PLC0415  one of two

        serve_pytest(line, **job)
    else:
        from understudy.testing.simulated_tests.workers.plain_worker import serve_plain  # noqa: PLC0415  one of two

        serve_plain(line, **job)
