"""Measures what the proxy between broker processes costs: the latency of one request, and the throughput of a producer.

The latency is that of ApiVersions, sent to one broker directly and through its proxy in turn. The throughput is that of
confluent-kafka (librdkafka) with acks=all on three brokers, with the proxy and without in turn; replication goes
through the proxy, too.

UNDERSTUDY_BENCH_PROXY_MB (64) sets how much each round produces, UNDERSTUDY_BENCH_PROXY_REQUESTS (2000) how many
requests are sent each way.
"""

from __future__ import annotations

import os
import socket
import statistics
import time
from typing import Final

from confluent_kafka import Producer

from benchmarks.rows import Row
from foundation.wire.headers import encode_request
from foundation.wire.messages.api_versions import ApiVersionsRequest
from understudy.testbed.local_cluster import LocalCluster
from understudy.testbed.proxied_brokers import address_of

MEGABYTES = int(os.environ.get("UNDERSTUDY_BENCH_PROXY_MB", "64"))
REQUESTS = int(os.environ.get("UNDERSTUDY_BENCH_PROXY_REQUESTS", "2000"))
ROUNDS: Final = 5
RECORD: Final = os.urandom(1000)
PARTITIONS: Final = 6
TARGET_MICROSECONDS: Final = 100.0
TARGET_THROUGHPUT: Final = 1.1
PATIENCE_S: Final = 300.0


def run() -> list[Row]:
    """What a request takes longer, in microseconds, and milliseconds for each megabyte beside those without a proxy."""
    with LocalCluster(1, proxied=True) as cluster:
        direct, proxied = _latencies(cluster)
    rows = [
        Row("one request, microseconds; reference: without the proxy", proxied, direct, None),
        Row("added to one request, microseconds; reference: the target", proxied - direct, TARGET_MICROSECONDS, 1.0),
    ]
    with LocalCluster(3) as plain, LocalCluster(3, proxied=True) as through:
        for cluster in (plain, through):
            cluster.create_topic("load", partitions=PARTITIONS, replication_factor=3)
            cluster.settle()
            _produce(cluster)  # warm up
        taken = [(_produce(through), _produce(plain)) for _ in range(ROUNDS)]
    ours, reference = (statistics.median(each) for each in zip(*taken, strict=True))
    return [*rows, Row("produced with acks=all, ms per MB", ours, reference, TARGET_THROUGHPUT)]


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


def _produce(cluster: LocalCluster) -> float:
    """Milliseconds for each megabyte."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5, "queue.buffering.max.kbytes": 262_144}
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
