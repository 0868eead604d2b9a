"""`TestbedLog`: the event log of the process that starts a cluster of real brokers, or prepares its start."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from understudy.brokers.machine.clock_identity import clock_identity
from understudy.brokers.machine.real_world import MachineClock
from understudy.clusters.clients.client_events import ClientLog, OpenClientLog
from understudy.clusters.processes import run_folder
from understudy.clusters.software import software_commit, software_version
from understudy.foundation.eventlog.files import JsonLinesFiles, last_record, log_files
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import LogSeen, Payload, ProcessExiting, ProcessStarted, RunDescribed

NODE = "testbed"
EVENTS = "events"

_SESSION_TIMEOUT = "zookeeper.session.timeout.ms"


class TestbedLog:
    """Writes the records of the testbed: how the run was set up, injected faults, steps, and the ends of all logs.

    The first record, `ProcessStarted`, is written at once.

    Args:
        folder: the folder of the run. Each node's event log is in `NODE/events`; this one is in `testbed/events`.
        run: the run id of every record.

    Raises:
        OSError: the log cannot be written.
    """

    __test__ = False  # pytest takes classes whose name begins with Test for tests

    def __init__(self, folder: Path, *, run: str) -> None:
        self._folder = folder
        self._events, self._files = _begin_log(folder, NODE, "testbed", run)

    def describe(
        self,
        described: RunDescribed,
        properties: Mapping[str, str],
        *,
        brokers: int,
        without_log: Sequence[str] = (),
    ) -> None:
        """Record how the run is set up.

        Args:
            described: the fields that only the caller can set, for example the planned fault. Without a `world`, the
                brokers are processes of this machine.
            properties: `server.properties` of all brokers; their session timeout is recorded if it is a number.
            without_log: as in `RunDescribed`.
        """
        timeout = properties.get(_SESSION_TIMEOUT, "")
        self.append(
            msgspec.structs.replace(
                described,
                world=described.world or "processes",
                brokers=brokers,
                session_timeout_ms=int(timeout) if timeout.isdecimal() else None,
                software_version=software_version(),
                software_commit=software_commit(),
                without_log=tuple(without_log),
            )
        )

    def append(self, payload: Payload) -> None:
        """Write one record. Raises OSError if it cannot be written."""
        self._events.append(payload)

    def close(self, reason: str) -> None:
        """Write the last records, the ends of the nodes' logs and of this one, and close the file.

        Raises:
            OSError: they cannot be written.
        """
        for seen in _logs_seen(self._folder, self._events.run):
            self.append(seen)
        self.append(ProcessExiting(reason=reason))
        self._files.close()


def client_logs(folder: Path, run: str) -> OpenClientLog:
    """Return a function that begins the event logs of clients that the testbed runs, in the folder of its run."""

    def open_log(name: str) -> ClientLog:
        events, files = _begin_log(folder, name, "client", run)
        return ClientLog(events, files.close)

    return open_log


def _begin_log(folder: Path, node: str, role: str, run: str) -> tuple[EventLog, JsonLinesFiles]:
    """Begin the log of the next incarnation of a node of this process, with its `ProcessStarted`."""
    files = JsonLinesFiles(folder / node / EVENTS, node)
    events = EventLog(run=run, node=node, incarnation=files.incarnation, clock=MachineClock(), write=files.write)
    identity = clock_identity()
    events.append(
        ProcessStarted(
            role=role,
            pid=run_folder.this_process().pid,
            machine=identity.machine,
            boot=identity.boot,
            after_seq=files.after_seq(run),
            has_testbed=True,
        )
    )
    return events, files


def _logs_seen(folder: Path, run: str) -> Iterator[LogSeen]:
    """Return the end of the last log of each other node, if that log belongs to this run and can be read."""
    for events in sorted(folder.glob(f"*/{EVENTS}")):
        with contextlib.suppress(OSError):
            for node, files in groupby(log_files(events), lambda file: file.node):
                of_node = list(files)
                incarnation = of_node[-1].incarnation
                last = last_record([file for file in of_node if file.incarnation == incarnation])
                if node != NODE and last is not None and last.run == run:
                    yield LogSeen(node=node, incarnation=incarnation, seq=last.seq)
