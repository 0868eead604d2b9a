"""Fetches the partitions this broker follows: one loop per leader. Mirrors `ReplicaFetcherManager` and
`ReplicaFetcherThread`.

Fetch goes over the inter-broker listener without an ApiVersions handshake: `inter.broker.protocol.version` fixes the
version, up to 17, or up to 12 while one topic has no id. The leader holds an answer back for
`replica.fetch.wait.max.ms`, so an idle pair of brokers exchanges two small frames in half a second. No fetch session is
opened: every request names all its partitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from brokers.config.kafka_config import KafkaConfig
from brokers.log.partition_log import PartitionLog
from brokers.replication.partition import Partition
from foundation.cluster.errors import Errors, error_for_code
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.eventlog.clock import Clock
from foundation.wire.errors import MalformedMessage
from foundation.wire.messages.fetch import FetchPartition, FetchReplicaState, FetchRequest, FetchResponse, FetchTopic
from foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from foundation.wire.request_channel import RequestChannel, RequestTimedOut

WITH_TOPIC_IDS = 13
WITH_REPLICA_STATE = 15
"""The first versions that name topics by id, and the follower by its id and epoch (KIP-903)."""

Spawn = Callable[[Coroutine[object, object, None], str], asyncio.Task[None]]


class PartitionFetchState(NamedTuple):
    """A partition that is fetched, but not before `delayed_until_ms`, a monotonic time."""

    topic_id: TopicId
    leader_epoch: int
    log: PartitionLog
    delayed_until_ms: float = 0.0


def fetch_request(
    partitions: Mapping[TopicPartition, PartitionFetchState], *, broker_id: int, broker_epoch: int, config: KafkaConfig
) -> tuple[FetchRequest, int]:
    """A full Fetch of `partitions` from the end of this broker's logs, and its version."""
    version = config.metadata_version.fetch_version
    if any(state.topic_id == NO_TOPIC_ID for state in partitions.values()):
        version = min(version, WITH_TOPIC_IDS - 1)
    with_state = version >= WITH_REPLICA_STATE
    topics: dict[tuple[str, TopicId], list[FetchPartition]] = {}
    for topic_partition, state in partitions.items():
        topics.setdefault((topic_partition.topic, state.topic_id), []).append(
            FetchPartition(
                partition=topic_partition.partition,
                current_leader_epoch=state.leader_epoch,
                fetch_offset=state.log.log_end_offset,
                log_start_offset=state.log.log_start_offset,
                partition_max_bytes=config.replica_fetch_max_bytes,
            )
        )
    request = FetchRequest(
        replica_id=-1 if with_state else broker_id,
        replica_state=FetchReplicaState(replica_id=broker_id, replica_epoch=broker_epoch)
        if with_state
        else FetchReplicaState(),
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        topics=tuple(
            FetchTopic(topic=topic, topic_id=topic_id, partitions=tuple(states))
            for (topic, topic_id), states in topics.items()
        ),
    )
    return request, version


