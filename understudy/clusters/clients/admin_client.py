"""`AdminClient` sends admin requests over Kafka's protocol: about topics, configs, groups and records.

It uses the `Network` port, so that the demo, the golden scenarios, the simulator and the tools share it. Each request
is written once, in the modules of its base classes; `ClusterRequests` finds the broker to ask, and asks again. Mirrors
the part of `org.apache.kafka.clients.admin.KafkaAdminClient` that is needed here.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.clusters.clients.config_requests import ConfigRequests
from understudy.clusters.clients.group_requests import GroupRequests
from understudy.clusters.clients.record_requests import RecordRequests
from understudy.clusters.clients.topic_requests import TopicRequests
from understudy.foundation.wire.network import Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel
from understudy.foundation.wire.schema import Message


class AdminClient(TopicRequests, ConfigRequests, GroupRequests, RecordRequests):
    """A client of one cluster. It opens a connection for each request and closes it after the response.

    Args:
        bootstrap: `host:port` pairs, tried in order until one answers; the next request begins with that one.
        timeout_ms: the time that one call may take, its retries included.
        request_timeout_ms: the time that a broker may take for one request; None for the whole time of a call.
    """

    def __init__(
        self,
        network: Network,
        bootstrap: Sequence[str],
        *,
        client_id: str = "understudy-admin",
        timeout_ms: int = 30_000,
        request_timeout_ms: int | None = None,
    ) -> None:
        request_timeout_ms = timeout_ms if request_timeout_ms is None else request_timeout_ms
        super().__init__(bootstrap, timeout_ms=timeout_ms, request_timeout_ms=request_timeout_ms)
        self._network = network
        self._client_id = client_id

    def with_bootstrap(self, *bootstrap: str, timeout_ms: int | None = None) -> AdminClient:
        """Return a client of the same cluster with other bootstrap servers and, if given, another timeout."""
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return AdminClient(self._network, bootstrap, client_id=self._client_id, timeout_ms=timeout_ms)

    async def ask(self, host: str, port: int, request: Message, *, version: int | None = None) -> Message:
        """Send one request to one broker over a new connection, and return the response.

        Args:
            version: the version of the request; None for the newest.

        Raises:
            ConnectionFailed, ConnectionLost, RequestTimedOut: no response came.
        """
        channel = await self._connect(host, port)
        try:
            api_version = api_of(request).max_version if version is None else version
            return await channel.request(request, api_version, timeout_ms=self._request_timeout_ms)
        finally:
            channel.close()

    async def _connect(self, host: str, port: int) -> RequestChannel:
        connection = await self._network.connect(host, port, timeout_ms=self._request_timeout_ms)
        return RequestChannel(connection, client_id=self._client_id)

    async def _send(self, host: str, port: int, request: Message, *, max_version: int | None = None) -> Message:
        return await self.ask(host, port, request, version=max_version)
