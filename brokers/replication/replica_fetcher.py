"""`ReplicaFetcher` copies the partitions that this broker follows from one leader. Mirrors `ReplicaFetcherThread`.

Requests go over the inter-broker listener without an ApiVersions handshake: `inter.broker.protocol.version` fixes the
version, Fetch up to 17, or up to 12 while one topic has no id. The leader holds an answer back for
`replica.fetch.wait.max.ms` while there are no records. Requests are made in a fetch session: each names only the
partitions of which it says something else than the one before (`fetch_session_handler`).

A follower fetches from the end of its log and names the leader epoch of its last record. If that epoch ends elsewhere
in the leader's log, the answer says where, and the follower truncates (KIP-595). A leader whose protocol is older is
asked with OffsetForLeaderEpoch before the first Fetch (KIP-101, KIP-279).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.log.leader_epoch_cache import UNDEFINED_EPOCH
from understudy.brokers.replication.fetch_session import FIRST_VERSION_BY_TOPIC_ID
from understudy.brokers.replication.fetch_session_handler import FetchedPartition, FetchRequestData, FetchSessionHandler
from understudy.brokers.replication.log_events import LogEvents
from understudy.brokers.replication.partition import Partition
from understudy.brokers.replication.truncation import truncation_offset
from understudy.foundation.cluster.errors import ApiError, Errors, error_for_code
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.rules import Rules
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from understudy.foundation.wire.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from understudy.foundation.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.wire.nested_topics import nested
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from understudy.foundation.wire.request_channel import RequestChannel, RequestTimedOut
from understudy.foundation.wire.schema import Message

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaFetcherThread")

R = TypeVar("R", bound=Message)

WITH_REPLICA_STATE = 15
"""First version that names the follower by its id and epoch (KIP-903)."""

Spawn = Callable[[Coroutine[object, object, None], str], asyncio.Task[None]]


class PartitionFetchState(NamedTuple):
    """A partition that is fetched."""

    topic_id: TopicId
    leader_epoch: int
    partition: Partition
    is_truncating: bool = False
    """Whether the leader has to be asked for the end of the last epoch before the first Fetch."""


def fetched_partition(state: PartitionFetchState, config: KafkaConfig) -> FetchedPartition:
    """What a Fetch says of a partition: it is fetched from the end of this broker's log."""
    replica = state.partition.log
    # Before 2.7 the request has no field for it, and the follower has asked where its last epoch ends.
    names_epoch = config.metadata_version.is_truncation_on_fetch_supported
    fetch = FetchPartition(
        partition=state.partition.topic_partition.partition,
        current_leader_epoch=state.leader_epoch,
        fetch_offset=replica.log_end_offset,
        last_fetched_epoch=replica.epochs.latest_epoch if names_epoch else UNDEFINED_EPOCH,
        log_start_offset=replica.log_start_offset,
        partition_max_bytes=config.replica_fetch_max_bytes,
    )
    return FetchedPartition(state.topic_id, fetch)


def fetch_request(
    data: FetchRequestData, *, broker_id: int, broker_epoch: int, config: KafkaConfig
) -> tuple[FetchRequest, int]:
    """A Fetch, and its version."""
    version = config.metadata_version.fetch_version
    if not data.can_use_topic_ids:
        version = min(version, FIRST_VERSION_BY_TOPIC_ID - 1)
    with_state = version >= WITH_REPLICA_STATE
    request = FetchRequest(
        replica_id=-1 if with_state else broker_id,
        replica_state=FetchReplicaState(replica_id=broker_id, replica_epoch=broker_epoch)
        if with_state
        else FetchReplicaState(),
        max_wait_ms=config.replica_fetch_wait_max_ms,
        min_bytes=config.replica_fetch_min_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        session_id=data.session_id,
        session_epoch=data.epoch,
        topics=data.topics(),
        forgotten_topics_data=data.forgotten_topics(version),
    )
    return request, version


