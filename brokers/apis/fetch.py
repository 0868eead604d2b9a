"""Fetch (key 1, versions 0 to 17): a follower, or a consumer, reads records.

A follower reads up to the leader's log end, and its Fetch shows the leader how far it has the log (IS-1). A consumer
reads up to the high watermark, or up to the last stable offset. A Fetch that finds fewer than `min_bytes` waits for
`max_wait_ms`, and its partitions are read again as they change; one with a partition in error is answered at once
(BK-13). A follower whose log has another end of its last leader epoch is sent the end to truncate to (KIP-595), and a
consumer the replica in its rack that it is to read from, if `replica.selector.class` says so (KIP-392).

Most clients fetch in sessions (KIP-227): `understudy.brokers.replication.fetch_session`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from understudy.brokers.apis import armed_answers
from understudy.brokers.apis.fetch_reading import WITH_RACK, FetchReader, FetchReading
from understudy.brokers.apis.leader_hints import leader_endpoints
from understudy.brokers.apis.services import BrokerServices, RequestContext
from understudy.brokers.apis.serving import Serves
from understudy.brokers.config.config_checks import RACK_AWARE_REPLICA_SELECTOR
from understudy.brokers.replication.delayed_operations import DelayedOperation
from understudy.brokers.replication.fetch_session import (
    FIRST_VERSION_BY_TOPIC_ID,
    FetchSession,
    Key,
    Requested,
    RequestedPartition,
)
from understudy.brokers.replication.fetch_session_cache import FetchContext, IncrementalFetchContext
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicId, TopicPartition
from understudy.foundation.wire.armed_answers import ArmedAnswer
from understudy.foundation.wire.error_answers import Named, with_throttle_time
from understudy.foundation.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from understudy.foundation.wire.registry import api_of

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
FIRST_VERSION_WITH_REPLICA_STATE = 15
_API: Final = api_of(FetchRequest)
_SESSION_ERRORS: Final = frozenset(
    {Errors.FETCH_SESSION_ID_NOT_FOUND, Errors.INVALID_FETCH_SESSION_EPOCH, Errors.FETCH_SESSION_TOPIC_ID_ERROR}
)
"""Errors of a whole Fetch; all others are errors of partitions."""
MAX_WAIT_MS = 60_000
"""Maximum time that a Fetch waits, whatever `max_wait_ms` the client sends."""


async def handle(services: BrokerServices, request: FetchRequest, context: RequestContext) -> FetchResponse:
    version = context.api_version
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return _refused(request, Errors.UNKNOWN_SERVER_ERROR, version)
    may_be_armed = bool(services.answers.left())
    armed = armed_answers.find(services, _API, request, context, (Named(),)) if may_be_armed else None
    if armed is not None and armed.code in _SESSION_ERRORS:
        armed_answers.note(services, armed, _API, context, ())
        return with_throttle_time(FetchResponse(error_code=armed.code), version, armed.throttle_ms)
    reader = FetchReader(
        follower=request.replica_state.replica_id
        if version >= FIRST_VERSION_WITH_REPLICA_STATE
        else request.replica_id,
        version=version,
        is_read_committed=request.isolation_level == READ_COMMITTED,
        max_bytes=min(request.max_bytes, services.config.fetch_max_bytes),
        rack=_rack_to_choose_by(services, request, version),
        listener=context.listener,
    )
    names = services.metadata.snapshot.topic_names if version >= FIRST_VERSION_BY_TOPIC_ID else {}
    begun = services.fetch_sessions.begin(
        request.session_id,
        request.session_epoch,
        version=version,
        follower=reader.follower,
        named=_named(request, names, version),
        forgotten=_forgotten(request, version),
        names=names,
    )
    if isinstance(begun, Errors):
        return FetchResponse(error_code=begun)
    if isinstance(begun, IncrementalFetchContext) and reader.is_follower:
        _note_changes(services, begun, reader)
    armed, refused = _armed(services, request, context, begun.requested) if may_be_armed else (None, {})
    reading = FetchReading(services, reader, begun.requested, request.min_bytes, refused)
    reading.read(tuple(begun.requested))
    if reader.is_follower:
        now_ms = services.clock.monotonic_ms()
        reading.note_progress(now_ms)
        # Its progress may have raised high watermarks, which this answer is to bring.
        reading.renew_offsets()
        if begun.session is not None:
            begun.session.take_changed()
            begun.session.last_fetch.ms = now_ms
    if not reading.is_complete and (begun.requested or begun.session is not None):
        await _wait(services, begun, reading, request.max_wait_ms)
    error, session_id, answered = begun.answer(reading.found)
    if begun.session is not None and begun.session.changes is not None and error is Errors.NONE:
        _settle(services, begun.session, reading.found, begun.requested)
    answer = FetchResponse(
        error_code=error,
        session_id=session_id,
        responses=tuple(_responses(begun.requested, answered, version)),
        node_endpoints=leader_endpoints(
            services, (data.current_leader.leader_id for data in answered.values()), context.listener
        ),
    )
    return answer if armed is None else with_throttle_time(answer, version, armed.throttle_ms)


# ------------------------------------------------------------------ requests


def _refused(request: FetchRequest, error: Errors, version: int) -> FetchResponse:
    """Return the answer to a request that is refused as a whole. Mirrors `FetchRequest.getErrorResponse`.

    Before version 13 each partition also has the error, for clients that do not look at the error of the response.
    """
    topics = () if version >= FIRST_VERSION_BY_TOPIC_ID else request.topics
    return FetchResponse(
        error_code=error,
        session_id=request.session_id,
        responses=tuple(
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=tuple(
                    PartitionData(
                        partition_index=each.partition,
                        error_code=error,
                        high_watermark=-1,
                        aborted_transactions=(),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def _rack_to_choose_by(services: BrokerServices, request: FetchRequest, version: int) -> str:
    """The rack by which a replica is chosen for a consumer (KIP-392); empty if it reads from leaders."""
    is_consumer = request.replica_id < 0 and request.replica_state.replica_id < 0
    is_chosen = services.config.replica_selector_class == RACK_AWARE_REPLICA_SELECTOR
    return request.rack_id if is_consumer and is_chosen and version >= WITH_RACK else ""


def _armed(
    services: BrokerServices, request: FetchRequest, context: RequestContext, requested: Requested
) -> tuple[ArmedAnswer | None, Mapping[Key, Errors]]:
    """Give the armed answer for a request if there is one, and return the errors of the partitions that it is for."""
    named = {key: Named(*(each.topic_partition or ("", key[1]))) for key, each in requested.items()}
    armed = armed_answers.find(services, _API, request, context, named.values())
    if armed is None:
        return None, {}
    refused = {key: armed.code for key, each in named.items() if armed_answers.is_about(armed, each)}
    armed_answers.note(services, armed, _API, context, [named[key] for key in refused])
    return armed, refused


def _named(request: FetchRequest, names: Mapping[TopicId, str], version: int) -> Requested:
    named: Requested = {}
    for topic in request.topics:
        by_id = version >= FIRST_VERSION_BY_TOPIC_ID
        name = names.get(topic.topic_id) if by_id else topic.topic
        prefix = topic.topic_id if by_id else topic.topic
        for partition in topic.partitions:
            topic_partition = None if name is None else TopicPartition(name, partition.partition)
            named[prefix, partition.partition] = RequestedPartition(topic_partition, topic.topic_id, partition)
    return named


def _forgotten(request: FetchRequest, version: int) -> Iterator[Key]:
    for topic in request.forgotten_topics_data:
        prefix = topic.topic_id if version >= FIRST_VERSION_BY_TOPIC_ID else topic.topic
        for partition in topic.partitions:
            yield prefix, partition


# ------------------------------------------------------------------ sessions of followers


def _note_changes(services: BrokerServices, context: IncrementalFetchContext, reader: FetchReader) -> None:
    """End the counting of Fetches for partitions that this request reads or has dropped."""
    session, snapshot = context.session, services.metadata.snapshot
    if session.metadata is not snapshot or session.follower != reader.follower:
        # What follows from the metadata cache is not reported by partition.
        session.unsettle_all()
        context.requested = session.requested(snapshot.topic_names)
    for requested in (*context.dropped, *context.requested.values()):
        if requested.topic_partition is not None:
            services.isr.count_session_fetches_no_more(requested.topic_partition, session.follower)
    session.metadata, session.follower = snapshot, reader.follower


def _settle(
    services: BrokerServices, session: FetchSession, found: Mapping[Key, PartitionData], requested: Requested
) -> None:
    """Have the next Fetches of a follower not read the partitions of which it has everything."""
    session.take_changed()
    for key, data in found.items():
        name, fetch = requested[key].topic_partition, requested[key].fetch
        if data.error_code != Errors.NONE or data.records or name is None or key not in session.partitions:
            continue
        partition = services.replicas.partitions.get(name)
        if partition is not None and services.isr.count_session_fetches(
            partition, session.follower, fetch.fetch_offset, session.last_fetch
        ):
            session.settle(key)


# ------------------------------------------------------------------ waiting


async def _wait(services: BrokerServices, context: FetchContext, reading: FetchReading, max_wait_ms: int) -> None:
    """Wait until the answer is complete, or for `max_wait_ms`. Mirrors `DelayedFetch`.

    A Fetch that finds no room in the purgatory does not wait.
    """
    purgatory = services.replicas.delayed_fetches
    wait_ms = min(max(max_wait_ms, 0), MAX_WAIT_MS)
    session = context.session
    if session is not None and session.changes is not None:
        await _wait_in_session(context, session, session.changes, reading, wait_ms)
    elif purgatory.has_room_for(len(context.requested)):
        names = [each.topic_partition for each in context.requested.values() if each.topic_partition is not None]
        with purgatory.watch(names) as delayed_fetch:
            await _wait_for_changes(context.requested, delayed_fetch, reading, wait_ms)
    reading.renew_offsets()


async def _wait_for_changes(
    requested: Requested, delayed_fetch: DelayedOperation, reading: FetchReading, wait_ms: float
) -> None:
    def read_changed() -> None:
        changed = delayed_fetch.take_changed()
        reading.read([key for key, each in requested.items() if each.topic_partition in changed] if changed else ())

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_ms / 1000):
            while not reading.is_complete:
                await delayed_fetch.wait()
                read_changed()
    read_changed()  # a partition may have changed at the very end of the wait


async def _wait_in_session(
    context: FetchContext, session: FetchSession, changes: DelayedOperation, reading: FetchReading, wait_ms: float
) -> None:
    """Wait as a follower does whose session is informed of all changes, so that only what changes is read."""

    def read_changed() -> None:
        changed = session.take_changed()
        context.requested.update((key, session.partitions[key].requested) for key in changed)
        reading.read(changed)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wait_ms / 1000):
            while not reading.is_complete and not context.is_superseded:
                await changes.wait()
                if not context.is_superseded:
                    read_changed()
    if not context.is_superseded:
        read_changed()


# ------------------------------------------------------------------ answers


def _responses(
    requested: Requested, answered: Mapping[Key, PartitionData], version: int
) -> Iterator[FetchableTopicResponse]:
    """The answers in the order of the partitions, which clients rely on: a topic may be named several times."""
    by_name = version < FIRST_VERSION_BY_TOPIC_ID
    topics: list[tuple[tuple[str, TopicId], list[PartitionData]]] = []
    for key, data in answered.items():
        topic = key[0] if by_name else "", requested[key].topic_id
        if not topics or topics[-1][0] != topic:
            topics.append((topic, []))
        topics[-1][1].append(data)
    for (name, topic_id), answers in topics:
        yield FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=tuple(answers))


SERVES = Serves(request=FetchRequest, versions=(0, 17), handle=handle, gives_armed_answers=True)
