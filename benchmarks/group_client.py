"""A client of group coordinators that costs little: plain sockets, one thread, requests that are encoded once.

Both clusters of a benchmark are asked by it in the same way. A connection has one request in progress, as brokers
answer them one after the other.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from understudy.foundation.wire.headers import decode_response, encode_request
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.schema import Message

M = TypeVar("M", bound=Message)

PATIENCE_S: Final = 120.0
_SIZE: Final = struct.Struct(">i")
_CHUNK: Final = 1 << 18
_CLIENT_ID: Final = "benchmark"


class Address(NamedTuple):
    host: str
    port: int


class Connection:
    """One connection to a broker."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, frame: bytes) -> None:
        self._socket.sendall(frame)

    def receive(self) -> bytes | None:
        """Return an answer, without its size, if all of it is here after one more read; None otherwise."""
        data = self._socket.recv(_CHUNK)
        if not data:
            raise SystemExit("a broker closed the connection of a group's member")
        self._unread = self._unread + data if self._unread else data
        if len(self._unread) < _SIZE.size or len(self._unread) < _SIZE.size + _SIZE.unpack_from(self._unread)[0]:
            return None
        answer, self._unread = self._unread[_SIZE.size :], b""
        return answer

    def close(self) -> None:
        self._socket.close()


class Connections:
    """Connections that are waited for together, as a context manager that closes them."""

    def __init__(self, addresses: Iterable[Address]) -> None:
        self._epoll = select.epoll()
        self.all = [Connection(address) for address in addresses]
        self._by_fileno = {connection.fileno(): connection for connection in self.all}
        for fileno in self._by_fileno:
            self._epoll.register(fileno, select.EPOLLIN)

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self.all:
            connection.close()
        self._epoll.close()

    def answered(self, timeout_s: float) -> list[tuple[Connection, bytes]]:
        """Return the answers that have come, when there is one or the time is over."""
        found = []
        for fileno, _ in self._epoll.poll(timeout_s):
            connection = self._by_fileno[fileno]
            answer = connection.receive()
            if answer is not None:
                found.append((connection, answer))
        return found

    def ask(self, frames: Mapping[Connection, bytes], then: Callable[[Connection, bytes], bytes | None]) -> None:
        """Send each connection its frame, and on each answer what `then` returns, until nothing is to be sent."""
        for connection, frame in frames.items():
            connection.send(frame)
        left, deadline = len(frames), time.monotonic() + PATIENCE_S
        while left:
            if time.monotonic() > deadline:
                raise SystemExit(f"{left} answers of coordinators did not come within {PATIENCE_S:.0f} s")
            for connection, answer in self.answered(1.0):
                following = then(connection, answer)
                if following is None:
                    left -= 1
                else:
                    connection.send(following)
                    deadline = time.monotonic() + PATIENCE_S


def request_frame(request: Message, version: int) -> bytes:
    return encode_request(request, version, 0, _CLIENT_ID)


def response(answer: bytes, request: type[Message], version: int, expected: type[M]) -> M:
    """Decode an answer to a `request`."""
    _, message = decode_response(api_of(request), version, answer)
    assert isinstance(message, expected)
    return message


def ask_one(address: Address, frame: bytes) -> bytes:
    """Send one request over a new connection; return the answer, without its size."""
    answers: list[bytes] = []
    with Connections([address]) as connections:
        connections.ask({connections.all[0]: frame}, lambda _, answer: answers.append(answer))
    return answers[0]


def coordinators(bootstrap: Sequence[Address], groups: Sequence[str]) -> dict[str, Address]:
    """Return the coordinator of each group, as soon as all have one."""
    frame = request_frame(FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(groups)), 4)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = response(ask_one(bootstrap[0], frame), FindCoordinatorRequest, 4, FindCoordinatorResponse)
        errors = {each.error_code for each in found.coordinators}
        if errors == {0}:
            return {each.key: Address(each.host, each.port) for each in found.coordinators}
        if time.monotonic() > deadline:
            raise SystemExit(f"not every group has a coordinator after {PATIENCE_S:.0f} s: errors {sorted(errors)}")
        time.sleep(0.005)
