"""Tests of the supervisor: a task that fails is recorded and stops the broker."""

from __future__ import annotations

import asyncio

from tests.brokers.parts import Recorder, StillClock
from understudy.brokers.supervisor import Supervisor
from understudy.foundation.eventlog.log import EventLog


async def fails() -> None:
    raise ZeroDivisionError("by nothing")


def test_failing_task_is_recorded_and_fails_the_broker() -> None:
    async def scenario() -> tuple[str, list[object]]:
        recorder = Recorder()
        supervisor = Supervisor(recorder.log)
        supervisor.spawn(fails(), "first")
        supervisor.spawn(asyncio.sleep(3600), "second")
        failure = await supervisor.failed
        await supervisor.close()
        return str(failure), [failed["task"] for failed in recorder.of("TaskFailed")]

    message, tasks = asyncio.run(scenario())
    assert message.startswith("first failed: ZeroDivisionError: by nothing at test_supervisor.py:")
    assert tasks == ["first"], "a task that is cancelled at the end has not failed"


def test_recorded_error_does_not_fail_the_broker() -> None:
    async def scenario() -> tuple[bool, list[dict[str, object]]]:
        recorder = Recorder()
        supervisor = Supervisor(recorder.log)
        supervisor.record("session handler", ZeroDivisionError("by nothing"))
        return supervisor.failed.done(), recorder.of("TaskFailed")

    assert asyncio.run(scenario()) == (
        False,
        [{"task": "session handler", "error": "ZeroDivisionError: by nothing"}],
    )


def test_failing_task_fails_the_broker_although_it_cannot_be_recorded() -> None:
    def disk_full(line: bytes) -> None:
        raise OSError(28, "No space left on device", "events.jsonl")

    async def scenario() -> str:
        events = EventLog(run="test", node="broker-1", incarnation=1, clock=StillClock(), write=disk_full)
        supervisor = Supervisor(events)
        events.when_lost = supervisor.event_log_lost
        supervisor.spawn(fails(), "first")
        async with asyncio.timeout(5):
            return str(await supervisor.failed)

    assert asyncio.run(scenario()).startswith("first failed: ZeroDivisionError")


def test_exception_in_a_task_group_is_named_itself() -> None:
    async def group() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fails())

    async def scenario() -> str:
        supervisor = Supervisor(Recorder().log)
        supervisor.spawn(group(), "writes")
        return str(await supervisor.failed)

    assert asyncio.run(scenario()).startswith("writes failed: ZeroDivisionError: by nothing at test_supervisor.py:")


def test_event_log_that_cannot_be_written_fails_the_broker() -> None:
    async def scenario() -> str:
        supervisor = Supervisor(Recorder().log)
        supervisor.event_log_lost(OSError(28, "No space left on device", "events.jsonl"))
        return str(await supervisor.failed)

    assert (
        asyncio.run(scenario()) == "the event log cannot be written: [Errno 28] No space left on device: 'events.jsonl'"
    )


def test_closing_broker_runs_no_new_task() -> None:
    async def scenario() -> bool:
        supervisor = Supervisor(Recorder().log)

        async def begins_another() -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                others.append(supervisor.spawn(asyncio.sleep(3600), "other"))

        others: list[asyncio.Task[None]] = []
        supervisor.spawn(begins_another(), "one")
        await asyncio.sleep(0)
        await supervisor.close()
        others.append(supervisor.spawn(asyncio.sleep(3600), "late"))
        await asyncio.sleep(0)
        return all(other.cancelled() for other in others) and len(others) == 2

    assert asyncio.run(scenario())
