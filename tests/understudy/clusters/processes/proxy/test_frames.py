"""The frames of Kafka and ZooKeeper: where they begin, what their headers are, and which paths a request writes."""

from __future__ import annotations

import struct

import pytest

from understudy.clusters.processes.proxy.frames import (
    MAX_FRAME_BYTES,
    ZOOKEEPER_REQUEST,
    FrameScanner,
    PeerScanner,
    closing_requests,
    session_of,
    written_paths,
)
from understudy.clusters.request_rules import KAFKA_ANSWER, KAFKA_REQUEST, corrupted, shortened
from understudy.foundation.wire.headers import encode_request
from understudy.foundation.wire.messages.metadata import MetadataRequest
from understudy.foundation.zk import jute
from understudy.foundation.zk.client import Check, Create, Delete, Op, SetData


def request(correlation_id: int, api: int = 3, body: bytes = b"body") -> bytes:
    return KAFKA_REQUEST.pack(8 + len(body), api, 12, correlation_id) + body


def write(ops: list[Op]) -> bytes:
    body = jute.multi_request(ops, lambda path: "/chroot" + path)
    return ZOOKEEPER_REQUEST.pack(8 + len(body), 7, jute.MULTI) + body


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("step", [1, 3, 5, 16, 1000])
def test_every_header_is_found_however_the_bytes_are_split(step: int, whole: bool) -> None:
    stream = b"".join(request(number, api=number % 5, body=b"x" * (number * 7)) for number in range(20))
    scanner = FrameScanner(KAFKA_REQUEST)
    pieces = [
        piece for at in range(0, len(stream), step) for piece in scanner.scan(stream[at : at + step], whole=whole)
    ]
    assert b"".join(piece.data for piece in pieces) == stream
    assert [piece.header for piece in pieces if piece.header] == [(number % 5, 12, number) for number in range(20)]
    if whole:
        assert [piece.data for piece in pieces] == [request(n, api=n % 5, body=b"x" * (n * 7)) for n in range(20)]
        assert all(piece.is_whole for piece in pieces)


@pytest.mark.parametrize("step", [1, 3, 5, 16, 1000])
def test_headers_are_found_again_after_bytes_were_forwarded_unread(step: int) -> None:
    unread = b"".join(request(number, body=b"x" * (number * 7)) for number in range(20))
    scanner = FrameScanner(KAFKA_REQUEST)
    passed = b"".join(scanner.advance(unread[at : at + step]) for at in range(0, len(unread), step))
    assert passed == unread
    (piece,) = scanner.scan(request(99), whole=True)
    assert piece.header == (3, 12, 99)
    assert scanner.advance(request(1)[:2]) == b""
    assert scanner.advance(request(1)[2:5]) == request(1)[:5]
    pieces = scanner.scan(request(1)[5:] + request(2), whole=True)
    assert [piece.header for piece in pieces] == [None, (3, 12, 2)]


def test_bytes_that_are_no_frames_pass_unread() -> None:
    scanner = FrameScanner(KAFKA_REQUEST)
    assert scanner.advance(b"GET / HTTP/1.1") == b"GET / HTTP/1.1"
    assert scanner.is_opaque
    assert scanner.advance(b"x") == b"x"


def test_a_request_of_this_product_is_read() -> None:
    frame = encode_request(MetadataRequest(topics=()), 12, 77, "me")
    (piece,) = FrameScanner(KAFKA_REQUEST).scan(frame, whole=False)
    assert piece.header == (3, 12, 77)
    assert piece.is_whole


def test_answers_have_only_a_correlation_id() -> None:
    (piece,) = FrameScanner(KAFKA_ANSWER).scan(KAFKA_ANSWER.pack(6, 9) + b"ab", whole=False)
    assert piece.header == (9,)


def test_a_frame_above_the_bound_is_forwarded_as_it_arrives() -> None:
    scanner = FrameScanner(KAFKA_REQUEST)
    large = request(1, body=b"x" * (MAX_FRAME_BYTES + 1))
    first = scanner.scan(large[:1000], whole=True)
    assert [(piece.data, piece.is_whole) for piece in first] == [(large[:1000], False)]
    following = scanner.scan(large[1000:] + request(2), whole=True)
    assert [piece.header for piece in following] == [None, (3, 12, 2)]


