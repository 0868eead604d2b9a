"""Keeps the bytes that pass between client processes and brokers, and decodes them when it is asked for them."""

from __future__ import annotations


class WireHistory:
    """Takes what the transports of client processes send and receive. Each call appends, and decodes nothing.

    Bytes are those of Kafka's protocol, decrypted if the connection uses TLS. A connection is known by a number that
    no other one of the run has.
    """

    def opened(self, connection: int, process: str, incarnation: int, broker: str, at_ms: float) -> None:
        """Note a connection that a client process has opened to the address `broker`."""
        raise NotImplementedError

    def sent(self, connection: int, data: bytes, at_ms: float) -> None:
        """Note bytes that a client has sent: any piece of the stream."""
        raise NotImplementedError

    def received(self, connection: int, data: bytes, at_ms: float) -> None:
        """Note bytes that a client's transport has received: any piece of the stream."""
        raise NotImplementedError

    def closed(self, connection: int, at_ms: float) -> None:
        """Note the end of a connection, whoever ended it; harmless if it has ended before."""
        raise NotImplementedError
