"""This broker's own connection to the controller. Mirrors `kafka.server.NodeToControllerChannelManagerImpl`.

The controller is whoever the metadata cache names. A connection is kept until a request on it fails, or the other end
turns
out not to be the controller: only then is the cache asked again (IS-5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from foundation.wire.errors import MalformedMessage
from foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from foundation.wire.registry import api_of
from foundation.wire.request_channel import RequestChannel, RequestTimedOut
from foundation.wire.schema import Message

R = TypeVar("R", bound=Message)

LOOK_UP_INTERVAL_MS = 100
API_VERSIONS_VERSION = 3
SOFTWARE_NAME = "understudy"
SOFTWARE_VERSION = "0.1.0"


class ControllerChannel:
    """One request at a time to whoever is controller.

    Args:
        client_id: how it introduces itself.
        controller: where the metadata cache says the controller is; None where it does not know.
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
        self._offered: tuple[ApiVersion, ...] = ()

    async def request(self, request: Message, version: int, kind: type[R]) -> R | None:
        """The controller's answer, which is a `kind`; None where the connection failed and the request has to be made
        again."""
        try:
            channel = await self._connected()
            self._check_offered(request, version)
            response = await channel.request(request, version, timeout_ms=self._timeout_ms)
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
        """Close the connection where the metadata cache names another controller than the one connected to."""
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
        offered = await channel.request(hello, API_VERSIONS_VERSION, timeout_ms=self._timeout_ms)
        assert isinstance(offered, ApiVersionsResponse)
        self._offered = offered.api_keys
        return channel

    def _check_offered(self, request: Message, version: int) -> None:
        """
        Raises:
            ConnectionFailed: this controller is too old, or too new, for the request.
        """
        api = api_of(request)
        if not any(
            each.api_key == api.key and each.min_version <= version <= each.max_version for each in self._offered
        ):
            raise ConnectionFailed(f"the controller does not serve {api.name} v{version}")
