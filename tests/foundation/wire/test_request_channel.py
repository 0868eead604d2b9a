"""A request channel has one request in flight, and closes when its response is missing, late or malformed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from struct import pack

import pytest

from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion
from understudy.foundation.wire.headers import decode_request, encode_response
from understudy.foundation.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from understudy.foundation.wire.messages.produce import ProduceRequest
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest, StopReplicaTopicV1
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from understudy.foundation.wire.network import ConnectionLost
from understudy.foundation.wire.registry import api_of
from understudy.foundation.wire.request_channel import RequestChannel, RequestTimedOut

REQUEST = UpdateMetadataRequest(controller_id=1)
ANSWER = UpdateMetadataResponse(error_code=77)


class FakeConnection:
    """A connection whose peer sends back the chunks that `answer` returns for a frame, and then nothing more."""

    def __init__(self, answer: Callable[[bytes], list[bytes]]) -> None:
        self.answer = answer
        self.sent: list[bytes] = []
        self.incoming: list[bytes] = []
        self.closed = asyncio.Event()
        self.is_full = False

    @property
    def peer(self) -> str:
        return "127.0.0.1:9092"

    async def send(self, data: bytes) -> None:
        if self.is_full:
            await self.closed.wait()
            raise ConnectionLost("closed by us")
        self.sent.append(data)
        self.incoming += self.answer(data)

    async def receive(self) -> bytes:
        if not self.incoming:
            await self.closed.wait()
            raise ConnectionLost("closed by us")
        return self.incoming.pop(0)

    def close(self) -> None:
        self.closed.set()


def answered(frame: bytes) -> list[bytes]:
    header, message = decode_request(frame[4:])
    return [encode_response(api_of(message), header.api_version, header.correlation_id, ANSWER)]


def run(scenario: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(scenario, 30))


def channel_to(answer: Callable[[bytes], list[bytes]]) -> tuple[RequestChannel, FakeConnection]:
    connection = FakeConnection(answer)
    return RequestChannel(connection, client_id="1"), connection


def test_responses_are_decoded_and_correlation_ids_increase() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(answered)
        for expected in range(3):
            assert channel.next_correlation_id == expected
            assert await channel.request(REQUEST, 8, timeout_ms=1000) == ANSWER
        headers = [decode_request(frame[4:])[0] for frame in connection.sent]
        assert [(header.correlation_id, header.client_id) for header in headers] == [(0, "1"), (1, "1"), (2, "1")]

    run(scenario())


def test_a_response_may_arrive_byte_by_byte() -> None:
    async def scenario() -> None:
        channel, _ = channel_to(lambda frame: [bytes([byte]) for byte in answered(frame)[0]])
        assert await channel.request(REQUEST, 8, timeout_ms=1000) == ANSWER
        assert await channel.request(REQUEST, 5, timeout_ms=1000) == ANSWER

    run(scenario())


def test_a_missing_response_is_a_timeout_and_closes_the_connection() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(lambda frame: [])
        with pytest.raises(RequestTimedOut, match=r"127\.0\.0\.1:9092: no answer to UpdateMetadata 0 within 20 ms"):
            await channel.request(REQUEST, 8, timeout_ms=20)
        assert connection.closed.is_set()
        assert channel.is_closed
        with pytest.raises(ConnectionLost, match="channel is closed"):
            await channel.request(REQUEST, 8, timeout_ms=20)

    run(scenario())


def test_an_end_of_stream_before_the_response_is_a_lost_connection() -> None:
    async def scenario() -> None:
        channel, _ = channel_to(lambda frame: [answered(frame)[0][:5], b""])
        with pytest.raises(ConnectionLost, match="closed before answering UpdateMetadata 0"):
            await channel.request(REQUEST, 8, timeout_ms=1000)
        assert channel.is_closed

    run(scenario())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda frame: [encode_response(api_of(REQUEST), 8, 5, ANSWER)], "correlation_id at offset 0: 5; expected 0"),
        (lambda frame: [answered(frame)[0] * 2], "UpdateMetadataResponse v8: frame .* more than one answer"),
        (lambda frame: [answered(frame)[0] + b"\0"], "more than one answer"),
        (lambda frame: [pack(">i", -1)], "frame announces -1 bytes"),
        (
            lambda frame: [pack(">i", 2000)],
            r"frame announces 2000 bytes; expected 0 to 1000 \(the largest response taken\)",
        ),
        (lambda frame: [pack(">iib", 5, 0, 0)], r"UpdateMetadataResponse v8: error_code at offset 0"),
        (lambda frame: [pack(">ihhihh", 12, 0, 0, 0, 0, 0)], "UpdateMetadataResponse"),
    ],
)
def test_a_malformed_response_closes_the_connection(answer: Callable[[bytes], list[bytes]], text: str) -> None:
    async def scenario() -> None:
        connection = FakeConnection(answer)
        channel = RequestChannel(connection, client_id=None, max_response_bytes=1000)
        with pytest.raises(MalformedMessage, match=text):
            await channel.request(REQUEST, 8, timeout_ms=1000)
        assert connection.closed.is_set()

    run(scenario())


def test_an_unexpected_response_is_not_used_for_the_next_request() -> None:
    """It may arrive after the response, when its request is complete already."""

    async def scenario() -> None:
        channel, connection = channel_to(answered)
        assert await channel.request(REQUEST, 8, timeout_ms=1000) == ANSWER
        connection.incoming.append(encode_response(api_of(REQUEST), 8, 0, UpdateMetadataResponse(error_code=13)))
        with pytest.raises(MalformedMessage, match="correlation_id at offset 0: 0; expected 1"):
            await channel.request(REQUEST, 8, timeout_ms=1000)
        assert connection.closed.is_set()

    run(scenario())


def test_sending_to_a_peer_that_does_not_read_times_out() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(answered)
        connection.is_full = True
        with pytest.raises(RequestTimedOut, match="no answer to UpdateMetadata 0 within 20 ms"):
            await channel.request(REQUEST, 8, timeout_ms=20)
        assert connection.closed.is_set()

    run(scenario())


PRODUCE = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=())


def test_a_request_without_a_response_is_sent_and_the_next_has_another_correlation_id() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(lambda frame: [])
        await channel.send(PRODUCE, 9, timeout_ms=1000)
        await channel.send(PRODUCE, 9, timeout_ms=1000)
        headers = [decode_request(frame[4:])[0] for frame in connection.sent]
        assert [header.correlation_id for header in headers] == [0, 1]
        assert not channel.is_closed

    run(scenario())


def test_nothing_is_sent_to_a_peer_that_has_closed_the_connection() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(lambda frame: [b""])
        await channel.send(PRODUCE, 9, timeout_ms=1000)
        with pytest.raises(ConnectionLost, match="closed by the peer"):
            await channel.send(PRODUCE, 9, timeout_ms=1000)
        assert len(connection.sent) == 1
        assert connection.closed.is_set()

    run(scenario())


def test_a_request_without_a_response_times_out_if_the_connection_takes_no_bytes() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(answered)
        connection.is_full = True
        with pytest.raises(RequestTimedOut, match="Produce was not accepted within 20 ms"):
            await channel.send(PRODUCE, 9, timeout_ms=20)
        assert connection.closed.is_set()

    run(scenario())


def test_an_unexpected_exception_closes_the_connection() -> None:
    async def scenario() -> None:
        def broken(frame: bytes) -> list[bytes]:
            raise ZeroDivisionError

        channel, connection = channel_to(broken)
        with pytest.raises(ZeroDivisionError):
            await channel.request(REQUEST, 8, timeout_ms=1000)
        assert connection.closed.is_set()
        with pytest.raises(ConnectionLost, match="channel is closed"):
            await channel.request(REQUEST, 8, timeout_ms=1000)

    run(scenario())


def test_correlation_ids_begin_at_a_given_number_and_wrap_around() -> None:
    async def scenario() -> None:
        connection = FakeConnection(answered)
        channel = RequestChannel(connection, client_id="1", first_correlation_id=0x7FFFFFFE)
        for _ in range(3):
            assert await channel.request(REQUEST, 8, timeout_ms=1000) == ANSWER
        sent = [decode_request(frame[4:])[0].correlation_id for frame in connection.sent]
        assert sent == [0x7FFFFFFE, 0x7FFFFFFF, 0]

    run(scenario())


def test_a_second_request_in_flight_is_refused() -> None:
    async def scenario() -> None:
        channel, _ = channel_to(lambda frame: [])
        first = asyncio.ensure_future(channel.request(REQUEST, 8, timeout_ms=10_000))
        await asyncio.sleep(0)
        with pytest.raises(AssertionError, match="in flight"):
            await channel.request(REQUEST, 8, timeout_ms=1000)
        channel.close()
        with pytest.raises(ConnectionLost):
            await first

    run(scenario())


def test_a_cancelled_request_closes_the_channel() -> None:
    """The response may still arrive, and must not be used for the next request."""

    async def scenario() -> None:
        channel, connection = channel_to(lambda frame: [])
        waiting = asyncio.ensure_future(channel.request(REQUEST, 8, timeout_ms=10_000))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert connection.closed.is_set()

    run(scenario())


def test_a_request_that_cannot_be_encoded_is_not_sent() -> None:
    async def scenario() -> None:
        channel, connection = channel_to(answered)
        with pytest.raises(UnsupportedVersion):
            await channel.request(StopReplicaRequest(topics=(StopReplicaTopicV1(name="orders"),)), 4, timeout_ms=1000)
        assert connection.sent == []
        assert await channel.request(REQUEST, 8, timeout_ms=1000) == ANSWER

    run(scenario())


@pytest.mark.spec("AP-3")
def test_the_response_to_controlled_shutdown_version_0_is_read() -> None:
    async def scenario() -> None:
        answer = ControlledShutdownResponse(error_code=0)
        channel, _ = channel_to(lambda frame: [encode_response(api_of(answer), 0, 0, answer)])
        assert await channel.request(ControlledShutdownRequest(broker_id=1), 0, timeout_ms=1000) == answer

    run(scenario())
