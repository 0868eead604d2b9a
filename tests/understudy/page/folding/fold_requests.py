"""The channels of a controller and the requests in them; a part of `tests.understudy.page.folding.fold`.

A request waits in its channel (`RequestQueued`), is on its way (`RequestSent`), and is answered, or fails and is sent
again. A new registration of the broker empties the channel, its end closes it, and with the controller's memory all
channels are forgotten (`fold_faults.term_forgotten`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tests.understudy.page.folding.fold_state import (
    MOST_WAITING,
    Channel,
    EventLogPicture,
    InFlight,
    Life,
    WaitingRequest,
    with_entry,
    without,
)
from understudy.foundation.eventlog.records import (
    ChannelClosed,
    ChannelOpened,
    Envelope,
    RequestFailed,
    RequestQueued,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
)
from understudy.page.recorded.exact import exact

_MOST_COUNTED: Final = 1_000_000
"""Maximum `depth` that the two folds count alike; only a damaged or invented record has a larger one."""


def requests_after(picture: EventLogPicture, record: Envelope, us: int) -> EventLogPicture:
    """Return the picture after a sender's record."""
    node = picture.nodes[record.node]
    match record.data:
        case RequestQueued() as request:
            return _request_queued(picture, record, request, us)
        case RequestSent() as request:
            return _request_sent(picture, record, request, us)
        case ResponseReceived() | RequestFailed():
            return _request_ended(picture, record)
        case ChannelOpened(to=to, broker_epoch=broker_epoch):
            picture = _without_requests(picture, _in_flight(node.channels.get(to)))
            return _with_channel(picture, record.node, to, Channel(broker_epoch=broker_epoch))
        case ChannelClosed(to=to) if to in node.channels:
            picture = _without_requests(picture, _in_flight(node.channels[to]))
            nodes = with_entry(picture.nodes, record.node, replace(node, channels=without(node.channels, [to])))
            return replace(picture, nodes=nodes)
    return picture


def _request_queued(picture: EventLogPicture, record: Envelope, request: RequestQueued, us: int) -> EventLogPicture:
    node = picture.nodes[record.node]
    if node.life is Life.DEAD:
        return picture  # recorded between the record of the fault and the end of the process
    channel = node.channels.get(request.to, Channel(broker_epoch=request.broker_epoch))
    depth = min(max(request.depth, 1), _MOST_COUNTED)
    first = channel.first[: depth - 1]  # coalescing replaces the ones from `depth` on
    if len(first) == depth - 1 < MOST_WAITING:
        waiting = WaitingRequest(
            id=record.seq,
            api=request.api,
            epoch=request.controller_epoch,
            partitions=request.partitions,
            event=request.event,
            since_us=us,
        )
        first = (*first, waiting)
    return _with_channel(picture, record.node, request.to, replace(channel, waiting=depth, first=first))


def _request_sent(picture: EventLogPicture, record: Envelope, request: RequestSent, us: int) -> EventLogPicture:
    node = picture.nodes[record.node]
    if node.life is Life.DEAD:
        return picture  # as above
    key = _request_key(record, record.seq)
    channel = node.channels.get(request.to, Channel(broker_epoch=request.broker_epoch))
    # A channel has one request at a time: the one before has ended, whether the log has that record or not.
    picture = _without_requests(picture, _in_flight(channel))
    channel = replace(_without_waiting(channel, request.queued), in_flight=key, unanswered=None)
    picture = _with_channel(picture, record.node, request.to, channel)
    sent = InFlight(
        us=us,
        from_=record.node,
        to=request.to,
        api=request.api,
        epoch=request.controller_epoch,
        partitions=request.partitions,
        event=request.event,
        attempt=request.attempt,
        client_id=request.client_id,
        correlation_id=request.correlation_id,
    )
    return replace(picture, in_flight=with_entry(picture.in_flight, key, sent))


def _without_waiting(channel: Channel, queued: int) -> Channel:
    """Take the request with this id from the ones that wait, and those before it: they are sent in order."""
    if queued < 1:
        return channel
    sent = next((place + 1 for place, each in enumerate(channel.first) if each.id == queued), 0)
    first = channel.first[sent:]
    return replace(channel, waiting=max(channel.waiting - max(sent, 1), len(first)), first=first)


def _request_ended(picture: EventLogPicture, record: Envelope) -> EventLogPicture:
    key = _request_key(record, record.cause or 0)
    request = picture.in_flight.get(key)
    if request is None:
        return picture
    picture = _without_requests(picture, [key])
    channel = picture.nodes[record.node].channels.get(request.to)
    if channel is None or channel.in_flight != key:
        return picture
    unanswered = None
    if isinstance(record.data, RequestFailed):
        unanswered = WaitingRequest(
            id=record.cause or 0,
            api=request.api,
            epoch=request.epoch,
            partitions=request.partitions,
            event=request.event,
            since_us=request.us,
        )
    channel = replace(channel, in_flight=None, unanswered=unanswered)
    return _with_channel(picture, record.node, request.to, channel)


def _request_key(record: Envelope, seq: int) -> str:
    return f"{record.node}/{exact(record.incarnation)}/{exact(seq)}"


def _in_flight(channel: Channel | None) -> Iterable[str]:
    return () if channel is None or channel.in_flight is None else (channel.in_flight,)


def _without_requests(picture: EventLogPicture, keys: Iterable[str]) -> EventLogPicture:
    return replace(picture, in_flight=without(picture.in_flight, keys))


def _with_channel(picture: EventLogPicture, name: str, to: int, channel: Channel) -> EventLogPicture:
    node = picture.nodes[name]
    return replace(
        picture, nodes=with_entry(picture.nodes, name, replace(node, channels=with_entry(node.channels, to, channel)))
    )


def at_receiver(
    picture: EventLogPicture, name: str, message: RequestReceived | ResponseSent, answer: str | None
) -> EventLogPicture:
    """Note that the receiver of requests on their way has decoded or answered them.

    Args:
        name: the receiver's node.
        answer: Kafka's name of the error in its answer; None while it has not answered.
    """
    broker_id = picture.nodes[name].broker_id
    if broker_id == -1:
        return picture
    for sender in picture.nodes.values():
        channel = sender.channels.get(broker_id)
        request = picture.in_flight.get(channel.in_flight or "") if channel is not None else None
        if channel is None or channel.in_flight is None or request is None:
            continue
        sent = (request.api, request.client_id, request.correlation_id)
        if sent == (message.api, message.client_id, message.correlation_id):
            noted = replace(request, is_received=True, answer=request.answer if answer is None else answer)
            picture = replace(picture, in_flight=with_entry(picture.in_flight, channel.in_flight, noted))
    return picture
