"""Tests of the producer id managers: each id is given once, from blocks requested ahead of time.

Mirrors `ProducerIdManagerTest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.brokers.peers import ScriptedPeer
from tests.controller.harness import ControllerHarness
from tests.operators_log import operators_log
from understudy.brokers.coordinator.producer_id_manager import (
    RETRY_BACKOFF_MS,
    BlockOfIds,
    RPCProducerIdManager,
    ZkProducerIdManager,
    prefetch_target,
    why_unusable,
)
from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.clusters.simulated.clocks import SimulatedClock
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.wire.schema import Message
from understudy.foundation.zk.admin_znodes import MAX_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockZNode
from understudy.foundation.zk.client import Delete, SetData
from understudy.foundation.zk.cluster_znodes import LatestProducerIdBlock

ME = BrokerId(1)
EPOCH = 40
TIMEOUT_MS = 2_000


def block(first: int, size: int) -> ProducerIdBlock:
    return ProducerIdBlock(ME, first, first + size - 1)


def given(first: int, size: int) -> Callable[[], Message]:
    return lambda: AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=size)


def refused(error: int) -> Callable[[], Message]:
    return lambda: AllocateProducerIdsResponse(error_code=error)


def broken() -> None:
    """Close the connection without a response."""


# ------------------------------------------------------------------ decisions


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize(
    ("first", "size", "target"), [(0, 1_000, 900), (5_000, 1_000, 5_900), (7, 10, 16), (7, 1, 7), (0, 3, 2)]
)
def test_the_next_block_is_requested_at_nine_tenths(first: int, size: int, target: int) -> None:
    assert prefetch_target(block(first, size)) == target


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize(
    ("offered", "usable"),
    [
        (block(10, 10), True),
        (block(5_000, 1), True),
        (block(9, 10), False),
        (block(0, 10), False),
        (block(-1, 10), False),
        (block(10, 0), False),
        (block(10, -1), False),
        (block(MAX_PRODUCER_ID, 1), True),
        (block(MAX_PRODUCER_ID, 2), False),
    ],
)
def test_block_is_used_only_if_all_its_ids_are_new(offered: ProducerIdBlock, usable: bool) -> None:
    assert (why_unusable(offered, current=block(0, 10)) is None) is usable


def test_ids_of_a_block_are_claimed_in_order_until_its_end() -> None:
    ids = BlockOfIds(block(7, 3))
    assert [ids.claim() for _ in range(5)] == [7, 8, 9, None, None]


# ------------------------------------------------------------------ from the controller


class ManagerHarness:
    """A producer id manager and a scripted controller, in virtual time.

    `script` has the responses to AllocateProducerIds requests, in order.
    """

    def __init__(self, *script: Callable[[], Message | None], delay_s: float = 0.001, served: bool = True) -> None:
        self._script = list(script)
        self._loop = new_loop()
        self.served = served
        self.broker_epoch = EPOCH
        self.controller: str | None = "controller-1"
        self.peer = ScriptedPeer(self._answer, delay_s=delay_s)
        self.manager = RPCProducerIdManager(
            ME,
            channel=ControllerChannel(
                client_id="1", network=self.peer, controller=self._address, timeout_ms=TIMEOUT_MS
            ),
            clock=SimulatedClock(self._loop),
            broker_epoch=lambda: self.broker_epoch,
            timeout_ms=TIMEOUT_MS,
        )

    @property
    def requests(self) -> list[tuple[str, int, int]]:
        """Address, broker id and broker epoch of each AllocateProducerIds request."""
        return [
            (address, message.broker_id, message.broker_epoch)
            for address, _, message in self.peer.received
            if isinstance(message, AllocateProducerIdsRequest)
        ]

    async def id(self) -> int | str:
        """Generate a producer id; return the name of the error if there is none."""
        try:
            return await self.manager.generate_producer_id()
        except ApiError as error:
            return error.error.name

    async def ids(self, count: int) -> list[int | str]:
        return [await self.id() for _ in range(count)]

    async def eventually(self) -> int:
        """Generate a producer id, as clients do: try again until there is one."""
        async with asyncio.timeout(10):
            while isinstance(answer := await self.id(), str):
                assert answer == "COORDINATOR_LOAD_IN_PROGRESS"
                await pause(20)
        return answer

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.manager.run())
            await scenario
            task.cancel()

        try:
            self._loop.run_until_complete(run())
        finally:
            self._loop.close()

    def _address(self) -> UpdateMetadataEndpoint | None:
        return None if self.controller is None else UpdateMetadataEndpoint(host=self.controller, port=9092)

    def _answer(self, header: RequestHeader, message: Message) -> Message | None:
        if isinstance(message, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=(ApiVersion(api_key=67 if self.served else 66, min_version=0, max_version=0),)
            )
        assert isinstance(message, AllocateProducerIdsRequest)
        return self._script.pop(0)()


async def pause(ms: float) -> None:
    """Let `ms` of virtual time pass."""
    await asyncio.sleep(ms / 1000)


@pytest.mark.spec("CO-6")
def test_producer_does_not_wait_for_a_block() -> None:
    harness = ManagerHarness(given(0, 3))

    async def scenario() -> None:
        assert await harness.ids(2) == ["COORDINATOR_LOAD_IN_PROGRESS"] * 2
        assert await harness.eventually() == 0

    harness.run(scenario())
    assert harness.requests == [("controller-1:9092", ME, EPOCH)], (
        "one request, whatever the number of waiting producers"
    )


@pytest.mark.spec("CO-6")
def test_next_block_is_there_before_the_current_one_is_used_up() -> None:
    harness = ManagerHarness(given(0, 10), given(10, 10), given(5_000, 10))

    async def scenario() -> None:
        assert await harness.eventually() == 0
        assert await harness.ids(8) == list(range(1, 9))
        await pause(100)
        assert len(harness.requests) == 1, "less than nine tenths of the block are used"
        assert await harness.id() == 9
        await pause(100)
        assert len(harness.requests) == 2
        assert await harness.ids(10) == list(range(10, 20))
        await pause(100)
        assert await harness.ids(3) == [5_000, 5_001, 5_002], "other brokers took the blocks between"

    harness.run(scenario())


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize("size", [1, 2, 10])
def test_concurrent_producers_get_different_ids(size: int) -> None:
    """Mirrors `testConcurrentGeneratePidRequests`."""
    harness = ManagerHarness(*(given(number * size, size) for number in range(6)))
    received: list[int] = []

    async def producer() -> None:
        received.extend([await harness.eventually() for _ in range(size)])

    async def scenario() -> None:
        await asyncio.gather(*(producer() for _ in range(5)))

    harness.run(scenario())
    assert sorted(received) == list(range(5 * size))


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize(
    "response",
    [
        pytest.param(refused(Errors.STALE_BROKER_EPOCH), id="stale epoch"),
        pytest.param(refused(Errors.BROKER_ID_NOT_REGISTERED), id="not registered"),
        pytest.param(refused(Errors.UNKNOWN_SERVER_ERROR), id="an unexpected error"),
        pytest.param(refused(Errors.INVALID_REQUEST), id="another"),
        pytest.param(refused(999), id="an unknown error code"),
        pytest.param(given(-1, 10), id="ids below 0"),
        pytest.param(given(0, -1), id="fewer ids than none"),
        pytest.param(given(0, 0), id="no ids"),
        pytest.param(given(MAX_PRODUCER_ID, 10), id="ids beyond the last"),
    ],
)
def test_after_a_refusal_the_next_request_waits_for_the_backoff(response: Callable[[], Message | None]) -> None:
    """Mirrors `testUnrecoverableErrors`, `testInvalidRanges` and `testRetryBackoff`."""
    harness = ManagerHarness(response, given(0, 10))

    async def scenario() -> None:
        await harness.id()
        await pause(10)
        harness.broker_epoch = EPOCH + 1
        assert await harness.ids(5) == ["COORDINATOR_LOAD_IN_PROGRESS"] * 5
        await pause(RETRY_BACKOFF_MS - 10)
        assert len(harness.requests) == 1, "although five producers have requested an id"
        await pause(10)
        assert await harness.id() == "COORDINATOR_LOAD_IN_PROGRESS"
        await pause(10)
        assert await harness.id() == 0

    harness.run(scenario())
    assert harness.requests == [("controller-1:9092", ME, EPOCH), ("controller-1:9092", ME, EPOCH + 1)]


@pytest.mark.parametrize(
    ("code", "name"), [(Errors.STALE_BROKER_EPOCH, "STALE_BROKER_EPOCH"), (999, "UNKNOWN_ERROR_CODE_999")]
)
def test_error_of_the_controller_is_logged_by_name(code: int, name: str) -> None:
    harness = ManagerHarness(refused(code))

    async def scenario() -> None:
        await harness.id()
        await pause(10)

    with operators_log() as lines:
        harness.run(scenario())
    assert [line.fields["error"] for line in lines if "error" in line.fields] == [name]


@pytest.mark.spec("CO-6")
def test_block_that_overlaps_an_earlier_one_is_not_used() -> None:
    harness = ManagerHarness(given(10, 2), given(11, 2), given(5, 2), given(12, 2))

    async def scenario() -> None:
        assert [await harness.eventually() for _ in range(4)] == [10, 11, 12, 13]

    harness.run(scenario())


@pytest.mark.spec("CO-6", "IS-5")
def test_block_is_requested_again_until_a_controller_responds() -> None:
    """First no controller is known, then one closes the connection, then one is no longer controller."""
    harness = ManagerHarness(broken, refused(Errors.NOT_CONTROLLER), given(0, 10))
    harness.controller = None

    async def scenario() -> None:
        await harness.id()
        await pause(TIMEOUT_MS / 2)
        harness.controller = "controller-1"
        while len(harness.requests) < 2:
            await pause(1)
        harness.controller = "controller-2"
        await pause(TIMEOUT_MS / 2)
        assert await harness.id() == 0

    harness.run(scenario())
    assert [address for address, *_ in harness.requests] == [
        "controller-1:9092",
        "controller-1:9092",
        "controller-2:9092",
    ]


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize("controller", ["unknown", "silent", "too old"])
def test_request_without_a_response_times_out_and_is_sent_again_for_the_next_producer(controller: str) -> None:
    harness = ManagerHarness(
        given(0, 10), delay_s=60 if controller == "silent" else 0.001, served=controller != "too old"
    )
    harness.controller = None if controller == "unknown" else "controller-1"

    async def scenario() -> None:
        await harness.id()
        await pause(TIMEOUT_MS)
        connections = harness.peer.connections
        await pause(10 * TIMEOUT_MS)
        assert harness.peer.connections == connections, "no request is sent while no producer waits"
        assert harness.requests == [], "no AllocateProducerIds request was received"
        harness.controller, harness.served, harness.peer.delay_s = "controller-1", True, 0.001
        await harness.id()
        await pause(RETRY_BACKOFF_MS - 1)
        assert await harness.id() == 0, "over a connection of its own, at once"

    harness.run(scenario())


# ------------------------------------------------------------------ from ZooKeeper


class Brokers:
    """The producer id managers of brokers 1 and 2, which take their blocks from the simulated ZooKeeper."""

    def __init__(self, harness: ControllerHarness) -> None:
        self.harness = harness
        self.managers = {number: self._manager(number) for number in (1, 2)}

    def id(self, of: int) -> int | str:
        """Generate a producer id on broker `of`; return the name of the error if there is none."""
        return self.harness.broker(of).run(self._generate(of))

    def ids(self, of: int, count: int) -> list[int | str]:
        """Generate `count` producer ids concurrently on broker `of`."""

        async def together() -> list[int | str]:
            return list(await asyncio.gather(*(self._generate(of) for _ in range(count))))

        return self.harness.broker(of).run(together())

    def start(self, number: int) -> None:
        """Run what the producer id manager of broker `number` runs at the start of the broker."""
        self.harness.broker(number).run(self.managers[number].run())

    def znode(self) -> bytes | None:
        return self.harness.znodes()[ProducerIdBlockZNode.path]

    def write(self, data: bytes) -> None:
        self.harness.operator.run(self.harness.operator.client.write(SetData(ProducerIdBlockZNode.path, data)))

    async def _generate(self, of: int) -> int | str:
        try:
            return await self.managers[of].generate_producer_id()
        except ApiError as error:
            return error.error.name

    def _manager(self, number: int) -> ZkProducerIdManager:
        member = self.harness.broker(number)

        async def begin() -> ZkProducerIdManager:
            return ZkProducerIdManager(BrokerId(number), zk=lambda: member.zk, timeout_ms=8_000)

        return member.run(begin())


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with ControllerHarness(electable=(), brokers=(1, 2)) as harness:
        harness.start()
        yield Brokers(harness)


@pytest.mark.spec("CO-6", "ZN-8")
def test_brokers_of_older_protocols_take_blocks_in_turn(brokers: Brokers) -> None:
    """Mirrors `testGetProducerIdZk`."""
    assert (brokers.id(1), brokers.id(2)) == (0, 1_000)
    assert brokers.ids(1, 999) == list(range(1, 1_000))
    assert brokers.ids(2, 999) == list(range(1_001, 2_000))
    assert (brokers.id(1), brokers.id(2)) == (2_000, 3_000)
    assert brokers.znode() == b'{"version":1,"broker":2,"block_start":"3000","block_end":"3999"}'


@pytest.mark.spec("CO-6", "ZN-8")
def test_starting_broker_takes_its_first_block_unless_it_has_one(brokers: Brokers) -> None:
    brokers.start(1)
    assert brokers.znode() == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert (brokers.id(2), brokers.id(1)) == (1_000, 0)
    brokers.start(2)
    assert (brokers.id(2), brokers.id(1)) == (1_001, 1)


@pytest.mark.spec("CO-6", "ZN-8")
def test_broker_starts_without_a_block_if_it_can_take_none(brokers: Brokers) -> None:
    """Kafka's broker does not start. Here the next request for a producer id takes a block."""
    brokers.write(b"?")
    brokers.start(1)
    brokers.write(
        ProducerIdBlockZNode.encode(ProducerIdBlock(BrokerId(2), MAX_PRODUCER_ID - 1_000, MAX_PRODUCER_ID - 1))
    )
    brokers.start(1)
    brokers.write(ProducerIdBlockZNode.encode(ProducerIdBlock(BrokerId(2), 0, 999)))
    brokers.harness.zookeeper.hold("broker-1", requests=True, answers=True)
    brokers.start(1)
    brokers.harness.zookeeper.heal("broker-1")
    brokers.harness.broker(1).run(brokers.harness.broker(1).open_session())
    assert brokers.id(1) == 1_000


