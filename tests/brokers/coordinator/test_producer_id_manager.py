"""Producer ids: each once, from blocks asked for ahead of time. Mirrors `ProducerIdManagerTest`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from brokers.coordinator.producer_id_manager import (
    RETRY_BACKOFF_MS,
    BlockOfIds,
    RPCProducerIdManager,
    ZkProducerIdManager,
    prefetch_target,
    why_unusable,
)
from brokers.membership.controller_channel import ControllerChannel
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.identifiers import BrokerId
from foundation.wire.headers import RequestHeader
from foundation.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from foundation.wire.schema import Message
from foundation.zk.admin_znodes import MAX_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockZNode
from foundation.zk.client import Delete, SetData
from foundation.zk.cluster_znodes import LatestProducerIdBlock
from tests.brokers.peers import ScriptedPeer
from tests.controller.harness import ControllerHarness
from understudy.simulator.loop import new_loop
from understudy.simulator.world import SimulatedClock
from understudy.simulator.zookeeper import LostAnswer

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
    """The connection breaks before an answer."""


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
def test_a_block_has_ids_that_were_not_given_before(offered: ProducerIdBlock, usable: bool) -> None:
    assert (why_unusable(offered, current=block(0, 10)) is None) is usable


def test_a_block_is_claimed_in_order_and_no_further() -> None:
    ids = BlockOfIds(block(7, 3))
    assert [ids.claim() for _ in range(5)] == [7, 8, 9, None, None]


# ------------------------------------------------------------------ from the controller


class Scene:
    """A manager and a scripted controller, in virtual time; `script` answers one AllocateProducerIds after the
    other."""

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
    def asked(self) -> list[tuple[str, int, int]]:
        """Address, broker and its epoch of each request for a block."""
        return [
            (address, message.broker_id, message.broker_epoch)
            for address, _, message in self.peer.received
            if isinstance(message, AllocateProducerIdsRequest)
        ]

    async def id(self) -> int | str:
        """What a producer hears: an id, or the name of an error."""
        try:
            return await self.manager.generate_producer_id()
        except ApiError as error:
            return error.error.name

    async def ids(self, count: int) -> list[int | str]:
        return [await self.id() for _ in range(count)]

    async def eventually(self) -> int:
        """As clients do: ask again until there is an id."""
        async with asyncio.timeout(10):
            while isinstance(answer := await self.id(), str):
                assert answer == "COORDINATOR_LOAD_IN_PROGRESS"
                await pause(20)
        return answer

    def play(self, act: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.manager.run())
            await act
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
    """Virtual time: whatever can happen within it does."""
    await asyncio.sleep(ms / 1000)


@pytest.mark.spec("CO-6")
def test_producers_never_wait_for_a_block() -> None:
    scene = Scene(given(0, 3))

    async def act() -> None:
        assert await scene.ids(2) == ["COORDINATOR_LOAD_IN_PROGRESS"] * 2
        assert await scene.eventually() == 0

    scene.play(act())
    assert scene.asked == [("controller-1:9092", ME, EPOCH)], "one request, however many producers ask meanwhile"


@pytest.mark.spec("CO-6")
def test_blocks_follow_each_other_without_a_producer_noticing() -> None:
    scene = Scene(given(0, 10), given(10, 10), given(5_000, 10))

    async def act() -> None:
        assert await scene.eventually() == 0
        assert await scene.ids(8) == list(range(1, 9))
        await pause(100)
        assert len(scene.asked) == 1, "nine tenths are not gone yet"
        assert await scene.id() == 9
        await pause(100)
        assert len(scene.asked) == 2
        assert await scene.ids(10) == list(range(10, 20))
        await pause(100)
        assert await scene.ids(3) == [5_000, 5_001, 5_002], "other brokers took the blocks between"

    scene.play(act())


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize("size", [1, 2, 10])
def test_producers_that_come_together_share_no_id(size: int) -> None:
    """As `testConcurrentGeneratePidRequests`."""
    scene = Scene(*(given(number * size, size) for number in range(6)))
    heard: list[int] = []

    async def producer() -> None:
        heard.extend([await scene.eventually() for _ in range(size)])

    async def act() -> None:
        await asyncio.gather(*(producer() for _ in range(5)))

    scene.play(act())
    assert sorted(heard) == list(range(5 * size))


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(refused(Errors.STALE_BROKER_EPOCH), id="stale epoch"),
        pytest.param(refused(Errors.BROKER_ID_NOT_REGISTERED), id="not registered"),
        pytest.param(refused(Errors.UNKNOWN_SERVER_ERROR), id="an unexpected error"),
        pytest.param(refused(Errors.INVALID_REQUEST), id="another"),
        pytest.param(given(-1, 10), id="ids below 0"),
        pytest.param(given(0, -1), id="fewer ids than none"),
        pytest.param(given(0, 0), id="no ids"),
        pytest.param(given(MAX_PRODUCER_ID, 10), id="ids beyond the last"),
    ],
)
def test_after_a_refusal_the_next_request_waits_for_the_backoff(trouble: Callable[[], Message | None]) -> None:
    """As `testUnrecoverableErrors`, `testInvalidRanges` and `testRetryBackoff`."""
    scene = Scene(trouble, given(0, 10))

    async def act() -> None:
        await scene.id()
        await pause(10)
        scene.broker_epoch = EPOCH + 1
        assert await scene.ids(5) == ["COORDINATOR_LOAD_IN_PROGRESS"] * 5
        await pause(RETRY_BACKOFF_MS - 10)
        assert len(scene.asked) == 1, "though five producers have asked"
        await pause(10)
        assert await scene.id() == "COORDINATOR_LOAD_IN_PROGRESS"
        await pause(10)
        assert await scene.id() == 0

    scene.play(act())
    assert scene.asked == [("controller-1:9092", ME, EPOCH), ("controller-1:9092", ME, EPOCH + 1)]


@pytest.mark.spec("CO-6")
def test_ids_given_once_are_not_taken_a_second_time() -> None:
    scene = Scene(given(10, 2), given(11, 2), given(5, 2), given(12, 2))

    async def act() -> None:
        assert [await scene.eventually() for _ in range(4)] == [10, 11, 12, 13]

    scene.play(act())


@pytest.mark.spec("CO-6", "IS-5")
def test_the_controller_is_looked_for_until_there_is_one() -> None:
    """Nobody known, then one that breaks, then one that is no longer controller."""
    scene = Scene(broken, refused(Errors.NOT_CONTROLLER), given(0, 10))
    scene.controller = None

    async def act() -> None:
        await scene.id()
        await pause(TIMEOUT_MS / 2)
        scene.controller = "controller-1"
        while len(scene.asked) < 2:
            await pause(1)
        scene.controller = "controller-2"
        await pause(TIMEOUT_MS / 2)
        assert await scene.id() == 0

    scene.play(act())
    assert [address for address, *_ in scene.asked] == ["controller-1:9092", "controller-1:9092", "controller-2:9092"]


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize("nobody", ["unknown", "silent", "too old"])
def test_a_request_without_response_is_given_up_and_sent_again_for_the_next_producer(nobody: str) -> None:
    scene = Scene(given(0, 10), delay_s=60 if nobody == "silent" else 0.001, served=nobody != "too old")
    scene.controller = None if nobody == "unknown" else "controller-1"

    async def act() -> None:
        await scene.id()
        await pause(TIMEOUT_MS)
        connections = scene.peer.connections
        await pause(10 * TIMEOUT_MS)
        assert scene.peer.connections == connections, "nobody asks for what nobody wants"
        assert scene.asked == [], "no request has got so far"
        scene.controller, scene.served, scene.peer.delay_s = "controller-1", True, 0.001
        await scene.id()
        await pause(RETRY_BACKOFF_MS - 1)
        assert await scene.id() == 0, "over a connection of its own, at once"

    scene.play(act())


# ------------------------------------------------------------------ from ZooKeeper


class Brokers:
    """Brokers 1 and 2 of an older protocol, over the simulated ZooKeeper."""

    def __init__(self, stage: ControllerHarness) -> None:
        self.stage = stage
        self.managers = {number: self._manager(number) for number in (1, 2)}

    def id(self, of: int) -> int | str:
        """What a producer hears of broker `of`."""
        return self.stage.broker(of).run(self._asked(of))

    def ids(self, of: int, count: int) -> list[int | str]:
        async def together() -> list[int | str]:
            return list(await asyncio.gather(*(self._asked(of) for _ in range(count))))

        return self.stage.broker(of).run(together())

    def start(self, number: int) -> None:
        """What broker `number` does as it starts."""
        self.stage.broker(number).run(self.managers[number].run())

    def znode(self) -> bytes | None:
        return self.stage.znodes()[ProducerIdBlockZNode.path]

    def write(self, data: bytes) -> None:
        self.stage.operator.run(self.stage.operator.client.write(SetData(ProducerIdBlockZNode.path, data)))

    async def _asked(self, of: int) -> int | str:
        try:
            return await self.managers[of].generate_producer_id()
        except ApiError as error:
            return error.error.name

    def _manager(self, number: int) -> ZkProducerIdManager:
        member = self.stage.broker(number)

        async def begin() -> ZkProducerIdManager:
            return ZkProducerIdManager(BrokerId(number), zk=lambda: member.zk, timeout_ms=8_000)

        return member.run(begin())


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with ControllerHarness(electable=(), brokers=(1, 2)) as stage:
        stage.start()
        yield Brokers(stage)


@pytest.mark.spec("CO-6", "ZN-8")
def test_brokers_of_older_protocols_take_blocks_in_turn(brokers: Brokers) -> None:
    """As `testGetProducerIdZk`."""
    assert (brokers.id(1), brokers.id(2)) == (0, 1_000)
    assert brokers.ids(1, 999) == list(range(1, 1_000))
    assert brokers.ids(2, 999) == list(range(1_001, 2_000))
    assert (brokers.id(1), brokers.id(2)) == (2_000, 3_000)
    assert brokers.znode() == b'{"version":1,"broker":2,"block_start":"3000","block_end":"3999"}'


@pytest.mark.spec("CO-6", "ZN-8")
def test_a_starting_broker_takes_its_first_block_unless_a_producer_was_faster(brokers: Brokers) -> None:
    brokers.start(1)
    assert brokers.znode() == b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'
    assert (brokers.id(2), brokers.id(1)) == (1_000, 0)
    brokers.start(2)
    assert (brokers.id(2), brokers.id(1)) == (1_001, 1)


@pytest.mark.spec("CO-6", "ZN-8")
def test_a_broker_starts_also_where_it_can_take_no_block(brokers: Brokers) -> None:
    """Kafka's does not. The first producer after the trouble has it take one."""
    brokers.write(b"?")
    brokers.start(1)
    brokers.write(
        ProducerIdBlockZNode.encode(ProducerIdBlock(BrokerId(2), MAX_PRODUCER_ID - 1_000, MAX_PRODUCER_ID - 1))
    )
    brokers.start(1)
    brokers.write(ProducerIdBlockZNode.encode(ProducerIdBlock(BrokerId(2), 0, 999)))
    brokers.stage.zookeeper.hold("broker-1", requests=True, answers=True)
    brokers.start(1)
    brokers.stage.zookeeper.heal("broker-1")
    brokers.stage.broker(1).run(brokers.stage.broker(1).open_session())
    assert brokers.id(1) == 1_000


