"""Tests of the metrics server: the response to `GET /metrics`, and the bounds on other requests and on connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from prometheus_client.parser import text_string_to_metric_families

from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.brokers.metrics.metrics_server import (
    ADDRESS_FILE,
    CONNECTIONS,
    REQUEST_BYTES,
    TIMEOUT_MS,
    MetricsServer,
    refusal,
)
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.foundation.metrics.mbeans import MBean, MetricKind, MetricReading
from understudy.foundation.wire.network import Connection, ConnectionFailed

T = TypeVar("T")

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: broker:7071\r\nAccept: text/plain;version=0.0.4\r\n\r\n"
BEAN = MBean("kafka.server", "Test", "Answer", MetricKind.GAUGE, "Of a test.")


async def collect() -> list[MetricReading]:
    return [MetricReading(BEAN, 42)]


async def whole_answer(connection: Connection) -> bytes:
    answer = b""
    while data := await connection.receive():
        answer += data
    return answer


class MetricsServerHarness:
    """A metrics server on one simulated node, and a client on another."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self.network = SimulatedNetwork(self.loop, seed=1)
        self.broker = self.loop.process("broker", 1)
        self.scraper = self.loop.process("scraper", 1)
        self.server = MetricsServer(network=self.network.node(self.broker), collect=collect)

    def __enter__(self) -> MetricsServerHarness:
        self.on(self.broker, self.server.start("0.0.0.0", 7071))
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.close()
        assert self.loop.failures == []

    def on(self, process: Any, coroutine: Coroutine[Any, Any, T]) -> T:
        result: T = self.loop.run_until_complete(process.spawn(coroutine))
        return result

    async def connect(self) -> Connection:
        return await self.network.node(self.scraper).connect("broker", 7071, timeout_ms=1_000)

    def ask(self, *pieces: bytes) -> bytes:
        async def asking() -> bytes:
            connection = await self.connect()
            for piece in pieces:
                await connection.send(piece)
            return await whole_answer(connection)

        return self.on(self.scraper, asking())


def test_scraper_gets_the_metrics_and_the_connection_is_closed() -> None:
    with MetricsServerHarness() as harness:
        head, _, body = harness.ask(SCRAPE).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 200 OK"
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in lines
    assert f"Content-Length: {len(body)}" in lines
    assert "Connection: close" in lines
    (family,) = text_string_to_metric_families(body.decode())
    assert (family.name, family.samples[0].value) == ("kafka_server_test_answer", 42.0)


@pytest.mark.parametrize(
    "pieces", [[SCRAPE[:1], SCRAPE[1:40], SCRAPE[40:]], [SCRAPE + b"GET /metrics HTTP/1.1\r\n\r\n"]]
)
def test_request_in_pieces_is_answered_and_bytes_after_it_are_ignored(pieces: list[bytes]) -> None:
    with MetricsServerHarness() as harness:
        assert harness.ask(*pieces).count(b"HTTP/1.1 200 OK") == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics HTTP/1.0\r\n\r\n", None),
        (b"GET /metrics?name=x HTTP/1.1\r\n\r\n", None),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", 404),
        (b"GET /../metrics HTTP/1.1\r\n\r\n", 404),
        (b"GET http://broker/metrics HTTP/1.1\r\n\r\n", 404),
        (b"POST /elsewhere HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", 405),
        (b"get /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x00\x00\x00\x12\x00\x12\x00\x00\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES, 431),
        (b"x" * REQUEST_BYTES, 431),
    ],
)
def test_other_requests_are_refused_with_the_reason(head: bytes, status: int | None) -> None:
    refused = refusal(head)
    assert (None if refused is None else int(refused.status[:3])) == status
    if refused is not None:
        assert refused.body
        assert (refused.allow == "GET") is (status == 405)
    with MetricsServerHarness() as harness:
        assert harness.ask(head).startswith(b"HTTP/1.1 %d " % (status or 200))
        assert harness.ask(SCRAPE).startswith(b"HTTP/1.1 200 ")


def test_request_of_exactly_the_allowed_size_is_answered() -> None:
    padding = REQUEST_BYTES - len(b"GET /metrics HTTP/1.1\r\nX: \r\n\r\n")
    assert refusal(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * padding + b"\r\n\r\n") is None
    assert refusal(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (padding + 1) + b"\r\n\r\n") is not None


def test_malformed_bytes_close_their_own_connection_only() -> None:
    random_bytes = random.Random(7)
    with MetricsServerHarness() as harness:
        for _ in range(50):
            junk = random_bytes.randbytes(random_bytes.randrange(1, 300)) + b"\r\n\r\n"
            assert harness.ask(junk).startswith(b"HTTP/1.1 400 ")
        assert harness.ask(SCRAPE).startswith(b"HTTP/1.1 200 ")


def test_slow_request_is_cut_off_by_the_timeout() -> None:
    async def dribble(harness: MetricsServerHarness) -> float:
        connection = await harness.connect()
        began = harness.loop.time()
        ended = asyncio.ensure_future(connection.receive())
        while not ended.done() and harness.loop.time() - began < 60:
            await connection.send(b"G")
            await asyncio.sleep(0.5)
        assert await ended == b""
        return (harness.loop.time() - began) * 1000

    with MetricsServerHarness() as harness:
        assert harness.on(harness.scraper, dribble(harness)) == pytest.approx(TIMEOUT_MS, abs=1_000)