@pytest.mark.spec("CO-6", "ZN-8")
def test_concurrent_producers_take_one_block(brokers: Brokers) -> None:
    assert sorted(brokers.ids(1, 20), key=str) == sorted(range(20), key=str)
    assert brokers.id(2) == 1_000


@pytest.mark.spec("ZN-8")
def test_concurrent_brokers_take_different_blocks(brokers: Brokers) -> None:
    received: dict[int, int | str] = {}

    async def ask(of: int) -> None:
        received[of] = await brokers._generate(of)

    for number in brokers.managers:
        brokers.harness.broker(number).process.spawn(ask(number))
    brokers.harness.settle()
    assert sorted(received.values(), key=str) == [0, 1_000]


@pytest.mark.spec("CO-6", "ZN-8")
@pytest.mark.parametrize(("applied", "given"), [(True, 1_000), (False, 0)])
def test_block_whose_write_has_an_unknown_outcome_is_not_used(brokers: Brokers, applied: bool, given: int) -> None:
    brokers.harness.zookeeper.lost_answers.append(LostAnswer("broker-1", ProducerIdBlockZNode.path, applied=applied))
    assert brokers.id(1) == given
    assert brokers.id(2) == given + 1_000


@pytest.mark.spec("CO-6")
def test_generation_fails_after_the_timeout_while_zookeeper_is_unreachable(brokers: Brokers) -> None:
    member = brokers.harness.broker(1)
    brokers.harness.zookeeper.hold("broker-1", requests=True, answers=True)
    began = brokers.harness.loop.time()
    assert brokers.ids(1, 3) == ["COORDINATOR_LOAD_IN_PROGRESS"] * 3
    assert brokers.harness.loop.time() - began <= 8.0
    brokers.harness.zookeeper.heal("broker-1")
    brokers.harness.settle(10_000)
    brokers.harness.zookeeper.expire(member.client.session_id)
    brokers.harness.settle()
    assert brokers.id(1) == "COORDINATOR_LOAD_IN_PROGRESS", "this session is over"
    member.run(member.open_session())
    assert brokers.id(1) == 0