Append = Callable[[Partition, bytes, int, int], None]
"""Appends what a leader has sent to a partition's log: the partition, the batches, the leader's high watermark and log
start offset. Raises ApiError if the batches are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherSurroundings:
    """What every fetch loop uses of its broker.

    Attributes:
        append: see `Append`.
        address: the address of a leader now; None while the metadata cache does not hold it.
        broker_epoch: the epoch of this broker's registration now.
        log_events: writes the truncations.
    """

    broker_id: int
    config: KafkaConfig
    network: Network
    clock: Clock
    append: Append
    address: Callable[[int], UpdateMetadataEndpoint | None]
    broker_epoch: Callable[[], int]
    spawn: Spawn
    rules: Rules
    log_events: LogEvents = field(default_factory=LogEvents)


class _NoAddress(Exception):
    """The metadata cache has no address of a leader."""


def epoch_ends_request(
    partitions: Mapping[TopicPartition, PartitionFetchState], *, broker_id: int
) -> OffsetForLeaderEpochRequest:
    """An OffsetForLeaderEpoch for the last epoch of each partition's log."""
    asked = {
        at: OffsetForLeaderPartition(
            partition=at.partition,
            current_leader_epoch=state.leader_epoch,
            leader_epoch=state.partition.log.epochs.latest_epoch,
        )
        for at, state in partitions.items()
    }
    topics = nested(lambda name, partitions: OffsetForLeaderTopic(topic=name, partitions=partitions), asked)
    return OffsetForLeaderEpochRequest(replica_id=broker_id, topics=topics)