def test_silent_connections_are_bounded_in_number_and_time() -> None:
    async def crowd(harness: MetricsServerHarness) -> tuple[bytes, bytes]:
        silent = [await harness.connect() for _ in range(CONNECTIONS)]
        await asyncio.sleep(0.1)
        late = await harness.connect()
        await late.send(SCRAPE)
        turned_away = await whole_answer(late)
        await asyncio.sleep(TIMEOUT_MS / 1000)
        again = await harness.connect()
        await again.send(SCRAPE)
        answer = await whole_answer(again)
        assert [await connection.receive() for connection in silent] == [b""] * CONNECTIONS
        return turned_away, answer

    with MetricsServerHarness() as harness:
        turned_away, answer = harness.on(harness.scraper, crowd(harness))
    assert turned_away == b""
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_scraper_that_closes_early_is_no_failure() -> None:
    async def leave(harness: MetricsServerHarness) -> None:
        for piece in (b"", SCRAPE[:20], SCRAPE):
            connection = await harness.connect()
            if piece:
                await connection.send(piece)
            connection.close()

    with MetricsServerHarness() as harness:
        harness.on(harness.scraper, leave(harness))
        harness.loop.run_for(1)
        assert harness.server._open == 0
        assert harness.ask(SCRAPE).startswith(b"HTTP/1.1 200 ")


def test_port_0_binds_a_free_port_and_a_port_in_use_is_an_error() -> None:
    async def scenario() -> tuple[bytes, bool, bool]:
        server, second = (MetricsServer(network=SocketNetwork(), collect=collect) for _ in range(2))
        port = await server.start("127.0.0.1", 0)
        connection = await SocketNetwork().connect("127.0.0.1", port, timeout_ms=1_000)
        await connection.send(SCRAPE)
        answer = await whole_answer(connection)
        connection.close()
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port} cannot be bound"):
            await second.start("127.0.0.1", port)
        return answer, await server.close(), await second.close()

    answer, was_open, second_was_open = asyncio.run(scenario())
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert (was_open, second_was_open) == (True, False)


# ------------------------------------------------------------------ a whole broker


def scrape(cluster: SimulatedCluster, broker_id: int) -> dict[str, float]:
    """The series without labels that the broker serves on port 7071, scraped from its own node."""
    process = cluster.broker(broker_id).node.process
    assert process is not None

    async def asking() -> bytes:
        connection = await cluster.network.node(process).connect("127.0.0.1", 7071, timeout_ms=1_000)
        await connection.send(SCRAPE)
        return await whole_answer(connection)

    answer = cluster.loop.run_until_complete(process.spawn(asking()))
    body = answer.partition(b"\r\n\r\n")[2].decode()
    found = (
        sample for family in text_string_to_metric_families(body) for sample in family.samples if not sample.labels
    )
    # The parser adds `_total` to the name of every counter.
    return {sample.name.replace("_count_total", "_count"): sample.value for sample in found}


@pytest.mark.spec("MT-3", "MT-4")
def test_metrics_show_the_controller_and_the_leader_counts() -> None:
    with SimulatedCluster(seed=3, brokers=3, settings={"metrics.port": "7071"}) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        cluster.settle()
        first = cluster.controller_id()
        assert first is not None
        found = {broker_id: scrape(cluster, broker_id) for broker_id in cluster.broker_ids}
        active = "kafka_controller_kafkacontroller_activecontrollercount"
        assert {broker_id: series[active] for broker_id, series in found.items()} == {
            broker_id: float(broker_id == first) for broker_id in cluster.broker_ids
        }
        for series in found.values():
            assert series["kafka_server_metadataloader_currentcontrollerid"] == first
            assert series["kafka_server_kafkaserver_brokerstate"] == 3
            assert series["kafka_server_replicamanager_partitioncount"] == 6
            assert series["kafka_server_replicamanager_underreplicatedpartitions"] == 0
        assert sum(series["kafka_server_replicamanager_leadercount"] for series in found.values()) == 6
        assert found[first]["kafka_controller_kafkacontroller_globalpartitioncount"] == 6
        assert found[first]["kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count"] > 10

        cluster.broker(first).kill()
        cluster.settle()
        left = {broker_id: scrape(cluster, broker_id) for broker_id in cluster.broker_ids if broker_id != first}
        assert sum(series[active] for series in left.values()) == 1
        assert sum(series["kafka_server_replicamanager_underreplicatedpartitions"] for series in left.values()) == 6


def test_scraping_changes_nothing_in_the_event_logs() -> None:
    def history(*, port: str | None) -> bytes:
        settings = {} if port is None else {"metrics.port": port}
        with SimulatedCluster(seed=5, brokers=3, settings=settings) as cluster:
            cluster.start()
            cluster.create_topic("orders", partitions=3, replication_factor=3)
            controller = cluster.controller_id()
            assert controller is not None
            cluster.broker(controller).kill()
            cluster.settle()
            return b"".join(cluster.log_lines)

    assert history(port=None) == history(port="7071")


def test_without_metrics_port_nothing_is_served() -> None:
    with SimulatedCluster(seed=3, brokers=1) as cluster:
        disk = cluster.broker(1).node.disk
        disk.write(ADDRESS_FILE, b"127.0.0.1:7071\n")  # as a killed broker leaves it
        cluster.start()
        with pytest.raises(ConnectionFailed, match="refused the connection: no process listens"):
            scrape(cluster, 1)
        assert disk.read(ADDRESS_FILE) is None