@pytest.mark.parametrize(
    "hostile", [b"ruok", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xff\xff\xff\0\0\0\0", b"\0\0\0\1\0\0\0\0"]
)
def test_bytes_that_are_no_frames_are_forwarded_at_once(hostile: bytes) -> None:
    scanner = FrameScanner(ZOOKEEPER_REQUEST)
    assert b"".join(piece.data for piece in scanner.scan(hostile, whole=True)) == hostile
    assert scanner.is_opaque
    assert [piece.data for piece in scanner.scan(b"a", whole=True)] == [b"a"]


def test_the_beginning_of_a_frame_is_returned_at_the_end_of_the_stream() -> None:
    scanner = FrameScanner(KAFKA_REQUEST)
    assert scanner.scan(request(1)[:10], whole=False) == []
    assert (scanner.rest(), scanner.rest()) == (request(1)[:10], b"")


def test_the_connect_request_to_zookeeper_has_no_xid() -> None:
    connect = struct.pack(">iiqiqi", 28, 0, 0, 3000, 0, 0)
    pieces = FrameScanner(ZOOKEEPER_REQUEST, first_is_other=True).scan(
        connect + ZOOKEEPER_REQUEST.pack(8, -2, 11), whole=False
    )
    assert [piece.header for piece in pieces] == [None, (-2, 11)]


def test_a_session_is_read_from_the_answer_and_can_be_closed() -> None:
    answer = struct.pack(">iiiqi16s?", 37, 0, 3000, 0x1234, 16, b"p" * 16, False)
    session = session_of(answer)
    assert session == (0x1234, b"p" * 16)
    scanner = FrameScanner(ZOOKEEPER_REQUEST, first_is_other=True)
    connect, close = scanner.scan(closing_requests(session), whole=True)
    assert connect.data == struct.pack(">iiqiqi16s", 44, 0, 0, 10_000, 0x1234, 16, b"p" * 16)
    assert close.header == (1, -11)


@pytest.mark.parametrize("answer", [b"", b"\0" * 10, struct.pack(">iiiqi16s", 36, 0, 0, 0, 16, bytes(16))])
def test_an_expired_session_and_other_bytes_name_no_session(answer: bytes) -> None:
    assert session_of(answer) is None


def test_all_paths_of_a_multi_are_found() -> None:
    ops: list[Op] = [
        Check("/controller_epoch", 3),
        Create("/controller", b"data", ephemeral=True),
        SetData("/brokers/topics/t/partitions/0/state", b"x" * 300, 2),
        Delete("/admin/delete_topics/t", -1),
    ]
    assert written_paths(write(ops)) == [f"/chroot{op.path}" for op in ops]


@pytest.mark.parametrize("op", [Create("/a", b"1"), SetData("/a", b"1", 0), Delete("/a", 0)])
def test_the_path_of_a_single_write_is_found(op: Op) -> None:
    body = jute.op_request(op, op.path)
    assert written_paths(ZOOKEEPER_REQUEST.pack(8 + len(body), 1, jute.op_code(op)) + body) == ["/a"]


def test_reads_and_broken_requests_write_no_path() -> None:
    body = jute.read_request("/a", watch=False)
    assert written_paths(ZOOKEEPER_REQUEST.pack(8 + len(body), 1, jute.GET_DATA) + body) == []
    broken = write([SetData("/a", b"1", 0)])[:-20]
    assert written_paths(broken) in ([], ["/chroot/a"])
    assert written_paths(ZOOKEEPER_REQUEST.pack(8, 1, jute.MULTI)) == []


def test_a_corrupted_request_keeps_its_header_and_size() -> None:
    frame = request(5, body=bytes(100))
    changed = corrupted(frame, 3)
    assert changed[:12] == frame[:12]
    assert len(changed) == len(frame)
    assert sum(a != b for a, b in zip(frame, changed, strict=True)) == 3
    assert corrupted(request(5, body=b""), 3) == request(5, body=b"")


@pytest.mark.parametrize(("count", "left"), [(1, 99), (60, 40), (1000, 0)])
def test_a_shortened_request_announces_its_new_size(count: int, left: int) -> None:
    frame = shortened(request(5, body=bytes(100)), count)
    (piece,) = FrameScanner(KAFKA_REQUEST).scan(frame, whole=True)
    assert piece.is_whole
    assert piece.header == (3, 12, 5)
    assert len(frame) == KAFKA_REQUEST.size + left


# ------------------------------------------------------------------ servers of an ensemble


@pytest.mark.parametrize("step", [1, 7, 19, 20, 21, 1000])
def test_the_election_address_in_the_first_message_is_replaced(step: int) -> None:
    def greeting(address: bytes) -> bytes:
        return struct.pack(">qqi", -65536, 3, len(address)) + address

    later = bytes(range(256)) * 3
    stream = greeting(b"127.0.0.1:3888") + later
    scanner = PeerScanner(b"127.0.0.1:54321")
    chunks = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert b"".join(map(scanner.advance, chunks)) == greeting(b"127.0.0.1:54321") + later
    assert scanner.rest() == b""


def test_a_server_that_names_no_address_and_other_bytes_pass_unchanged() -> None:
    old = struct.pack(">qqi", 3, 0, 0) + b"notification"
    assert PeerScanner(b"127.0.0.1:54321").advance(old) == old
    assert PeerScanner(None).scan(b"\0\1", whole=True)[0].data == b"\0\1"


def test_a_first_message_that_does_not_end_is_forwarded_at_the_end_of_the_stream() -> None:
    scanner = PeerScanner(b"127.0.0.1:54321")
    assert scanner.scan(b"\xff\xff", whole=False) == []
    assert scanner.rest() == b"\xff\xff"