@pytest.mark.spec("CO-6", "ZN-8")
def test_producers_that_come_together_take_one_block(brokers: Brokers) -> None:
    assert sorted(brokers.ids(1, 20), key=str) == sorted(range(20), key=str)
    assert brokers.id(2) == 1_000


@pytest.mark.spec("ZN-8")
def test_two_brokers_at_the_same_moment_take_different_blocks(brokers: Brokers) -> None:
    heard: dict[int, int | str] = {}

    async def ask(of: int) -> None:
        heard[of] = await brokers._asked(of)

    for number in brokers.managers:
        brokers.stage.broker(number).process.spawn(ask(number))
    brokers.stage.settle()
    assert sorted(heard.values(), key=str) == [0, 1_000]


@pytest.mark.spec("CO-6", "ZN-8")
@pytest.mark.parametrize(("applied", "given"), [(True, 1_000), (False, 0)])
def test_a_block_whose_answer_was_lost_is_left_alone(brokers: Brokers, applied: bool, given: int) -> None:
    brokers.stage.zookeeper.lost_answers.append(LostAnswer("broker-1", ProducerIdBlockZNode.path, applied=applied))
    assert brokers.id(1) == given
    assert brokers.id(2) == given + 1_000


@pytest.mark.spec("CO-6")
def test_without_zookeeper_a_producer_waits_so_long_and_asks_again(brokers: Brokers) -> None:
    member = brokers.stage.broker(1)
    brokers.stage.zookeeper.hold("broker-1", requests=True, answers=True)
    began = brokers.stage.loop.time()
    assert brokers.ids(1, 3) == ["COORDINATOR_LOAD_IN_PROGRESS"] * 3
    assert brokers.stage.loop.time() - began <= 8.0
    brokers.stage.zookeeper.heal("broker-1")
    brokers.stage.settle(10_000)
    brokers.stage.zookeeper.expire(member.client.session_id)
    brokers.stage.settle()
    assert brokers.id(1) == "COORDINATOR_LOAD_IN_PROGRESS", "this session is over"
    member.run(member.open_session())
    assert brokers.id(1) == 0


