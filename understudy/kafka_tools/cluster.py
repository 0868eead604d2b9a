"""`KafkaCluster` is the tools' client: it sends a request to the controller, to one broker, or to any.

It asks each broker for its versions first and sends the newest that both know, so that brokers of other releases can
be asked as well. `ClusterRequests` chooses the brokers and sends again; errors are those that Kafka's tools print.
Mirrors the part of `org.apache.kafka.clients.admin.KafkaAdminClient` that Kafka's tools use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from understudy.clusters.clients.cluster_requests import ClusterRequests, NoBrokerAnswers, metadata_request
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from understudy.foundation.wire.network import Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message
from understudy.kafka_tools.errors import API, TIMEOUT, ToolError

R = TypeVar("R", bound=Message)


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
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._requests = ClusterRequests(self._send, bootstrap, timeout_ms=api_timeout_ms)
        self._brokers: dict[tuple[str, int], _Broker] = {}

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
        return await self._retried(lambda: self._requests.ask_any(request, response, max_version=max_version), call)

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
        return await self._retried(
            lambda: self._requests.ask_broker(broker, request, response, max_version=max_version), call, timeout_ms
        )

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
        return await self._retried(
            lambda: self._requests.ask_controller(request, response, errors, max_version=max_version), call
        )

    async def metadata(self, topics: Iterable[str] | None = None, *, call: str = "listTopics") -> MetadataResponse:
        """Return the metadata of `topics` (None: of all topics); raises as `ask`."""
        return await self.ask(metadata_request(topics), MetadataResponse, call=call)

    async def topics(self, *, with_internal: bool = True) -> dict[str, MetadataResponseTopic]:
        """Return all topics by name, sorted; raises as `ask`."""
        metadata = await self.metadata()
        found = {topic.name: topic for topic in metadata.topics if topic.name is not None}
        return {name: found[name] for name in sorted(found) if with_internal or not found[name].is_internal}

    async def retried(self, attempt: Callable[[], Awaitable[R]], *, call: str) -> R:
        """Repeat `attempt` while it raises TryAgain, until the time for a call is over; raises as `ask`."""
        return await self._retried(attempt, call)

    # ------------------------------------------------------------------ connections

    async def _retried(self, attempt: Callable[[], Awaitable[R]], call: str, timeout_ms: int | None = None) -> R:
        try:
            return await self._requests.retried(attempt, timeout_ms=timeout_ms)
        except NoBrokerAnswers:
            raise ToolError(TIMEOUT, f"Timed out waiting for a node assignment. Call: {call}") from None

    async def _send(self, host: str, port: int, request: Message, *, max_version: int | None = None) -> Message:
        """Send a request over the kept connection to an address, in the newest version that both sides know."""
        broker = self._brokers.get((host, port))
        if broker is None or broker.channel.is_closed:
            broker = self._brokers[host, port] = await self._connect(host, port)
        api = api_of(request)
        least, most = broker.versions.get(api.key, (0, -1))
        version = min(most, api.max_version if max_version is None else max_version)
        if version < max(least, api.min_version):
            raise ToolError(f"{API}UnsupportedVersionException", f"The node does not support {api.name.upper()}")
        return await broker.channel.request(request, version, timeout_ms=self._request_timeout_ms)

    async def _connect(self, host: str, port: int) -> _Broker:
        connection = await self._network.connect(host, port, timeout_ms=self._request_timeout_ms)
        channel = RequestChannel(connection, client_id=self._client_id)
        try:
            answer = await channel.request(ApiVersionsRequest(), 0, timeout_ms=self._request_timeout_ms)
        except BaseException:
            channel.close()  # `__aexit__` knows only the brokers that have said which versions they serve
            raise
        assert isinstance(answer, ApiVersionsResponse)
        return _Broker(channel, {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys})
