"""The clients of a process, by their own records; a part of `tests.understudy.page.folding.fold`."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from tests.understudy.page.folding.fold_state import (
    ClientConnectionPicture,
    ClientPicture,
    EndedSend,
    Lookup,
    Membership,
    NodePicture,
    Reading,
    WaitingBatch,
    WaitingCommit,
    changed,
    value_of,
    with_entry,
)
from understudy.foundation.eventlog.records import (
    ClientConnection,
    ClientRequestBegan,
    ClientRequestEnded,
    MemberTransition,
)

_ClientRecord: TypeAlias = ClientConnection | ClientRequestBegan | ClientRequestEnded | MemberTransition


def with_client(node: NodePicture, data: _ClientRecord, us: int) -> NodePicture:
    """Return the node of a process after a record of one of its clients."""
    client = _client_after(node.clients.get(data.client_id, ClientPicture()), data, us)
    return replace(node, clients=with_entry(node.clients, data.client_id, client))


def _client_after(client: ClientPicture, data: _ClientRecord, us: int) -> ClientPicture:
    match data:
        case ClientConnection():
            return replace(
                client, connections=with_entry(client.connections, data.broker, _connection(client, data, us))
            )
        case MemberTransition():
            return replace(client, groups=with_entry(client.groups, data.group, _membership(client, data, us)))
        case ClientRequestBegan(api="Produce"):
            return _send_began(client, data, us)
        case ClientRequestEnded(api="Produce"):
            return _send_ended(client, data)
        case ClientRequestBegan(api="Fetch"):
            reading = Reading(position=data.offset, broker=data.broker, error=None)
            return replace(client, reads=changed(client.reads, [(data.topic, data.partition, reading)]))
        case ClientRequestEnded(api="Fetch"):
            return _read(client, data)
        case ClientRequestBegan(api="OffsetCommit"):
            return _commit_began(client, data, us)
        case ClientRequestEnded(api="OffsetCommit"):
            return _commit_ended(client, data)
        case ClientRequestBegan(api="Metadata"):
            return replace(client, lookup=Lookup(broker=data.broker, since_us=us, error=None))
        case ClientRequestEnded(api="Metadata"):
            return _looked_up(client, data, us)
        case _:
            return client


def _connection(client: ClientPicture, data: ClientConnection, us: int) -> ClientConnectionPicture:
    known = client.connections.get(data.broker)
    is_tried = known is not None and known.state != "connected" and data.state != "connected"
    since_us = known.since_us if known is not None and is_tried else us
    reason = known.reason if known is not None and is_tried and not data.reason else data.reason
    return ClientConnectionPicture(state=data.state, since_us=since_us, reason=reason)


def _membership(client: ClientPicture, data: MemberTransition, us: int) -> Membership:
    known = client.groups.get(data.group)
    return Membership(
        state=data.target,
        since_us=known.since_us if known is not None and known.state == data.target else us,
        generation=data.generation,
        member_id=data.member_id,
        coordinator=data.coordinator,
        partitions=data.partitions,
        reason=data.reason,
    )


def _send_began(client: ClientPicture, data: ClientRequestBegan, us: int) -> ClientPicture:
    """Add a batch, or a further attempt to send one that could not be sent, or has failed."""
    known = value_of(client.waiting, data.topic, data.partition) or ()
    batch = WaitingBatch(records=data.records, since_us=us, attempt=data.attempt, broker=data.broker, error=None)
    again = next((each for each in known if each.records == data.records and not _is_sent(each)), None)
    if again is None:
        found = (*known, batch)
    else:
        if data.broker == "":
            batch = replace(batch, error=again.error)
        batch = replace(batch, since_us=again.since_us)
        found = tuple(batch if each is again else each for each in known)
    return replace(client, waiting=changed(client.waiting, [(data.topic, data.partition, found)]))


def _send_ended(client: ClientPicture, data: ClientRequestEnded) -> ClientPicture:
    known = value_of(client.waiting, data.topic, data.partition) or ()
    same = [each for each in known if each.records == data.records]
    first = next((each for each in same if _is_sent(each) == (data.broker != "")), same[0] if same else None)
    if data.is_sent_again:
        failed = None if first is None else replace(first, attempt=data.attempt, error=data.error)
        left = tuple(failed if each is first and failed is not None else each for each in known)
    else:
        left = tuple(each for each in known if each is not first)
        ended = EndedSend(records=data.records, offset=data.offset, error=data.error)
        client = replace(client, sent=changed(client.sent, [(data.topic, data.partition, ended)]))
    return replace(client, waiting=changed(client.waiting, [(data.topic, data.partition, left or None)]))


def _is_sent(batch: WaitingBatch) -> bool:
    return batch.broker != "" and batch.error is None


def _read(client: ClientPicture, data: ClientRequestEnded) -> ClientPicture:
    known = value_of(client.reads, data.topic, data.partition)
    reading = Reading(
        position=-1 if known is None else known.position,
        broker=data.broker,
        error=None if data.error == "NONE" else data.error,
    )
    if data.next_offset >= 0:
        reading = replace(reading, position=data.next_offset)
    return replace(client, reads=changed(client.reads, [(data.topic, data.partition, reading)]))


def _commit_began(client: ClientPicture, data: ClientRequestBegan, us: int) -> ClientPicture:
    known = value_of(client.commits, data.topic, data.partition)
    is_again = known is not None and known.offset == data.offset
    commit = WaitingCommit(
        offset=data.offset,
        since_us=known.since_us if known is not None and is_again else us,
        broker=data.broker,
        error=known.error if known is not None and is_again and data.broker == "" else None,
    )
    return replace(client, commits=changed(client.commits, [(data.topic, data.partition, commit)]))


def _commit_ended(client: ClientPicture, data: ClientRequestEnded) -> ClientPicture:
    known = value_of(client.commits, data.topic, data.partition)
    left = replace(known, error=data.error) if known is not None and data.is_sent_again else None
    return replace(client, commits=changed(client.commits, [(data.topic, data.partition, left)]))


def _looked_up(client: ClientPicture, data: ClientRequestEnded, us: int) -> ClientPicture:
    if data.error == "NONE":
        return replace(client, lookup=None)
    known = client.lookup
    since_us = us if known is None or known.broker != data.broker else known.since_us
    return replace(client, lookup=Lookup(broker=data.broker, since_us=since_us, error=data.error))