@pytest.mark.spec("ZN-8")
def test_an_unreadable_znode_is_a_server_error(brokers: Brokers) -> None:
    for data in (b"?", ProducerIdBlockZNode.encode(ProducerIdBlock(ME, MAX_PRODUCER_ID - 1_000, MAX_PRODUCER_ID - 1))):
        brokers.write(data)
        assert brokers.id(1) == "UNKNOWN_SERVER_ERROR"
        assert brokers.znode() == data
    brokers.stage.operator.run(brokers.stage.operator.client.write(Delete(ProducerIdBlockZNode.path)))
    assert brokers.id(1) == "UNKNOWN_SERVER_ERROR", "nobody knows any more which ids are taken"


@pytest.mark.spec("ZN-8")
def test_a_broker_gives_up_after_too_many_conflicts(brokers: Brokers) -> None:
    """Somebody else writes whenever it has read."""
    zk = brokers.stage.broker(1).zk
    read = zk.producer_ids.read

    async def overtaken() -> LatestProducerIdBlock:
        found = await read()
        await zk.producer_ids.write(ProducerIdBlock(BrokerId(2), 0, 999), found)
        return found

    zk.producer_ids.read = overtaken  # type: ignore[method-assign]  # the other broker, at the worst moment
    assert brokers.id(1) == "COORDINATOR_LOAD_IN_PROGRESS"
