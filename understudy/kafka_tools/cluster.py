"""`KafkaCluster` is the tools' client: an `AdminClient` that keeps its connections and raises `ToolError`.

It asks each broker for its versions first and sends the newest that both know, so that brokers of other releases can
be asked as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.network import Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message
from understudy.kafka_tools.errors import API, TIMEOUT, ToolError, error_of

_CALLS: Final = {
    "listGroups": "listConsumerGroups",
    "describeGroups": "describeConsumerGroups",
    "deleteGroups": "deleteConsumerGroups",
}
"""Names of the calls in Kafka's client that differ from their requests' names."""


class _Broker(NamedTuple):
    """A connection to one broker, and the versions that it serves by the key of the API."""

    channel: RequestChannel
    versions: dict[int, tuple[int, int]]


class KafkaCluster(AdminClient):
    """A client of one cluster; it keeps a connection to each broker that it has asked.

    It raises ToolError instead of `AdminClient`'s ApiError and NoBrokerAnswers, and also if a broker does not serve the
    request.

    Args:
        bootstrap: `host:port` pairs, tried in order until one answers.
        request_timeout_ms: how long one answer may take.
        api_timeout_ms: how long a call may take with its retries.
    """

    negotiates = True

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[str],
        *,
        client_id: str,
        request_timeout_ms: int,
        api_timeout_ms: int,
    ) -> None:
        super().__init__(
            network, bootstrap, client_id=client_id, timeout_ms=api_timeout_ms, request_timeout_ms=request_timeout_ms
        )
        self._brokers: dict[tuple[str, int], _Broker] = {}

    async def __aenter__(self) -> KafkaCluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in self._brokers.values():
            broker.channel.close()
        self._brokers.clear()

    def _refusal(self, code: int, message: str | None, what: str) -> Exception:
        return error_of(code, message)

    def _too_late(self, call: str, late: NoBrokerAnswers) -> Exception:
        return ToolError(TIMEOUT, f"Timed out waiting for a node assignment. Call: {_CALLS.get(call, call)}")

    async def ask(self, host: str, port: int, request: Message, *, version: int | None = None) -> Message:
        """Send a request over the kept connection to an address, in the newest version that both sides know.

        Args:
            version: the newest version to send; None for the newest of all.
        """
        broker = self._brokers.get((host, port))
        if broker is None or broker.channel.is_closed:
            broker = self._brokers[host, port] = await self._known(host, port)
        api = api_of(request)
        least, most = broker.versions.get(api.key, (0, -1))
        sent = min(most, api.max_version if version is None else version)
        if sent < max(least, api.min_version):
            raise ToolError(f"{API}UnsupportedVersionException", f"The node does not support {api.name.upper()}")
        return await broker.channel.request(request, sent, timeout_ms=self._request_timeout_ms)

    async def _known(self, host: str, port: int) -> _Broker:
        channel = await self._connect(host, port)
        try:
            answer = await channel.request(ApiVersionsRequest(), 0, timeout_ms=self._request_timeout_ms)
        except BaseException:
            channel.close()  # `__aexit__` closes only the connections in `_brokers`
            raise
        assert isinstance(answer, ApiVersionsResponse)
        return _Broker(channel, {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys})
