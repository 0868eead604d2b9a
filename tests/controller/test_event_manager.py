from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from controller.event_manager import ControllerEventManager
from controller.events import (
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
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId
from foundation.eventlog.log import causing
from foundation.eventlog.records import EventEnded, EventPreempted, EventStarted, StepReached
from foundation.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from tests.controller.memory_log import MemoryLog
from tests.controller.values import tp
from understudy.simulator.loop import new_loop

T = TypeVar("T")


class Desk:
    """An event manager whose events do what a test says."""

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


def play(coroutine: Coroutine[Any, Any, T]) -> T:
    loop = new_loop()
    try:
        result: T = loop.run_until_complete(loop.create_task(coroutine))
        return result
    finally:
        loop.close()


async def quiet() -> None:
    await asyncio.sleep(1)


@pytest.mark.spec("EQ-1")
def test_events_are_processed_in_the_order_they_came() -> None:
    async def scene() -> None:
        desk = Desk()
        for event in (Startup(), BrokerChange(), TopicChange(), BrokerChange()):
            desk.manager.put(event)
        desk.manager.start()
        await quiet()
        assert desk.names() == ["Startup", "BrokerChange", "TopicChange", "BrokerChange"]
        assert desk.idle == 1
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


@pytest.mark.spec("EQ-1", "C7")
def test_one_event_at_a_time() -> None:
    async def scene() -> None:
        desk = Desk()
        running: list[int] = []

        async def work() -> None:
            running.append(1)
            assert len(running) == 1
            await asyncio.sleep(5)
            running.pop()

        desk.doing = {BrokerChange: work, TopicChange: work}
        desk.manager.start()
        for event in (BrokerChange(), TopicChange(), BrokerChange()):
            desk.manager.put(event)
        await asyncio.sleep(7)
        desk.manager.put(TopicChange())
        await asyncio.sleep(30)
        assert desk.names() == ["BrokerChange", "TopicChange", "BrokerChange", "TopicChange"]
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


@pytest.mark.spec("EQ-2", "EQ-6", "BUG-8", "RA-1")
def test_clearing_answers_everybody_who_waits() -> None:
    async def scene() -> None:
        desk = Desk()
        altered: Reply[AlterPartitionResponse] = Reply()
        left: Reply[Any] = Reply()
        elected: Reply[Any] = Reply()
        all_elected: Reply[Any] = Reply()
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, altered))
        desk.manager.put(ControlledShutdown(BrokerId(2), 7, left))
        by_client = ElectionTrigger.ADMIN_CLIENT
        desk.manager.put(ReplicaLeaderElection((tp("a-0"),), ElectionType.PREFERRED, by_client, elected))
        desk.manager.put(ReplicaLeaderElection(None, ElectionType.PREFERRED, by_client, all_elected))
        desk.manager.put(ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER))
        moved: Reply[Any] = Reply()
        desk.manager.put(ApiPartitionReassignment({tp("a-0"): None}, moved))
        desk.manager.clear_and_put(Expire())
        assert (await altered.wait()).error_code == Errors.NOT_CONTROLLER
        assert await left.wait() == (Errors.STALE_CONTROLLER_EPOCH, ())
        refusals = await elected.wait()
        assert list(refusals) == [tp("a-0")]
        assert isinstance(refusals[tp("a-0")], ApiError)
        assert refusals[tp("a-0")].error is Errors.NOT_CONTROLLER
        assert await all_elected.wait() == {}
        refused = await moved.wait()
        assert (refused.error, refused.message) == (Errors.NOT_CONTROLLER, NOT_THE_CONTROLLER)
        desk.manager.start()
        await quiet()
        assert desk.names() == ["Expire"]
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


@pytest.mark.spec("EQ-2", "BUG-7")
def test_expire_waits_for_the_event_in_progress_and_is_over_when_it_is_over() -> None:
    async def scene() -> None:
        desk = Desk()
        order: list[str] = []

        async def failover() -> None:
            await asyncio.sleep(10)
            order.append("failover ended")

        async def resign() -> None:
            await asyncio.sleep(1)
            order.append("resigned")

        desk.doing = {Startup: failover, Expire: resign}
        desk.manager.start()
        desk.manager.put(Startup())
        await asyncio.sleep(1)
        desk.manager.put(BrokerChange())
        await desk.manager.clear_and_put(Expire()).over()
        order.append("expired")
        assert order == ["failover ended", "resigned", "expired"]
        assert desk.names() == ["Startup", "Expire"]
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


@pytest.mark.spec("EQ-3")
def test_a_preempted_event_is_over() -> None:
    async def scene() -> None:
        desk = Desk()
        waiting = desk.manager.clear_and_put(Expire())
        desk.manager.clear_and_put(Expire())
        await waiting.over()
        desk.manager.start()
        await quiet()
        assert desk.names() == ["Expire"]
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


