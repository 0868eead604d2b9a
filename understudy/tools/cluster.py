"""`KafkaCluster` is the tools' client: it sends a request to the controller, to one broker, or to any.

It asks each broker for its versions first and sends the newest that both know, so that brokers of other releases can
be asked as well. Requests that get no answer, or that arrive at a broker that is no longer the controller, are sent
again until the time for the call is over. Mirrors the part of `org.apache.kafka.clients.admin.KafkaAdminClient` that
Kafka's tools use.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from foundation.cluster.errors import Errors
from foundation.wire.errors import MalformedMessage
from foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from foundation.wire.registry import api_of
from foundation.wire.request_channel import RequestChannel, RequestTimedOut
from foundation.wire.schema import Message
from understudy.tools.errors import API, TIMEOUT, ToolError

R = TypeVar("R", bound=Message)

RETRY_BACKOFF_MS, RETRY_BACKOFF_MAX_MS = 100, 1_000
"""`retry.backoff.ms` and `retry.backoff.max.ms` of Kafka's admin client (KIP-580)."""
NO_ANSWER = (ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage)


class TryAgain(Exception):
    """The answer says that the request may succeed later or elsewhere. The message is the reason."""


class _Broker:
    """A connection to one broker, and the versions that it serves by the key of the API."""

    def __init__(self, channel: RequestChannel, versions: dict[int, tuple[int, int]]) -> None:
        self.channel = channel
        self.versions = versions


class KafkaCluster:
    """A client of one cluster; it keeps a connection to each broker that it has asked.

    Args:
        bootstrap: `host:port` pairs, tried in order until one answers.
        request_timeout_ms: how long one answer may take.
        api_timeout_ms: how long a call may take with its retries.
    """

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[str],
        *,
        client_id: str,
        request_timeout_ms: int,
        api_timeout_ms: int,
    ) -> None:
        self._network = network
        self._bootstrap = deque(bootstrap)
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._api_timeout_ms = api_timeout_ms
        self._brokers: dict[str, _Broker] = {}

    async def __aenter__(self) -> KafkaCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self._brokers.values():
            broker.channel.close()
        self._brokers.clear()

    async def ask(self, request: Message, response: type[R], *, call: str, max_version: int | None = None) -> R:
        """Send a request to any broker.

        Args:
            call: what Kafka's client names the call in its errors.
            max_version: the newest version to send, where the request has another shape in newer ones.

        Raises:
            ToolError: no broker answered in time, or none serves the request.
        """
        return await self._retried(lambda: self._ask_any(request, response, max_version), call)

    async def ask_broker(
        self,
        broker: int,
        request: Message,
        response: type[R],
        *,
        call: str,
        max_version: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Send a request to one broker, and wait where the metadata does not have it; raises as `ask`."""

        async def attempt() -> R:
            metadata = await self._ask_any(_metadata_request(()), MetadataResponse, None)
            for known in metadata.brokers:
                if known.node_id == broker:
                    return await self._ask_at(f"{known.host}:{known.port}", request, response, max_version)
            raise TryAgain(f"broker {broker} is not in the metadata")

        return await self._retried(attempt, call, timeout_ms)

    async def ask_controller(
        self,
        request: Message,
        response: type[R],
        errors: Callable[[R], Iterable[int]],
        *,
        call: str,
        max_version: int | None = None,
    ) -> R:
        """Send a request to the controller, and to its successor after a failover; raises as `ask`.

        Args:
            errors: the error codes in a response, among which NOT_CONTROLLER is looked for.
        """

        async def attempt() -> R:
            metadata = await self._ask_any(_metadata_request(()), MetadataResponse, None)
            for known in metadata.brokers:
                if known.node_id == metadata.controller_id:
                    answer = await self._ask_at(f"{known.host}:{known.port}", request, response, max_version)
                    if Errors.NOT_CONTROLLER in errors(answer):
                        raise TryAgain(f"broker {known.node_id} is no longer the controller")
                    return answer
            raise TryAgain("there is no controller in the metadata")

        return await self._retried(attempt, call)

    async def metadata(self, topics: Iterable[str] | None = None, *, call: str = "listTopics") -> MetadataResponse:
        """Return the metadata of `topics` (None: of all topics); raises as `ask`."""
        return await self.ask(_metadata_request(topics), MetadataResponse, call=call)

    async def topics(self, *, with_internal: bool = True) -> dict[str, MetadataResponseTopic]:
        """Return all topics by name, sorted; raises as `ask`."""
        metadata = await self.metadata()
        found = {topic.name: topic for topic in metadata.topics if topic.name is not None}
        return {name: found[name] for name in sorted(found) if with_internal or not found[name].is_internal}

    async def retried(self, attempt: Callable[[], Awaitable[R]], *, call: str) -> R:
        """Repeat `attempt` while it raises TryAgain, until the time for a call is over; raises as `ask`."""
        return await self._retried(attempt, call)

    # ------------------------------------------------------------------ connections

    async def _ask_any(self, request: Message, response: type[R], max_version: int | None) -> R:
        failure = "no bootstrap server was given"
        for address in tuple(self._bootstrap):
            try:
                answer = await self._ask_at(address, request, response, max_version)
            except NO_ANSWER as error:
                failure = str(error)
            else:
                self._bootstrap.rotate(-self._bootstrap.index(address))
                return answer
        raise TryAgain(failure)

    async def _ask_at(self, address: str, request: Message, response: type[R], max_version: int | None) -> R:
        broker = self._brokers.get(address)
        if broker is None or broker.channel.is_closed:
            broker = self._brokers[address] = await self._connect(address)
        api = api_of(request)
        least, most = broker.versions.get(api.key, (0, -1))
        version = min(most, api.max_version if max_version is None else max_version)
        if version < max(least, api.min_version):
            raise ToolError(f"{API}UnsupportedVersionException", f"The node does not support {api.name.upper()}")
        answer = await broker.channel.request(request, version, timeout_ms=self._request_timeout_ms)
        assert isinstance(answer, response)
        return answer

    async def _connect(self, address: str) -> _Broker:
        host, _, port = address.rpartition(":")
        connection = await self._network.connect(
            host.removeprefix("[").removesuffix("]"), int(port), timeout_ms=self._request_timeout_ms
        )
        channel = RequestChannel(connection, client_id=self._client_id)
        answer = await channel.request(ApiVersionsRequest(), 0, timeout_ms=self._request_timeout_ms)
        assert isinstance(answer, ApiVersionsResponse)
        return _Broker(channel, {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys})

    async def _retried(self, attempt: Callable[[], Awaitable[R]], call: str, timeout_ms: int | None = None) -> R:
        backoff_ms = RETRY_BACKOFF_MS
        try:
            async with asyncio.timeout((self._api_timeout_ms if timeout_ms is None else timeout_ms) / 1000):
                while True:
                    try:
                        return await attempt()
                    except (TryAgain, *NO_ANSWER):
                        # The metadata of a broker may be old: another one may know more.
                        self._bootstrap.rotate(-1)
                    await asyncio.sleep(backoff_ms / 1000)
                    backoff_ms = min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
        except TimeoutError:
            raise ToolError(TIMEOUT, f"Timed out waiting for a node assignment. Call: {call}") from None


def _metadata_request(topics: Iterable[str] | None) -> MetadataRequest:
    wanted = None if topics is None else tuple(MetadataRequestTopic(name=topic) for topic in topics)
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
