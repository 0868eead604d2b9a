"""This broker's own connection to the controller. Mirrors `kafka.server.NodeToControllerChannelManagerImpl`.

The controller is the broker that the metadata cache names. A connection is kept until a request on it fails, or the
broker it leads to is not the controller: only then is the cache read again (IS-5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel, RequestTimedOut
from understudy.foundation.wire.schema import Message

R = TypeVar("R", bound=Message)

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.NodeToControllerRequestThread")

LOOK_UP_INTERVAL_MS = 100
API_VERSIONS_VERSION = 3
SOFTWARE_NAME = "understudy"
SOFTWARE_VERSION = "0.1.0"


class ControllerChannel:
    """Sends one request at a time to the controller.

    Args:
        client_id: of its requests.
        controller: the controller's address in the metadata cache; None if the cache has none.
        timeout_ms: for connecting, and for each answer.
    """

    def __init__(
        self,
        *,
        client_id: str,
        network: Network,
        controller: Callable[[], UpdateMetadataEndpoint | None],
        timeout_ms: int,
    ) -> None:
        self._client_id = client_id
        self._network = network
        self._controller = controller
        self._timeout_ms = timeout_ms
        self._channel: RequestChannel | None = None
        self._endpoint: UpdateMetadataEndpoint | None = None
        self._served: tuple[ApiVersion, ...] = ()
        self._logged_unserved: dict[str, UpdateMetadataEndpoint] = {}
        """By request, the controller that was last logged for serving no usable version of it."""

    async def request(self, request: Message, version: int, kind: type[R]) -> R | None:
        """Send `request` in one version; the answer, a `kind`, or None if it has to be sent again."""
        return await self.request_latest(type(request), lambda _: request, (version, version), kind)

    async def request_latest(
        self, request: type[Message], build: Callable[[int], Message], versions: tuple[int, int], kind: type[R]
    ) -> R | None:
        """Send a request in the highest version that the controller serves; the answer, or None to send it again.

        Args:
            request: the type of the request.
            build: makes the request for a version.
            versions: the lowest and the highest version that may be used.
            kind: the type of the answer.
        """
        try:
            channel = await self._connected()
            version = self._latest_usable_version(request, *versions)
            response = await channel.request(build(version), version, timeout_ms=self._timeout_ms)
        except (ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage):
            self.forget_controller()
            return None
        assert isinstance(response, kind)
        return response

    def forget_controller(self) -> None:
        """Close the connection; the next request looks the controller up again."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def forget_former_controller(self) -> None:
        """Close the connection if the metadata cache names another controller than the one connected to."""
        if self._channel is not None and self._controller() not in (None, self._endpoint):
            self.forget_controller()

    async def _connected(self) -> RequestChannel:
        if self._channel is not None:
            return self._channel
        endpoint = self._controller()
        while endpoint is None:
            await asyncio.sleep(LOOK_UP_INTERVAL_MS / 1000)
            endpoint = self._controller()
        connection = await self._network.connect(endpoint.host, endpoint.port, timeout_ms=self._timeout_ms)
        channel = self._channel = RequestChannel(connection, client_id=self._client_id)
        self._endpoint = endpoint
        hello = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        answer = await channel.request(hello, API_VERSIONS_VERSION, timeout_ms=self._timeout_ms)
        assert isinstance(answer, ApiVersionsResponse)
        self._served = answer.api_keys
        return channel

    def _latest_usable_version(self, request: type[Message], lowest: int, highest: int) -> int:
        """The highest version that both sides can use. Mirrors `NodeApiVersions.latestUsableVersion`.

        Raises:
            ConnectionFailed: there is none.
        """
        api = api_of(request)
        for served in self._served:
            if served.api_key == api.key and max(lowest, served.min_version) <= min(highest, served.max_version):
                self._logged_unserved.pop(api.name, None)
                return min(highest, served.max_version)
        # Such a request is tried again every 50 ms for as long as this broker is the controller: one line is enough.
        if self._endpoint is not None and self._logged_unserved.get(api.name) != self._endpoint:
            self._logged_unserved[api.name] = self._endpoint
            log.warning(
                "the controller serves no version of the request that this broker can use, trying again",
                api=api.name,
                address=f"{self._endpoint.host}:{self._endpoint.port}",
                versions=[lowest, highest],
            )
        raise ConnectionFailed(f"the controller does not serve {api.name} v{lowest} to v{highest}")
