"""The faults that are read from a run's event logs, and the section of a failed test."""

from __future__ import annotations

from pathlib import Path

from understudy.brokers.machine.real_world import MachineClock
from understudy.clusters.testing.faults import RecordedFault
from understudy.clusters.testing.run_faults import TEST_BEGUN, describe_run, faults_of_test
from understudy.foundation.eventlog.files import JsonLinesFiles
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import FaultInjected, Payload, PointReached, StepReached


def write(folder: Path, node: str, *payloads: Payload) -> None:
    files = JsonLinesFiles(folder / node / "events", node)
    events = EventLog(run="r", node=node, incarnation=files.incarnation, clock=MachineClock(), write=files.write)
    for payload in payloads:
        events.append(payload)
    files.close()


def test_the_faults_of_the_last_test_are_found(tmp_path: Path) -> None:
    """Faults of an earlier test, and the starts of brokers before a test, are left out."""
    write(
        tmp_path,
        "testbed",
        FaultInjected(fault="start", target="broker-1"),
        StepReached(step=TEST_BEGUN, note="first"),
        FaultInjected(fault="kill", target="broker-2", role="controller"),
        StepReached(step=TEST_BEGUN, note="second"),
        FaultInjected(fault="pause", target="broker-1", role="leader of orders-0"),
        FaultInjected(fault="continue", target="broker-1"),  # as older runs call it
        FaultInjected(fault="resume", target="broker-1"),
    )
    write(tmp_path, "broker-3", PointReached(point="partition.after_write", action="crash"))
    faults = faults_of_test(tmp_path).faults
    assert [str(fault) for fault in faults] == [
        "pause broker-1 (leader of orders-0)",
        "resume broker-1",
        "resume broker-1",
        "crash broker-3 (controller) at partition.after_write",
    ]


def test_the_section_names_the_folder_the_faults_and_the_command(tmp_path: Path) -> None:
    write(tmp_path, "testbed", StepReached(step=TEST_BEGUN), FaultInjected(fault="kill", target="broker-2"))
    first, second, fault, last = describe_run(tmp_path).splitlines()
    assert first == f"run folder: {tmp_path}"
    assert second == "faults injected by the test:"
    assert fault.endswith("s: kill broker-2")
    assert last == f"to check its invariants: understudy check {tmp_path}"


def test_the_section_of_a_test_without_faults(tmp_path: Path) -> None:
    write(tmp_path, "testbed", StepReached(step=TEST_BEGUN))
    assert "the test injected no fault" in describe_run(tmp_path)


def test_a_fault_is_matched_by_role_broker_and_point() -> None:
    fault = RecordedFault(fault="kill", target="broker-1", role="leader of orders-0", wall_ms=0)
    assert fault.matches("kill", None, None, None)
    assert fault.matches("kill", "leader", 1, None)
    assert fault.matches("kill", "leader of orders-0", None, None)
    assert not fault.matches("pause", None, None, None)
    assert not fault.matches("kill", "leader of orders", None, None)
    assert not fault.matches("kill", "controller", None, None)
    assert not fault.matches("kill", None, 2, None)
    assert not fault.matches("kill", None, None, "partition.after_write")
