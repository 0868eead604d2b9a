"""The proxy between two sockets of the test: what it forwards, holds, delays, changes and breaks."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from understudy.clusters.processes.proxy.connection import Language
from understudy.clusters.processes.proxy.frames import ZOOKEEPER_REQUEST
from understudy.clusters.processes.proxy.proxy import CLIENT, ZOOKEEPER, Proxy
from understudy.clusters.request_rules import KAFKA_ANSWER, KAFKA_REQUEST, Effect, LostWrite, RequestRule
from understudy.foundation.zk import jute
from understudy.foundation.zk.client import SetData

PATIENCE_S = 10.0
SILENCE_S = 0.2
"""How long a socket must receive nothing to show that bytes are held; with a proxy that holds none it fails."""
TO, BACK = (CLIENT, "broker-1"), ("broker-1", CLIENT)


class Node:
    """The node behind the proxy: its connections are accepted one by one."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(PATIENCE_S)

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listening.getsockname()
        return host, port

    def accept(self) -> socket.socket:
        accepted, _ = self.listening.accept()
        accepted.settimeout(PATIENCE_S)
        return accepted

    def has_waiting_connection(self) -> bool:
        self.listening.settimeout(SILENCE_S)
        try:
            self.listening.accept()[0].close()
        except TimeoutError:
            return False
        finally:
            self.listening.settimeout(PATIENCE_S)
        return True


@pytest.fixture
def node() -> Iterator[Node]:
    found = Node()
    yield found
    found.listening.close()


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    found = Proxy({"127.0.1.2": "broker-2"})
    yield found
    found.stop()


def connect(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), PATIENCE_S, source_address=(source, 0))


