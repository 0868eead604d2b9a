"""`ClusterRequests` sends admin requests to any broker of a cluster, to one of them, or to the controller.

Requests that get no answer, or that arrive at a broker that is no longer the controller, are sent again until the time
for the call is over. How a request gets to an address is the caller's: over a new connection each time, or over one
that is kept. Mirrors the part of `org.apache.kafka.clients.admin.KafkaAdminClient` that retries calls.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.foundation.wire.schema import Message

R = TypeVar("R", bound=Message)

RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS = 100, 1_000
"""`retry.backoff.ms` and `retry.backoff.max.ms` of Kafka's admin client: each pause is twice the last (KIP-580)."""


class TryAgain(Exception):
    """The answer says that the request may succeed later or elsewhere. The message is the reason."""


class NoBrokerAnswers(Exception):
    """No broker answered the request in time. The message names the brokers and the last error."""


class SendsRequests(Protocol):
    """Sends one request to one address."""

    async def __call__(self, host: str, port: int, request: Message, /, *, max_version: int | None = None) -> Message:
        """Return the answer; raises ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage without one."""


class ClusterRequests:
    """Chooses the brokers to ask, and asks again.

    Args:
        bootstrap: `host:port` pairs, tried in order until one answers; the next request begins with that one.
        timeout_ms: the time that one call may take, its retries included.
    """

    def __init__(self, send: SendsRequests, bootstrap: Sequence[str], *, timeout_ms: int) -> None:
        self._send = send
        self._bootstrap = deque(bootstrap)
        self._timeout_ms = timeout_ms

    async def ask_any(self, request: Message, response: type[R], *, max_version: int | None = None) -> R:
        """Send a request once to the first broker that answers; raises TryAgain where none does."""
        failure = "no bootstrap server was given"
        for address in tuple(self._bootstrap):
            host, _, port = address.rpartition(":")
            try:
                answer = await self._send(
                    host.removeprefix("[").removesuffix("]"), int(port), request, max_version=max_version
                )
            except (*NOT_SENT, *NO_ANSWER) as error:
                failure = f"none of {', '.join(self._bootstrap)} answers; the last one: {error}"
            else:
                self._bootstrap.rotate(-self._bootstrap.index(address))
                return _checked(answer, response)
        raise TryAgain(failure)

    async def ask_broker(
        self, broker: int | str, request: Message, response: type[R], *, max_version: int | None = None
    ) -> R:
        """Send a request once to the broker with an id; raises TryAgain where the metadata does not have it.

        Raises:
            ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage: that broker did not answer.
        """
        metadata = await self.ask_any(metadata_request(()), MetadataResponse)
        for known in metadata.brokers:
            if str(known.node_id) == str(broker):
                return _checked(await self._send(known.host, known.port, request, max_version=max_version), response)
        raise TryAgain(f"broker {broker} is not in the metadata")

    async def ask_controller(
        self,
        request: Message,
        response: type[R],
        errors: Callable[[R], Iterable[int]],
        *,
        max_version: int | None = None,
    ) -> R:
        """Send a request once to the controller; raises TryAgain if there is none, and as `ask_broker`.

        Args:
            errors: the error codes in a response, among which NOT_CONTROLLER is looked for.
        """
        metadata = await self.ask_any(metadata_request(()), MetadataResponse)
        for known in metadata.brokers:
            if known.node_id == metadata.controller_id:
                answer = await self._send(known.host, known.port, request, max_version=max_version)
                checked = _checked(answer, response)
                if Errors.NOT_CONTROLLER in errors(checked):
                    raise TryAgain(f"broker {known.node_id} is no longer the controller")
                return checked
        raise TryAgain("there is no controller in the metadata")

    async def retried(self, attempt: Callable[[], Awaitable[R]], *, timeout_ms: int | None = None) -> R:
        """Repeat `attempt` until it returns a response, as during a controller failover.

        Args:
            timeout_ms: how long; None for the time that every call has.

        Raises:
            NoBrokerAnswers: the time is over.
        """
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        reason, backoff_ms = "no request was sent", RETRY_BACKOFF_MS
        try:
            async with asyncio.timeout(limit_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except (TryAgain, *NOT_SENT, *NO_ANSWER) as error:
                        reason = str(error)
                    # The metadata of a broker may be old: another one may know more.
                    self._bootstrap.rotate(-1)
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
        except TimeoutError:
            raise NoBrokerAnswers(
                f"no answer from {', '.join(self._bootstrap)} within {limit_ms} ms: {reason}"
            ) from None


def metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    """Return the request for the metadata of `topics` (None: of all topics), which creates none of them."""
    wanted = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def _checked(answer: Message, response: type[R]) -> R:
    assert isinstance(answer, response)
    return answer
