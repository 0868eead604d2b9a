"""One ordered channel to every registered broker, the controller's own included. Mirrors `ControllerChannelManager`.

Sending only queues, so no procedure waits for a broker. Each channel is a queue, a task and a connection; one request
is in flight at a time, so a broker receives requests in the order of the decisions. A request without a response is
sent again, unchanged, until there is a response or the channel is closed, which happens when the broker's registration
ends or the controller resigns; that bounds the retries. Brokers therefore may receive a request twice.

Responses become events, so that their consequences happen in the event queue as well.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from understudy.controller.channels.coalescing import coalesce
from understudy.controller.channels.request_batch import ControlRequest
from understudy.controller.channels.request_shapes import in_version
from understudy.controller.controller_metrics import Channel
from understudy.controller.events import (
    ControllerEvent,
    ForcedResignation,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from understudy.controller.settings import ControllerSettings
from understudy.foundation.cluster.broker import BrokerAndEpoch, EndPoint
from understudy.foundation.cluster.errors import Errors, error_for_code, error_name
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog, causing, current_cause
from understudy.foundation.eventlog.records import (
    ChannelClosed,
    ChannelOpened,
    Refused,
    RequestFailed,
    RequestQueued,
    RequestSent,
    ResponseReceived,
)
from understudy.foundation.metrics.instruments import Timer
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataResponse
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel, RequestTimedOut
from understudy.foundation.wire.schema import Message

RETRY_PAUSE_MS = 100
"""Time between two attempts to send to a broker, as in Kafka's `RequestSendThread`."""

REFUSALS_RECORDED = 100
"""Maximum number of refused partitions that the record of a response names."""

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.ControllerChannelManager")
state_change_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("state.change.logger")


