"""The simulated network: bytes in order, late where a link was cut, ended where a process was killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from foundation.wire.network import Connection, ConnectionFailed, ConnectionLost
from understudy.simulator.loop import Process, SimulatedLoop, new_loop
from understudy.simulator.network import BUFFER_BYTES, SimulatedNetwork


class Pair:
    """`broker-1` connects to an echo, or to a listener that only listens, on `broker-2`."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.network = SimulatedNetwork(loop, seed=3)
        self.near, self.far = loop.process("broker-1"), loop.process("broker-2")
        self.near_network, self.far_network = self.network.node(self.near), self.network.node(self.far)
        self.got: list[bytes] = []
        self.ends: list[str] = []

    def serve(self, *, process: Process | None = None, start: bool = True, echo: bool = True) -> None:
        async def answer(connection: Connection) -> None:
            try:
                while data := await connection.receive():
                    self.got.append(data)
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


def test_bytes_come_back_in_order(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()

    async def talk() -> bytes:
        for number in range(50):
            await connection.send(bytes([number]))
        back = b""
        while len(back) < 50:
            back += await connection.receive()
        return back

    talking = pair.near.spawn(talk())
    pair.loop.run_for(1)
    assert talking.result() == bytes(range(50))


def test_nobody_listening_refuses_and_a_cut_link_times_out(pair: Pair) -> None:
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
    assert pair.got == []


def test_a_cut_delays_and_does_not_lose(pair: Pair) -> None:
    pair.serve(echo=False)
    connection = pair.connect()
    pair.network.cut(["broker-1"], ["broker-2"])
    pair.near.spawn(connection.send(b"old order"))
    pair.loop.run_for(60)
    assert pair.got == []
    pair.near.kill()
    pair.network.heal()
    pair.loop.run_for(1)
    assert pair.got == [b"old order"]
    assert pair.ends == ["closed"]


def test_a_cut_of_one_direction_lets_the_other_flow(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    pair.network.cut(["broker-2"], ["broker-1"])
    pair.near.spawn(connection.send(b"x"))
    pair.loop.run_for(1)
    assert pair.got == [b"x"]
    receiving = pair.near.spawn(connection.receive())
    pair.loop.run_for(5)
    assert not receiving.done()
    pair.network.heal()
    pair.loop.run_for(1)
    assert receiving.result() == b"x"


def test_the_death_of_a_process_ends_its_connections_and_refuses_new_ones(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    receiving = pair.near.spawn(connection.receive())
    pair.far.kill()
    pair.loop.run_for(1)
    assert receiving.result() == b""
    with pytest.raises(ConnectionFailed, match="refused"):
        pair.connect()


def test_a_process_killed_with_unread_bytes_resets(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    pair.far.pause()
    pair.near.spawn(connection.send(b"never read"))
    pair.loop.run_for(1)
    pair.far.kill()
    receiving = pair.near.spawn(connection.receive())
    pair.loop.run_for(1)
    assert isinstance(receiving.exception(), ConnectionLost)


def test_the_kernel_of_a_paused_process_accepts_and_nobody_reads(pair: Pair) -> None:
    pair.serve()
    pair.far.pause()
    connection = pair.connect()
    pair.near.spawn(connection.send(b"hello"))
    pair.loop.run_for(5)
    assert pair.got == []
    pair.far.resume()
    pair.loop.run_for(1)
    assert pair.got == [b"hello"]


def test_a_sender_waits_while_nobody_reads(pair: Pair) -> None:
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
        pair.loop.run_until_complete(pair.far_network.bind("", 9092, _nobody))


def test_a_reset_from_outside_is_heard_at_both_ends(pair: Pair) -> None:
    pair.serve()
    connection = pair.connect()
    receiving = pair.near.spawn(connection.receive())
    pair.loop.run_for(0.1)
    pair.network.reset("broker-1")
    pair.loop.run_for(1)
    assert isinstance(receiving.exception(), ConnectionLost)
    assert pair.ends == ["lost"]


async def _nobody(_: Connection) -> None:
    raise AssertionError("nobody may be served here")


def test_a_read_may_end_anywhere_and_loses_nothing(pair: Pair) -> None:
    """TCP is a stream: now and then what was sent at once is read in two."""
    pair.serve(echo=False)
    connection = pair.connect()
    sent = [f"frame {number};".encode() for number in range(400)]

    async def send() -> None:
        for data in sent:
            await connection.send(data)
            await asyncio.sleep(0.01)

    pair.near.spawn(send())
    pair.loop.run_for(10)
    assert b"".join(pair.got) == b"".join(sent)
    assert len(set(pair.got) - set(sent)) > 5, "no frame was ever cut in two"
