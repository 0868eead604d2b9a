"""Tests of blocks of producer ids: consecutive, only for registered brokers, and never allocated twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.controller.harness import ControllerHarness, HarnessBroker
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.controller.events import AllocateProducerIds, Reply
from understudy.controller.producer_ids import next_block, process_allocate_producer_ids
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.zk.admin_znodes import MAX_PRODUCER_ID, ProducerIdBlock
from understudy.foundation.zk.client import Delete, SetData

PATH = "/latest_producer_id_block"


def block(first: int, broker: int = 1) -> ProducerIdBlock:
    return ProducerIdBlock(BrokerId(broker), first, first + 999)


def ask(controller: HarnessBroker, broker: int, epoch: int) -> ProducerIdBlock | str:
    answer = controller.run(controller.controller.allocate_producer_ids(BrokerId(broker), epoch))
    return answer.error.name if isinstance(answer, ApiError) else answer


def ask_for(harness: ControllerHarness, broker: int) -> ProducerIdBlock | str:
    return ask(harness.broker(0), broker, harness.broker(broker).epoch)


# ------------------------------------------------------------------ blocks


@pytest.mark.spec("ZN-8")
@pytest.mark.parametrize(
    ("latest", "following"),
    [
        (None, block(0)),
        (block(0, broker=7), block(1000)),
        (ProducerIdBlock(BrokerId(7), 5, 17), block(18)),
        (block(MAX_PRODUCER_ID - 1999), block(MAX_PRODUCER_ID - 999)),
    ],
)
def test_next_block_follows_the_latest(latest: ProducerIdBlock | None, following: ProducerIdBlock) -> None:
    assert next_block(latest, BrokerId(1)) == following


@pytest.mark.spec("ZN-8")
def test_producer_ids_may_be_exhausted() -> None:
    with pytest.raises(ApiError, match="Have exhausted all producerIds") as exhausted:
        next_block(block(MAX_PRODUCER_ID - 1998), BrokerId(1))
    assert exhausted.value.error is Errors.UNKNOWN_SERVER_ERROR


# ------------------------------------------------------------------ by broker


@pytest.mark.spec("ZN-8", "CO-6", "IO-7")
def test_registered_broker_gets_the_next_block() -> None:
    with ControllerHarness() as harness:
        harness.start()
        assert [ask_for(harness, broker) for broker in (1, 2, 1)] == [block(0, 1), block(1000, 2), block(2000, 1)]
        assert harness.znodes()[PATH] == b'{"version":1,"broker":1,"block_start":"2000","block_end":"2999"}'


@pytest.mark.spec("CO-6")
def test_unregistered_broker_or_other_epoch_gets_no_block() -> None:
    with ControllerHarness(electable=(0, 1)) as harness:
        harness.start()
        controller, epoch = harness.broker(0), harness.broker(2).epoch
        assert ask(controller, 9, epoch) == "BROKER_ID_NOT_REGISTERED"
        assert [ask(controller, 2, wrong) for wrong in (epoch - 1, epoch + 1, -1)] == ["STALE_BROKER_EPOCH"] * 3
        assert ask(harness.broker(1), 2, epoch) == "NOT_CONTROLLER"
        assert harness.znodes()[PATH] is None
        assert controller.world.fences.hits[Fence.REQUEST_BROKER_EPOCH] == 3


@pytest.mark.spec("ZN-8")
@pytest.mark.parametrize(
    "data",
    [
        b"?",
        b'{"version":1,"broker":1}',
        b'{"version":1,"broker":1,"block_start":"0","block_end":"1_000"}',
        b'{"version":1,"broker":1,"block_start":"1000","block_end":"999"}',
        b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775808"}',
        b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775807"}',
    ],
)
def test_malformed_producer_id_znode_fails_the_request_only(data: bytes) -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.operator.run(harness.operator.client.write(SetData(PATH, data)))
        assert ask_for(harness, 1) == "UNKNOWN_SERVER_ERROR"
        assert harness.znodes()[PATH] == data
        assert harness.broker(0).controller.is_active
        harness.operator.run(harness.operator.client.write(Delete(PATH)))
        assert ask_for(harness, 1) == "UNKNOWN_SERVER_ERROR", "the ids allocated so far are unknown"


# ------------------------------------------------------------------ concurrent controllers


@pytest.mark.spec("ZN-8", "EL-13")
@pytest.mark.parametrize(("applied", "given"), [(True, block(1000)), (False, block(0))])
def test_block_with_a_lost_answer_is_not_used(applied: bool, given: ProducerIdBlock) -> None:
    with ControllerHarness() as harness:
        harness.start()
        harness.zookeeper.lost_answers.append(LostAnswer("broker-0", PATH, applied=applied))
        assert ask_for(harness, 1) == given
        assert ask_for(harness, 2) == block(given.last + 1, 2)


@pytest.mark.spec("ZN-8", "EL-13")
def test_two_controllers_never_allocate_the_same_block() -> None:
    """The old controller has read the latest block when the new one allocates the next to the same broker. Then the
    answer to the old one's write is lost: what ZooKeeper holds equals what it wanted to write, and is not its own."""
    with ControllerHarness() as harness:
        harness.start()
        controller, epoch = harness.broker(0), harness.broker(1).epoch
        term = controller.controller._term
        assert term is not None
        answers: list[Any] = []

        class Interrupted:
            """Lets another controller write once between the read and the write."""

            waiting = True

            async def reach(self, name: str) -> None:
                if name == "producer_ids.before_write" and self.waiting:
                    self.waiting = False
                    await allocate(answers)
                    harness.zookeeper.lost_answers.append(LostAnswer("broker-0", PATH, applied=False))

        async def allocate(into: list[Any]) -> None:
            reply: Reply[Any] = Reply()
            await process_allocate_producer_ids(term, AllocateProducerIds(BrokerId(1), epoch, reply))
            into.append(await reply.wait())

        term.points = Interrupted()
        controller.run(asyncio.wait_for(allocate(answers), 30))
        assert sorted(answers) == [block(0), block(1000)]