class ReplicaFetcher:
    """The fetch loop of one leader. `ReplicaFetcherManager` adds and removes its partitions.

    What a Fetch costs follows from how many partitions have changed since the last one, not from how many are fetched.
    """

    def __init__(self, leader: int, surroundings: FetcherSurroundings) -> None:
        self.partitions: dict[TopicPartition, PartitionFetchState] = {}
        self._leader = leader
        self._around = surroundings
        self._rules = surroundings.rules
        self._channel: RequestChannel | None = None
        self._session = FetchSessionHandler(leader)
        self._delayed: dict[TopicPartition, float] = {}
        """The partitions that are not fetched until a monotonic time."""
        self._changed: dict[TopicPartition, None] = {}
        """The partitions of which the next Fetch may have to say something else than the last one."""
        self._assigned: set[TopicPartition] = set()
        """The partitions that were added or removed since the last Fetch was sent: its answer is not about them."""
        self._woken = asyncio.Event()
        self._task = surroundings.spawn(self._run(), f"ReplicaFetcher-0-{leader}")

    def add(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Fetch a partition from now on; `wake` is to follow."""
        self._assign(topic_partition)
        self.partitions[topic_partition] = state

    def remove(self, topic_partition: TopicPartition) -> None:
        self._assign(topic_partition)
        self.partitions.pop(topic_partition, None)

    def _assign(self, topic_partition: TopicPartition) -> None:
        self._delayed.pop(topic_partition, None)
        self._changed[topic_partition] = None
        self._assigned.add(topic_partition)

    def note_change(self, topic_partition: TopicPartition) -> None:
        """Name a partition in the next Fetch, if what it says of it has changed."""
        self._changed[topic_partition] = None

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
            self._end_delays(now_ms)
            if len(self._delayed) == len(self.partitions):
                await self._wait_until_due(now_ms)
                continue
            try:
                truncating = self._truncating()
                if truncating:
                    await self._truncate_to_epoch_ends(truncating)
                    continue
                await self._fetch()
            except (ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage, _NoAddress) as failure:
                log.debug("fetch failed", leader=self._leader, why=str(failure))
                self._disconnect()
                await asyncio.sleep(around.config.replica_fetch_backoff_ms / 1000)

    def _end_delays(self, now_ms: float) -> None:
        for topic_partition in [each for each, until_ms in self._delayed.items() if until_ms <= now_ms]:
            del self._delayed[topic_partition]
            self._changed[topic_partition] = None

    def _truncating(self) -> dict[TopicPartition, PartitionFetchState]:
        """The partitions for which the leader must first be asked where the last epoch ends."""
        if self._around.config.metadata_version.is_truncation_on_fetch_supported:
            return {}
        return {
            topic_partition: state
            for topic_partition, state in self.partitions.items()
            if state.is_truncating and topic_partition not in self._delayed
        }

    async def _request(self, request: Message, version: int, response: type[R]) -> R:
        """Send a request to the leader, and return its answer.

        Raises:
            _NoAddress: the metadata cache does not hold the leader.
            ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage: no answer that can be read.
        """
        around = self._around
        timeout_ms = around.config.replica_socket_timeout_ms
        if self._channel is None:
            address = around.address(self._leader)
            if address is None:
                raise _NoAddress(f"the metadata cache has no address of broker {self._leader}")
            connection = await around.network.connect(address.host, address.port, timeout_ms=timeout_ms)
            self._channel = RequestChannel(connection, client_id=f"broker-{around.broker_id}-fetcher-0")
        answer = await self._channel.request(
            request, version, timeout_ms=timeout_ms + around.config.replica_fetch_wait_max_ms
        )
        assert isinstance(answer, response)
        return answer

    # ------------------------------------------------------------------ fetching

    async def _fetch(self) -> None:
        around, session = self._around, self._session
        was_full = session.is_full
        request, version = fetch_request(
            session.build(self._wanted()),
            broker_id=around.broker_id,
            broker_epoch=around.broker_epoch(),
            config=around.config,
        )
        self._assigned.clear()
        try:
            response = await self._request(request, version, FetchResponse)
        except BaseException:
            session.handle_error()
            raise
        answered = session.handle_response(response, version)
        if answered is None:
            if was_full:
                await asyncio.sleep(around.config.replica_fetch_backoff_ms / 1000)
            return
        out_of_range = []
        for topic_partition, data in answered.items():
            self._changed[topic_partition] = None
            state = self.partitions.get(topic_partition)
            if state is None:
                continue  # a control request has stopped the partition
            is_of_old = topic_partition in self._assigned
            if is_of_old and self._rules.answer_to_old_assignment_is_ignored.holds_for(topic_partition):
                continue
            error = error_for_code(data.error_code)
            if error is Errors.NONE:
                self._apply(topic_partition, state, data)
            elif error is Errors.OFFSET_OUT_OF_RANGE:
                out_of_range.append((topic_partition, state))
            else:
                self._delay(topic_partition, error)
        for topic_partition, state in out_of_range:
            await self._reset_offset(topic_partition, state)

    def _wanted(self) -> dict[TopicPartition, FetchedPartition | None]:
        """The fields of the next Fetch for the partitions that have changed; for all if the session begins."""
        changed, self._changed = self._changed, {}
        if self._session.is_full:
            changed = dict.fromkeys(self.partitions)
        config = self._around.config
        wanted: dict[TopicPartition, FetchedPartition | None] = {}
        for topic_partition in changed:
            state = self.partitions.get(topic_partition)
            is_due = state is not None and topic_partition not in self._delayed
            wanted[topic_partition] = fetched_partition(state, config) if state is not None and is_due else None
        return wanted

    def _apply(self, topic_partition: TopicPartition, state: PartitionFetchState, data: PartitionData) -> None:
        """Append the records of one partition; or truncate, and take no offsets from an answer that says so."""
        if data.diverging_epoch.epoch >= 0:
            if not self._rules.truncation_goes_before_high_watermark.holds_for(topic_partition):
                self._around.append(state.partition, b"", data.high_watermark, data.log_start_offset)
            self._truncate(state.partition, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
            return
        try:
            self._around.append(state.partition, data.records or b"", data.high_watermark, data.log_start_offset)
        except ApiError as refused:
            log.error(
                "found invalid messages during fetch",
                partition=str(topic_partition),
                offset=state.partition.log.log_end_offset,
                why=refused.message,
            )
            self._delay(topic_partition, refused.error)

    def _delay(self, topic_partition: TopicPartition, error: Errors) -> None:
        """Do not fetch a partition during the backoff or, if it is fenced, until a LeaderAndIsr (BK-13)."""
        again_ms = self._around.clock.monotonic_ms() + self._around.config.replica_fetch_backoff_ms
        self._delayed[topic_partition] = float("inf") if error is Errors.FENCED_LEADER_EPOCH else again_ms
        self._changed[topic_partition] = None

    # ------------------------------------------------------------------ truncating

    def _truncate(self, partition: Partition, leader_epoch: int, end_offset: int) -> bool:
        """Truncate to where the log agrees with the leader's; return whether one round was enough."""
        replica, log_end = partition.log, partition.log.log_end_offset
        truncation = truncation_offset(
            replica.epochs,
            leader_epoch=leader_epoch,
            leader_end_offset=end_offset,
            log_end_offset=log_end,
            high_watermark=replica.high_watermark,
        )
        if truncation.offset < replica.high_watermark:
            log.warning(
                "truncating below the high watermark",
                partition=str(partition.topic_partition),
                offset=truncation.offset,
                high_watermark=replica.high_watermark,
            )
        latest = replica.epochs.latest
        rule = self._rules.truncation_removes_epochs_without_records
        cuts_only_an_epoch = truncation.offset >= log_end and latest is not None and latest.start_offset == log_end
        if cuts_only_an_epoch and not rule.holds_for(partition.topic_partition):
            return truncation.is_complete
        with self._around.log_events.truncating(partition):
            replica.truncate_to(truncation.offset, now_ms=self._around.clock.wall_ms())
        return truncation.is_complete

    async def _truncate_to_epoch_ends(self, truncating: Mapping[TopicPartition, PartitionFetchState]) -> None:
        """Ask the leader where the last epochs of this broker's logs end in its own, and truncate; `maybeTruncate`.

        A log without any epoch is truncated to its high watermark.
        """
        asked: dict[TopicPartition, PartitionFetchState] = {}
        for topic_partition, state in truncating.items():
            replica = state.partition.log
            self._changed[topic_partition] = None
            if replica.epochs.latest is None:
                with self._around.log_events.truncating(state.partition):
                    replica.truncate_to(replica.high_watermark, now_ms=self._around.clock.wall_ms())
                self.partitions[topic_partition] = state._replace(is_truncating=False)
            else:
                asked[topic_partition] = state
        if not asked:
            return
        config = self._around.config
        response = await self._request(
            epoch_ends_request(asked, broker_id=self._around.broker_id),
            config.metadata_version.offset_for_leader_epoch_version,
            OffsetForLeaderEpochResponse,
        )
        for topic in response.topics:
            for end in topic.partitions:
                topic_partition = TopicPartition(topic.topic, end.partition)
                asked_state = asked.get(topic_partition)
                if asked_state is None or self.partitions.get(topic_partition) is not asked_state:
                    continue
                error = error_for_code(end.error_code)
                if error is not Errors.NONE:
                    self._delay(topic_partition, error)
                elif self._truncate(asked_state.partition, end.leader_epoch, end.end_offset):
                    self.partitions[topic_partition] = asked_state._replace(is_truncating=False)

    async def _reset_offset(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Bring a log whose end the leader does not have to where it can be fetched; `fetchOffsetAndTruncate`.

        After an unclean election the leader's log may end before this one's: the log is truncated to that end.
        Otherwise the leader has deleted what comes next here: the log begins anew where the leader's begins.
        """
        replica = state.partition.log
        end_offset = await self._offset_of(topic_partition, state, LATEST_TIMESTAMP)
        if end_offset is not None and end_offset < replica.log_end_offset:
            log.warning(
                "reset fetch offset to the leader's end",
                partition=str(topic_partition),
                end_offset=replica.log_end_offset,
                leader_end_offset=end_offset,
            )
            with self._around.log_events.truncating(state.partition):
                replica.truncate_to(end_offset, now_ms=self._around.clock.wall_ms())
            return
        start_offset = None if end_offset is None else await self._offset_of(topic_partition, state, EARLIEST_TIMESTAMP)
        if start_offset is not None and start_offset > replica.log_end_offset:
            log.warning(
                "reset fetch offset to the leader's start",
                partition=str(topic_partition),
                end_offset=replica.log_end_offset,
                leader_start_offset=start_offset,
            )
            with self._around.log_events.truncating(state.partition):
                replica.truncate_fully_and_start_at(start_offset, now_ms=self._around.clock.wall_ms())

    async def _offset_of(
        self, topic_partition: TopicPartition, state: PartitionFetchState, timestamp: int
    ) -> int | None:
        """Return where the leader's log ends or begins; None, with the partition delayed, if it is not known."""
        partition = ListOffsetsPartition(
            partition_index=topic_partition.partition, current_leader_epoch=state.leader_epoch, timestamp=timestamp
        )
        request = ListOffsetsRequest(
            replica_id=self._around.broker_id,
            topics=(ListOffsetsTopic(name=topic_partition.topic, partitions=(partition,)),),
        )
        version = self._around.config.metadata_version.list_offsets_version
        response = await self._request(request, version, ListOffsetsResponse)
        if self.partitions.get(topic_partition) is not state:
            return None
        found = next((found for topic in response.topics for found in topic.partitions), None)
        if found is not None and found.error_code == Errors.NONE:
            return found.offset
        error = Errors.UNKNOWN_SERVER_ERROR if found is None else error_for_code(found.error_code)
        self._delay(topic_partition, error)
        return None

    async def _wait_until_due(self, now_ms: float) -> None:
        """Wait until the first delayed partition may be fetched again, or another one has been added."""
        self._woken.clear()
        first_ms = min(self._delayed.values(), default=float("inf"))
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