@pytest.fixture
def pair(proxy: Proxy, node: Node) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of one connection of a client to broker 1."""
    with connect(proxy.listen("broker-1", node.address)) as client, node.accept() as server:
        yield client, server


def request(correlation_id: int, api: int = 3, body: bytes = b"body") -> bytes:
    return KAFKA_REQUEST.pack(8 + len(body), api, 12, correlation_id) + body


def answer(correlation_id: int) -> bytes:
    return KAFKA_ANSWER.pack(8, correlation_id) + b"done"


def receive(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := end.recv(size - len(data))):
        data += more
    return data


def is_silent(end: socket.socket) -> bool:
    end.settimeout(SILENCE_S)
    try:
        end.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return True
    finally:
        end.settimeout(PATIENCE_S)
    return False


def is_reset(end: socket.socket) -> bool:
    try:
        return end.recv(1) == b"never"
    except ConnectionResetError:
        return True


def test_bytes_pass_both_ways_and_so_does_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    client.sendall(request(1))
    assert receive(server, 16) == request(1)
    server.sendall(answer(1))
    assert receive(client, 12) == answer(1)
    client.shutdown(socket.SHUT_WR)
    assert server.recv(1) == b""
    server.sendall(answer(2))
    server.close()
    assert receive(client, 100) == answer(2)


def test_a_large_stream_arrives_unchanged(pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    stream = b"".join(request(number, body=os.urandom(3_000_000 + number)) for number in range(3))
    sender = threading.Thread(target=client.sendall, args=(stream,))
    sender.start()
    assert receive(server, len(stream)) == stream
    sender.join(PATIENCE_S)


def test_a_reset_is_passed_on(proxy: Proxy, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    assert is_reset(server)


def test_a_node_that_does_not_listen_resets_the_connection(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    node.listening.close()
    with contextlib.suppress(ConnectionResetError), connect(port) as client:
        assert is_reset(client)


def test_a_held_link_delivers_late_in_order_and_completely(
    proxy: Proxy, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    proxy.hold([TO])
    client.sendall(request(1))
    client.sendall(request(2))
    assert is_silent(server)
    server.sendall(answer(9))  # the other direction passes
    assert receive(client, 12) == answer(9)
    client.close()
    assert is_silent(server)
    proxy.release([TO])
    assert receive(server, 32) == request(1) + request(2)
    assert server.recv(1) == b""


def test_a_held_link_leaves_the_bytes_in_the_kernel(proxy: Proxy, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    proxy.hold([TO])
    client.settimeout(SILENCE_S)
    stream = os.urandom(64 * 1024 * 1024)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < len(stream):
            sent += client.send(stream[sent : sent + 65536])
    assert sent < len(stream)
    proxy.release([TO])
    assert receive(server, sent) == stream[:sent]


def test_a_connection_over_a_held_link_is_opened_when_it_is_released(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    proxy.hold([TO])
    with connect(port) as client:
        client.sendall(request(1))
        assert not node.has_waiting_connection()
        proxy.release([TO])
        with node.accept() as server:
            assert receive(server, 16) == request(1)


def test_links_are_told_apart_by_the_source_address(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    with (
        connect(port) as client,
        node.accept() as from_client,
        connect(port, "127.0.1.2") as broker,
        node.accept() as from_broker,
    ):
        proxy.hold([("broker-2", "broker-1")])
        broker.sendall(request(1))
        client.sendall(request(2))
        assert receive(from_client, 16) == request(2)
        assert is_silent(from_broker)
        proxy.heal()
        assert receive(from_broker, 16) == request(1)


def test_a_reset_breaks_both_ends_and_new_connections_pass(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    with connect(port) as client, node.accept() as server:
        client.sendall(request(1))
        assert receive(server, 16) == request(1)
        assert proxy.reset([BACK]) == 1
        assert is_reset(client)
        assert is_reset(server)
        assert proxy.connections == 0
    with connect(port) as client, node.accept() as server:
        client.sendall(request(2))
        assert receive(server, 16) == request(2)


def test_refused_connections_are_reset_and_open_ones_stay(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    with connect(port) as client, node.accept() as server:
        proxy.refuse([TO], True)
        with contextlib.suppress(ConnectionResetError), connect(port) as refused:
            assert is_reset(refused)
        assert not node.has_waiting_connection()
        client.sendall(request(1))
        assert receive(server, 16) == request(1)
        proxy.refuse([TO], False)
        with connect(port) as again, node.accept() as accepted:
            again.sendall(request(2))
            assert receive(accepted, 16) == request(2)


def test_faults_that_found_no_request_are_named(proxy: Proxy, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    proxy.add_rule(rule(Effect.CORRUPT, api=3))
    proxy.lose_write("broker-1", LostWrite("/a", applied=True))
    missed = "corrupt: client sent no such request to broker-1"
    assert proxy.not_injected() == [missed, "lose-answer of broker-1 at /a"]
    proxy.remove_rule("r")
    assert missed in proxy.not_injected(), "a rule that was removed has changed nothing either"
    proxy.heal()
    proxy.add_rule(rule(Effect.CORRUPT, api=3))
    proxy.lose_write("broker-1", LostWrite("/a", applied=True))
    client.sendall(request(1, api=3))
    assert len(receive(server, 16)) == 16
    assert proxy.not_injected() == ["lose-answer of broker-1 at /a"]
    proxy.heal()
    assert proxy.not_injected() == []


def test_a_delay_applies_to_every_byte_and_keeps_their_order(
    proxy: Proxy, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    proxy.delay([TO], 150)
    began = time.monotonic()
    client.sendall(request(1))
    time.sleep(0.05)
    client.sendall(request(2))
    assert receive(server, 16) == request(1)
    assert time.monotonic() - began >= 0.15
    assert receive(server, 16) == request(2)
    assert time.monotonic() - began >= 0.2
    client.sendall(request(3))
    proxy.delay([TO], 0)
    client.sendall(request(4))
    client.close()
    assert receive(server, 100) == request(3) + request(4)


def test_a_throttled_link_passes_so_many_bytes_a_second(
    proxy: Proxy, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    proxy.throttle([TO], 100_000)
    began = time.monotonic()
    client.sendall(request(1, body=bytes(30_000)))
    assert len(receive(server, 30_012)) == 30_012
    assert time.monotonic() - began >= 0.3
    proxy.throttle([TO], 0)
    client.sendall(request(2))
    assert receive(server, 16) == request(2)


# ---------------------------------------------------------------------------- single requests


def rule(
    effect: Effect,
    *,
    api: int | None = None,
    nth: int = 1,
    every: int | None = None,
    delay_ms: float = 0.0,
    count: int = 1,
) -> RequestRule:
    return RequestRule(
        name="r",
        sources=(CLIENT,),
        destinations=("broker-1",),
        effect=effect,
        api=api,
        nth=nth,
        every=every,
        delay_ms=delay_ms,
        count=count,
    )


def test_one_request_is_held_until_its_rule_is_removed(proxy: Proxy, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    held = rule(Effect.HOLD, api=1, nth=2)
    proxy.add_rule(held)
    frames = [request(1, api=1), request(2, api=3), request(3, api=1), request(4, api=1)]
    client.sendall(b"".join(frames))
    assert receive(server, 32) == frames[0] + frames[1]
    assert is_silent(server)
    proxy.remove_rule("r")
    assert receive(server, 32) == frames[2] + frames[3]
    assert (held.matched, held.applied) == (2, 1)


def test_a_held_request_does_not_hold_other_connections(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    proxy.add_rule(rule(Effect.HOLD))
    with connect(port) as client, node.accept() as server, connect(port) as other, node.accept() as from_other:
        client.sendall(request(1))
        assert is_silent(server)
        other.sendall(request(2))
        assert receive(from_other, 16) == request(2)
        proxy.heal()
        assert receive(server, 16) == request(1)


def test_one_request_is_delayed(proxy: Proxy, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    proxy.add_rule(rule(Effect.DELAY, delay_ms=150.0, nth=2))
    began = time.monotonic()
    client.sendall(request(1) + request(2) + request(3))
    assert receive(server, 16) == request(1)
    assert receive(server, 32) == request(2) + request(3)
    assert time.monotonic() - began >= 0.15


def test_an_answer_is_lost_and_earlier_ones_are_not(proxy: Proxy, pair: tuple[socket.socket, socket.socket]) -> None:
    client, server = pair
    proxy.add_rule(rule(Effect.LOSE_ANSWER, nth=2))
    client.sendall(request(1) + request(2))
    assert receive(server, 32) == request(1) + request(2)
    server.sendall(answer(1))
    assert receive(client, 12) == answer(1)
    server.sendall(answer(2))
    assert is_reset(client)


@pytest.mark.parametrize(("effect", "arrives"), [(Effect.CUT_BEFORE, request(1)), (Effect.CUT_AFTER, request(1) * 2)])
def test_a_connection_is_cut_before_or_after_a_request(
    proxy: Proxy, pair: tuple[socket.socket, socket.socket], effect: Effect, arrives: bytes
) -> None:
    client, server = pair
    client.sendall(request(1))
    assert receive(server, 16) == request(1)
    proxy.add_rule(rule(effect))
    client.sendall(request(1) + request(2))
    assert is_reset(client)
    with contextlib.suppress(ConnectionResetError):
        assert request(1) + receive(server, 100) == arrives


def test_every_second_request_is_sent_twice(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    proxy.add_rule(rule(Effect.DUPLICATE, every=2))
    with connect(port) as client, node.accept() as server:
        client.sendall(request(1))
        with node.accept() as second:
            assert receive(second, 16) == request(1)
            second.sendall(answer(1))
            assert second.recv(1) == b""
        client.sendall(request(2) + request(3))
        with node.accept() as third:
            assert receive(third, 16) == request(3)
        assert receive(server, 48) == request(1) + request(2) + request(3)
        server.sendall(answer(1))
        assert receive(client, 12) == answer(1)


def test_one_request_is_corrupted_and_another_shortened(
    proxy: Proxy, pair: tuple[socket.socket, socket.socket]
) -> None:
    client, server = pair
    proxy.add_rule(rule(Effect.CORRUPT, count=1))
    client.sendall(request(1))
    changed = receive(server, 16)
    assert changed[:12] == request(1)[:12]
    assert changed != request(1)
    proxy.remove_rule("r")
    proxy.add_rule(rule(Effect.SHORTEN, count=3))
    client.sendall(request(2) + request(3))
    assert receive(server, 29) == request(2, body=b"b") + request(3)


# ---------------------------------------------------------------------------- ZooKeeper


@pytest.fixture
def session(proxy: Proxy, node: Node) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The two ends of a connection of broker 1 to ZooKeeper, after the connect request and its answer."""
    port = proxy.listen(ZOOKEEPER, node.address, source="broker-1", language=Language.ZOOKEEPER, chroot="/target")
    with connect(port) as client, node.accept() as server:
        client.sendall(struct.pack(">iiqiqi", 28, 0, 0, 3000, 0, 0))
        assert len(receive(server, 32)) == 32
        server.sendall(struct.pack(">iiiq", 16, 0, 3000, 1))
        assert len(receive(client, 20)) == 20
        yield client, server


