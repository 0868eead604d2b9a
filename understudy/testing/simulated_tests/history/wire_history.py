"""Keeps the bytes that pass between client processes and brokers, and decodes them when it is asked for them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from understudy.foundation.wire.messages.produce import ProduceRequest
from understudy.testing.simulated_tests.history.wire_decoding import Decoder
from understudy.testing.simulated_tests.history.wire_records import Processed, Sent


class _Kind(enum.Enum):
    OPENED = enum.auto()
    SENT = enum.auto()
    RECEIVED = enum.auto()
    CLOSED = enum.auto()
    PROCESSED = enum.auto()


class _Opened(NamedTuple):
    process: str
    incarnation: int
    broker: str


_Call: TypeAlias = tuple[_Kind, int, object, float]
"""The kind of what has happened, the number of the connection, what came with it, and the virtual time in ms."""


class WireHistory:
    """Takes what the transports of client processes send and receive. Each call appends, and decodes nothing.

    The bytes are Kafka's protocol, decrypted if the connection uses TLS. A connection is known by a number that no
    other one of the run has. Calls come in the order of virtual time.
    """

    def __init__(self) -> None:
        self._waiting: list[_Call] = []
        """Calls that are not decoded yet."""
        self._decoder = Decoder()
        self._marked: list[Processed] = []

    def opened(self, connection: int, process: str, incarnation: int, broker: str, at_ms: float) -> None:
        """Note a connection that a client process has opened to the address `broker`."""
        self._waiting.append((_Kind.OPENED, connection, _Opened(process, incarnation, broker), at_ms))

    def sent(self, connection: int, data: bytes, at_ms: float) -> None:
        """Note bytes that a client has sent: any piece of the stream."""
        self._waiting.append((_Kind.SENT, connection, bytes(data), at_ms))

    def received(self, connection: int, data: bytes, at_ms: float) -> None:
        """Note bytes that a client's transport has received: any piece of the stream."""
        self._waiting.append((_Kind.RECEIVED, connection, bytes(data), at_ms))

    def closed(self, connection: int, at_ms: float) -> None:
        """Note the end of a connection, by either side; harmless if it has ended before."""
        self._waiting.append((_Kind.CLOSED, connection, None, at_ms))

    def processed(self, mark: Processed) -> None:
        """Note that a service has processed a record; the mark gets its `order` from its place in the history."""
        self._waiting.append((_Kind.PROCESSED, 0, mark, mark.at_ms))

    @property
    def marked(self) -> list[Processed]:
        """What services have marked as processed so far."""
        self.decoded()
        return self._marked

    def sends(self) -> list[Sent]:
        """Return the same as `decoded().sent`, except for `order`.

        If nothing is decoded yet, only the requests to produce are: in most runs nothing else is asked for.
        """
        if self._decoder.order:
            return self.decoded().sent
        decoder = Decoder((ProduceRequest,))
        self._decode(decoder, self._waiting)
        return decoder.sent

    def decoded(self) -> Decoder:
        """Decode what has come since the last call, and return all that was decoded so far."""
        waiting, self._waiting = self._waiting, []
        self._marked += self._decode(self._decoder, waiting)
        return self._decoder

    @staticmethod
    def _decode(decoder: Decoder, calls: Iterable[_Call]) -> list[Processed]:
        """Give a decoder what calls have brought, and return the marks among them."""
        marked: list[Processed] = []
        for kind, connection, what, at_ms in calls:
            match kind, what:
                case _Kind.OPENED, _Opened():
                    decoder.opened(connection, *what)
                case _Kind.SENT, bytes():
                    decoder.bytes_sent(connection, what, at_ms)
                case _Kind.RECEIVED, bytes():
                    decoder.bytes_received(connection, what, at_ms)
                case _Kind.CLOSED, _:
                    decoder.closed(connection, at_ms)
                case _Kind.PROCESSED, Processed():
                    marked.append(what._replace(order=decoder.next_order()))
        return marked
