"""The simulated network: order of bytes, cut links, and the connections of killed and paused processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from understudy.clusters.simulated.loop import Process, SimulatedLoop, new_loop
from understudy.clusters.simulated.network import BUFFER_BYTES, SimulatedNetwork
from understudy.foundation.wire.network import Connection, ConnectionFailed, ConnectionLost


class Pair:
    """Two nodes: `broker-1` connects to `broker-2`, which sends back what it receives or only reads it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, seed=3)
        self.near, self.far = loop.process("broker-1"), loop.process("broker-2")
        self.near_network, self.far_network = self.network.node(self.near), self.network.node(self.far)
        self.received: list[bytes] = []
        self.ends: list[str] = []

    def serve(self, *, process: Process | None = None, start: bool = True, echo: bool = True) -> None:
        async def answer(connection: Connection) -> None:
            try:
                while data := await connection.receive():
                    self.received.append(data)
                    if echo:
                        await connection.send(data)
                self.ends.append("closed")
            except ConnectionLost:
                self.ends.append("lost")

        async def listen() -> None:
            server = await self.far_network.bind("broker-2", 9092, answer)
            if start:
                server.start()
            await asyncio.Event().wait()

        (process or self.far).spawn(listen())
        self.loop.run_for(0.1)

    def connect(self, timeout_ms: int = 1_000) -> Connection:
        connecting = self.near.spawn(self.near_network.connect("broker-2", 9092, timeout_ms=timeout_ms))
        self.loop.run_for(timeout_ms / 1000 + 0.1)
        return connecting.result()


@pytest.fixture
def pair() -> Iterator[Pair]:
    loop = new_loop()
    yield Pair(loop)
    loop.close()
    assert loop.failures == []


def test_bytes_are_received_in_the_order_in_which_they_were_sent(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()

    async def send_and_receive() -> bytes:
        for number in range(50):
            await connection.send(bytes([number]))
        back = b""
        while len(back) < 50:
            back += await connection.receive()
        return back

    exchange = pair.near.spawn(send_and_receive())
    pair.loop.run_for(1)
    assert exchange.result() == bytes(range(50))


def test_a_connection_without_a_listener_is_refused_and_over_a_cut_link_times_out(pair: Pair) -> None:
    with pytest.raises(ConnectionFailed, match="refused"):
        pair.connect()
    pair.serve()
    pair.network.partition(["broker-1"], ["broker-2"])
    with pytest.raises(ConnectionFailed, match="within 1000 ms"):
        pair.connect()
    pair.network.heal()
    pair.connect()


def test_a_connection_made_before_the_server_starts_waits_in_its_backlog(pair: Pair) -> None:
    pair.serve(start=False)
    connection = pair.connect()
    pair.near.spawn(connection.send(b"early"))
    pair.loop.run_for(1)
    assert pair.received == []


def test_a_cut_link_delays_bytes_and_loses_none(pair: Pair) -> None:
    pair.serve(echo=False)
    connection = pair.connect()
    pair.network.cut(["broker-1"], ["broker-2"])
    pair.near.spawn(connection.send(b"old request"))
    pair.loop.run_for(60)
    assert pair.received == []
    pair.near.kill()
    pair.network.heal()
    pair.loop.run_for(1)
    assert pair.received == [b"old request"]
    assert pair.ends == ["closed"]


def test_a_cut_of_one_direction_does_not_affect_the_other(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    pair.network.cut(["broker-2"], ["broker-1"])
    pair.near.spawn(connection.send(b"x"))
    pair.loop.run_for(1)
    assert pair.received == [b"x"]
    receiving = pair.near.spawn(connection.receive())
    pair.loop.run_for(5)
    assert not receiving.done()
    pair.network.heal()
    pair.loop.run_for(1)
    assert receiving.result() == b"x"


def test_a_delay_applies_each_way_until_it_is_healed(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()

    def exchange() -> float:
        async def send_and_receive() -> float:
            began = pair.loop.time()
            await connection.send(b"x")
            assert await connection.receive() == b"x"
            return pair.loop.time() - began

        exchanged = pair.near.spawn(send_and_receive())
        pair.loop.run_for(2)
        return exchanged.result()

    assert exchange() < 0.1
    pair.network.delay(["broker-1"], ["broker-2"], 300)
    assert 0.6 <= exchange() < 0.7
    pair.network.delay(["broker-1"], ["broker-2"], 0)
    assert exchange() < 0.1
    pair.network.delay(["broker-2"], ["broker-1"], 300)
    pair.network.heal()
    assert exchange() < 0.1


def test_a_killed_process_closes_its_connections_and_refuses_new_ones(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    receiving = pair.near.spawn(connection.receive())
    pair.far.kill()
    pair.loop.run_for(1)
    assert receiving.result() == b""
    with pytest.raises(ConnectionFailed, match="refused"):
        pair.connect()


def test_a_process_killed_with_unread_bytes_resets_its_connection(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    pair.far.pause()
    pair.near.spawn(connection.send(b"never read"))
    pair.loop.run_for(1)
    pair.far.kill()
    receiving = pair.near.spawn(connection.receive())
    pair.loop.run_for(1)
    assert isinstance(receiving.exception(), ConnectionLost)


def test_a_paused_process_accepts_a_connection_but_reads_only_after_it_is_resumed(pair: Pair) -> None:
    pair.serve()
    pair.far.pause()
    connection = pair.connect()
    pair.near.spawn(connection.send(b"hello"))
    pair.loop.run_for(5)
    assert pair.received == []
    pair.far.resume()
    pair.loop.run_for(1)
    assert pair.received == [b"hello"]


def test_a_sender_waits_while_the_receiver_does_not_read(pair: Pair) -> None:
    pair.serve(echo=False)
    connection = pair.connect()
    pair.far.pause()
    sent: list[int] = []

    async def flood() -> None:
        for number in range(10):
            await connection.send(bytes(BUFFER_BYTES // 4))
            sent.append(number)

    pair.near.spawn(flood())
    pair.loop.run_for(5)
    assert 4 <= len(sent) < 7
    pair.far.resume()
    pair.loop.run_for(5)
    assert len(sent) == 10


def test_a_second_process_cannot_bind_the_same_address(pair: Pair) -> None:
    pair.serve()
    with pytest.raises(ConnectionFailed, match="in use"):
        pair.loop.run_until_complete(pair.far_network.bind("", 9092, _serve_none))


def test_a_reset_of_a_nodes_connections_ends_both_ends(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    receiving = pair.near.spawn(connection.receive())
    pair.loop.run_for(0.1)
    pair.network.reset("broker-1")
    pair.loop.run_for(1)
    assert isinstance(receiving.exception(), ConnectionLost)
    assert pair.ends == ["lost"]


async def _serve_none(_: Connection) -> None:
    raise AssertionError("no connection is served in this test")


def test_a_frame_may_be_read_in_two_parts(pair: Pair) -> None:
    """TCP has no message boundaries: what was sent at once may be read in several parts."""
    pair.serve(echo=False)
    connection = pair.connect()
    sent = [f"frame {number};".encode() for number in range(400)]

    async def send() -> None:
        for data in sent:
            await connection.send(data)
            await asyncio.sleep(0.01)

    pair.near.spawn(send())
    pair.loop.run_for(10)
    assert b"".join(pair.received) == b"".join(sent)
    assert len(set(pair.received) - set(sent)) > 5, "no frame was read in two parts"
