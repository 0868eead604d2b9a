"""Measures what the proxy between broker processes costs: the latency of one request, and the throughput of a producer.

The latency is measured with ApiVersions, sent to one broker directly and through its proxy in turn. The throughput is
measured with confluent-kafka (librdkafka) with acks=all on three brokers, with the proxy and without in turn;
replication also goes through the proxy. The producer is a separate process: in the proxy's process, both would wait
for the one interpreter. A relay in the place of the proxy that only copies bytes shows the floor: the cost of the same
event loop and sockets without faults.

UNDERSTUDY_BENCH_PROXY_MB (64) sets how much each round produces, UNDERSTUDY_BENCH_PROXY_REQUESTS (2000) how many
requests are sent each way.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Final
from unittest import mock

from confluent_kafka import Producer

from benchmarks.rows import Row
from understudy.clusters.processes import proxied_brokers
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.proxied_brokers import address_of
from understudy.clusters.processes.proxy.connection import Language
from understudy.clusters.processes.proxy.proxy import Proxy
from understudy.foundation.wire.headers import encode_request
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest

MEGABYTES = int(os.environ.get("UNDERSTUDY_BENCH_PROXY_MB", "64"))
REQUESTS = int(os.environ.get("UNDERSTUDY_BENCH_PROXY_REQUESTS", "2000"))
ROUNDS: Final = 9
RECORD: Final = os.urandom(1000)
PARTITIONS: Final = 6
TARGET_MICROSECONDS: Final = 100.0
TARGET_THROUGHPUT: Final = 1.1
PATIENCE_S: Final = 300.0


def run() -> list[Row]:
    """Measure the microseconds that a proxy adds to a request, and milliseconds a megabyte with and without it."""
    with LocalCluster(1, proxied=True) as cluster:
        direct, proxied = _latencies(cluster)
    with _relayed(), LocalCluster(1, proxied=True) as cluster:
        direct_beside_relay, relayed = _latencies(cluster)
    rows = [
        Row("one request, microseconds; reference: without the proxy", proxied, direct, None),
        Row("added to one request, microseconds; reference: the target", proxied - direct, TARGET_MICROSECONDS, 1.0),
        Row(
            "added by a relay that only copies; reference: the target",
            relayed - direct_beside_relay,
            TARGET_MICROSECONDS,
            None,
        ),
    ]
    with contextlib.ExitStack() as clusters:
        client = clusters.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))

        def produce(cluster: LocalCluster) -> float:
            return client.submit(_produce, cluster.bootstrap).result(PATIENCE_S)

        with _relayed():
            relay = clusters.enter_context(LocalCluster(3, proxied=True))
        through = clusters.enter_context(LocalCluster(3, proxied=True))
        plain = clusters.enter_context(LocalCluster(3))
        for cluster in (through, relay, plain):
            cluster.create_topic("load", partitions=PARTITIONS, replication_factor=3)
            cluster.settle()
            produce(cluster)  # warm up
        taken = [(produce(through), produce(relay), produce(plain)) for _ in range(ROUNDS)]
    ours, floor, reference = (statistics.median(each) for each in zip(*taken, strict=True))
    return [
        *rows,
        Row("produced with acks=all, ms per MB", ours, reference, TARGET_THROUGHPUT),
        Row("the same through a relay that only copies", floor, reference, None),
    ]


class _Relay(asyncio.Protocol):
    """One of the two sockets of a relayed connection; it copies bytes and does nothing else.

    Args:
        address: the address that the second socket connects to; None for the second one.
    """

    transport: asyncio.Transport

    def __init__(self, address: tuple[str, int] | None, peer: _Relay | None = None) -> None:
        self._address = address
        self._peer = peer
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        if self._address is not None:
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        assert self._address is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                _, self._peer = await asyncio.get_running_loop().create_connection(
                    lambda: _Relay(None, self), *self._address
                )
        except OSError:
            self.transport.abort()
        else:
            self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._peer is not None:
            self._peer.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._peer is not None:
            self._peer.transport.close()

    def pause_writing(self) -> None:
        if self._peer is not None:
            self._peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._peer is not None:
            self._peer.transport.resume_reading()


class _RelayingProxy(Proxy):
    """A proxy whose listeners copy bytes, and inject no fault."""

    def listen(
        self,
        destination: str,
        address: tuple[str, int],
        *,
        bound: tuple[str, int] = ("127.0.0.1", 0),
        source: str | None = None,
        language: Language = Language.KAFKA,
        chroot: str = "",
        election_address: Callable[[], str] | None = None,
    ) -> int:
        listening = socket.create_server(bound)
        port: int = listening.getsockname()[1]

        async def serve() -> None:
            loop = asyncio.get_running_loop()
            self._servers.append(await loop.create_server(lambda: _Relay(address), sock=listening))

        self._thread.ask(serve(), PATIENCE_S)
        return port


@contextlib.contextmanager
def _relayed() -> Iterator[None]:
    """Let the proxied clusters that start in the block have the relay."""
    with mock.patch.object(proxied_brokers.ProxiedBrokers, "listen", _RelayingProxy.listen):
        yield


def _latencies(cluster: LocalCluster) -> tuple[float, float]:
    """The median microseconds of one request, sent directly and through the proxy in turn."""
    listener = cluster.broker(1).process.properties["listeners"]
    port = int(listener.rpartition(":")[2])
    with (
        socket.create_connection((address_of(1), port)) as direct,
        socket.create_connection(("127.0.0.1", cluster.broker(1).process.port)) as proxied,
    ):
        for connection in (direct, proxied):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = [(_roundtrip(direct), _roundtrip(proxied)) for _ in range(REQUESTS)]
    directly, through = (statistics.median(each) for each in zip(*taken, strict=True))
    return directly, through


def _roundtrip(connection: socket.socket) -> float:
    request = encode_request(ApiVersionsRequest(), 0, 1, "benchmark")
    began = time.perf_counter()
    connection.sendall(request)
    size = int.from_bytes(_received(connection, 4), "big")
    _received(connection, size)
    return (time.perf_counter() - began) * 1e6


def _received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := connection.recv(size - len(data))):
            raise ConnectionError("the broker has closed the connection")
        data += more
    return data


def _produce(bootstrap: str) -> float:
    """Milliseconds for each megabyte."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "queue.buffering.max.kbytes": 262_144}
    )
    count = MEGABYTES * 1_000_000 // len(RECORD)
    began = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce("load", RECORD)
                break
            except BufferError:
                producer.poll(0.05)
    if left := producer.flush(PATIENCE_S):
        raise RuntimeError(f"{left} records were not delivered within {PATIENCE_S:g} s")
    return (time.perf_counter() - began) * 1000 / MEGABYTES
