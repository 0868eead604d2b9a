"""`python -m understudy.testbed.waiting_broker server.properties`: a broker process that waits before it starts.

It imports everything a broker needs, waits for one line on its standard input, and then is `python -m brokers`. Started
together with ZooKeeper's Java, it has done its imports when ZooKeeper is ready, and has not tried to connect before.
Where its input ends without a line, as when the owner gives up, it exits without having started.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

MODULE = "understudy.testbed.waiting_broker"


def main(arguments: Sequence[str]) -> int:
    """Import, wait, run; the broker's exit code, or 0 where the line never came."""
    from brokers import __main__ as broker

    if not sys.stdin.readline():
        return 0
    return broker.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
