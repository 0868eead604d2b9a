"""Connections: order, bounds, and what hostile bytes can do, which is to lose their own connection."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import pytest

from brokers.apis import api_versions
from brokers.config.kafka_config import KafkaConfig
from brokers.machine.socket_network import SocketNetwork
from brokers.network import kafka_apis
from brokers.network.kafka_apis import LONG_REQUEST_BYTES, SERVED_VERSIONS, KafkaApis
from brokers.network.report_limit import IN_ALL, INTERVAL_MS, PER_ADDRESS
from brokers.network.socket_server import SocketServer
from foundation.cluster.errors import Errors
from foundation.wire.headers import decode_response, encode_request, encode_response
from foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from foundation.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from foundation.wire.network import Connection, ConnectionLost, Server
from foundation.wire.registry import api_by_key, api_of
from foundation.wire.schema import Message
from tests.brokers.services import Stage
from tests.operators_log import Line, operators_log

T = TypeVar("T")


class FakeConnection:
    """Bytes in by `feed`, bytes out in `sent`."""

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
    """Keeps what was bound, so that a test can play a peer."""

    def __init__(self) -> None:
        self.serve: Callable[[Connection], Awaitable[None]] | None = None

    async def connect(self, host: str, port: int, *, timeout_ms: int) -> Connection:
        raise AssertionError("a server does not connect")

    async def bind(self, host: str, port: int, serve: Callable[[Connection], Awaitable[None]]) -> Server:
        self.serve = serve
        return FakeServer()


class Played(NamedTuple):
    stage: Stage
    network: FakeNetwork
    apis: KafkaApis

    def connect(self, peer: str = "127.0.0.1:50000") -> tuple[FakeConnection, asyncio.Task[None]]:
        assert self.network.serve is not None
        connection = FakeConnection(peer)
        return connection, asyncio.ensure_future(self.network.serve(connection))

    def refusals(self) -> list[str]:
        return [str(refused["reason"]) for refused in self.stage.recorder.of("ConnectionRefused")]


async def play(**settings: str) -> Played:
    """A started server over a fake network."""
    properties = {"zookeeper.connect": "zk:1", "broker.id": "1"}
    config = KafkaConfig.from_properties(properties | {key.replace("_", "."): value for key, value in settings.items()})
    stage, network = Stage(config), FakeNetwork()
    server = SocketServer(config=lambda: config, network=network, events=stage.recorder.log, clock=stage.services.clock)
    await server.bind()
    apis = KafkaApis(stage.services, stage.supervisor)
    server.start(apis)
    return Played(stage, network, apis)


def frame(message: Message, correlation_id: int = 1, version: int | None = None) -> bytes:
    spoken = api_of(message).max_version if version is None else version
    return encode_request(message, spoken, correlation_id, "test")


def correlation_ids(connection: FakeConnection) -> list[int]:
    return [struct.unpack_from(">i", answer, 4)[0] for answer in connection.sent]


@pytest.mark.spec("D13")
def test_answers_leave_in_the_order_of_requests_though_the_first_takes_longest() -> None:
    async def scene() -> tuple[list[int], list[int]]:
        played = await play()
        played.stage.lead("orders", 0)
        connection, task = played.connect()
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

    early, late = asyncio.run(scene())
    assert early == []
    assert late == [1, 2, 3]


def test_a_long_request_is_decoded_in_another_thread() -> None:
    """What a broker is told of every partition keeps nobody else waiting while it is taken apart."""
    aside: list[int] = []

    async def offload(work: Callable[[], T]) -> T:
        aside.append(1)
        return work()

    async def scene() -> int:
        played = await play()
        apis = KafkaApis(replace(played.stage.services, offload=offload), played.stage.supervisor)
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

    assert asyncio.run(scene()) == 0
    assert len(aside) == 1


def test_a_client_that_does_not_read_is_not_read_either() -> None:
    async def scene() -> tuple[int, int]:
        played = await play()
        connection, task = played.connect()
        connection.may_send.clear()
        for number in range(50):
            connection.feed(frame(ApiVersionsRequest(), number, 0))
        await asyncio.sleep(0.01)
        waiting = connection._incoming.qsize()
        connection.may_send.set()
        connection.feed(b"")
        await task
        return waiting, len(connection.sent)

    waiting, answered = asyncio.run(scene())
    assert waiting == 49, "one request is under way, the others stay in the socket"
    assert answered == 50


def test_pipelined_requests_do_not_delay_other_connections() -> None:
    async def scene() -> list[int]:
        played = await play()
        greedy, greedy_task = played.connect()
        greedy.feed(frame(ApiVersionsRequest(), version=0) * 1_000)
        waiting = []
        for _ in range(5):
            modest, modest_task = played.connect()
            modest.feed(frame(ApiVersionsRequest(), version=0))
            modest.feed(b"")
            await modest_task
            waiting.append(len(greedy.sent))
        greedy.feed(b"")
        await greedy_task
        return [*waiting, len(greedy.sent)]

    *waiting, answered = asyncio.run(scene())
    assert waiting[-1] < 50, "answers to somebody else, while five clients waited for one answer each"
    assert answered == 1_000


def test_bytes_may_come_one_by_one() -> None:
    async def scene() -> list[int]:
        played = await play()
        connection, task = played.connect()
        for byte in frame(ApiVersionsRequest(), 7, 0):
            connection.feed(bytes((byte,)))
        connection.feed(b"")
        await task
        return correlation_ids(connection)

    assert asyncio.run(scene()) == [7]


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
            encode_response(api_of(MetadataRequest()), 12, 7, MetadataResponse()), "no such API", id="an answer"
        ),
    ],
)
def test_a_malformed_request_closes_its_own_connection_with_a_reason(data: bytes, reason: str) -> None:
    async def scene() -> tuple[Played, FakeConnection, FakeConnection]:
        played = await play()
        hostile, task = played.connect()
        innocent, other = played.connect("127.0.0.1:50001")
        hostile.feed(data)
        await task
        innocent.feed(frame(ApiVersionsRequest(), 5, 0))
        innocent.feed(b"")
        await other
        return played, hostile, innocent

    played, hostile, innocent = asyncio.run(scene())
    assert hostile.closed
    assert hostile.sent == []
    assert [reason in refused for refused in played.refusals()] == [True]
    assert correlation_ids(innocent) == [5]
    assert played.stage.recorder.of("TaskFailed") == []


@pytest.mark.spec("AP-4")
def test_an_api_that_is_not_served_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_apis, "_SERVED", ())

    async def scene() -> tuple[Played, FakeConnection]:
        played = await play()
        connection, task = played.connect()
        connection.feed(frame(MetadataRequest(), version=1))
        await task
        return played, connection

    played, connection = asyncio.run(scene())
    assert connection.closed
    assert ["Metadata v1 is not served here" in refused for refused in played.refusals()] == [True]


async def send_random_frames(played: Played, count: int, peer: Callable[[int], str]) -> None:
    source = random.Random(20_240)
    for number in range(count):
        connection, task = played.connect(peer(number))
        key, version = source.choice((1, 3, 4, 5, 6, 7, 18, 19, 20, 37, 43, 56, 60)), source.randrange(18)
        body = source.randbytes(source.randrange(60))
        head = struct.pack(">hhih", key, version, source.randrange(2**31), -1)
        connection.feed(struct.pack(">i", len(head) + len(body)) + head + body)
        connection.feed(b"")
        await task


def test_two_thousand_random_frames_do_nothing_but_close_connections() -> None:
    with operators_log(logging.DEBUG) as lines:
        played = asyncio.run(frames_of_one_peer(2_000))
    assert played.stage.recorder.of("TaskFailed") == []
    refused = [str(line.fields["why"]) for line in lines if line.text == "closing socket because of error"]
    assert len(refused) > 1_500
    assert not any("internal error" in reason for reason in refused)


async def frames_of_one_peer(count: int) -> Played:
    played = await play()
    await send_random_frames(played, count, lambda number: f"10.0.0.1:{40_000 + number}")
    return played


def test_a_peer_that_sends_garbage_makes_a_broker_write_ten_lines_a_minute() -> None:
    """A line and a record for each of 32,000 connections filled the disk with what somebody else had decided."""

    async def scene() -> tuple[list[dict[str, object]], list[dict[str, object]], list[Line]]:
        with operators_log() as lines:
            played = await frames_of_one_peer(500)
            flooded = played.stage.recorder.of("ConnectionRefused")
            played.stage.clock.now_ms += INTERVAL_MS
            connection, task = played.connect()
            connection.feed(struct.pack(">i", -1))
            await task
        return flooded, played.stage.recorder.of("ConnectionRefused")[len(flooded) :], lines

    flooded, later, lines = asyncio.run(scene())
    assert [record["left_out"] for record in flooded] == [0] * PER_ADDRESS
    ((left_out),) = [record["left_out"] for record in later]
    assert isinstance(left_out, int)
    assert left_out > 300, "refused, and neither logged nor recorded"
    assert [(line.level, line.fields["left_out"]) for line in lines] == [("warning", 0)] * PER_ADDRESS + [
        ("warning", left_out)
    ]


def test_all_peers_together_make_a_broker_write_a_hundred_lines_a_minute() -> None:
    async def scene() -> Played:
        played = await play()
        await send_random_frames(played, 1_000, lambda number: f"10.0.{number // 250}.{number % 250}:4000")
        return played

    with operators_log() as lines:
        played = asyncio.run(scene())
    assert len(played.refusals()) == len(lines) == IN_ALL


def test_a_connection_that_was_cut_leaves_nothing_in_memory() -> None:
    """Over real sockets: what 400 refused connections leave behind is what 200 of them do."""

    async def refused(port: int, count: int) -> int:
        """How many objects there are after `count` more connections were refused."""
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">i", -1))
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
        await asyncio.sleep(0)
        gc.collect()
        return len(gc.get_objects())

    async def scene() -> list[int]:
        config = KafkaConfig.from_properties(
            {"zookeeper.connect": "zk:1", "broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
        )
        stage = Stage(config)
        server = SocketServer(
            config=lambda: config, network=SocketNetwork(), events=stage.recorder.log, clock=stage.services.clock
        )
        ports = await server.bind_wildcard_ports()
        server.start(KafkaApis(stage.services, stage.supervisor))
        objects = [await refused(ports["PLAINTEXT"], 200) for _ in range(3)]
        await server.close()
        return objects

    _, after_400, after_600 = asyncio.run(scene())
    assert after_600 - after_400 < 100, "less than one object for each of 200 connections"


def test_a_request_that_breaks_its_handler_is_logged_with_its_traceback_ten_times_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def broken(*_: object) -> MetadataResponse:
        raise ZeroDivisionError("by nothing")

    async def scene() -> None:
        played = await play()
        monkeypatch.setitem(played.apis._served, 3, replace(played.apis._served[3], handle=broken))
        for _ in range(30):
            connection, task = played.connect()
            connection.feed(frame(MetadataRequest()))
            await task

    with operators_log() as lines:
        asyncio.run(scene())
    failed = [line for line in lines if line.level == "error"]
    assert [(line.logger, line.text) for line in failed] == [
        ("kafka.server.KafkaApis", "error when handling request")
    ] * PER_ADDRESS
    assert all(isinstance(line.fields["exc_info"], ZeroDivisionError) for line in failed)
    assert len(lines) == 2 * PER_ADDRESS


def test_a_request_that_never_becomes_whole_is_given_up() -> None:
    async def scene() -> tuple[list[str], bool]:
        played = await play(connections_max_idle_ms="30")
        connection, task = played.connect()
        for byte in frame(ApiVersionsRequest(), 7, 0)[:-1]:
            connection.feed(bytes((byte,)))
            await asyncio.sleep(0.004)
        await task
        return played.refusals(), connection.closed

    refusals, closed = asyncio.run(scene())
    assert refusals == ["no whole request for 30 ms (connections.max.idle.ms)"]
    assert closed


def test_an_answer_that_is_not_read_is_given_up_and_the_reason_says_so() -> None:
    async def scene() -> list[str]:
        played = await play(connections_max_idle_ms="30")
        connection, task = played.connect()
        connection.may_send.clear()
        connection.feed(frame(ApiVersionsRequest(), 7, 0))
        await task
        return played.refusals()

    assert asyncio.run(scene()) == ["an answer was not read for 30 ms (connections.max.idle.ms)"]


def test_a_fetch_that_waits_longer_than_the_idle_limit_is_given_up() -> None:
    async def scene() -> list[str]:
        played = await play(connections_max_idle_ms="30")
        played.stage.lead("orders", 0)
        connection, task = played.connect()
        partitions = (FetchPartition(partition=0, fetch_offset=0),)
        patient = FetchRequest(
            max_wait_ms=2**31 - 1, min_bytes=1, topics=(FetchTopic(topic="orders", partitions=partitions),)
        )
        connection.feed(frame(patient, version=11))
        connection.feed(b"")
        async with asyncio.timeout(5):
            await task
        return played.refusals()

    assert asyncio.run(scene()) == ["no answer was found for 30 ms (connections.max.idle.ms)"]


def test_a_negative_idle_limit_is_none() -> None:
    async def scene() -> tuple[list[int], list[str]]:
        played = await play(connections_max_idle_ms="-1")
        connection, task = played.connect()
        await asyncio.sleep(0.01)
        connection.feed(frame(ApiVersionsRequest(), 7, 0))
        connection.feed(b"")
        await task
        return correlation_ids(connection), played.refusals()

    assert asyncio.run(scene()) == ([7], [])


@pytest.mark.parametrize(("cut", "said"), [(0, []), (-1, ["connection ended inside a request"])])
def test_a_connection_that_ends_inside_a_request_leaves_a_line_at_debug(cut: int, said: list[str]) -> None:
    async def scene() -> None:
        played = await play()
        connection, task = played.connect()
        whole = frame(ApiVersionsRequest(), 7, 0)
        connection.feed(whole[: len(whole) + cut])
        connection.feed(b"")
        await task

    with operators_log(logging.DEBUG) as lines:
        asyncio.run(scene())
    assert [(line.level, line.text) for line in lines] == [("debug", text) for text in said]


@pytest.mark.spec("TC-5")
@pytest.mark.parametrize("name", ["x" * 32_767, "é" * 16_383, "x" * 250])
@pytest.mark.parametrize("version", [1, 7])
def test_the_longest_name_a_request_can_carry_is_refused_in_an_answer(name: str, version: int) -> None:
    async def scene() -> tuple[list[bytes], list[str]]:
        played = await play()
        connection, task = played.connect()
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        connection.feed(frame(CreateTopicsRequest(topics=(topic,)), 7, version))
        connection.feed(b"")
        await task
        return connection.sent, played.refusals()

    sent, refusals = asyncio.run(scene())
    assert refusals == []
    response = decode_response(api_of(CreateTopicsResponse), version, sent[0][4:])[1]
    assert isinstance(response, CreateTopicsResponse)
    assert response.topics[0].error_code == Errors.INVALID_TOPIC_EXCEPTION
    assert response.topics[0].name == name


def test_an_answer_that_cannot_be_sent_ends_its_connection_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    async def boasts(*_: object) -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 40_000)

    async def scene() -> tuple[list[str], bool]:
        played = await play()
        monkeypatch.setitem(played.apis._served, 3, replace(played.apis._served[3], handle=boasts))
        connection, task = played.connect()
        connection.feed(frame(MetadataRequest()))
        await task
        return played.refusals(), connection.closed

    [reason], closed = asyncio.run(scene())
    assert "MetadataResponse.cluster_id is a string of 40000 bytes" in reason
    assert closed


@pytest.mark.parametrize(
    ("settings", "peers", "served"),
    [
        ({"max_connections": "2"}, ("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"), [True, True, False]),
        ({"max_connections_per_ip": "1"}, ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"), [True, False, True]),
    ],
)
def test_connections_are_bounded_and_a_place_becomes_free_again(
    settings: dict[str, str], peers: tuple[str, ...], served: list[bool]
) -> None:
    async def scene() -> tuple[list[bool], bool]:
        played = await play(**settings)
        opened = [played.connect(peer) for peer in peers]
        await asyncio.sleep(0)
        open_now = [not connection.closed for connection, _ in opened]
        for connection, _ in opened:
            connection.feed(b"reset")
        await asyncio.gather(*(task for _, task in opened))
        again, task = played.connect(peers[0])
        await asyncio.sleep(0)
        still_open = not again.closed
        again.feed(b"")
        await task
        return open_now, still_open

    assert asyncio.run(scene()) == (served, True)


@pytest.mark.spec("AP-1", "AP-2")
@pytest.mark.parametrize("version", range(5))
def test_api_versions_lists_what_is_served(version: int) -> None:
    async def scene() -> Message:
        played = await play()
        hello = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        connection, task = played.connect()
        connection.feed(frame(hello, 1, version))
        connection.feed(b"")
        await task
        return decode_response(api_of(hello), version, connection.sent[0][4:])[1]

    response = asyncio.run(scene())
    assert isinstance(response, ApiVersionsResponse)
    assert response.api_keys == SERVED_VERSIONS
    assert {api.api_key for api in SERVED_VERSIONS}.isdisjoint({0, 2}), (
        "without logs neither Produce nor ListOffsets is served"
    )
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
def test_api_versions_from_the_future_is_answered_in_version_0(version: int) -> None:
    async def scene() -> Message:
        played = await play()
        connection, task = played.connect()
        header = struct.pack(">hhih", 18, version, 77, 1) + b"x" + b"\0"
        connection.feed(struct.pack(">i", len(header) + 3) + header + b"???")
        connection.feed(b"")
        await task
        return decode_response(api_of(ApiVersionsRequest), 0, connection.sent[0][4:])[1]

    response = asyncio.run(scene())
    assert isinstance(response, ApiVersionsResponse)
    assert response.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]