def write(xid: int, path: str) -> bytes:
    body = jute.multi_request([SetData(path, b"1")], lambda found: "/target" + found)
    return ZOOKEEPER_REQUEST.pack(8 + len(body), xid, jute.MULTI) + body


def reply(xid: int) -> bytes:
    return struct.pack(">iiqi", 16, xid, 100, 0)


def test_a_write_is_applied_and_its_answer_lost(proxy: Proxy, session: tuple[socket.socket, socket.socket]) -> None:
    client, server = session
    proxy.lose_write("broker-1", LostWrite("target", applied=True))
    client.sendall(write(1, "/other"))  # the chroot is no part of the path
    client.sendall(write(2, "/a/target") + write(3, "/later"))
    expected = write(1, "/other") + write(2, "/a/target")
    assert receive(server, len(expected)) == expected
    server.sendall(reply(1) + reply(-1) + reply(2))
    assert receive(client, 20) == reply(1)
    assert is_reset(client)
    assert is_reset(server)


def test_a_write_is_lost_before_it_is_applied(proxy: Proxy, session: tuple[socket.socket, socket.socket]) -> None:
    client, server = session
    proxy.lose_write("broker-1", LostWrite("/a", applied=False))
    client.sendall(write(1, "/other") + write(2, "/a") + write(3, "/later"))
    assert is_reset(client)
    with contextlib.suppress(ConnectionResetError):
        assert receive(server, 1000) in (b"", write(1, "/other"))


def test_only_the_next_write_is_lost(proxy: Proxy, node: Node) -> None:
    port = proxy.listen(ZOOKEEPER, node.address, source="broker-1", language=Language.ZOOKEEPER)
    proxy.lose_write("broker-1", LostWrite("/a", applied=False))
    for _ in range(2):
        with connect(port) as client, node.accept() as server:
            client.sendall(struct.pack(">iiqiqi", 28, 0, 0, 3000, 0, 0))
            assert len(receive(server, 32)) == 32
            client.sendall(write(1, "/a"))
            arrived = b""
            with contextlib.suppress(ConnectionResetError):
                arrived = receive(server, len(write(1, "/a")))
    assert arrived == write(1, "/a")


def test_stop_resets_all_connections_and_closes_the_listeners(proxy: Proxy, node: Node) -> None:
    port = proxy.listen("broker-1", node.address)
    with connect(port) as client, node.accept():
        proxy.stop()
        proxy.stop()
        assert is_reset(client)
    with pytest.raises(ConnectionRefusedError):
        connect(port)
