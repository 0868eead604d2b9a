"""`python -m understudy.clusters.processes.describe_run`: describes a run in an event log, if no testbed starts
its brokers.

docker-compose.yml runs it before the brokers start, so that the run's settings are recorded beside their event logs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from understudy.clusters.processes.testbed_log import TestbedLog
from understudy.foundation.eventlog.records import RunDescribed


def main(arguments: Sequence[str] | None = None) -> None:
    """Write an event log with one `RunDescribed`.

    Raises:
        OSError: it cannot be written.
    """
    options = _parser().parse_args(arguments)
    events = TestbedLog(options.folder, run=options.run)
    events.describe(
        RunDescribed(world=options.world),
        {"zookeeper.session.timeout.ms": str(options.session_timeout_ms)},
        brokers=options.brokers,
    )
    events.close("the run is described")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m understudy.clusters.processes.describe_run", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the run folder; the event log is in it")
    parser.add_argument("--run", required=True, help="the run id, as in the brokers' understudy.run.id")
    parser.add_argument("--world", required=True, help="where the brokers run, for example containers")
    parser.add_argument("--brokers", type=int, required=True, help="how many brokers the cluster has")
    parser.add_argument(
        "--session-timeout-ms", type=int, required=True, help="the brokers' zookeeper.session.timeout.ms"
    )
    return parser


if __name__ == "__main__":
    main()
