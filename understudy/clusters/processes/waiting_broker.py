"""`python -m understudy.clusters.processes.waiting_broker server.properties`: a broker process that waits before it
starts.

It imports the modules of a broker, waits for a line on its standard input, and then runs `python -m
understudy.brokers`. Started together with ZooKeeper's Java, it has done its imports when ZooKeeper is ready, and has
not tried to connect before. If its standard input ends without a line, because its owner has ended, it exits without
starting a broker.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

MODULE = "understudy.clusters.processes.waiting_broker"


def main(arguments: Sequence[str]) -> int:
    """Import, wait and run; return the broker's exit code, or 0 if no line was read."""
    from understudy.brokers import __main__ as broker  # noqa: PLC0415  the owner imports this module too

    if not sys.stdin.readline():
        return 0
    return broker.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
