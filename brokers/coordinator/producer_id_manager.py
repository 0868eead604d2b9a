"""Allocates producer ids from blocks that belong to this broker alone (CO-6). Mirrors
`kafka.coordinator.transaction.ProducerIdManager`.

A broker keeps its block in memory only: ids that are left when it stops are never allocated (ZN-8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.controller.producer_ids import next_block
from understudy.foundation.cluster.errors import ApiError, Errors, error_name
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from understudy.foundation.zk.admin_znodes import MAX_PRODUCER_ID, ProducerIdBlock, ProducerIdBlockZNode
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

PREFETCH_PERCENT = 90
"""Percentage of a block's ids after whose allocation the next block is requested."""
RETRY_BACKOFF_MS = 50
"""Time of the pause after the controller has refused or could not be reached."""
CONFLICT_ROUNDS = 10
"""Maximum number of times that another broker takes the block that this one was about to take."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.coordinator.transaction.ProducerIdManager")


class ProducerIdManager(Protocol):
    """Allocates producer ids."""

    async def generate_producer_id(self) -> int:
        """Return an id that no other producer is given.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS if the producer has to request an id again, as every client does.
        """

    async def run(self) -> None:
        """Do the background work. Returns at once if there is none."""


class BlockOfIds:
    """Hands out the ids of one block, in order, each once. Mirrors `ProducerIdsBlock`."""

    def __init__(self, block: ProducerIdBlock) -> None:
        self.block = block
        self._next = block.first

    @property
    def is_used_up(self) -> bool:
        return self._next > self.block.last

    def claim(self) -> int | None:
        """Return the next id; None if none is left."""
        if self.is_used_up:
            return None
        self._next += 1
        return self._next - 1


def prefetch_target(block: ProducerIdBlock) -> int:
    """Return the id of `block` at which the next block is requested."""
    return block.first + block.size * PREFETCH_PERCENT // 100


def why_unusable(offered: ProducerIdBlock, current: ProducerIdBlock) -> str | None:
    """Return why the block `offered` cannot follow `current`; None if it can."""
    if offered.first <= current.last:
        return f"it does not come after {current.last}, the last id of the block in use"
    if offered.size < 1 or offered.last > MAX_PRODUCER_ID:
        return f"it has to hold one id at least, and none above {MAX_PRODUCER_ID}"
    return None


class RPCProducerIdManager:
    """Requests blocks from the controller, each before the last one is used up. A producer never waits for one.

    Args:
        channel: used by this manager alone, for one request at a time.
        broker_epoch: returns the epoch of this broker's registration.
        timeout_ms: after which the request is given up; the next producer starts another one.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        *,
        channel: ControllerChannel,
        clock: Clock,
        broker_epoch: Callable[[], int],
        timeout_ms: int,
    ) -> None:
        self._broker_id = broker_id
        self._channel = channel
        self._clock = clock
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self._current = BlockOfIds(_none(broker_id))
        self._next: ProducerIdBlock | None = None
        self._wanted = asyncio.Event()
        """Set from the request for the next block until its response or timeout."""
        self._retry_at_ms = 0.0

    async def generate_producer_id(self) -> int:
        producer_id = self._current.claim()
        if producer_id is None and self._next is not None:
            self._current, self._next = BlockOfIds(self._next), None
            producer_id = self._current.claim()
        if producer_id is None:
            self._want_next_block()
            raise _load_in_progress("Producer ID block is full. Waiting for next block")
        if producer_id == prefetch_target(self._current.block):
            self._want_next_block()
        return producer_id

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            await self._fetch_next_block()
            self._wanted.clear()

    def _want_next_block(self) -> None:
        if self._clock.monotonic_ms() >= self._retry_at_ms:
            self._wanted.set()

    async def _fetch_next_block(self) -> None:
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                response = await self._request_block()
        except TimeoutError:
            self._channel.forget_controller()
            log.warning("no controller allocates producer ids", broker=self._broker_id, timeout_ms=self._timeout_ms)
            return
        self._next = self._block_of(response)
        if self._next is None:
            self._retry_at_ms = self._clock.monotonic_ms() + RETRY_BACKOFF_MS

    async def _request_block(self) -> AllocateProducerIdsResponse:
        """Return the response of the controller. A block whose response is lost is never used."""
        while True:
            request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
            response = await self._channel.request(request, 0, AllocateProducerIdsResponse)
            if response is not None and response.error_code != Errors.NOT_CONTROLLER:
                return response
            self._channel.forget_controller()
            await asyncio.sleep(RETRY_BACKOFF_MS / 1000)

    def _block_of(self, response: AllocateProducerIdsResponse) -> ProducerIdBlock | None:
        if response.error_code != Errors.NONE:
            # STALE_BROKER_EPOCH and BROKER_ID_NOT_REGISTERED pass: the controller has not seen this registration yet,
            # or this broker has not seen the new controller.
            log.warning(
                "the controller allocates no producer ids",
                broker=self._broker_id,
                error=error_name(response.error_code),
            )
            return None
        first, size = response.producer_id_start, response.producer_id_len
        block = ProducerIdBlock(self._broker_id, first, first + size - 1)
        unusable = why_unusable(block, self._current.block)
        if unusable is not None:
            log.error(
                "a block of producer ids is refused", broker=self._broker_id, first_id=first, size=size, why=unusable
            )
            return None
        return block