@pytest.mark.spec("D14")
def test_past_its_bound_the_queue_keeps_only_what_nobody_would_repeat_and_resigns() -> None:
    async def scene() -> None:
        desk = Desk(bound=3)
        reply: Reply[AlterPartitionResponse] = Reply()
        desk.manager.put(Reelect())
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, reply))
        desk.manager.put(BrokerChange())
        desk.manager.put(ControllerChange())
        assert (await reply.wait()).error_code == Errors.NOT_CONTROLLER
        desk.manager.start()
        await quiet()
        assert desk.names() == ["Reelect", "ForcedResignation"]
        assert desk.done[1] == ForcedResignation("more than 3 events were waiting")
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


@pytest.mark.spec("EQ-4", "C7")
def test_records_tell_each_events_life_and_who_caused_it() -> None:
    async def scene() -> None:
        desk = Desk()

        async def act() -> None:
            desk.log.append(StepReached(step="inside"))
            desk.manager.put(TopicChange())

        desk.doing = {BrokerChange: act}
        watch = desk.log.append(StepReached(step="watch"))
        with causing(watch):
            desk.manager.put(BrokerChange())
        desk.log.clock.now_ms += 25
        desk.manager.start()
        await quiet()
        await desk.manager.close(timeout_ms=1_000)
        told = [(e["seq"], e["cause"], e["type"], e["data"].get("event", "")) for e in desk.log.envelopes()]
        assert told == [
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
        assert [started.queued_ms for started in desk.log.of(EventStarted)] == [25.0, 0.0, 0.0]
        assert {ended.outcome for ended in desk.log.of(EventEnded)} == {"done"}

    play(scene())


def test_closing_refuses_what_waits_and_what_comes_later() -> None:
    async def scene() -> None:
        desk = Desk()

        async def work() -> None:
            await asyncio.sleep(2)

        desk.doing = {BrokerChange: work}
        desk.manager.start()
        desk.manager.put(BrokerChange())
        await asyncio.sleep(1)
        early: Reply[AlterPartitionResponse] = Reply()
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, early))
        await desk.manager.close(timeout_ms=10_000)
        late: Reply[AlterPartitionResponse] = Reply()
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, late))
        assert (await early.wait()).error_code == (await late.wait()).error_code == Errors.NOT_CONTROLLER
        assert desk.names() == ["BrokerChange"]
        await desk.manager.close(timeout_ms=10_000)
        await desk.manager.clear_and_put(Expire()).over()

    play(scene())


@pytest.mark.spec("BUG-8")
def test_closing_cuts_an_event_short_that_does_not_end_and_answers_it() -> None:
    async def scene() -> None:
        desk = Desk()

        async def hang() -> None:
            await asyncio.get_running_loop().create_future()

        desk.doing = {AlterPartitionReceived: hang}
        desk.manager.start()
        reply: Reply[AlterPartitionResponse] = Reply()
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, reply))
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await desk.manager.close(timeout_ms=3_000)
        assert asyncio.get_running_loop().time() - before == pytest.approx(3.0)
        assert desk.names() == []
        assert (await reply.wait()).error_code == Errors.NOT_CONTROLLER
        assert [ended.event for ended in desk.log.of(EventPreempted)] == ["AlterPartitionReceived"]
        assert desk.broken == []

    play(scene())


@pytest.mark.spec("BUG-8")
def test_a_queue_that_was_never_worked_off_answers_too() -> None:
    async def scene() -> None:
        desk = Desk()
        early: Reply[AlterPartitionResponse] = Reply()
        late: Reply[AlterPartitionResponse] = Reply()
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, early))
        await desk.manager.close(timeout_ms=1_000)
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, late))
        assert (await early.wait()).error_code == (await late.wait()).error_code == Errors.NOT_CONTROLLER

    play(scene())


@pytest.mark.spec("EQ-4", "R-9")
def test_a_queue_that_broke_says_so_and_lets_nobody_wait() -> None:
    async def scene() -> None:
        desk = Desk()

        async def fail() -> None:
            raise OSError("no space left on device")

        desk.doing = {BrokerChange: fail}
        desk.manager.start()
        desk.manager.put(BrokerChange())
        waiting = desk.manager.clear_and_put(Expire())
        desk.manager.put(BrokerChange())
        await waiting.over()
        reply: Reply[AlterPartitionResponse] = Reply()
        desk.manager.put(AlterPartitionReceived(AlterPartitionRequest(), 3, reply))
        await quiet()
        assert [str(failure) for failure in desk.broken] == ["no space left on device"]
        assert (await reply.wait()).error_code == Errors.NOT_CONTROLLER
        await desk.manager.clear_and_put(Expire()).over()
        await desk.manager.close(timeout_ms=1_000)

    play(scene())


def test_an_answer_to_somebody_who_has_gone_is_dropped() -> None:
    async def scene() -> None:
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

    play(scene())
