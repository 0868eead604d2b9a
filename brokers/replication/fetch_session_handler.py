"""A follower's side of its fetch session with one leader (KIP-227).

Mirrors `org.apache.kafka.clients.FetchSessionHandler`.

The handler knows what the leader was asked to fetch. The first request names everything; the next ones name the
partitions that differ by now. When an answer is lost or refused, it is unknown what the leader's session holds, so the
next request closes that session and names everything again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import structlog

from understudy.brokers.replication.fetch_session import (
    FIRST_VERSION_BY_TOPIC_ID,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    next_epoch,
)
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.wire.messages.fetch import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ReplicaFetcherThread")


class FetchedPartition(NamedTuple):
    """The fields of a Fetch for one partition."""

    topic_id: TopicId
    fetch: FetchPartition


_Named: TypeAlias = list[tuple[TopicPartition, TopicId]]


class FetchRequestData(NamedTuple):
    """What a request says of its session.

    Attributes:
        to_send: the partitions that it names.
        to_forget: the partitions that the session drops.
        to_replace: partitions of which the topic has another id now. A request by topic ids drops them under the old.
    """

    session_id: int
    epoch: int
    to_send: tuple[tuple[TopicPartition, FetchedPartition], ...]
    to_forget: tuple[tuple[TopicPartition, TopicId], ...]
    to_replace: tuple[tuple[TopicPartition, TopicId], ...]
    can_use_topic_ids: bool

    def topics(self) -> tuple[FetchTopic, ...]:
        """The partitions to send by topic."""
        topics = grouped(((at.topic, topic_id), fetch) for at, (topic_id, fetch) in self.to_send)
        return tuple(
            FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic, topic_id), partitions in topics.items()
        )

    def forgotten_topics(self, version: int) -> tuple[ForgottenTopic, ...]:
        """The partitions to drop by topic."""
        replaced = self.to_replace if version >= FIRST_VERSION_BY_TOPIC_ID else ()
        topics = grouped(((at.topic, topic_id), at.partition) for at, topic_id in (*self.to_forget, *replaced))
        return tuple(
            ForgottenTopic(topic=topic, topic_id=topic_id, partitions=partitions)
            for (topic, topic_id), partitions in topics.items()
        )


class FetchSessionHandler:
    """The session of a follower with `leader`. `build`, then `handle_response` or `handle_error`, in turns."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[TopicPartition, FetchedPartition] = {}
        self._topic_ids: dict[TopicId, tuple[str, int]] = {}
        """The name of each topic in the session, and how many of its partitions are in it."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names everything."""
        return self._epoch == INITIAL_EPOCH

    @property
    def partitions(self) -> Mapping[TopicPartition, FetchedPartition]:
        """What the leader fetches for this follower, if it has received the last request."""
        return self._partitions

    def build(self, wanted: Mapping[TopicPartition, FetchedPartition | None]) -> FetchRequestData:
        """Return what the next request says.

        Args:
            wanted: if the request `is_full`, all partitions to fetch; otherwise those that may have changed. None: the
                partition is not to be fetched.
        """
        if self.is_full:
            self._partitions.clear()
            self._topic_ids.clear()
        to_send: list[tuple[TopicPartition, FetchedPartition]] = []
        to_forget: _Named = []
        to_replace: _Named = []
        has_forgotten_without_id = False
        for topic_partition, fetched in wanted.items():
            before = self._partitions.get(topic_partition)
            if fetched == before:
                continue
            if before is not None:
                self._drop(topic_partition, before)
            if fetched is None:
                assert before is not None
                to_forget.append((topic_partition, before.topic_id))
                has_forgotten_without_id |= before.topic_id == NO_TOPIC_ID
                continue
            before_id = NO_TOPIC_ID if before is None else before.topic_id
            if NO_TOPIC_ID not in (before_id, fetched.topic_id) and before_id != fetched.topic_id:
                to_replace.append((topic_partition, before_id))
            self._add(topic_partition, fetched)
            to_send.append((topic_partition, fetched))
        return FetchRequestData(
            self._session_id,
            self._epoch,
            tuple(to_send),
            tuple(to_forget),
            tuple(to_replace),
            NO_TOPIC_ID not in self._topic_ids and not has_forgotten_without_id,
        )

    def _add(self, topic_partition: TopicPartition, fetched: FetchedPartition) -> None:
        self._partitions[topic_partition] = fetched
        _, count = self._topic_ids.get(fetched.topic_id, ("", 0))
        self._topic_ids[fetched.topic_id] = (topic_partition.topic, count + 1)

    def _drop(self, topic_partition: TopicPartition, fetched: FetchedPartition) -> None:
        del self._partitions[topic_partition]
        topic, count = self._topic_ids[fetched.topic_id]
        if count == 1:
            del self._topic_ids[fetched.topic_id]
        else:
            self._topic_ids[fetched.topic_id] = (topic, count - 1)

    # ------------------------------------------------------------------ answers

    def handle_response(self, response: FetchResponse, version: int) -> dict[TopicPartition, PartitionData] | None:
        """Take over the session of an answer; return its partitions, None if the answer cannot be used."""
        if response.error_code != Errors.NONE:
            log.info(
                "fetch session was refused",
                leader=self._leader,
                fetch_session=self._session_id,
                fetch_epoch=self._epoch,
                error=error_name(response.error_code),
            )
            if response.error_code == Errors.FETCH_SESSION_ID_NOT_FOUND:
                self._begin_anew(INVALID_SESSION_ID)
            else:
                self._begin_anew(self._session_id)
            return None
        answered = self._answered(response, version)
        problem = self._problem(answered)
        if problem:
            log.info("invalid answer to a Fetch", leader=self._leader, fetch_session=self._session_id, why=problem)
            self._begin_anew(INVALID_SESSION_ID if self.is_full else self._session_id)
            return None
        if response.session_id == INVALID_SESSION_ID:
            self._begin_anew(INVALID_SESSION_ID)
        else:
            self._session_id, self._epoch = response.session_id, next_epoch(self._epoch)
        return {topic_partition: data for topic_partition, data in answered if topic_partition is not None}

    def handle_error(self) -> None:
        """Name everything in the next request: the answer to the last one was lost."""
        self._begin_anew(self._session_id)

    def _begin_anew(self, session_id: int) -> None:
        """Ask for a new session with the next request, which closes the session with `session_id`."""
        self._session_id, self._epoch = session_id, INITIAL_EPOCH

    def _answered(self, response: FetchResponse, version: int) -> list[tuple[TopicPartition | None, PartitionData]]:
        """The partitions of an answer; None in place of one whose topic id is not in the session."""
        found: list[tuple[TopicPartition | None, PartitionData]] = []
        for topic in response.responses:
            if version >= FIRST_VERSION_BY_TOPIC_ID:
                name = self._topic_ids[topic.topic_id][0] if topic.topic_id in self._topic_ids else None
            else:
                name = topic.topic
            found += (
                (None if name is None else TopicPartition(name, data.partition_index), data)
                for data in topic.partitions
            )
        return found

    def _problem(self, answered: Iterable[tuple[TopicPartition | None, PartitionData]]) -> str:
        """Name the mistake in an answer: it has partitions that are not in the session, or a full one lacks some."""
        names = {topic_partition for topic_partition, _ in answered}
        extra = [str(name) for name in names if name not in self._partitions]
        omitted = [str(name) for name in self._partitions if name not in names] if self.is_full else []
        if not extra and not omitted:
            return ""
        return f"partitions that were not asked for: {sorted(extra)}, partitions that are missing: {sorted(omitted)}"