@pytest.mark.spec("ZN-8")
def test_malformed_or_missing_znode_is_an_unknown_server_error(brokers: Brokers) -> None:
    for data in (b"?", ProducerIdBlockZNode.encode(ProducerIdBlock(ME, MAX_PRODUCER_ID - 1_000, MAX_PRODUCER_ID - 1))):
        brokers.write(data)
        assert brokers.id(1) == "UNKNOWN_SERVER_ERROR"
        assert brokers.znode() == data
    brokers.harness.operator.run(brokers.harness.operator.client.write(Delete(ProducerIdBlockZNode.path)))
    assert brokers.id(1) == "UNKNOWN_SERVER_ERROR", "without the znode it is unknown which ids are taken"


@pytest.mark.spec("ZN-8")
def test_block_allocation_fails_after_too_many_conflicts(brokers: Brokers) -> None:
    """Another broker writes the znode after each read of this one."""
    zk = brokers.harness.broker(1).zk
    read = zk.producer_ids.read

    async def overtaken() -> LatestProducerIdBlock:
        found = await read()
        await zk.producer_ids.write(ProducerIdBlock(BrokerId(2), 0, 999), found)
        return found

    zk.producer_ids.read = overtaken  # type: ignore[method-assign]  # another broker writes between read and write
    assert brokers.id(1) == "COORDINATOR_LOAD_IN_PROGRESS"
