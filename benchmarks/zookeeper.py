"""Measures ten thousand partition states against the embedded server: in batches as here, and one by one as in Kafka.

Both ways use the same adapter and session and are pipelined (Kafka's with its ten requests in flight), so the
difference is the batching: MultiRead and SetWatches for reads, one `check` shared by 500 writes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from msgspec.structs import replace

from benchmarks.rows import Row
from benchmarks.store import open_store
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr
from understudy.foundation.zk.client import Check, Create, Op, SetData, ZooKeeperClient
from understudy.foundation.zk.transactions import MAX_IN_FLIGHT
from understudy.foundation.zk.znodes import ControllerEpochZNode, TopicPartitionStateZNode

STATES = 10_000
STATE = LeaderAndIsr(BrokerId(1), 0, (BrokerId(1), BrokerId(2), BrokerId(3)))


def run() -> list[Row]:
    with EmbeddedZooKeeper() as server:
        return asyncio.run(_measure(server.connect_string))


async def _measure(connect_string: str) -> list[Row]:
    store, session = await open_store(connect_string)
    await store.create_top_level_paths()
    elected = await store.controller.register_and_increment_epoch(BrokerId(1), timestamp_ms=0)
    version = elected.epoch_zk_version
    ours = {TopicPartition("ours", number): STATE for number in range(STATES)}
    theirs = {TopicPartition("theirs", number): STATE for number in range(STATES)}
    for topic in ("ours", "theirs"):
        await store.topics.create(topic, None, {})
    # Warms up the server's JVM: its compilation would be charged to the first measurement.
    await _one_by_one(session, version, [Create(f"/warm-{number}") for number in range(2_000)])

    created = await _timed(lambda: store.states.create(ours, 1, version))
    created_singly = await _timed(lambda: _create_singly(session, version, theirs))
    read = await _timed(lambda: store.states.read(list(ours)))
    paths = [TopicPartitionStateZNode.path(partition) for partition in theirs]
    read_singly = await _timed(lambda: _in_flight(session.get(path) for path in paths))
    watched = await _timed(lambda: session.get_many(paths, watch=True))
    watched_singly = await _timed(lambda: _in_flight(session.get(path, watch=True) for path in paths))
    updates = {partition: replace(state, leader_epoch=1) for partition, state in ours.items()}
    updated = await _timed(lambda: store.states.update(updates, 1, version))
    data = TopicPartitionStateZNode.encode(STATE, 1)
    updated_singly = await _timed(lambda: _one_by_one(session, version, [SetData(path, data, 0) for path in paths]))
    await session.close()
    return [
        Row("partition states created, fenced, µs each", created, created_singly, 0.2),
        Row("partition states read and decoded, µs each", read, read_singly, 0.2),
        Row("znodes read and watched, µs each", watched, watched_singly, 0.2),
        Row("partition states updated, fenced, µs each", updated, updated_singly, 0.1),
    ]


async def _timed(work: Callable[[], Awaitable[object]]) -> float:
    """Microseconds per partition state."""
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) / STATES * 1e6


async def _create_singly(session: ZooKeeperClient, version: int, states: Iterable[TopicPartition]) -> None:
    """Create the parent znodes first, then the states, each in a transaction of its own."""
    data = TopicPartitionStateZNode.encode(STATE, 1)
    state_paths = [TopicPartitionStateZNode.path(partition) for partition in states]
    await session.write(Create("/brokers/topics/theirs/partitions"))
    await _one_by_one(session, version, [Create(path.rpartition("/")[0]) for path in state_paths])
    await _one_by_one(session, version, [Create(path, data) for path in state_paths])


async def _one_by_one(session: ZooKeeperClient, version: int, ops: Iterable[Op]) -> None:
    check = Check(ControllerEpochZNode.path, version)
    await _in_flight(session.multi([check, op]) for op in ops)


async def _in_flight(requests: Iterable[Awaitable[object]]) -> None:
    """Await all requests, as many at a time as Kafka keeps in flight."""
    waiting = iter(requests)

    async def worker() -> None:
        for request in waiting:
            await request

    await asyncio.gather(*[worker() for _ in range(MAX_IN_FLIGHT)])
