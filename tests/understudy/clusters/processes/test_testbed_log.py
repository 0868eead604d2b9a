"""The testbed's event log: its first record, and the ends of all logs in its last ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from understudy.brokers.machine.clock_identity import clock_identity
from understudy.brokers.machine.real_world import MachineClock
from understudy.clusters.processes.testbed_log import TestbedLog
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    FaultInjected,
    LogSeen,
    Payload,
    ProcessExiting,
    ProcessStarted,
    RunDescribed,
    StepReached,
)
from understudy.history.reading.reader import read


def write_log(run_folder: Path, node: str, records: int, *, run: str = "run") -> None:
    files = JsonLinesFiles(run_folder / node / "events", node, max_file_bytes=500)
    events = EventLog(run=run, node=node, incarnation=files.incarnation, clock=MachineClock(), write=files.write)
    for number in range(records):
        events.append(StepReached(step=f"step {number}"))
    files.close()


def records_of(run_folder: Path, incarnation: int = 1) -> list[Payload]:
    records = read([run_folder / "testbed"]).records
    return [record.data for record in records if record.incarnation == incarnation]


def test_a_testbed_begins_with_its_clock_and_the_end_of_its_log_before(tmp_path: Path) -> None:
    for _ in range(2):
        TestbedLog(tmp_path, run="run").close("stopped")
    machine, boot = clock_identity()
    first, second = (records_of(tmp_path, incarnation)[0] for incarnation in (1, 2))
    assert isinstance(first, ProcessStarted)
    assert isinstance(second, ProcessStarted)
    assert (first.role, first.pid, first.machine, first.boot) == ("testbed", os.getpid(), machine, boot)
    assert first.has_testbed
    assert (first.after_seq, second.after_seq) == (0, 2)


def test_a_testbed_ends_with_the_end_of_the_last_log_of_each_node(tmp_path: Path) -> None:
    for node, records in (("broker-2", 3), ("broker-1", 9), ("broker-1", 5)):
        write_log(tmp_path, node, records)
    events = TestbedLog(tmp_path, run="run")
    events.append(FaultInjected(fault="kill", target="broker-1"))
    events.close("stopped")
    assert records_of(tmp_path)[1:] == [
        FaultInjected(fault="kill", target="broker-1"),
        LogSeen(node="broker-1", incarnation=2, seq=5),
        LogSeen(node="broker-2", incarnation=1, seq=3),
        ProcessExiting(reason="stopped"),
    ]


@pytest.mark.parametrize(("timeout", "recorded"), [("6000", 6000), ("6 seconds", None)])
def test_a_run_is_described_with_the_session_timeout_and_the_nodes_without_a_log(
    tmp_path: Path, timeout: str, recorded: int | None
) -> None:
    events = TestbedLog(tmp_path, run="run")
    properties = {"zookeeper.session.timeout.ms": timeout}
    events.describe(RunDescribed(fault="kill"), properties, brokers=4, without_log=["broker-4"])
    events.close("stopped")
    described = records_of(tmp_path)[1]
    assert isinstance(described, RunDescribed)
    assert (described.world, described.fault, described.brokers) == ("processes", "kill", 4)
    assert (described.session_timeout_ms, described.without_log) == (recorded, ("broker-4",))


def test_logs_of_another_run_and_logs_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    write_log(tmp_path, "broker-1", 3, run="the run before")
    write_log(tmp_path, "broker-2", 3)
    (tmp_path / "broker-3" / "events" / "broker-3-0001-0001.jsonl").mkdir(parents=True)
    (tmp_path / "broker-4" / "events").mkdir(parents=True)
    TestbedLog(tmp_path, run="run").close("stopped")
    assert records_of(tmp_path)[1:] == [
        LogSeen(node="broker-2", incarnation=1, seq=3),
        ProcessExiting(reason="stopped"),
    ]