class ZkProducerIdManager:
    """Takes blocks from ZooKeeper itself, as before KIP-730: for `inter.broker.protocol.version` below 3.0-IV0.

    Args:
        zk: returns the client of the newest session.
        timeout_ms: how long a producer may wait for ZooKeeper and for producers before it.
    """

    def __init__(self, broker_id: BrokerId, *, zk: Callable[[], KafkaZkClient], timeout_ms: int) -> None:
        self._broker_id = broker_id
        self._zk = zk
        self._timeout_ms = timeout_ms
        self._current = BlockOfIds(_none(broker_id))
        self._one_at_a_time = asyncio.Lock()

    async def generate_producer_id(self) -> int:
        """Return the next id.

        Raises:
            ApiError: COORDINATOR_LOAD_IN_PROGRESS, or UNKNOWN_SERVER_ERROR if the znode cannot be read.
        """
        try:
            async with asyncio.timeout(self._timeout_ms / 1000), self._one_at_a_time:
                return await self._claim()
        except TimeoutError as timeout:
            raise _load_in_progress(
                f"no block of producer ids from ZooKeeper within {self._timeout_ms} ms"
            ) from timeout
        except SessionLost as lost:
            raise _load_in_progress(str(lost)) from lost
        except (ZooKeeperFailure, MalformedZNode) as failure:
            log.error("no producer ids from ZooKeeper", broker=self._broker_id, why=str(failure))
            raise ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure)) from failure

    async def run(self) -> None:
        """Take the first block at the start, as Kafka does. After a failure the first producer tries again."""
        try:
            async with asyncio.timeout(self._timeout_ms / 1000), self._one_at_a_time:
                if self._current.is_used_up:
                    self._current = BlockOfIds(await self._take_block())
        except (TimeoutError, SessionLost, ZooKeeperFailure, MalformedZNode, ApiError) as failure:
            log.warning("no first block of producer ids", broker=self._broker_id, why=repr(failure))

    async def _claim(self) -> int:
        producer_id = self._current.claim()
        if producer_id is None:
            self._current = BlockOfIds(await self._take_block())
            producer_id = self._current.claim()
            assert producer_id is not None, "a block that was taken holds ids"
        return producer_id

    async def _take_block(self) -> ProducerIdBlock:
        zk = self._zk()
        for _ in range(CONFLICT_ROUNDS):
            read = await zk.producer_ids.read()
            block = next_block(read.block, self._broker_id)
            if await zk.producer_ids.write(block, read):
                log.info("acquired producer ids", broker=self._broker_id, first_id=block.first, last_id=block.last)
                return block
        raise _load_in_progress(
            f"other brokers have written {ProducerIdBlockZNode.path} {CONFLICT_ROUNDS} times meanwhile"
        )


def _none(broker_id: BrokerId) -> ProducerIdBlock:
    return ProducerIdBlock(broker_id, 0, -1)


def _load_in_progress(message: str) -> ApiError:
    """Return the error after which even old clients request an id again; REQUEST_TIMED_OUT would end them."""
    return ApiError(Errors.COORDINATOR_LOAD_IN_PROGRESS, message)
