"""Sends requests over one connection, one at a time.

Kafka does the same: the controller's requests to a broker must arrive in order. Mirrors
`NetworkClientUtils.sendAndReceive`, which the controller's senders use.
"""

from __future__ import annotations

import asyncio
from typing import Final

from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.framing import DEFAULT_MAX_BYTES, FrameReader
from understudy.foundation.wire.headers import decode_response, encode_request
from understudy.foundation.wire.network import Connection, ConnectionLost
from understudy.foundation.wire.registry import Api, api_of
from understudy.foundation.wire.schema import Message

_LAST_CORRELATION_ID: Final = 0x7FFFFFFF


class RequestTimedOut(Exception):
    """No answer came in time. The outcome of the request is unknown; its connection is closed."""


class RequestChannel:
    """Sends a request and waits for its answer.

    Every failure closes the connection: otherwise a late answer would be taken for the answer to the next request.

    Args:
        max_response_bytes: a larger answer is an error. Kafka accepts any size; here a peer cannot fill the memory.
        first_correlation_id: the correlation id of the first request; after a reconnect the count continues, as in
            Kafka's `NetworkClient`.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        client_id: str | None,
        max_response_bytes: int = DEFAULT_MAX_BYTES,
        first_correlation_id: int = 0,
    ) -> None:
        self._connection = connection
        self._client_id = client_id
        self._frames = FrameReader(max_response_bytes, limit="the largest response taken")
        self._next_correlation_id = first_correlation_id
        self._in_flight = False
        self._closed = False

    @property
    def next_correlation_id(self) -> int:
        """The correlation id of the next request."""
        return self._next_correlation_id

    @property
    def is_closed(self) -> bool:
        return self._closed

    async def request(
        self, message: Message, api_version: int, *, timeout_ms: int, body: bytes | None = None
    ) -> Message:
        """Send `message` and return the response to it.

        Args:
            body: the encoded body of `message` at `api_version`; None if it is not encoded yet.

        Raises:
            ConnectionLost: the connection ended before the answer came.
            RequestTimedOut: no answer within `timeout_ms`.
            MalformedMessage: the answer cannot be decoded or belongs to another request.
            UnsupportedVersion: see `codec.encode`; nothing was sent and the channel stays usable.
            UnencodableValue: likewise.
        """
        api = api_of(message)
        correlation_id, frame = self._next_frame(message, api_version, body)
        self._in_flight = True
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._connection.send(frame)
                answer = await self._receive(api, api_version, correlation_id)
            response = self._read(api, api_version, correlation_id, answer)
        except TimeoutError as timeout:
            self.close()
            reason = f"{self._connection.peer}: no answer to {api.name} {correlation_id} within {timeout_ms} ms"
            raise RequestTimedOut(reason) from timeout
        except BaseException:
            self.close()  # also after a cancellation: the answer may still come
            raise
        self._in_flight = False
        return response

    async def send(self, message: Message, api_version: int, *, timeout_ms: int) -> None:
        """Send `message`, to which there is no response: a Produce with acks=0. It raises as `request`.

        The connection accepts bytes that its peer may never read, so nothing is known of what becomes of them.
        """
        await self._require_open()
        _, frame = self._next_frame(message, api_version)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._connection.send(frame)
        except TimeoutError as timeout:
            self.close()
            reason = f"{self._connection.peer}: {api_of(message).name} was not accepted within {timeout_ms} ms"
            raise RequestTimedOut(reason) from timeout
        except BaseException:
            self.close()  # also after a cancellation: a part of the frame may have been sent
            raise

    def close(self) -> None:
        """End the connection; a request in flight raises `ConnectionLost`. Closing twice is harmless."""
        self._closed = True
        self._connection.close()

    async def _require_open(self) -> None:
        """Raise `ConnectionLost` if the peer has closed the connection, which is all that it can answer."""
        try:
            async with asyncio.timeout(0):
                await self._connection.receive()
        except TimeoutError:
            return
        except BaseException:
            self.close()
            raise
        self.close()
        raise ConnectionLost(f"{self._connection.peer}: closed by the peer")

    def _next_frame(self, message: Message, api_version: int, body: bytes | None = None) -> tuple[int, bytes]:
        """Return the next correlation id, and the frame of a request with it."""
        if self._closed:
            raise ConnectionLost(f"{self._connection.peer}: the channel is closed")
        assert not self._in_flight, f"{self._connection.peer}: a second request while one is in flight"
        correlation_id = self._next_correlation_id
        frame = encode_request(message, api_version, correlation_id, self._client_id, body=body)
        self._next_correlation_id = 0 if correlation_id == _LAST_CORRELATION_ID else correlation_id + 1
        return correlation_id, frame

    async def _receive(self, api: Api, api_version: int, correlation_id: int) -> bytes:
        while True:
            data = await self._connection.receive()
            if not data:
                raise ConnectionLost(f"{self._connection.peer}: closed before answering {api.name} {correlation_id}")
            frames = self._frames.feed(data)
            if frames:
                if len(frames) > 1 or self._frames.has_unfinished_frame:
                    raise MalformedMessage(
                        f"{api.name}Response",
                        api_version,
                        "frame",
                        0,
                        f"more than one answer to request {correlation_id}",
                    )
                return frames[0]

    def _read(self, api: Api, api_version: int, correlation_id: int, answer: bytes) -> Message:
        answered, response = decode_response(api, api_version, answer)
        if answered != correlation_id:
            raise MalformedMessage(
                f"{api.name}Response", api_version, "correlation_id", 0, f"{answered}; expected {correlation_id}"
            )
        return response
