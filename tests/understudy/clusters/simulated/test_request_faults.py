"""Faults of single requests and of links that carry less: what the other end of a connection receives, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from understudy.clusters.request_rules import KAFKA_REQUEST, Effect, RequestRule
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost


def request(number: int, *, api: int = 1, body: bytes = b"body") -> bytes:
    return KAFKA_REQUEST.pack(8 + len(body), api, 12, number) + body


class Link:
    """`broker-1` sends requests to `broker-2`, which answers each with its first twelve bytes."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self.network = SimulatedNetwork(self.loop, seed=3, latency_ms=(1.0, 1.0))
        self.near, self.far = self.loop.process("broker-1"), self.loop.process("broker-2")
        self.near_network, self.far_network = self.network.node(self.near), self.network.node(self.far)
        self.received: list[tuple[float, bytes]] = []
        self.answers: list[bytes] = []
        self.ends: list[str] = []

        async def listen() -> None:
            (await self.far_network.bind("broker-2", 9092, self._serve)).start()
            await asyncio.Event().wait()

        self.far.spawn(listen())
        self.loop.run_for(0.1)

    async def _serve(self, connection: Connection) -> None:
        try:
            while data := await connection.receive():
                self.received.append((self.loop.time(), data))
                if len(data) >= KAFKA_REQUEST.size:
                    correlation_id = KAFKA_REQUEST.unpack_from(data)[3]
                    await connection.send((8).to_bytes(4) + correlation_id.to_bytes(4) + b"done")
            self.ends.append("closed")
        except ConnectionLost:
            self.ends.append("lost")

    def connect(self) -> Connection:
        connecting = self.near.spawn(self.near_network.connect("broker-2", 9092, timeout_ms=1_000))
        self.loop.run_for(0.1)
        return connecting.result()

    def send(self, connection: Connection, *requests: bytes, seconds: float = 0.1) -> None:
        """Send requests, and collect the answers that come within `seconds`."""

        async def work() -> None:
            try:
                for each in requests:
                    await connection.send(each)
                while data := await connection.receive():
                    self.answers.append(data)
            except ConnectionLost:
                self.answers.append(b"lost")

        self.near.spawn(work())
        self.loop.run_for(seconds)

    def add(self, effect: Effect, *, api: int | None = None, delay_ms: float = 0.0, count: int = 1) -> None:
        self.network.requests.add(
            RequestRule(
                name="r",
                sources=("broker-1",),
                destinations=("broker-2",),
                effect=effect,
                api=api,
                delay_ms=delay_ms,
                count=count,
            )
        )

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.received)


@pytest.fixture
def link() -> Iterator[Link]:
    found = Link()
    yield found
    found.loop.close()
    assert found.loop.failures == []


def test_a_held_request_and_what_follows_it_arrive_once_it_is_released(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.HOLD, api=7)
    link.send(connection, request(1), request(2, api=7), request(3), seconds=1.0)
    assert link.data == request(1)
    assert link.network.requests.not_injected() == []
    connection.close()
    link.loop.run_for(0.1)
    assert link.ends == [], "the end of the connection waits behind the request"
    link.network.requests.remove("r")
    link.loop.run_for(0.1)
    assert link.data == request(1) + request(2, api=7) + request(3)
    assert len(link.ends) == 1


def test_a_delayed_request_arrives_later(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.DELAY, delay_ms=500)
    began = link.loop.time()
    link.send(connection, request(1), seconds=0.4)
    assert link.data == b""
    link.loop.run_for(0.2)
    assert link.data == request(1)
    assert link.received[0][0] - began > 0.5


def test_an_answer_is_lost_and_the_connection_with_it(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.LOSE_ANSWER)
    link.send(connection, request(1))
    assert link.data == request(1)
    assert link.answers == [b"lost"]


def test_a_request_is_lost_and_the_connection_with_it(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.CUT_BEFORE)
    link.send(connection, request(1))
    assert (link.data, link.answers, link.ends) == (b"", [b"lost"], ["lost"])


def test_a_connection_breaks_after_a_request_that_arrives(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.CUT_AFTER)
    link.send(connection, request(1))
    assert (link.data, link.answers) == (request(1), [b"lost"])


def test_a_request_arrives_twice_and_is_answered_once(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.DUPLICATE)
    link.send(connection, request(1))
    assert link.data == 2 * request(1)
    assert b"".join(link.answers).count(b"done") == 1
    link.send(connection, request(2))
    assert link.data.count(request(2)) == 1
    link.loop.run_for(6.0)
    assert len(link.ends) == 1, "the second connection is closed"


def test_requests_are_corrupted_and_shortened(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.CORRUPT, count=2)
    link.send(connection, request(1))
    assert len(link.data) == len(request(1))
    assert link.data != request(1)
    link.network.requests.clear()
    link.received.clear()
    link.add(Effect.SHORTEN, count=3)
    link.send(connection, request(2))
    assert link.data == request(2, body=b"b")


def test_a_rule_that_found_no_request_says_so(link: Link) -> None:
    connection = link.connect()
    link.add(Effect.HOLD, api=99)
    link.send(connection, request(1))
    missed = ["hold: broker-1 sent no such request to broker-2"]
    assert link.network.requests.not_injected() == missed
    link.network.requests.remove("r")
    assert link.network.requests.not_injected() == missed


def test_a_limited_link_takes_longer_for_more_bytes(link: Link) -> None:
    connection = link.connect()
    link.network.throttle(["broker-1"], ["broker-2"], 1_000)
    began = link.loop.time()
    link.send(connection, request(1, body=bytes(988)), seconds=0.9)
    assert link.data == b""
    link.loop.run_for(0.2)
    assert link.received[0][0] - began > 1.0
    link.network.throttle(["broker-1"], ["broker-2"], 0)
    link.send(connection, request(2))
    assert link.data.endswith(request(2))


def test_a_link_carries_pieces_one_after_the_other(link: Link) -> None:
    connection = link.connect()
    link.network.split(["broker-1"], ["broker-2"], 3)
    link.send(connection, request(1))
    assert link.data == request(1)
    assert [len(data) for _, data in link.received][:2] != [len(request(1))]
    assert len(link.received) >= 5
    assert link.received[-1][0] - link.received[0][0] > 0.004


def test_refused_connections_fail_and_open_ones_stay(link: Link) -> None:
    connection = link.connect()
    link.network.refuse(["broker-1"], ["broker-2"], True)
    connecting = link.near.spawn(link.near_network.connect("broker-2", 9092, timeout_ms=1_000))
    link.loop.run_for(0.1)
    assert isinstance(connecting.exception(), ConnectionFailed)
    link.send(connection, request(1))
    assert link.data == request(1)
    link.network.heal()
    link.connect().close()
