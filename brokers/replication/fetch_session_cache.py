"""The cache of this broker's fetch sessions, and how a Fetch uses one (KIP-227). Mirrors `kafka.server.FetchManager`
and `FetchSessionCacheShard`, of which there is one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from random import Random
from typing import Final

import structlog

from understudy.brokers.replication.delayed_operations import DelayedOperationPurgatory
from understudy.brokers.replication.fetch_session import (
    FINAL_EPOCH,
    FIRST_VERSION_BY_TOPIC_ID,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    MAX_INT32,
    FetchSession,
    Found,
    Key,
    Requested,
    RequestedPartition,
    TopicNames,
    next_epoch,
)
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.metrics.instruments import Meter

logger: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.FetchManager")

EVICTION_MS: Final = 120_000
"""Time after its opening, and after its last Fetch, in which a session is safe from one that is no more valuable."""

# ------------------------------------------------------------------ contexts


class FetchContext:
    """A Fetch without a session. Mirrors `SessionlessFetchContext`.

    Attributes:
        requested: the partitions to read; in the session of a follower only a part of those it fetches.
    """

    def __init__(self, requested: Requested) -> None:
        self.requested = requested

    @property
    def session(self) -> FetchSession | None:
        """The session that the request continues."""
        return None

    @property
    def is_superseded(self) -> bool:
        """Whether a later request has continued the session, or it was closed."""
        return False

    def answer(self, found: Found) -> tuple[Errors, int, Found]:
        """Return the error of the whole answer, its session id, and the partitions that it names."""
        return Errors.NONE, INVALID_SESSION_ID, found


class FullFetchContext(FetchContext):
    """A Fetch that names all its partitions, and opens a session if there is room. Mirrors `FullFetchContext`."""

    def __init__(self, requested: Requested, cache: FetchSessionCache, *, follower: int, version: int) -> None:
        super().__init__(requested)
        self._cache = cache
        self._follower = follower
        self._uses_topic_ids = version >= FIRST_VERSION_BY_TOPIC_ID

    def answer(self, found: Found) -> tuple[Errors, int, Found]:
        session = self._cache.maybe_create(
            self.requested, found, follower=self._follower, uses_topic_ids=self._uses_topic_ids
        )
        return Errors.NONE, INVALID_SESSION_ID if session is None else session.id, found


class IncrementalFetchContext(FetchContext):
    """A Fetch that continues a session. Mirrors `IncrementalFetchContext`.

    Attributes:
        dropped: the partitions that the session has forgotten with it.
    """

    def __init__(self, session: FetchSession, dropped: list[RequestedPartition], names: TopicNames) -> None:
        super().__init__(session.requested(names))
        self.dropped = dropped
        self._session = session
        self._epoch = session.epoch

    @property
    def session(self) -> FetchSession:
        return self._session

    @property
    def is_superseded(self) -> bool:
        return self._session.is_closed or self._session.epoch != self._epoch

    def answer(self, found: Found) -> tuple[Errors, int, Found]:
        session = self._session
        if session.epoch != self._epoch:
            logger.info("possible duplicate Fetch", fetch_session=session.id, fetch_epoch=session.epoch)
            return Errors.INVALID_FETCH_SESSION_EPOCH, session.id, {}
        return Errors.NONE, session.id, session.answer(found)


# ------------------------------------------------------------------ the cache


class FetchSessionCache:
    """The sessions of one broker. Mirrors `FetchSessionCacheShard` and `FetchManager`.

    Args:
        max_sessions: `max.incremental.fetch.session.cache.slots`.
        purgatory: the purgatory to which changes of partitions are reported.
    """

    def __init__(
        self, max_sessions: int, *, purgatory: DelayedOperationPurgatory, clock: Clock, random: Random
    ) -> None:
        self._max_sessions = max_sessions
        self._purgatory = purgatory
        self._clock = clock
        self._random = random
        self.evictions = Meter(clock)
        """The sessions that had to make room for others."""
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        """The one that was used longest ago comes first."""
        self.partitions = 0
        """The partitions of all sessions together."""

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def begin(
        self,
        session_id: int,
        epoch: int,
        *,
        version: int,
        follower: int,
        named: Requested,
        forgotten: Iterable[Key],
        names: TopicNames,
    ) -> FetchContext | Errors:
        """Find the session of a request, and apply what the request changes in it; `newContext`.

        Args:
            session_id, epoch: as in the request.
            version: of the request.
            follower: negative for a consumer.
            named, forgotten: the partitions of the request, and those it drops.

        Returns:
            How the request is read and answered; or the error of the whole answer.
        """
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            closed = self.get(session_id)
            if closed is not None:
                self.remove(closed)
            if epoch == FINAL_EPOCH:
                return FetchContext(named)
            return FullFetchContext(named, self, follower=follower, version=version)
        session = self.get(session_id)
        if session is None:
            return Errors.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != epoch:
            return Errors.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != (version >= FIRST_VERSION_BY_TOPIC_ID):
            return Errors.FETCH_SESSION_TOPIC_ID_ERROR
        dropped = session.update(named, forgotten)
        if not session.partitions:
            self.remove(session)
            return FetchContext(named)
        session.epoch = next_epoch(session.epoch)
        if session.changes is not None:
            session.changes.wake()  # an earlier request of the session that still waits is answered
        self._touch(session)
        return IncrementalFetchContext(session, dropped, names)

    def maybe_create(
        self, requested: Requested, found: Found, *, follower: int, uses_topic_ids: bool
    ) -> FetchSession | None:
        """Open a session with what was answered; return None if there is no room for it."""
        now_ms = self._clock.monotonic_ms()
        size = len(found)
        has_room = len(self._sessions) < self._max_sessions or self._try_evict(follower >= 0, size, now_ms)
        if not has_room or (follower >= 0 and not self._purgatory.has_room_for(size)):
            return None
        session_id = self._random.randrange(1, MAX_INT32)
        while session_id in self._sessions:
            session_id = self._random.randrange(1, MAX_INT32)
        session = FetchSession(
            session_id, follower=follower, uses_topic_ids=uses_topic_ids, now_ms=now_ms, purgatory=self._purgatory
        )
        session.add_answered(requested, found)
        self._sessions[session_id] = session
        self._touch(session)
        return session

    def remove(self, session: FetchSession) -> None:
        if self._sessions.pop(session.id, None) is not None:
            self.partitions -= session.cached_size
            session.close()

    def _touch(self, session: FetchSession) -> None:
        """Note that a session is in use now."""
        session.last_used_ms = self._clock.monotonic_ms()
        self._sessions.move_to_end(session.id)
        self.partitions += len(session.partitions) - session.cached_size
        session.cached_size = len(session.partitions)

    def _try_evict(self, is_privileged: bool, size: int, now_ms: float) -> bool:
        """Remove a session for a new one with `size` partitions; return whether one was removed.

        That is the one used longest ago, if it has been idle for `EVICTION_MS`. Otherwise it is the least valuable of
        those that the new one may replace, unless the new one is less valuable still: followers count more than
        consumers, then many partitions more than few. A follower may replace any consumer, and a session that is older
        than `EVICTION_MS`; a consumer only the latter.
        """
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            self._evict(oldest)
            return True
        evictable = [
            session
            for session in self._sessions.values()
            if session.last_used_ms - session.created_ms > EVICTION_MS or (is_privileged and not session.is_privileged)
        ]
        if not evictable:
            return False
        least = min(evictable, key=_value)
        if (is_privileged, size, 0) < _value(least):
            return False
        self._evict(least)
        return True

    def _evict(self, session: FetchSession) -> None:
        self.remove(session)
        self.evictions.mark()


def _value(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_privileged, session.cached_size, session.id
