"""Tests of the socket server: order of responses, bounds on connections, malformed and random bytes."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import random
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import pytest

from tests.brokers.harness import BrokerHarness
from tests.operators_log import Line, operators_log
from understudy.brokers.apis import api_versions
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import read_config
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.brokers.network import kafka_apis
from understudy.brokers.network.kafka_apis import LONG_REQUEST_BYTES, SERVED_VERSIONS, KafkaApis
from understudy.brokers.network.report_limit import IN_ALL, INTERVAL_MS, PER_ADDRESS
from understudy.brokers.network.socket_server import SocketServer
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.headers import decode_response, encode_request, encode_response
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from understudy.foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.foundation.wire.network import Connection, ConnectionLost, ServerSocket
from understudy.foundation.wire.registry import api_by_key, api_of
from understudy.foundation.wire.schema import Message

T = TypeVar("T")


class FakeConnection:
    """A connection to a client: `feed` adds bytes to receive, `sent` has what was sent."""

    def __init__(self, peer: str = "127.0.0.1:50000") -> None:
        self._peer = peer
        self._incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.sent: list[bytes] = []
        self.closed = False
        self.may_send = asyncio.Event()
        self.may_send.set()

    @property
    def peer(self) -> str:
        return self._peer

    def feed(self, data: bytes) -> None:
        self._incoming.put_nowait(data)

    async def send(self, data: bytes) -> None:
        await self.may_send.wait()
        self.sent.append(data)

    async def receive(self) -> bytes:
        data = await self._incoming.get()
        if data == b"reset":
            raise ConnectionLost("reset by peer")
        return data

    def close(self) -> None:
        self.closed = True


class FakeServer:
    port = 9092

    def start(self) -> None: ...

    async def close(self) -> None: ...


class FakeNetwork:
    """A network that keeps the handler of the bound listener, so that a test connects to it."""

    def __init__(self) -> None:
        self.serve: Callable[[Connection], Awaitable[None]] | None = None

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        raise AssertionError("a server does not connect")

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> ServerSocket:
        self.serve = serve
        return FakeServer()


class ServerHarness(NamedTuple):
    """A started socket server of a broker on a fake network."""

    broker: BrokerHarness
    network: FakeNetwork
    apis: KafkaApis
    config: list[KafkaConfig]
    """The configuration as it is now, alone in the list."""

    def use(self, **settings: str) -> None:
        """Change the configuration while the server runs; named as for `start_server`."""
        self.config[0] = config_with(settings)

    def connect(self, peer: str = "127.0.0.1:50000") -> tuple[FakeConnection, asyncio.Task[None]]:
        assert self.network.serve is not None
        connection = FakeConnection(peer)
        return connection, asyncio.ensure_future(self.network.serve(connection))

    def refusals(self) -> list[str]:
        return [str(refused["reason"]) for refused in self.broker.recorder.of("ConnectionRefused")]


async def start_server(**settings: str) -> ServerHarness:
    """Start a socket server on a fake network; `max_connections="2"` sets `max.connections`."""
    config = [config_with(settings)]
    broker, network = BrokerHarness(config[0]), FakeNetwork()
    server = SocketServer(
        config=lambda: config[0], network=network, events=broker.recorder.log, clock=broker.services.clock
    )
    await server.bind()
    apis = KafkaApis(broker.services, broker.supervisor)
    server.start(apis)
    return ServerHarness(broker, network, apis, config)


def config_with(settings: Mapping[str, str]) -> KafkaConfig:
    properties = {"zookeeper.connect": "zk:1", "broker.id": "1"}
    return read_config(properties | {key.replace("_", "."): value for key, value in settings.items()})


def frame(message: Message, correlation_id: int = 1, version: int | None = None) -> bytes:
    used_version = api_of(message).max_version if version is None else version
    return encode_request(message, used_version, correlation_id, "test")


def correlation_ids(connection: FakeConnection) -> list[int]:
    return [struct.unpack_from(">i", answer, 4)[0] for answer in connection.sent]


@pytest.mark.spec("D13")
def test_responses_are_sent_in_the_order_of_requests() -> None:
    async def scenario() -> tuple[list[int], list[int]]:
        harness = await start_server()
        harness.broker.become_leader("orders", 0)
        connection, task = harness.connect()
        partition = FetchPartition(partition=0, fetch_offset=0)
        slow = FetchRequest(max_wait_ms=200, min_bytes=1, topics=(FetchTopic(topic="orders", partitions=(partition,)),))
        connection.feed(
            frame(slow, 1, version=11) + frame(MetadataRequest(topics=()), 2) + frame(ApiVersionsRequest(), 3, 0)
        )
        await asyncio.sleep(0.02)
        early = correlation_ids(connection)
        connection.feed(b"")
        await task
        return early, correlation_ids(connection)

    early, late = asyncio.run(scenario())
    assert early == []
    assert late == [1, 2, 3]


def test_a_long_request_is_decoded_in_another_thread() -> None:
    """A control request with every partition must not delay the requests of other connections."""
    aside: list[int] = []

    async def offload(work: Callable[[], T]) -> T:
        aside.append(1)
        return work()

    async def scenario() -> int:
        harness = await start_server()
        apis = KafkaApis(replace(harness.broker.services, offload=offload), harness.broker.supervisor)
        short = MetadataRequest(topics=(MetadataRequestTopic(name="orders"),), allow_auto_topic_creation=False)
        await apis.handle(frame(short)[4:], listener="PLAINTEXT", peer="127.0.0.1:5")
        before = len(aside)
        many = tuple(MetadataRequestTopic(name=f"{number:09d}") for number in range(LONG_REQUEST_BYTES // 10))
        await apis.handle(
            frame(MetadataRequest(topics=many, allow_auto_topic_creation=False))[4:],
            listener="PLAINTEXT",
            peer="127.0.0.1:5",
        )
        return before

    assert asyncio.run(scenario()) == 0
    assert len(aside) == 1


def test_requests_of_a_client_that_does_not_read_responses_stay_in_its_socket() -> None:
    async def scenario() -> tuple[int, int]:
        harness = await start_server()
        connection, task = harness.connect()
        connection.may_send.clear()
        for number in range(50):
            connection.feed(frame(ApiVersionsRequest(), number, 0))
        await asyncio.sleep(0.01)
        waiting = connection._incoming.qsize()
        connection.may_send.set()
        connection.feed(b"")
        await task
        return waiting, len(connection.sent)

    waiting, answered = asyncio.run(scenario())
    assert waiting == 49, "one request is under way, the others stay in the socket"
    assert answered == 50


def test_pipelined_requests_do_not_delay_other_connections() -> None:
    async def scenario() -> list[int]:
        harness = await start_server()
        first, first_task = harness.connect()
        first.feed(frame(ApiVersionsRequest(), version=0) * 1_000)
        waiting = []
        for _ in range(5):
            other, other_task = harness.connect()
            other.feed(frame(ApiVersionsRequest(), version=0))
            other.feed(b"")
            await other_task
            waiting.append(len(first.sent))
        first.feed(b"")
        await first_task
        return [*waiting, len(first.sent)]

    *waiting, answered = asyncio.run(scenario())
    assert waiting[-1] < 50, "responses to the first client before five others got one response each"
    assert answered == 1_000


def test_request_is_received_byte_by_byte() -> None:
    async def scenario() -> list[int]:
        harness = await start_server()
        connection, task = harness.connect()
        for byte in frame(ApiVersionsRequest(), 7, 0):
            connection.feed(bytes((byte,)))
        connection.feed(b"")
        await task
        return correlation_ids(connection)

    assert asyncio.run(scenario()) == [7]


@pytest.mark.spec("AP-4")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(struct.pack(">i", -1), "-1 bytes", id="negative size"),
        pytest.param(struct.pack(">i", 352_518_912), "352518912 bytes", id="a TLS alert read as a size"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "bytes", id="HTTP"),
        pytest.param(struct.pack(">i", 2) + b"\0\3", "RequestHeader", id="half a header"),
        pytest.param(struct.pack(">ihhi", 8, 999, 0, 1), "no such API", id="unknown API"),
        pytest.param(frame(MetadataRequest())[:-3] + b"\xff\xff\xff", "MetadataRequest", id="a body that is none"),
        pytest.param(struct.pack(">ihhih", 10, 3, 99, 1, -1), "", id="unknown version"),
        pytest.param(
            # The upper half of its correlation id stands where a request has its API key.
            encode_response(api_of(MetadataRequest()), 12, 999 << 16, MetadataResponse()),
            "no such API",
            id="an answer",
        ),
    ],
)
def test_a_malformed_request_closes_its_own_connection_with_a_reason(data: bytes, reason: str) -> None:
    async def scenario() -> tuple[ServerHarness, FakeConnection, FakeConnection]:
        harness = await start_server()
        malformed, task = harness.connect()
        sound, other = harness.connect("127.0.0.1:50001")
        malformed.feed(data)
        await task
        sound.feed(frame(ApiVersionsRequest(), 5, 0))
        sound.feed(b"")
        await other
        return harness, malformed, sound

    harness, malformed, sound = asyncio.run(scenario())
    assert malformed.closed
    assert malformed.sent == []
    assert [reason in refused for refused in harness.refusals()] == [True]
    assert correlation_ids(sound) == [5]
    assert harness.broker.recorder.of("TaskFailed") == []


@pytest.mark.spec("AP-4")
def test_request_of_an_api_that_is_not_served_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_apis, "_SERVED", ())

    async def scenario() -> tuple[ServerHarness, FakeConnection]:
        harness = await start_server()
        connection, task = harness.connect()
        connection.feed(frame(MetadataRequest(), version=1))
        await task
        return harness, connection

    harness, connection = asyncio.run(scenario())
    assert connection.closed
    assert ["Metadata v1 is not served here" in refused for refused in harness.refusals()] == [True]


async def send_random_frames(harness: ServerHarness, count: int, peer: Callable[[int], str]) -> None:
    source = random.Random(20_240)
    for number in range(count):
        connection, task = harness.connect(peer(number))
        key, version = source.choice((1, 3, 4, 5, 6, 7, 18, 19, 20, 37, 43, 56, 60)), source.randrange(18)
        body = source.randbytes(source.randrange(60))
        head = struct.pack(">hhih", key, version, source.randrange(2**31), -1)
        connection.feed(struct.pack(">i", len(head) + len(body)) + head + body)
        connection.feed(b"")
        await task


def test_random_frames_close_their_connections_and_fail_no_task() -> None:
    with operators_log(logging.DEBUG) as lines:
        harness = asyncio.run(frames_of_one_peer(2_000))
    assert harness.broker.recorder.of("TaskFailed") == []
    refused = [str(line.fields["why"]) for line in lines if line.text == "closing socket because of error"]
    assert len(refused) > 1_500
    assert not any("internal error" in reason for reason in refused)


async def frames_of_one_peer(count: int) -> ServerHarness:
    harness = await start_server()
    await send_random_frames(harness, count, lambda number: f"10.0.0.1:{40_000 + number}")
    return harness


def test_refused_connections_of_one_address_are_logged_up_to_a_bound() -> None:
    """Otherwise a client fills the disk of a broker: one log line and one record per refused connection."""

    async def scenario() -> tuple[list[dict[str, object]], list[dict[str, object]], list[Line]]:
        with operators_log() as lines:
            harness = await frames_of_one_peer(500)
            flooded = harness.broker.recorder.of("ConnectionRefused")
            harness.broker.clock.now_ms += INTERVAL_MS
            connection, task = harness.connect()
            connection.feed(struct.pack(">i", -1))
            await task
        return flooded, harness.broker.recorder.of("ConnectionRefused")[len(flooded) :], lines

    flooded, later, lines = asyncio.run(scenario())
    assert [record["left_out"] for record in flooded] == [0] * PER_ADDRESS
    ((left_out),) = [record["left_out"] for record in later]
    assert isinstance(left_out, int)
    assert left_out > 300, "refused, and neither logged nor recorded"
    assert [(line.level, line.fields["left_out"]) for line in lines] == [("warning", 0)] * PER_ADDRESS + [
        ("warning", left_out)
    ]


def test_refused_connections_of_all_addresses_are_logged_up_to_a_bound() -> None:
    async def scenario() -> ServerHarness:
        harness = await start_server()
        await send_random_frames(harness, 1_000, lambda number: f"10.0.{number // 250}.{number % 250}:4000")
        return harness

    with operators_log() as lines:
        harness = asyncio.run(scenario())
    assert len(harness.refusals()) == len(lines) == IN_ALL


def test_refused_connections_leave_no_objects_in_memory() -> None:
    """Over real sockets: after 400 refused connections there are as many objects as after 600."""

    async def refused(port: int, count: int) -> int:
        """Have `count` connections refused, and return the number of objects in memory."""
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">i", -1))
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        await asyncio.sleep(0)
        gc.collect()
        return len(gc.get_objects())

    async def scenario() -> list[int]:
        config = read_config({"zookeeper.connect": "zk:1", "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"})
        broker = BrokerHarness(config)
        server = SocketServer(
            config=lambda: config, network=SocketNetwork(), events=broker.recorder.log, clock=broker.services.clock
        )
        ports = await server.bind_wildcard_ports()
        server.start(KafkaApis(broker.services, broker.supervisor))
        objects = [await refused(ports["PLAINTEXT"], 200) for _ in range(3)]
        await server.close()
        return objects

    _, after_400, after_600 = asyncio.run(scenario())
    assert after_600 - after_400 < 100, "less than one object for each of 200 connections"


def test_exceptions_of_a_handler_are_logged_with_traceback_up_to_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> MetadataResponse:
        raise ZeroDivisionError("by nothing")

    async def scenario() -> None:
        harness = await start_server()
        monkeypatch.setitem(harness.apis._served, 3, replace(harness.apis._served[3], handle=broken))
        for _ in range(30):
            connection, task = harness.connect()
            connection.feed(frame(MetadataRequest()))
            await task

    with operators_log() as lines:
        asyncio.run(scenario())
    failed = [line for line in lines if line.level == "error"]
    assert [(line.logger, line.text) for line in failed] == [
        ("kafka.server.KafkaApis", "error when handling request")
    ] * PER_ADDRESS
    assert all(isinstance(line.fields["exc_info"], ZeroDivisionError) for line in failed)
    assert len(lines) == 2 * PER_ADDRESS


def test_connection_with_an_incomplete_request_is_closed_after_the_idle_limit() -> None:
    async def scenario() -> tuple[list[str], bool]:
        harness = await start_server(connections_max_idle_ms="30")
        connection, task = harness.connect()
        for byte in frame(ApiVersionsRequest(), 7, 0)[:-1]:
            connection.feed(bytes((byte,)))
            await asyncio.sleep(0.004)
        await task
        return harness.refusals(), connection.closed

    with operators_log(logging.DEBUG) as lines:
        refusals, closed = asyncio.run(scenario())
    assert refusals == ["no whole request for 30 ms (connections.max.idle.ms)"]
    assert closed
    assert {line.level for line in lines if "idle" in line.text} == {"debug"}, "an operator sees no line, as in Kafka"
    assert not any(line.level == "warning" for line in lines)


def test_connection_whose_client_does_not_read_is_closed_after_the_idle_limit() -> None:
    async def scenario() -> list[str]:
        harness = await start_server(connections_max_idle_ms="30")
        connection, task = harness.connect()
        connection.may_send.clear()
        connection.feed(frame(ApiVersionsRequest(), 7, 0))
        await task
        return harness.refusals()

    assert asyncio.run(scenario()) == ["an answer was not read for 30 ms (connections.max.idle.ms)"]


def test_connection_with_a_waiting_fetch_is_closed_after_the_idle_limit() -> None:
    async def scenario() -> list[str]:
        harness = await start_server(connections_max_idle_ms="30")
        harness.broker.become_leader("orders", 0)
        connection, task = harness.connect()
        partitions = (FetchPartition(partition=0, fetch_offset=0),)
        long_wait = FetchRequest(
            max_wait_ms=2**31 - 1, min_bytes=1, topics=(FetchTopic(topic="orders", partitions=partitions),)
        )
        connection.feed(frame(long_wait, version=11))
        connection.feed(b"")
        async with asyncio.timeout(5):
            await task
        return harness.refusals()

    assert asyncio.run(scenario()) == ["no answer was found for 30 ms (connections.max.idle.ms)"]


def test_negative_idle_limit_means_no_limit() -> None:
    async def scenario() -> tuple[list[int], list[str]]:
        harness = await start_server(connections_max_idle_ms="-1")
        connection, task = harness.connect()
        await asyncio.sleep(0.01)
        connection.feed(frame(ApiVersionsRequest(), 7, 0))
        connection.feed(b"")
        await task
        return correlation_ids(connection), harness.refusals()

    assert asyncio.run(scenario()) == ([7], [])


def test_each_step_of_a_request_has_the_whole_idle_limit() -> None:
    async def scenario() -> list[str]:
        harness = await start_server(connections_max_idle_ms="1000")
        connection, task = harness.connect()
        for correlation_id in range(5):
            await asyncio.sleep(0.9)
            connection.feed(frame(ApiVersionsRequest(), correlation_id, 0))
        await asyncio.sleep(0.9)
        assert correlation_ids(connection) == [0, 1, 2, 3, 4]
        await task
        assert asyncio.get_running_loop().time() == pytest.approx(4.5 + 1.0)
        return harness.refusals()

    with contextlib.closing(new_loop()) as loop:
        assert loop.run_until_complete(scenario()) == ["no whole request for 1000 ms (connections.max.idle.ms)"]


def test_idle_limit_that_is_lowered_holds_from_the_next_step_on() -> None:
    async def scenario() -> list[str]:
        harness = await start_server(connections_max_idle_ms="600000")
        connection, task = harness.connect()
        await asyncio.sleep(1)
        harness.use(connections_max_idle_ms="1000")
        connection.feed(frame(ApiVersionsRequest(), 7, 0))
        await task
        assert asyncio.get_running_loop().time() == pytest.approx(1.0 + 1.0)
        return harness.refusals()

    with contextlib.closing(new_loop()) as loop:
        assert loop.run_until_complete(scenario()) == ["no whole request for 1000 ms (connections.max.idle.ms)"]


@pytest.mark.parametrize(("cut", "logged"), [(0, []), (-1, ["connection ended inside a request"])])
def test_connection_that_ends_inside_a_request_is_logged_at_debug(cut: int, logged: list[str]) -> None:
    async def scenario() -> None:
        harness = await start_server()
        connection, task = harness.connect()
        whole = frame(ApiVersionsRequest(), 7, 0)
        connection.feed(whole[: len(whole) + cut])
        connection.feed(b"")
        await task

    with operators_log(logging.DEBUG) as lines:
        asyncio.run(scenario())
    assert [(line.level, line.text) for line in lines] == [("debug", text) for text in logged]


@pytest.mark.spec("TC-5")
@pytest.mark.parametrize("name", ["x" * 32_767, "é" * 16_383, "x" * 250])
@pytest.mark.parametrize("version", [1, 7])
def test_longest_topic_names_are_refused_with_a_response(name: str, version: int) -> None:
    async def scenario() -> tuple[list[bytes], list[str]]:
        harness = await start_server()
        connection, task = harness.connect()
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        connection.feed(frame(CreateTopicsRequest(topics=(topic,)), 7, version))
        connection.feed(b"")
        await task
        return connection.sent, harness.refusals()

    sent, refusals = asyncio.run(scenario())
    assert refusals == []
    response = decode_response(api_of(CreateTopicsResponse), version, sent[0][4:])[1]
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == Errors.INVALID_TOPIC_EXCEPTION
    assert response.topics[0].name == name


def test_response_that_cannot_be_encoded_closes_its_connection_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def too_long(*_: object) -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 40_000)

    async def scenario() -> tuple[list[str], bool]:
        harness = await start_server()
        monkeypatch.setitem(harness.apis._served, 3, replace(harness.apis._served[3], handle=too_long))
        connection, task = harness.connect()
        connection.feed(frame(MetadataRequest()))
        await task
        return harness.refusals(), connection.closed

    [reason], closed = asyncio.run(scenario())
    assert "MetadataResponse.cluster_id is a string of 40000 bytes" in reason
    assert closed


@pytest.mark.parametrize(
    ("settings", "peers", "served"),
    [
        ({"max_connections": "2"}, ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"), [True, True, False]),
        ({"max_connections_per_ip": "1"}, ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"), [True, False, True]),
    ],
)
def test_connections_beyond_the_limit_are_closed_until_another_ends(
    settings: dict[str, str], peers: tuple[str, ...], served: list[bool]
) -> None:
    async def scenario() -> tuple[list[bool], bool]:
        harness = await start_server(**settings)
        opened = [harness.connect(peer) for peer in peers]
        await asyncio.sleep(0)
        open_now = [not connection.closed for connection, _ in opened]
        for connection, _ in opened:
            connection.feed(b"reset")
        await asyncio.gather(*(task for _, task in opened))
        again, task = harness.connect(peers[0])
        await asyncio.sleep(0)
        still_open = not again.closed
        again.feed(b"")
        await task
        return open_now, still_open

    assert asyncio.run(scenario()) == (served, True)


@pytest.mark.spec("AP-1", "AP-2")
@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_the_served_apis(version: int) -> None:
    async def scenario() -> Message:
        harness = await start_server()
        hello = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        connection, task = harness.connect()
        connection.feed(frame(hello, 1, version))
        connection.feed(b"")
        await task
        return decode_response(api_of(hello), version, connection.sent[0][4:])[1]

    response = asyncio.run(scenario())
    assert isinstance(response, ApiVersionsResponse)
    assert response.api_keys == SERVED_VERSIONS
    keys = {api.api_key for api in SERVED_VERSIONS}
    assert keys == {*range(52), *range(56, 59), 60, 61, *range(65, 70)}, (
        "Kafka 3.9.1 in ZooKeeper mode advertises these"
    )
    for served in SERVED_VERSIONS:
        api = api_by_key(served.api_key)
        assert api is not None
        assert (served.min_version, served.max_version) == (api.min_version, api.max_version), api.name
    for served in SERVED_VERSIONS:
        api = api_by_key(served.api_key)
        assert api is not None
        assert api.min_version <= served.min_version <= served.max_version <= api.max_version


@pytest.mark.parametrize(
    ("name", "version", "valid"),
    [
        ("librdkafka", 3, True),
        ("a", 4, True),
        ("a b", 3, False),
        ("", 4, False),
        ("-a", 4, False),
        ("a\n", 3, False),
        ("", 2, True),
    ],
)
def test_a_malformed_software_name_is_refused(name: str, version: int, valid: bool) -> None:
    hello = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    response = api_versions.answer(hello, version, SERVED_VERSIONS, None)
    assert (response.error_code, response.api_keys) == ((0, SERVED_VERSIONS) if valid else (42, ()))


@pytest.mark.spec("AP-2")
@pytest.mark.parametrize("version", [5, 99, 32767])
def test_unknown_version_of_api_versions_is_answered_in_version_0(version: int) -> None:
    async def scenario() -> Message:
        harness = await start_server()
        connection, task = harness.connect()
        header = struct.pack(">hhih", 18, version, 77, 1) + b"x" + b"\0"
        connection.feed(struct.pack(">i", len(header) + 3) + header + b"???")
        connection.feed(b"")
        await task
        return decode_response(api_of(ApiVersionsRequest), 0, connection.sent[0][4:])[1]

    response = asyncio.run(scenario())
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]