def failed_partitions(
    requested: Mapping[TopicPartition, PartitionFetchState], response: FetchResponse
) -> dict[TopicPartition, Errors]:
    """The errors of an answer, by partition; one for every partition where the whole request was refused."""
    if response.error_code != Errors.NONE:
        return dict.fromkeys(requested, error_for_code(response.error_code))
    names = {state.topic_id: topic_partition.topic for topic_partition, state in requested.items()}
    return {
        TopicPartition(topic.topic or names.get(topic.topic_id, ""), partition.partition_index): error_for_code(
            partition.error_code
        )
        for topic in response.responses
        for partition in topic.partitions
        if partition.error_code != Errors.NONE
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSurroundings:
    """What every fetch loop uses of its broker.

    Attributes:
        address: where a leader is reached now; None while the metadata cache does not hold it.
        broker_epoch: the epoch of this broker's registration now.
    """

    broker_id: int
    config: KafkaConfig
    network: Network
    clock: Clock
    address: Callable[[int], UpdateMetadataEndpoint | None]
    broker_epoch: Callable[[], int]
    spawn: Spawn


class ReplicaFetcherManager:
    """Assigns partitions to the fetch loops of their leaders.

    A loop starts with its first partition. One without partitions ends at the next LeaderAndIsr, as in Kafka: often
    that request gives it partitions again.
    """

    def __init__(self, surroundings: FetcherSurroundings) -> None:
        self._surroundings = surroundings
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self.leader_of: dict[TopicPartition, int] = {}
        """The broker that each partition is fetched from."""

    def follow(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._stop_one(partition.topic_partition)
            fetcher = self._fetchers.get(partition.leader)
            if fetcher is None:
                fetcher = self._fetchers[partition.leader] = ReplicaFetcher(partition.leader, self._surroundings)
            fetcher.partitions[partition.topic_partition] = PartitionFetchState(
                partition.topic_id, partition.leader_epoch, partition.log
            )
            self.leader_of[partition.topic_partition] = partition.leader
        for leader in sorted(self._fetchers):
            self._fetchers[leader].wake()
        self._end_idle()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in partitions:
            self._stop_one(topic_partition)

    def close(self) -> None:
        for leader in sorted(self._fetchers):
            self._fetchers[leader].end()
        self._fetchers.clear()
        self.leader_of.clear()

    def _stop_one(self, topic_partition: TopicPartition) -> None:
        leader = self.leader_of.pop(topic_partition, None)
        if leader is not None:
            self._fetchers[leader].partitions.pop(topic_partition, None)

    def _end_idle(self) -> None:
        idle = [leader for leader, fetcher in self._fetchers.items() if not fetcher.partitions]
        for leader in idle:
            self._fetchers.pop(leader).end()


class ReplicaFetcher:
    """The fetch loop of one leader. `ReplicaFetcherManager` adds and removes its `partitions`."""

    def __init__(self, leader: int, surroundings: FetcherSurroundings) -> None:
        self.partitions: dict[TopicPartition, PartitionFetchState] = {}
        self._leader = leader
        self._around = surroundings
        self._channel: RequestChannel | None = None
        self._woken = asyncio.Event()
        self._task = surroundings.spawn(self._run(), f"ReplicaFetcher-0-{leader}")

    def wake(self) -> None:
        """Have a loop that waits for a partition to be due look again: partitions have been added."""
        self._woken.set()

    def end(self) -> None:
        self._task.cancel()
        self._disconnect()

    async def _run(self) -> None:
        around = self._around
        while True:
            now_ms = around.clock.monotonic_ms()
            due = {key: state for key, state in self.partitions.items() if state.delayed_until_ms <= now_ms}
            if not due:
                await self._wait_until_due(now_ms)
                continue
            response = await self._fetch(due)
            if response is None:
                self._disconnect()
                await asyncio.sleep(around.config.replica_fetch_backoff_ms / 1000)
            else:
                self._settle(due, response)

    async def _fetch(self, due: Mapping[TopicPartition, PartitionFetchState]) -> FetchResponse | None:
        """The leader's answer; None where it could not be reached, or its answer not be read."""
        around = self._around
        request, version = fetch_request(
            due, broker_id=around.broker_id, broker_epoch=around.broker_epoch(), config=around.config
        )
        timeout_ms = around.config.replica_socket_timeout_ms
        try:
            if self._channel is None:
                address = around.address(self._leader)
                if address is None:
                    return None
                connection = await around.network.connect(address.host, address.port, timeout_ms=timeout_ms)
                client_id = f"broker-{around.broker_id}-fetcher-0"
                self._channel = RequestChannel(connection, client_id=client_id)
            response = await self._channel.request(
                request, version, timeout_ms=timeout_ms + around.config.replica_fetch_wait_max_ms
            )
        except (ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage):
            return None
        assert isinstance(response, FetchResponse)
        return response

    def _settle(self, due: Mapping[TopicPartition, PartitionFetchState], response: FetchResponse) -> None:
        """Delay the partitions that failed: for the backoff, or, if they are fenced, until a LeaderAndIsr (BK-13)."""
        again_ms = self._around.clock.monotonic_ms() + self._around.config.replica_fetch_backoff_ms
        for topic_partition, error in failed_partitions(due, response).items():
            state = due.get(topic_partition)
            if state is None or self.partitions.get(topic_partition) != state:
                continue
            delay_until = float("inf") if error is Errors.FENCED_LEADER_EPOCH else again_ms
            self.partitions[topic_partition] = state._replace(delayed_until_ms=delay_until)

    async def _wait_until_due(self, now_ms: float) -> None:
        """Wait until the first delayed partition may be fetched again, or another one has been added."""
        self._woken.clear()
        first_ms = min((state.delayed_until_ms for state in self.partitions.values()), default=float("inf"))
        if first_ms == float("inf"):
            await self._woken.wait()
            return
        try:
            async with asyncio.timeout((first_ms - now_ms) / 1000):
                await self._woken.wait()
        except TimeoutError:
            return

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
