"""Records of requests and responses between nodes."""

from __future__ import annotations

from typing import TypeAlias

from understudy.foundation.eventlog.record_types.base import RecordPayload, Refused


class RequestQueued(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when a control request has to wait in the channel to a broker.

    It waits if another request waits or is on its way, or if the channel is not connected. A request that finds the
    channel idle is sent at once, so its `RequestSent` says everything. The first `RequestSent` of a request names the
    `RequestQueued` in `queued`. A channel that is too far behind coalesces the requests that wait; each one that
    remains is recorded once more, with `depth` from the beginning.
    """

    to: int
    """Id of the broker."""
    api: str
    """Kafka's name of the API: `LeaderAndIsr`, `UpdateMetadata` or `StopReplica`."""
    controller_epoch: int = -1
    """The controller epoch in the request; −1 if it has none."""
    broker_epoch: int = -1
    """The broker's epoch in the request; −1 if it has none."""
    partitions: int = 0
    """How many partitions the request names."""
    event: str = ""
    """The controller event that it belongs to."""
    depth: int = 1
    """How many requests wait in the channel now, this last one included: those on record that have not been sent."""


class RequestSent(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller just before it sends a control request to a broker, once for each attempt."""

    to: int
    """Id of the receiving broker."""
    api: str
    """Kafka's name of the API: `LeaderAndIsr`, `UpdateMetadata` or `StopReplica`."""
    api_version: int
    """The version of the API; −1 if an imported log does not name it."""
    client_id: str
    """The sender's client id; with `correlation_id` it finds the receiver's `RequestReceived`."""
    correlation_id: int
    """Numbers the requests of this client id; −1 if an imported log does not name it."""
    controller_epoch: int = -1
    """The controller epoch in the request; −1 if it has none."""
    broker_epoch: int = -1
    """The receiver's broker epoch in the request; −1 if it has none."""
    partitions: int = 0
    """How many partitions the request names."""
    event: str = ""
    """The controller event during which it was queued; empty if an imported log does not name it."""
    attempt: int = 1
    """How often this request has been tried, from 1."""
    queued: int = 0
    """The `seq` of its `RequestQueued`; 0 if it did not have to wait, or has been sent before."""


class ResponseReceived(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when a broker has answered a control request; `cause` is the `RequestSent`."""

    sender: int
    """Id of the broker that answered."""
    api: str
    """Kafka's name of the API."""
    client_id: str
    """As in `RequestSent`."""
    correlation_id: int
    """As in `RequestSent`."""
    error: str = "NONE"
    """Kafka's name of the error of the whole response."""
    refused: tuple[Refused, ...] = ()
    """The first partitions that were answered with an error."""
    took_ms: float = 0.0
    """How long the answer took from the sending of this attempt, in milliseconds."""
    refused_count: int = 0
    """How many partitions were answered with an error."""


class RequestFailed(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when a control request got no answer: connecting failed, or the connection broke or
    timed out.

    The request is sent again as long as the broker is live.
    """

    to: int
    """Id of the receiving broker."""
    api: str
    """Kafka's name of the API."""
    client_id: str
    """As in `RequestSent`."""
    correlation_id: int
    """As in `RequestSent`."""
    why: str
    """Class and message of the failure."""


class ChannelOpened(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when it opens its channel to a live broker."""

    to: int
    """Id of the broker."""
    broker_epoch: int
    """The broker epoch of the registration that the channel is for."""


class ChannelClosed(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by the controller when it closes its channel to a broker."""

    to: int
    """Id of the broker."""
    broker_epoch: int
    """As in `ChannelOpened`."""
    dropped: int
    """How many queued requests were dropped."""


class RequestReceived(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it has decoded a request that reads or changes the control plane's state.

    These are the control requests, AlterPartition, ControlledShutdown, CreateTopics, ElectLeaders and their like.
    """

    api: str
    """Kafka's name of the API."""
    api_version: int
    """The version of the API."""
    client_id: str
    """The sender's client id."""
    correlation_id: int
    """The sender's number of the request."""
    controller_epoch: int = -1
    """The controller epoch in the request; −1 if it has none."""
    broker_epoch: int = -1
    """The broker epoch in the request; −1 if it has none."""


class ResponseSent(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker when it answers such a request; `cause` is the `RequestReceived`."""

    api: str
    """Kafka's name of the API."""
    client_id: str
    """As in `RequestReceived`."""
    correlation_id: int
    """As in `RequestReceived`."""
    error: str = "NONE"
    """Kafka's name of the error of the whole response."""


class RequestDetail(RecordPayload, frozen=True, kw_only=True, gc=False):
    """Written by a broker before `ResponseSent`, if its event log records details: the whole request and its answer.

    Kafka's request log shows the same.
    """

    api: str
    """Kafka's name of the API."""
    api_version: int
    """The version of the API."""
    client_id: str
    """As in `RequestReceived`."""
    correlation_id: int
    """As in `RequestReceived`."""
    request: dict[str, object]
    """The request by field name."""
    response: dict[str, object]
    """The response by field name."""


RequestRecord: TypeAlias = (
    RequestQueued
    | RequestSent
    | ResponseReceived
    | RequestFailed
    | ChannelOpened
    | ChannelClosed
    | RequestReceived
    | ResponseSent
    | RequestDetail
)
