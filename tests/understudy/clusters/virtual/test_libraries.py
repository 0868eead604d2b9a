"""Services built with web frameworks run in virtual time, with their fakes served inside the same network."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator

import aiohttp
import anyio
import anyio.abc
import anyio.to_thread
import httpx
import pytest
import uvicorn
from aiohttp import web
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.understudy.clusters.virtual.subjects import SimulatedSubject, Subject


async def http(host: str, port: int, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    """Ask an HTTP server, over a connection of its own."""
    reader, writer = await asyncio.open_connection(host, port)
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    answer = await reader.read()
    writer.close()
    head_of_answer, _, content = answer.partition(b"\r\n\r\n")
    return int(head_of_answer.split()[1]), content


def payments(events: list[str]) -> Starlette:
    """A fake of an HTTP API."""

    def slow(amount: int) -> int:
        time.sleep(0.5)
        return amount * 2

    async def pay(request: Request) -> JSONResponse:
        amount = (await request.json())["amount"]
        return JSONResponse({"paid": await run_in_threadpool(slow, amount)})

    async def fails(request: Request) -> JSONResponse:
        raise LookupError("no such payment")

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        events.append("started")
        yield
        events.append("stopped")

    return Starlette(routes=[Route("/pay", pay, methods=["POST"]), Route("/fails", fails)], lifespan=lifespan)


def test_starlette_under_uvicorn_serves_other_nodes(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def serve() -> None:
        config = uvicorn.Config(payments(events), host="0.0.0.0", port=8080, log_config=None)
        await uvicorn.Server(config).serve()
        events.append("returned")

    async def case() -> list[object]:
        await asyncio.sleep(1)
        paid = await asyncio.gather(*(http("payments", 8080, "POST", "/pay", b'{"amount": %d}' % n) for n in range(3)))
        failed = await http("payments", 8080, "GET", "/fails")
        missing = await http("payments", 8080, "GET", "/missing")
        service.deliver(signal.SIGTERM)
        await asyncio.sleep(5)
        with pytest.raises(ConnectionRefusedError):
            await http("payments", 8080, "GET", "/missing")
        return [*paid, failed[0], missing[0]]

    service = simulated.start("payments", serve)
    assert simulated.run(case) == [(200, b'{"paid":%d}' % (2 * number)) for number in range(3)] + [500, 404]
    assert events[:2] == ["started", "stopped"]


def test_uvicorn_run_in_a_main_function_that_blocks(simulated: SimulatedSubject) -> None:
    events = list[str]()

    def main() -> None:
        uvicorn.run(payments(events), host="payments", port=80, log_config=None)

    async def case() -> tuple[int, bytes]:
        await asyncio.sleep(1)
        answer = await http("payments", 80, "POST", "/pay", b'{"amount": 4}')
        service.deliver(signal.SIGINT)
        await asyncio.sleep(5)
        return answer

    pytest.importorskip("greenlet")
    service = simulated.start_blocking("payments", main)
    assert simulated.run(case) == (200, b'{"paid":8}')
    assert events == ["started", "stopped"]


def test_anyio_on_its_asyncio_backend(subject: Subject) -> None:
    async def case() -> list[object]:
        seen: list[object] = []

        async def echo(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                async for data in stream:
                    await stream.send(data.upper())

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, echo)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"hello")
                seen.append(await stream.receive())
                await stream.send_eof()
                with pytest.raises(anyio.EndOfStream):
                    await stream.receive()
            with anyio.move_on_after(0.05) as scope:
                await anyio.sleep_forever()
            seen.append(scope.cancelled_caught)
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.01):
                    await anyio.sleep(10)
            seen.append(await anyio.to_thread.run_sync(pow, 2, 8))
            send, receive = anyio.create_memory_object_stream[int](1)
            group.start_soon(send.send, 7)
            seen.append(await receive.receive())
            send.close()
            receive.close()
            group.cancel_scope.cancel()
        await listener.aclose()
        with pytest.raises(OSError, match=r"connection attempts failed|refused"):
            await anyio.connect_tcp("127.0.0.1", port)
        return seen

    assert subject.run(case) == [b"HELLO", True, 256, 7]


def test_anyio_starts_a_loop_in_a_main_function(simulated: SimulatedSubject) -> None:
    pytest.importorskip("greenlet")

    async def case() -> str:
        await anyio.sleep(3600)
        return "done"

    assert simulated.run_blocking(lambda: anyio.run(case)) == "done"


async def hooks(events: list[str], port: int = 8080) -> None:
    """A server of aiohttp: it answers, streams, is slow, and echoes what comes by a websocket."""

    async def hook(request: web.Request) -> web.Response:
        assert request.transport is not None
        events.append(f"connection from port {request.transport.get_extra_info('peername')[1]}")
        return web.json_response({"got": await request.text()})

    async def slow(request: web.Request) -> web.Response:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            events.append("slow was cancelled")
            raise
        return web.Response(text="slow")

    async def stream(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for number in range(3):
            await answer.write(b"%d" % number * 100_000)
            await asyncio.sleep(10)
        return answer

    async def size(request: web.Request) -> web.Response:
        return web.Response(text=str(sum([len(chunk) async for chunk in request.content.iter_any()])))

    async def socket(request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse(heartbeat=30)
        await answer.prepare(request)
        async for message in answer:
            await answer.send_str(f"echo {message.data}")
        events.append(f"websocket closed with {answer.close_code}")
        return answer

    app = web.Application()
    app.add_routes([web.post("/hook", hook), web.route("*", "/slow", slow), web.get("/stream", stream)])
    app.add_routes([web.post("/size", size), web.get("/socket", socket)])
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", port).start()
    await asyncio.sleep(10_000)


def test_aiohttp_keeps_its_connection_alive(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def case() -> list[object]:
        await asyncio.sleep(0.1)
        seen: list[object] = []
        async with aiohttp.ClientSession() as session:
            for number in range(3):
                async with session.post("http://webhook:8080/hook", data=f"order {number}") as answer:
                    seen.append((answer.status, await answer.json()))
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get("http://webhook:9999/")
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get("http://api.example.com/")
        return seen

    simulated.start("webhook", hooks, events)
    assert simulated.run(case) == [(200, {"got": f"order {number}"}) for number in range(3)]
    assert len(events) == 3
    assert len(set(events)) == 1
    assert simulated.errors == []


def test_aiohttp_times_out_in_virtual_time(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def case() -> float:
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=3)) as session:
            with pytest.raises(TimeoutError):
                await session.get("http://webhook:8080/slow")
        took = asyncio.get_running_loop().time() - began
        await asyncio.sleep(1)
        return took

    simulated.start("webhook", hooks, events)
    assert simulated.run(case) == pytest.approx(3, abs=0.1)
    assert events == ["slow was cancelled"]


def test_aiohttp_streams_bodies_both_ways(simulated: SimulatedSubject) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"x" * 100_000
            await asyncio.sleep(5)

    async def case() -> list[object]:
        await asyncio.sleep(0.1)
        loop = asyncio.get_running_loop()
        began, seen = loop.time(), b""
        async with aiohttp.ClientSession() as session:
            async with session.get("http://webhook:8080/stream") as answer:
                async for chunk in answer.content.iter_any():
                    seen += chunk
            took = loop.time() - began
            async with session.post("http://webhook:8080/size", data=body()) as answer:
                return [seen == b"0" * 100_000 + b"1" * 100_000 + b"2" * 100_000, round(took), await answer.text()]

    simulated.start("webhook", hooks, [])
    assert simulated.run(case) == [True, 30, "500000"]


def test_a_websocket_of_aiohttp(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def case() -> list[str]:
        await asyncio.sleep(0.1)
        async with aiohttp.ClientSession() as session, session.ws_connect("http://webhook:8080/socket") as socket:
            seen = list[str]()
            for number in range(3):
                await socket.send_str(f"{number}")
                seen.append((await socket.receive()).data)
                with pytest.raises(TimeoutError):  # the server's pings are answered meanwhile
                    await asyncio.wait_for(socket.receive(), 100)
            return seen

    simulated.start("webhook", hooks, events)
    assert simulated.run(case) == ["echo 0", "echo 1", "echo 2"]
    simulated.kernel.run_for(1)
    assert events == ["websocket closed with 1000"]


def test_aiohttp_and_httpx_see_that_a_server_is_killed(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def case() -> list[str]:
        await asyncio.sleep(0.1)
        seen = list[str]()
        async with aiohttp.ClientSession() as session, httpx.AsyncClient(timeout=30) as client:
            waiting = asyncio.gather(
                session.post("http://webhook:8080/slow"),  # it sends a request again only if that does no harm
                client.get("http://webhook:8080/slow"),
                return_exceptions=True,
            )
            await asyncio.sleep(5)
            service.process.kill()
            seen += [type(error).__name__ for error in await waiting]
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get("http://webhook:8080/slow")
            with pytest.raises(httpx.ConnectError):
                await client.get("http://webhook:8080/slow")
            await hooks_again()
            async with session.post("http://webhook:8080/hook", data=b"1") as answer:
                seen.append(await answer.text())
            seen.append((await client.post("http://webhook:8080/hook", content=b"2")).text)
        return seen

    async def hooks_again() -> None:
        simulated.start("webhook", hooks, events)
        await asyncio.sleep(1)

    service = simulated.start("webhook", hooks, events)
    answers = [f'{{"got": "{number}"}}' for number in (1, 2)]
    assert simulated.run(case) == ["ServerDisconnectedError", "RemoteProtocolError", *answers]
    assert "slow was cancelled" not in events  # no `finally:` of a killed process runs


def test_httpx_as_client(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def serve() -> None:
        await uvicorn.Server(uvicorn.Config(payments(events), host="0.0.0.0", port=8080, log_config=None)).serve()

    async def case() -> list[object]:
        await asyncio.sleep(1)
        async with httpx.AsyncClient(base_url="http://payments:8080") as client:
            answers = [await client.post("/pay", json={"amount": number}) for number in range(2)]
            with pytest.raises(httpx.ReadTimeout):
                await client.post("/pay", json={"amount": 1}, timeout=0.1)
            with pytest.raises(httpx.ConnectError):
                await client.get("http://payments:9999/")
        return [answer.json() for answer in answers]

    simulated.start("payments", serve)
    assert simulated.run(case) == [{"paid": 0}, {"paid": 2}]


def test_httpx_streams_and_keeps_its_connection_alive(simulated: SimulatedSubject) -> None:
    events = list[str]()

    async def case() -> list[object]:
        await asyncio.sleep(0.1)
        async with httpx.AsyncClient(base_url="http://webhook:8080", timeout=15) as client:
            seen: list[object] = [(await client.post("/hook", content=b"%d" % number)).json() for number in range(3)]
            async with client.stream("GET", "/stream") as answer:
                seen.append(sum([len(chunk) async for chunk in answer.aiter_bytes()]))
        return seen

    simulated.start("webhook", hooks, events)
    assert simulated.run(case) == [{"got": "0"}, {"got": "1"}, {"got": "2"}, 300_000]
    assert len(events) == 3
    assert len(set(events)) == 1


def test_httpx_in_a_main_function_that_blocks(simulated: SimulatedSubject) -> None:
    """Its client without `async` has sockets that block, with timeouts."""
    pytest.importorskip("greenlet")

    def main() -> list[object]:
        time.sleep(1)
        with httpx.Client(base_url="http://webhook:8080", timeout=15) as client:
            seen: list[object] = [client.post("/hook", content=b"%d" % number).json() for number in range(2)]
            with pytest.raises(httpx.ReadTimeout):
                client.get("/slow")
        return seen

    simulated.start("webhook", hooks, [])
    assert simulated.run_blocking(main) == [{"got": "0"}, {"got": "1"}]
