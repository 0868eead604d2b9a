"""`TestbedLog`: the event log of the process that starts a cluster of real brokers, or prepares its start."""

from __future__ import annotations

from pathlib import Path

import msgspec

from understudy.brokers.machine.real_world import MachineClock
from understudy.clusters.processes import run_folder
from understudy.clusters.software import software_commit, software_version
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import Payload, ProcessExiting, ProcessStarted, RunDescribed


class TestbedLog:
    """Writes the records of the testbed: how the run was set up, injected faults, and steps of experiments.

    Args:
        folder: the folder of the log's files.
        run: the run id of every record.
    """

    __test__ = False  # pytest takes classes whose name begins with Test for tests

    def __init__(self, folder: Path, *, run: str) -> None:
        self._files = JsonLinesFiles(folder, "testbed")
        self._events = EventLog(
            run=run,
            node="testbed",
            incarnation=self._files.incarnation,
            clock=MachineClock(),
            write=self._files.write,
        )

    def begin(self, described: RunDescribed, *, brokers: int, session_timeout_ms: int | None) -> None:
        """Write the first records: that the process has started, and how the run is set up.

        Args:
            described: the fields that only the experiment can set, for example the planned fault. Without a `world`,
                the brokers are processes of this machine.
        """
        self.append(ProcessStarted(role="testbed", pid=run_folder.this_process().pid))
        self.append(
            msgspec.structs.replace(
                described,
                world=described.world or "processes",
                brokers=brokers,
                session_timeout_ms=session_timeout_ms,
                software_version=software_version(),
                software_commit=software_commit(),
            )
        )

    def append(self, payload: Payload) -> None:
        """Write one record. Raises OSError if it cannot be written."""
        self._events.append(payload)

    def close(self, reason: str) -> None:
        """Write the last record, and close the file."""
        self.append(ProcessExiting(reason=reason))
        self._files.close()
