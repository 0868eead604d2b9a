"""Commits and fetches the offsets of a group, for a member or for another client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from understudy.clusters.clients.client_events import NOT_ANSWERED, Sending
from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, NoLeader
from understudy.clusters.clients.group_coordinator_link import MOVED, CoordinatorLink, GroupError
from understudy.clusters.clients.group_requests import offset_commit_request
from understudy.clusters.clients.member_events import CommitEnded, MemberEvent, OffsetsFetched
from understudy.clusters.clients.producer import DeliveryOutcome
from understudy.foundation.cluster.errors import Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.offset_commit import OffsetCommitResponse
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from understudy.foundation.wire.nested_topics import by_partition, by_topic

OFFSET_COMMIT_VERSION: Final = 9
OFFSET_FETCH_VERSION: Final = 8

_MOVED = MOVED | {Errors.REQUEST_TIMED_OUT}
_TRY_AGAIN = _MOVED | {Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.UNKNOWN_TOPIC_OR_PARTITION}
_MAY_BE_STORED = _MOVED | {Errors.UNKNOWN_SERVER_ERROR}
"""Errors that may follow an append to `__consumer_offsets`. NOT_COORDINATOR is also the answer of a coordinator that
was deposed while it waited for its followers."""

_LAST_OFFSET = (1 << 63) - 1

Identity: TypeAlias = Callable[[], tuple[int, str, str | None]]
"""Returns the generation, member id and instance id that commits are made with."""


class GroupOffsetsClient:
    """The committed offsets of one group."""

    def __init__(
        self,
        link: CoordinatorLink,
        clock: Clock,
        timeout_ms: int,
        backoff_ms: int,
        note: Callable[[MemberEvent], None],
        identity: Identity = lambda: (-1, "", None),
    ) -> None:
        self._link = link
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._backoff_ms = backoff_ms
        self._note = note
        self._identity = identity

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> list[Errors]:
        """Commit offsets, again and again until each is acknowledged or refused, or the time is over.

        Returns:
            The last error of each partition that is not acknowledged; NETWORK_EXCEPTION if there was no answer.

        Raises:
            ValueError: an offset is negative or too large for 64 bits; nothing is sent.
        """
        for partition, offset in offsets.items():
            if not 0 <= offset <= _LAST_OFFSET:
                raise ValueError(f"offset {offset} of {partition}; expected 0 to {_LAST_OFFSET}")
        began_ms = self._clock.monotonic_ms()
        generation, member_id, _ = self._identity()
        left = dict.fromkeys(offsets, Errors.NETWORK_EXCEPTION)
        outcomes = dict.fromkeys(offsets, DeliveryOutcome.REFUSED)
        committing = {
            each: self._link.events.committing(self._link.group_id, each, offset) for each, offset in offsets.items()
        }
        remaining = set(offsets)
        while remaining and self._clock.monotonic_ms() < began_ms + self._timeout_ms:
            try:
                errors = await self._send_commit(
                    {each: offsets[each] for each in offsets if each in remaining}, committing
                )
            except (NoLeader, GroupError, *NOT_SENT, *NO_ANSWER) as failure:
                self._link.forget()
                if isinstance(failure, NO_ANSWER):
                    outcomes |= dict.fromkeys(remaining, DeliveryOutcome.UNKNOWN)
            else:
                for partition in sorted(remaining):
                    error = errors.get(partition, Errors.UNKNOWN_SERVER_ERROR)
                    left[partition] = error
                    if error is Errors.NONE:
                        outcomes[partition] = DeliveryOutcome.ACKNOWLEDGED
                        del left[partition]
                    elif error in _MAY_BE_STORED:
                        outcomes[partition] = DeliveryOutcome.UNKNOWN
                    if error in _MOVED:
                        self._link.forget()
                    committing[partition].ended(error.name, is_sent_again=error in _TRY_AGAIN)
                remaining = {each for each in remaining if left.get(each) in _TRY_AGAIN}
            if remaining:
                await asyncio.sleep(self._backoff_ms / 1000)
        for partition in sorted(remaining):
            committing[partition].given_up()
        self._note(CommitEnded(began_ms, self._clock.monotonic_ms(), generation, member_id, dict(offsets), outcomes))
        return list(left.values())

    async def fetch(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Return the committed offsets, −1 for a partition without one; None if there is no answer in time."""
        wanted = tuple(partitions)
        deadline_ms = self._clock.monotonic_ms() + self._timeout_ms
        while self._clock.monotonic_ms() < deadline_ms:
            began_ms = self._clock.monotonic_ms()
            try:
                found = await self._fetch_once(wanted)
            except (NoLeader, GroupError, *NOT_SENT, *NO_ANSWER):
                self._link.forget()
            else:
                coordinator = self._link.coordinator
                assert coordinator is not None
                self._note(OffsetsFetched(began_ms, self._clock.monotonic_ms(), found, coordinator))
                return found
            await asyncio.sleep(self._backoff_ms / 1000)
        return None

    async def _send_commit(
        self, offsets: Mapping[TopicPartition, int], committing: Mapping[TopicPartition, Sending]
    ) -> dict[TopicPartition, Errors]:
        if self._link.coordinator is None:
            for partition in offsets:
                committing[partition].waits()
        coordinator = await self._link.find()
        for partition in offsets:
            committing[partition].begins(coordinator)
        try:
            return await self._ask_commit(offsets)
        except (NoLeader, *NOT_SENT, *NO_ANSWER):
            for partition in offsets:
                committing[partition].ended(NOT_ANSWERED, is_sent_again=True)
            raise

    async def _ask_commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Errors]:
        generation, member_id, instance_id = self._identity()
        request = offset_commit_request(
            self._link.group_id, offsets, generation=generation, member_id=member_id, instance_id=instance_id
        )
        answer = await self._link.ask(request, OFFSET_COMMIT_VERSION, OffsetCommitResponse)
        return {each: error_for_code(got.error_code) for each, got in by_partition(answer.topics).items()}

    async def _fetch_once(self, partitions: tuple[TopicPartition, ...]) -> dict[TopicPartition, int]:
        topics = tuple(
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        )
        request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=self._link.group_id, topics=topics),))
        answer = await self._link.ask(request, OFFSET_FETCH_VERSION, OffsetFetchResponse)
        if not answer.groups:
            raise GroupError("the answer names no group")
        group = answer.groups[0]
        if group.error_code != Errors.NONE:
            raise GroupError(error_name(group.error_code))
        found = by_partition(group.topics)
        for partition in found.values():
            if partition.error_code != Errors.NONE:
                raise GroupError(error_name(partition.error_code))
        return {each: partition.committed_offset for each, partition in found.items()}