class ControllerChannelManager:
    """The channels of one term.

    Args:
        put: queues the events of responses, and the resignation of a controller that can no longer send to a broker.
    """

    def __init__(
        self,
        *,
        controller_id: BrokerId,
        controller_epoch: int,
        settings: ControllerSettings,
        network: Network,
        clock: Clock,
        events: EventLog,
        put: Callable[[ControllerEvent], None],
    ) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.settings = settings
        self.network = network
        self.clock = clock
        self.events = events
        self.put = put
        self._channels: dict[BrokerId, BrokerChannel] = {}

    def open(self, registered: BrokerAndEpoch) -> None:
        """Open a channel to a registration of a broker. Without an endpoint for our listener it gets none (Kafka
        throws, BUG-9)."""
        broker, listener = registered.broker, self.settings.controller_to_broker_listener_name
        endpoint = broker.endpoint(listener)
        if endpoint is None:
            offered = ", ".join(endpoint.listener for endpoint in broker.endpoints)
            log.error(
                "broker has no listener for control requests", broker=broker.id, expected=listener, offered=offered
            )
            return
        self._channels[broker.id] = BrokerChannel(self, broker.id, registered.epoch, endpoint)
        self.events.append(ChannelOpened(to=broker.id, broker_epoch=registered.epoch))

    def close(self, broker_id: BrokerId) -> None:
        """Close the channel to a broker at once, and drop the requests that wait."""
        channel = self._channels.pop(broker_id, None)
        if channel is not None:
            dropped = channel.close()
            self.events.append(ChannelClosed(to=broker_id, broker_epoch=channel.broker_epoch, dropped=dropped))

    async def drain(self, *, timeout_ms: int) -> None:
        """Wait until every request has a response, at most `timeout_ms` in all."""
        channels = [self._channels[broker_id] for broker_id in sorted(self._channels)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                for channel in channels:
                    await channel.drained()

    def channels(self) -> dict[BrokerId, Channel]:
        """Return the readings of each channel."""
        return {
            broker_id: Channel(self._channels[broker_id].queue_size, self._channels[broker_id].queue_time)
            for broker_id in sorted(self._channels)
        }

    def shutdown(self) -> None:
        for broker_id in sorted(self._channels):
            self.close(broker_id)

    def resign(self, why: str) -> None:
        """Make the controller resign, because this term can no longer send to a broker."""
        self.put(ForcedResignation(why, self.controller_epoch))

    def send(self, requests: Iterable[ControlRequest], *, event: str) -> None:
        """Queue each request on its broker's channel.

        Args:
            event: the controller event they belong to, for the record.
        """
        for request in requests:
            channel = self._channels.get(request.broker_id)
            if channel is None:
                log.warning(
                    "not sending a request to an offline broker", api=api_of(request.message).name, to=request.broker_id
                )
            else:
                channel.send(request, event)


@dataclass(frozen=True, slots=True)
class _WaitingRequest:
    request: ControlRequest
    event: str
    cause: int | None
    since_ms: float
    queued: int
    """The sequence number of its `RequestQueued`; 0 without one."""


class BrokerChannel:
    """Queue, task and connection for one registration of a broker. Mirrors `RequestSendThread`."""

    def __init__(
        self, manager: ControllerChannelManager, broker_id: BrokerId, broker_epoch: int, endpoint: EndPoint
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.queue_time = Timer(manager.clock)
        self._manager = manager
        self._endpoint = endpoint
        self._client_id = str(manager.controller_id)
        self._queue: deque[_WaitingRequest] = deque()
        self._current: _WaitingRequest | None = None
        """The request that the task has taken from the queue and that has no response yet."""
        self._is_current_sent = False
        self._filled = asyncio.Event()
        self._drained = asyncio.Event()
        self._connection: RequestChannel | None = None
        self._correlation_id = 0
        """Of the next request, or of the one in flight. A new connection does not reset it, so that records are
        unambiguous."""
        name = f"Controller-{manager.controller_id}-to-broker-{broker_id}-send-thread"
        self._task = asyncio.create_task(self._run(), name=name)
        self._task.add_done_callback(self._ended)

    def send(self, request: ControlRequest, event: str) -> None:
        cause = current_cause()
        queued = 0 if self._is_idle else self._record_queued(request, event, depth=self._depth() + 1, cause=cause)
        self._queue.append(_WaitingRequest(request, event, cause, self._manager.clock.monotonic_ms(), queued))
        if len(self._queue) > self._manager.settings.channel_queue_bound:
            self._coalesce()
        self._drained.clear()
        self._filled.set()

    @property
    def queue_size(self) -> int:
        return len(self._queue)

    async def drained(self) -> None:
        """Wait until no request waits or is in flight."""
        await self._drained.wait()

    def close(self) -> int:
        """End at once; return how many requests were waiting."""
        self._task.cancel()
        self._disconnect()
        dropped = len(self._queue)
        self._queue.clear()
        return dropped

    @property
    def _is_idle(self) -> bool:
        """Whether a request would be sent at once."""
        is_connected = self._connection is not None and not self._connection.is_closed
        return is_connected and self._current is None and not self._queue

    def _depth(self) -> int:
        """Return how many requests have been recorded as waiting and not been sent. Only one that finds the channel
        idle is not recorded, so only the first in the queue can be without a record."""
        depth = len(self._queue) - (bool(self._queue) and not self._queue[0].queued)
        return depth + (self._current is not None and self._current.queued > 0 and not self._is_current_sent)

    def _coalesce(self) -> None:
        newest = self._queue[-1]
        requests = coalesce([waiting.request for waiting in self._queue])
        log.warning(
            "coalesced the requests to a broker that does not respond", to=self.broker_id, requests=len(requests)
        )
        self._queue.clear()
        for request in requests:
            queued = self._record_queued(request, newest.event, depth=self._depth() + 1, cause=newest.cause)
            self._queue.append(_WaitingRequest(request, newest.event, newest.cause, newest.since_ms, queued))
        if len(self._queue) > self._manager.settings.channel_queue_bound:
            self._manager.resign(f"broker {self.broker_id} is {len(self._queue)} requests behind")

    # -- the task

    async def _run(self) -> None:
        while True:
            while not self._queue:
                self._drained.set()
                self._filled.clear()
                await self._filled.wait()
            waiting = self._current = self._queue.popleft()
            self._is_current_sent = False
            self.queue_time.update(self._manager.clock.monotonic_ms() - waiting.since_ms)
            await self._deliver(waiting)
            self._current = None

    async def _deliver(self, waiting: _WaitingRequest) -> None:
        # The task was started by an earlier event, whose name its lines would have.
        structlog.contextvars.bind_contextvars(controller_event=waiting.event)
        attempt = 1
        while not await self._attempt(waiting, attempt):
            attempt += 1
            await asyncio.sleep(RETRY_PAUSE_MS / 1000)

    async def _attempt(self, waiting: _WaitingRequest, attempt: int) -> bool:
        """Send a request once, connecting if necessary, and queue the event of its response. Returns whether there was
        one."""
        request, clock = waiting.request, self._manager.clock
        sent = waiting.cause
        try:
            connection = await self._connect()
            sent = self._record_sent(waiting, attempt)
            sent_at_ms = clock.monotonic_ms()
            timeout_ms = self._manager.settings.request_timeout_ms
            body = None if request.body is None else request.body.at(request.broker_epoch)
            message = request.message if body is not None else in_version(request.message, request.version)
            response = await connection.request(message, request.version, timeout_ms=timeout_ms, body=body)
        except (ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage) as failure:
            self._record_failed(waiting, failure, cause=sent)
            self._disconnect()
            return False
        took_ms = clock.monotonic_ms() - sent_at_ms
        received = self._record_received(waiting, response, took_ms=took_ms, cause=sent)
        self._correlation_id = connection.next_correlation_id
        with causing(received):
            self._queue_event(request, response)
        return True

    async def _connect(self) -> RequestChannel:
        if self._connection is None or self._connection.is_closed:
            endpoint, settings = self._endpoint, self._manager.settings
            connection = await self._manager.network.connect(
                endpoint.host, endpoint.port, timeout_ms=settings.controller_socket_timeout_ms
            )
            self._connection = RequestChannel(
                connection, client_id=self._client_id, first_correlation_id=self._correlation_id
            )
            log.info(
                "connected for sending state change requests",
                to=self.broker_id,
                address=connection.peer,
            )
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._correlation_id = self._connection.next_correlation_id
            self._connection.close()
            self._connection = None

    def _queue_event(self, request: ControlRequest, response: Message) -> None:
        match response:
            case LeaderAndIsrResponse():
                self._manager.put(
                    LeaderAndIsrResponseReceived(
                        self.broker_id, self._manager.controller_epoch, self.broker_epoch, response
                    )
                )
            case UpdateMetadataResponse():
                self._manager.put(UpdateMetadataResponseReceived(self.broker_id, response))
            case StopReplicaResponse() if isinstance(request.message, StopReplicaRequest):
                self._queue_deletion_event(deletions(request.message, response), response.error_code)
            case _:
                raise AssertionError(f"{type(response).__name__} is no response to a control request")

    def _queue_deletion_event(self, partition_errors: dict[TopicPartition, Errors], error_code: int) -> None:
        """Queue the event of a StopReplica with deletions; the response to any other needs none (SN-5). Kafka's
        callback reads the context in the channel's thread to find out which deletions are waiting; here the event
        does."""
        if partition_errors:
            self._manager.put(
                TopicDeletionStopReplicaResponseReceived(
                    self.broker_id,
                    self._manager.controller_epoch,
                    self.broker_epoch,
                    error_code,
                    partition_errors,
                )
            )

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.error("a channel broke", to=self.broker_id, exc_info=failure)
            self._manager.resign(f"the channel to broker {self.broker_id} broke: {failure!r}")

    # -- the records

    def _record_queued(self, request: ControlRequest, event: str, *, depth: int, cause: int | None) -> int:
        record = RequestQueued(
            to=self.broker_id,
            api=api_of(request.message).name,
            controller_epoch=request.message.controller_epoch,
            broker_epoch=request.broker_epoch,
            partitions=request.partitions,
            event=event,
            depth=depth,
        )
        return self._manager.events.append(record, cause=cause)

    def _record_sent(self, waiting: _WaitingRequest, attempt: int) -> int:
        request = waiting.request
        record = RequestSent(
            to=self.broker_id,
            api=api_of(request.message).name,
            api_version=request.version,
            client_id=self._client_id,
            correlation_id=self._correlation_id,
            controller_epoch=request.message.controller_epoch,
            broker_epoch=request.broker_epoch,
            partitions=request.partitions,
            event=waiting.event,
            attempt=attempt,
            queued=0 if self._is_current_sent else waiting.queued,
        )
        self._is_current_sent = True
        return self._manager.events.append(record, cause=waiting.cause)

    def _record_received(
        self, waiting: _WaitingRequest, response: Message, *, took_ms: float, cause: int | None
    ) -> int:
        error, refused = _refusals(waiting.request, response)
        state_change_log.debug(
            "received response",
            api=api_of(response).name,
            sender=self.broker_id,
            correlation_id=self._correlation_id,
            error=error,
            refused=len(refused),
        )
        record = ResponseReceived(
            sender=self.broker_id,
            api=api_of(response).name,
            client_id=self._client_id,
            correlation_id=self._correlation_id,
            error=error,
            refused=tuple(refused[:REFUSALS_RECORDED]),
            refused_count=len(refused),
            took_ms=round(took_ms, 3),
        )
        return self._manager.events.append(record, cause=cause)

    def _record_failed(self, waiting: _WaitingRequest, failure: Exception, *, cause: int | None) -> None:
        api = api_of(waiting.request.message).name
        about = {
            "to": self.broker_id,
            "api": api,
            "partitions": waiting.request.partitions,
            "address": f"{self._endpoint.host}:{self._endpoint.port}",
            "why": str(failure),
        }
        if isinstance(failure, ConnectionFailed):
            log.warning("connection was unsuccessful", **about)
        else:
            log.warning("fails to send a request, reconnecting", **about)
        record = RequestFailed(
            to=self.broker_id,
            api=api,
            client_id=self._client_id,
            correlation_id=self._correlation_id,
            why=f"{type(failure).__name__}: {failure}",
        )
        self._manager.events.append(record, cause=cause)


def deletions(request: StopReplicaRequest, response: StopReplicaResponse) -> dict[TopicPartition, Errors]:
    """Return the errors of the replicas that were to be deleted."""
    deleted = {
        TopicPartition(topic.topic_name, state.partition_index)
        for topic in request.topic_states
        for state in topic.partition_states
        if state.delete_partition
    }
    answered = (
        (TopicPartition(error.topic_name, error.partition_index), error_for_code(error.error_code))
        for error in response.partition_errors
    )
    return {partition: error for partition, error in answered if partition in deleted}


def _refusals(request: ControlRequest, response: Message) -> tuple[str, list[Refused]]:
    """Return the response's error and the refused partitions, with names of topics and errors."""
    match response:
        case LeaderAndIsrResponse():
            topics = request.message.topic_states if isinstance(request.message, LeaderAndIsrRequest) else ()
            names = {topic.topic_id: topic.topic_name for topic in topics}
            refused = [
                Refused(
                    names.get(topic.topic_id, topic.topic_id),
                    partition.partition_index,
                    error_name(partition.error_code),
                )
                for topic in response.topics
                for partition in topic.partition_errors
                if partition.error_code
            ]
            return error_name(response.error_code), [*refused, *_refused_by_name(response.partition_errors)]
        case StopReplicaResponse():
            return error_name(response.error_code), _refused_by_name(response.partition_errors)
        case UpdateMetadataResponse():
            return error_name(response.error_code), []
        case _:
            raise AssertionError(f"{type(response).__name__} is no response to a control request")


def _refused_by_name(answers: Iterable[LeaderAndIsrPartitionError | StopReplicaPartitionError]) -> list[Refused]:
    """Return the refused partitions of a response that names topics: StopReplica, and LeaderAndIsr below version 5."""
    return [
        Refused(answer.topic_name, answer.partition_index, error_name(answer.error_code))
        for answer in answers
        if answer.error_code
    ]
