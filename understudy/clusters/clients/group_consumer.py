"""A consumer that reads the topics of its group, or partitions that it is given, record by record.

It joins the group again when it has to, continues at the committed offsets, and commits the offsets after the records
that it has returned. Mirrors
`KafkaConsumer` with the classic group protocol.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.consumer import MAX_BYTES, Consumed, Consumer
from understudy.clusters.clients.group_member import GroupMember, MemberSettings
from understudy.clusters.clients.member_events import Assigned, MemberEvent
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from understudy.foundation.wire.network import Network

BACKOFF_MS = 100
FETCH_WAIT_MS = 500
"""`retry.backoff.ms` and `fetch.max.wait.ms` of Kafka's consumer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """The settings, named as in Kafka's consumer.

    Attributes:
        member: the group and the topics that it reads; ignored if there are `partitions`.
        partitions: partitions to read without the group, from these offsets on; `EARLIEST_TIMESTAMP` and
            `LATEST_TIMESTAMP` stand for the log's start and end.
        resets_to_earliest: whether a partition without a committed offset is read from the log's start; otherwise
            from its end (`auto.offset.reset`).
    """

    bootstrap: tuple[str, ...]
    client_id: str
    member: MemberSettings
    partitions: tuple[tuple[TopicPartition, int], ...] = ()
    resets_to_earliest: bool = False
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    is_read_committed: bool = False
    max_poll_records: int = 500
    max_partition_fetch_bytes: int = MAX_BYTES


class GroupConsumer:
    """Reads records. One call at a time; calls of `poll` keep the membership alive.

    Args:
        on_assigned: called with the partitions of each assignment.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        settings: ConsumerSettings,
        on_assigned: Callable[[tuple[TopicPartition, ...]], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._settings = settings
        self._on_assigned = on_assigned
        # A fetch may wait at the broker that coordinates the group; a heartbeat may not wait behind it.
        self._fetching = Connections(network, settings.bootstrap, client_id=settings.client_id)
        self._coordinating = Connections(network, settings.bootstrap, client_id=settings.client_id)
        self._consumer = Consumer(
            self._fetching,
            max_bytes=settings.max_partition_fetch_bytes,
            is_read_committed=settings.is_read_committed,
        )
        self._member = (
            None if settings.partitions else GroupMember(self._coordinating, clock, settings.member, self._note)
        )
        self._fetched: deque[Consumed] = deque()
        self._next: dict[TopicPartition, int] = {}
        self._given: dict[TopicPartition, int] = {}
        self._unknown = dict(settings.partitions)
        self._next_commit_ms = clock.monotonic_ms() + settings.auto_commit_interval_ms

    async def poll(self, timeout_ms: float) -> list[Consumed]:
        """Return the next records, at most `max_poll_records`; none if there are none within the time.

        Raises:
            MemberRefused: the group does not accept this consumer.
            UnreadableRecords: the next records of a partition cannot be read.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while True:
            await self._keep_membership()
            await self._find_positions()
            if not self._fetched:
                left_ms = max(0.0, deadline_ms - self._clock.monotonic_ms())
                await self._fetch(int(min(left_ms, FETCH_WAIT_MS)))
            if self._fetched or self._clock.monotonic_ms() >= deadline_ms:
                return self._take()

    def rewind(self, partition: TopicPartition, offset: int) -> None:
        """Count nothing from `offset` on as read, so that it is not committed."""
        if partition in self._given:
            self._given[partition] = min(self._given[partition], offset)

    async def close(self) -> None:
        """Commit the offsets after the last records, if `enable_auto_commit` is set, and leave the group."""
        try:
            if self._member is not None:
                await self._commit()
                await self._member.leave()
        finally:
            self._fetching.close()
            self._coordinating.close()

    # ------------------------------------------------------------------ membership

    def _note(self, event: MemberEvent) -> None:
        if isinstance(event, Assigned):
            self._on_assigned(event.partitions)

    async def _keep_membership(self) -> None:
        if self._member is None:
            return
        if self._clock.monotonic_ms() >= self._next_commit_ms:
            await self._commit()
        await self._member.heartbeat()
        if self._member.needs_to_join:
            await self._commit()
            self._forget_all()
            if await self._member.join():
                await self._begin_at_committed()

    def _forget_all(self) -> None:
        for kept in (self._next, self._given, self._unknown):
            kept.clear()
        self._fetched.clear()

    async def _begin_at_committed(self) -> None:
        assert self._member is not None
        owned = self._member.owned
        committed = await self._member.offsets.fetch(owned) if owned else {}
        if committed is None:
            self._member.needs_to_join = True
            return
        begin = EARLIEST_TIMESTAMP if self._settings.resets_to_earliest else LATEST_TIMESTAMP
        for each in owned:
            self._unknown[each] = committed[each] if committed[each] >= 0 else begin

    async def _commit(self) -> None:
        self._next_commit_ms = self._clock.monotonic_ms() + self._settings.auto_commit_interval_ms
        if self._member is None or not self._settings.enable_auto_commit:
            return
        offsets = {each: offset for each, offset in self._given.items() if each in self._member.owned}
        if offsets:
            await self._member.commit(offsets)

    # ------------------------------------------------------------------ records

    async def _find_positions(self) -> None:
        """Set the position of each partition that has none: the given offset, or the log's start or end."""
        for each, wanted in list(self._unknown.items()):
            offset: int | None = wanted
            if wanted < 0:
                offset = await self._consumer.offset_at(each, wanted)
            if offset is not None:
                del self._unknown[each]
                self._next[each] = offset
                # Kafka commits also a position at which nothing was read yet.
                self._given[each] = offset

    async def _fetch(self, wait_ms: int) -> None:
        if not self._next:
            await asyncio.sleep(BACKOFF_MS / 1000)
            return
        began_ms = self._clock.monotonic_ms()
        found = await self._consumer.fetch(self._next, max_wait_ms=wait_ms)
        for each, fetched in found.items():
            if fetched.error is Errors.OFFSET_OUT_OF_RANGE:
                del self._next[each]
                self._unknown[each] = EARLIEST_TIMESTAMP if self._settings.resets_to_earliest else LATEST_TIMESTAMP
                continue
            self._next[each] = fetched.next_offset
            self._fetched.extend(fetched.records)
        # A leader with nothing to read answers after the wait; errors, and odd brokers, answer at once.
        if not self._fetched and self._clock.monotonic_ms() - began_ms < wait_ms:
            await asyncio.sleep(min(BACKOFF_MS, wait_ms) / 1000)

    def _take(self) -> list[Consumed]:
        count = min(len(self._fetched), self._settings.max_poll_records)
        taken = [self._fetched.popleft() for _ in range(count)]
        for each in taken:
            self._given[each.partition] = each.offset + 1
        return taken
