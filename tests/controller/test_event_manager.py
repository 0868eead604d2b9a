"""Tests of the event queue of the controller: order, preemption, overflow, closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from tests.controller.memory_log import MemoryLog
from tests.controller.values import tp
from understudy.clusters.simulated.loop import new_loop
from understudy.controller.event_manager import ControllerEventManager
from understudy.controller.events import (
    NOT_THE_CONTROLLER,
    AlterPartitionReceived,
    ApiPartitionReassignment,
    BrokerChange,
    ControlledShutdown,
    ControllerChange,
    ControllerEvent,
    ElectionTrigger,
    ElectionType,
    Expire,
    ForcedResignation,
    Reelect,
    ReplicaLeaderElection,
    Reply,
    Startup,
    TopicChange,
    name_of,
)
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.log import causing
from understudy.foundation.eventlog.records import EventEnded, EventPreempted, EventQueued, EventStarted, StepReached
from understudy.foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse

T = TypeVar("T")


class QueueHarness:
    """An event manager whose events run functions of a test."""

    def __init__(self, *, bound: int = 100) -> None:
        self.log = MemoryLog()
        self.done: list[ControllerEvent] = []
        self.idle = 0
        self.broken: list[BaseException] = []
        self.doing: dict[type, Callable[[], Awaitable[None]]] = {}
        self.manager = ControllerEventManager(
            process=self.process,
            idle=self.went_idle,
            broken=self.broken.append,
            clock=self.log.clock,
            events=self.log,
            bound=bound,
        )

    async def process(self, event: ControllerEvent) -> str:
        if type(event) in self.doing:
            await self.doing[type(event)]()
        self.done.append(event)
        return "done"

    def went_idle(self) -> None:
        self.idle += 1

    def names(self) -> list[str]:
        return [name_of(event) for event in self.done]


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    loop = new_loop()
    try:
        result: T = loop.run_until_complete(loop.create_task(coroutine))
        return result
    finally:
        loop.close()


async def quiet() -> None:
    """Let a second of virtual time pass, in which all waiting events are processed."""
    await asyncio.sleep(1)


@pytest.mark.spec("EQ-1")
def test_events_are_processed_in_order() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        for event in (Startup(), BrokerChange(), TopicChange(), BrokerChange()):
            harness.manager.put(event)
        harness.manager.start()
        await quiet()
        assert harness.names() == ["Startup", "BrokerChange", "TopicChange", "BrokerChange"]
        assert harness.idle == 1
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("EQ-1", "C7")
def test_one_event_at_a_time() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        running: list[int] = []

        async def work() -> None:
            running.append(1)
            assert len(running) == 1
            await asyncio.sleep(5)
            running.pop()

        harness.doing = {BrokerChange: work, TopicChange: work}
        harness.manager.start()
        for event in (BrokerChange(), TopicChange(), BrokerChange()):
            harness.manager.put(event)
        await asyncio.sleep(7)
        harness.manager.put(TopicChange())
        await asyncio.sleep(30)
        assert harness.names() == ["BrokerChange", "TopicChange", "BrokerChange", "TopicChange"]
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("EQ-2", "EQ-6", "BUG-8", "RA-1")
def test_clear_and_put_responds_to_all_waiting_clients() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        altered: Reply[AlterPartitionResponse] = Reply()
        left: Reply[Any] = Reply()
        elected: Reply[Any] = Reply()
        all_elected: Reply[Any] = Reply()
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, altered))
        harness.manager.put(ControlledShutdown(BrokerId(2), 7, left))
        by_client = ElectionTrigger.ADMIN_CLIENT
        harness.manager.put(ReplicaLeaderElection((tp("a-0"),), ElectionType.PREFERRED, by_client, elected))
        harness.manager.put(ReplicaLeaderElection(None, ElectionType.PREFERRED, by_client, all_elected))
        harness.manager.put(ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER))
        moved: Reply[Any] = Reply()
        harness.manager.put(ApiPartitionReassignment({tp("a-0"): None}, moved))
        harness.manager.clear_and_put(Expire())
        assert (await altered.wait()).error_code == Errors.NOT_CONTROLLER
        assert await left.wait() == (Errors.STALE_CONTROLLER_EPOCH, ())
        refusals = await elected.wait()
        assert list(refusals) == [tp("a-0")]
        assert isinstance(refusals[tp("a-0")], ApiError)
        assert refusals[tp("a-0")].error is Errors.NOT_CONTROLLER
        assert await all_elected.wait() == {}
        refused = await moved.wait()
        assert (refused.error, refused.message) == (Errors.NOT_CONTROLLER, NOT_THE_CONTROLLER)
        harness.manager.start()
        await quiet()
        assert harness.names() == ["Expire"]
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("EQ-2", "BUG-7")
def test_expire_waits_for_the_event_in_progress() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        order: list[str] = []

        async def failover() -> None:
            await asyncio.sleep(10)
            order.append("failover ended")

        async def resign() -> None:
            await asyncio.sleep(1)
            order.append("resigned")

        harness.doing = {Startup: failover, Expire: resign}
        harness.manager.start()
        harness.manager.put(Startup())
        await asyncio.sleep(1)
        harness.manager.put(BrokerChange())
        await harness.manager.clear_and_put(Expire()).over()
        order.append("expired")
        assert order == ["failover ended", "resigned", "expired"]
        assert harness.names() == ["Startup", "Expire"]
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("EQ-3")
def test_a_preempted_event_is_over() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        waiting = harness.manager.clear_and_put(Expire())
        harness.manager.clear_and_put(Expire())
        await waiting.over()
        harness.manager.start()
        await quiet()
        assert harness.names() == ["Expire"]
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("D14")
def test_overflow_keeps_indispensable_events_and_forces_resignation() -> None:
    async def scenario() -> None:
        harness = QueueHarness(bound=3)
        reply: Reply[AlterPartitionResponse] = Reply()
        harness.manager.put(Reelect())
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, reply))
        harness.manager.put(BrokerChange())
        harness.manager.put(ControllerChange())
        assert (await reply.wait()).error_code == Errors.NOT_CONTROLLER
        harness.manager.start()
        await quiet()
        assert harness.names() == ["Reelect", "ForcedResignation"]
        assert harness.done[1] == ForcedResignation("more than 3 events were waiting")
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


@pytest.mark.spec("EQ-4", "C7")
def test_records_of_an_event_and_their_causes() -> None:
    async def scenario() -> None:
        harness = QueueHarness()

        async def append_and_put() -> None:
            harness.log.append(StepReached(step="inside"))
            harness.manager.put(TopicChange())

        harness.doing = {BrokerChange: append_and_put}
        watch = harness.log.append(StepReached(step="watch"))
        with causing(watch):
            harness.manager.put(BrokerChange())
        harness.log.clock.now_ms += 25
        harness.manager.start()
        await quiet()
        await harness.manager.close(timeout_ms=1_000)
        records = [(e["seq"], e["cause"], e["type"], e["data"].get("event", "")) for e in harness.log.envelopes()]
        assert records == [
            (1, None, "StepReached", ""),
            (2, 1, "EventQueued", "BrokerChange"),
            (3, 2, "EventStarted", "BrokerChange"),
            (4, 3, "StepReached", ""),
            (5, 3, "EventQueued", "TopicChange"),
            (6, 3, "EventEnded", "BrokerChange"),
            (7, 5, "EventStarted", "TopicChange"),
            (8, 7, "EventEnded", "TopicChange"),
            (9, None, "EventQueued", "ShutdownEventThread"),
            (10, 9, "EventStarted", "ShutdownEventThread"),
            (11, 10, "EventEnded", "ShutdownEventThread"),
        ]
        assert [started.queued_ms for started in harness.log.of(EventStarted)] == [25.0, 0.0, 0.0]
        assert [queued.event_id for queued in harness.log.of(EventQueued)] == [1, 2, 3]
        assert {ended.outcome for ended in harness.log.of(EventEnded)} == {"done"}

    run(scenario())


def test_close_refuses_waiting_and_later_events() -> None:
    async def scenario() -> None:
        harness = QueueHarness()

        async def work() -> None:
            await asyncio.sleep(2)

        harness.doing = {BrokerChange: work}
        harness.manager.start()
        harness.manager.put(BrokerChange())
        await asyncio.sleep(1)
        early: Reply[AlterPartitionResponse] = Reply()
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, early))
        await harness.manager.close(timeout_ms=10_000)
        late: Reply[AlterPartitionResponse] = Reply()
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, late))
        assert (await early.wait()).error_code == (await late.wait()).error_code == Errors.NOT_CONTROLLER
        assert harness.names() == ["BrokerChange"]
        await harness.manager.close(timeout_ms=10_000)
        await harness.manager.clear_and_put(Expire()).over()

    run(scenario())


@pytest.mark.spec("BUG-8")
def test_close_cancels_an_event_that_does_not_end() -> None:
    async def scenario() -> None:
        harness = QueueHarness()

        async def hang() -> None:
            await asyncio.get_running_loop().create_future()

        harness.doing = {AlterPartitionReceived: hang}
        harness.manager.start()
        reply: Reply[AlterPartitionResponse] = Reply()
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, reply))
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await harness.manager.close(timeout_ms=3_000)
        assert asyncio.get_running_loop().time() - before == pytest.approx(3.0)
        assert harness.names() == []
        assert (await reply.wait()).error_code == Errors.NOT_CONTROLLER
        assert [ended.event for ended in harness.log.of(EventPreempted)] == ["AlterPartitionReceived"]
        assert harness.broken == []

    run(scenario())


@pytest.mark.spec("BUG-8")
def test_close_before_start_responds() -> None:
    async def scenario() -> None:
        harness = QueueHarness()
        early: Reply[AlterPartitionResponse] = Reply()
        late: Reply[AlterPartitionResponse] = Reply()
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, early))
        await harness.manager.close(timeout_ms=1_000)
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, late))
        assert (await early.wait()).error_code == (await late.wait()).error_code == Errors.NOT_CONTROLLER

    run(scenario())


@pytest.mark.spec("EQ-4", "R-9")
def test_broken_queue_reports_and_responds() -> None:
    async def scenario() -> None:
        harness = QueueHarness()

        async def fail() -> None:
            raise OSError("no space left on device")

        harness.doing = {BrokerChange: fail}
        harness.manager.start()
        harness.manager.put(BrokerChange())
        waiting = harness.manager.clear_and_put(Expire())
        harness.manager.put(BrokerChange())
        await waiting.over()
        reply: Reply[AlterPartitionResponse] = Reply()
        harness.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, reply))
        await quiet()
        assert [str(failure) for failure in harness.broken] == ["no space left on device"]
        assert (await reply.wait()).error_code == Errors.NOT_CONTROLLER
        await harness.manager.clear_and_put(Expire()).over()
        await harness.manager.close(timeout_ms=1_000)

    run(scenario())


def test_reply_to_a_cancelled_client_is_ignored() -> None:
    async def scenario() -> None:
        reply: Reply[int] = Reply()
        waiting = asyncio.ensure_future(reply.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        reply.resolve(1)
        second: Reply[int] = Reply()
        second.resolve(1)
        second.resolve(2)
        assert await second.wait() == 1

    run(scenario())
