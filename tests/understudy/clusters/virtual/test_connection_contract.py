"""Connections of a simulated process behave as on the loop of asyncio itself: transports, streams and servers."""

from __future__ import annotations

import asyncio
import errno
import io
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import Subject

LOCAL = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Recorder(asyncio.Protocol):
    """Notes what a transport calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.data = b""
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.keeps_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.calls[-1] != "data":
            self.calls.append("data")

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.keeps_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self.lost.set_result(exc)


async def served(handler: Handler) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(handler, LOCAL, 0)
    return server, server.sockets[0].getsockname()[1]


async def connected(handler: Handler) -> tuple[asyncio.Server, Recorder]:
    """A client of a server."""
    server, port = await served(handler)
    _, recorder = await asyncio.get_running_loop().create_connection(Recorder, LOCAL, port)
    return server, recorder


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1024):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_streams_carry_bytes_both_ways_until_the_end(subject: Subject) -> None:
    async def case() -> tuple[bytes, bytes, bool]:
        server, port = await served(echo)
        reader, writer = await asyncio.open_connection(LOCAL, port)
        writer.write(b"hello\n")
        line = await reader.readline()
        writer.writelines([b"a" * 100_000, b"b"])
        writer.write_eof()
        rest = await reader.read()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return line, rest, server.is_serving()

    assert subject.run(case) == (b"hello\n", b"a" * 100_000 + b"b", False)


def test_a_half_closed_connection_still_receives(subject: Subject) -> None:
    async def case() -> list[str]:
        async def answers_after_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            request = await reader.read()
            writer.write(b"got " + request)
            writer.close()

        server, recorder = await connected(answers_after_the_end)
        transport = recorder.transport
        assert transport.can_write_eof()
        transport.write(b"all")
        transport.write_eof()
        transport.write_eof()
        with pytest.raises(RuntimeError, match="Cannot call write"):
            transport.write(b"more")
        error = await recorder.lost
        server.close()
        return [*recorder.calls, recorder.data.decode(), repr(error)]

    assert subject.run(case) == ["made", "data", "eof", "lost", "got all", "None"]


def test_a_protocol_may_keep_a_connection_open_whose_other_end_has_closed(subject: Subject) -> None:
    async def case() -> list[str]:
        async def closes_one_side(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write_eof()
            got.set_result(await reader.read())
            writer.close()

        got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        server, recorder = await connected(closes_one_side)
        recorder.keeps_open = True
        while "eof" not in recorder.calls:
            await asyncio.sleep(0.01)
        recorder.transport.write(b"still here")
        recorder.transport.close()
        recorder.transport.close()
        error = await recorder.lost
        server.close()
        return [*recorder.calls, (await got).decode(), repr(error), str(recorder.transport.is_closing())]

    assert subject.run(case) == ["made", "eof", "lost", "still here", "None", "True"]


def test_closing_sends_what_was_written_and_drops_what_comes_later(subject: Subject) -> None:
    async def case() -> tuple[int, list[str]]:
        async def reads_all(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await asyncio.sleep(0.05)
            got.set_result(len(await reader.read()))
            writer.close()

        got: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server, recorder = await connected(reads_all)
        recorder.transport.write(b"x" * 3_000_000)
        recorder.transport.close()
        await recorder.lost
        recorder.transport.write(b"late")
        server.close()
        return await got, [call for call in recorder.calls if call in ("made", "lost")]

    assert subject.run(case) == (3_000_000, ["made", "lost"])


def test_aborting_with_unread_bytes_resets_the_connection(subject: Subject) -> None:
    async def case() -> list[object]:
        async def reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"unread by the client")
            try:
                ended.set_result(await reader.read())
            except ConnectionResetError as error:
                ended.set_result(type(error))
            writer.close()

        ended: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        server, recorder = await connected(reads)
        recorder.transport.pause_reading()
        await asyncio.sleep(0.05)
        recorder.transport.abort()
        error = await recorder.lost
        server.close()
        return [await ended, error, recorder.transport.is_closing()]

    assert subject.run(case) == [ConnectionResetError, None, True]


def test_a_protocol_is_paused_while_the_network_is_full(subject: Subject) -> None:
    async def case() -> tuple[list[str], int, bool]:
        async def reads_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go.wait()
            received.set_result(len(await reader.read()))
            writer.close()

        go = asyncio.Event()
        received: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        server, recorder = await connected(reads_late)
        transport, size = recorder.transport, 0
        transport.set_write_buffer_limits(high=100_000, low=10_000)
        assert transport.get_write_buffer_limits() == (10_000, 100_000)
        with pytest.raises(ValueError, match="must be >= 0"):
            transport.set_write_buffer_limits(high=-1)
        while "pause" not in recorder.calls:
            transport.write(b"x" * 500_000)
            size += 500_000
            await asyncio.sleep(0)
        assert transport.get_write_buffer_size() > 100_000
        go.set()
        while "resume" not in recorder.calls:
            await asyncio.sleep(0.01)
        transport.write_eof()
        is_whole = await received == size
        await recorder.lost
        server.close()
        return recorder.calls[:3], size, is_whole

    calls, _, is_whole = subject.run(case)
    assert calls == ["made", "pause", "resume"]
    assert is_whole


def test_a_paused_transport_reads_nothing(subject: Subject) -> None:
    async def case() -> list[object]:
        async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readline()
            writer.write(b"hello")
            await reader.read()
            writer.close()

        server, recorder = await connected(greets)
        recorder.transport.pause_reading()
        recorder.transport.pause_reading()
        recorder.transport.write(b"please\n")
        await asyncio.sleep(0.05)
        seen: list[object] = [recorder.data, recorder.transport.is_reading()]
        recorder.transport.resume_reading()
        while not recorder.data:
            await asyncio.sleep(0.01)
        seen.append(recorder.data)
        recorder.transport.close()
        server.close()
        return seen

    assert subject.run(case) == [b"", False, b"hello"]


def test_a_buffered_protocol_gets_its_bytes_in_its_own_buffer(subject: Subject) -> None:
    class Buffered(asyncio.BufferedProtocol):
        def __init__(self) -> None:
            self.buffer = bytearray(7)
            self.got = b""
            self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def get_buffer(self, sizehint: int) -> bytearray:
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.got += self.buffer[:nbytes]

        def connection_lost(self, exc: Exception | None) -> None:
            self.lost.set_result(None)

    async def case() -> bytes:
        async def sends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"more than seven bytes")
            writer.close()

        server, port = await served(sends)
        _, protocol = await asyncio.get_running_loop().create_connection(Buffered, LOCAL, port)
        await protocol.lost
        server.close()
        return protocol.got

    assert subject.run(case) == b"more than seven bytes"


def test_an_error_of_a_protocol_closes_its_connection(subject: Subject) -> None:
    class Fails(Recorder):
        def data_received(self, data: bytes) -> None:
            raise LookupError("as expected")

    async def case() -> list[str]:
        async def sends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"data")
            await reader.read()
            writer.close()

        server, port = await served(sends)
        _, protocol = await asyncio.get_running_loop().create_connection(Fails, LOCAL, port)
        error = await protocol.lost
        server.close()
        return [*protocol.calls, repr(error)]

    assert subject.run(case) == ["made", "lost", "LookupError('as expected')"]
    assert [context["message"] for context in subject.errors] == ["Fatal error: protocol.data_received() call failed."]


def test_a_transport_knows_its_addresses_and_socket(subject: Subject) -> None:
    async def case() -> list[object]:
        addresses: asyncio.Future[tuple[Any, Any]] = asyncio.get_running_loop().create_future()

        async def notes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            addresses.set_result((writer.get_extra_info("sockname"), writer.get_extra_info("peername")))
            await reader.read()
            writer.close()

        server, recorder = await connected(notes)
        transport = recorder.transport
        own, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.write(b"still works")
        seen: list[object] = [
            await addresses == (peer, own),
            peer[0],
            (sock.getsockname(), sock.getpeername()) == (own, peer),
            sock.family,
            sock.type & socket.SOCK_STREAM,
            bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)),
            transport.get_extra_info("sslcontext"),
            transport.get_extra_info("unheard of", "default"),
        ]
        transport.close()
        await recorder.lost
        server.close()
        return seen

    expected = [True, LOCAL, True, socket.AF_INET, socket.SOCK_STREAM, True, None, "default"]
    assert subject.run(case) == expected


def test_a_connection_to_a_port_without_a_listener_is_refused(subject: Subject) -> None:
    async def case() -> tuple[int | None, str]:
        server, port = await served(echo)
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError) as caught:
            await asyncio.open_connection(LOCAL, port)
        return caught.value.errno, str(caught.value).replace(str(port), "PORT")

    number, text = subject.run(case)
    assert number == errno.ECONNREFUSED
    assert text.endswith("Connect call failed ('127.0.0.1', PORT)")


def test_wrong_arguments_of_connections_and_servers(subject: Subject) -> None:
    async def case() -> list[str]:
        loop: Any = asyncio.get_running_loop()
        seen = list[str]()
        with socket.socket() as sock:
            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: loop.create_connection(Recorder),
                lambda: loop.create_connection(Recorder, LOCAL, 80, sock=sock),
                lambda: loop.create_connection(Recorder, LOCAL, 80, server_hostname="name"),
                lambda: loop.create_server(Recorder, ssl=True),
                lambda: loop.create_server(Recorder),
                lambda: loop.create_server(Recorder, LOCAL, 80, sock=sock),
            ]
            for call in calls:
                with pytest.raises((ValueError, TypeError)) as caught:
                    await call()
                seen.append(f"{type(caught.value).__name__}: {caught.value}")
        return seen

    assert subject.run(case) == [
        "ValueError: host and port was not specified and no sock specified",
        "ValueError: host/port and sock can not be specified at the same time",
        "ValueError: server_hostname is only meaningful with ssl",
        "TypeError: ssl argument must be an SSLContext or None",
        "ValueError: Neither host/port nor sock were specified",
        "ValueError: host/port and sock can not be specified at the same time",
    ]


def test_names_that_do_not_exist(subject: Subject) -> None:
    async def case() -> list[object]:
        loop = asyncio.get_running_loop()
        with pytest.raises(socket.gaierror) as caught:
            await loop.getaddrinfo("no-such-host.invalid", 80)
        [(family, kind, _, _, address)] = await loop.getaddrinfo(
            "localhost", 80, family=socket.AF_INET, type=socket.SOCK_STREAM
        )
        numeric = await loop.getnameinfo((LOCAL, 80), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        return [caught.value.errno in (socket.EAI_NONAME, socket.EAI_AGAIN), family, kind, address, numeric]

    assert subject.run(case) == [True, socket.AF_INET, socket.SOCK_STREAM, (LOCAL, 80), (LOCAL, "80")]


def test_a_port_in_use_cannot_be_bound(subject: Subject) -> None:
    async def case() -> int | None:
        server, port = await served(echo)
        with pytest.raises(OSError, match="in use") as caught:
            await asyncio.start_server(echo, LOCAL, port)
        server.close()
        return caught.value.errno

    assert subject.run(case) == errno.EADDRINUSE


def test_a_server_serves_several_clients_until_it_is_cancelled(subject: Subject) -> None:
    async def case() -> list[object]:
        server, port = await served(echo)
        forever = asyncio.create_task(server.serve_forever())

        async def client(number: int) -> bytes:
            reader, writer = await asyncio.open_connection(LOCAL, port)
            writer.write(b"%d\n" % number)
            line = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return line

        seen: list[object] = [await asyncio.gather(*map(client, range(20))), server.is_serving()]
        with pytest.raises(RuntimeError, match="already being awaited"):
            await server.serve_forever()
        forever.cancel()
        with pytest.raises(asyncio.CancelledError):
            await forever
        with pytest.raises(RuntimeError, match="is closed"):
            await server.serve_forever()
        return [*seen, server.is_serving(), server.sockets]

    assert subject.run(case) == [[b"%d\n" % number for number in range(20)], True, False, ()]


def test_a_server_may_begin_to_serve_later(subject: Subject) -> None:
    async def case() -> list[object]:
        server = await asyncio.start_server(echo, LOCAL, 0, start_serving=False)
        seen: list[object] = [server.is_serving()]
        async with server:
            await server.start_serving()
            reader, writer = await asyncio.open_connection(LOCAL, server.sockets[0].getsockname()[1])
            writer.write(b"x")
            seen += [server.is_serving(), await reader.readexactly(1), server.get_loop() is asyncio.get_running_loop()]
            writer.close()
        return [*seen, server.is_serving()]

    assert subject.run(case) == [False, True, b"x", True, False]


def test_sockets_of_a_coroutine(subject: Subject) -> None:
    """Libraries that open sockets themselves use them so: anyio, and aiohttp's resolver of several addresses."""

    async def case() -> list[object]:
        loop = asyncio.get_running_loop()
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setblocking(False)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOCAL, 0))
        listening.listen(5)
        client = socket.socket()
        client.setblocking(False)
        accepting = asyncio.create_task(loop.sock_accept(listening))
        await loop.sock_connect(client, listening.getsockname())
        accepted, address = await accepting
        seen: list[object] = [address == client.getsockname(), accepted.getpeername() == address]
        await loop.sock_sendall(client, b"request")
        seen.append(await loop.sock_recv(accepted, 100))
        with pytest.raises(BlockingIOError):
            accepted.recv(10)
        transport, recorder = await loop.create_connection(Recorder, sock=client)
        reader, writer = await asyncio.open_connection(sock=accepted)
        transport.write(b"by a transport")
        seen.append(await reader.readexactly(14))
        writer.write(b"answer")
        writer.close()
        await recorder.lost
        seen += [recorder.data, recorder.calls]
        listening.close()
        seen.append(listening.fileno())
        return seen

    expected = [True, True, b"request", b"by a transport", b"answer", ["made", "data", "eof", "lost"], -1]
    assert subject.run(case) == expected


def test_readers_and_writers_are_called_while_a_socket_is_ready(subject: Subject) -> None:
    async def case() -> list[object]:
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        seen: list[object] = []
        done = asyncio.Event()

        def readable() -> None:
            seen.append(near.recv(2))
            if len(seen) == 3:
                done.set()

        loop.add_reader(near, readable)
        far.send(b"abcdef")
        await done.wait()
        seen.append(loop.remove_reader(near))
        seen.append(loop.remove_reader(near))
        writable = asyncio.Event()
        loop.add_writer(far, writable.set)
        await writable.wait()
        seen.append(loop.remove_writer(far))
        near.close()
        far.close()
        return seen

    assert subject.run(case) == [b"ab", b"cd", b"ef", True, False, True]


def test_a_file_is_sent_by_a_transport(subject: Subject) -> None:
    async def case() -> tuple[int, bytes]:
        async def reads(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            got.set_result(await reader.read())
            writer.close()

        got: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        server, recorder = await connected(reads)
        loop = asyncio.get_running_loop()
        count = await loop.sendfile(recorder.transport, io.BytesIO(b"0123456789"), 2, 5)
        recorder.transport.close()
        server.close()
        return count, await got

    assert subject.run(case) == (5, b"23456")
