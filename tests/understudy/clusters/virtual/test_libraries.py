"""Services built with web frameworks run in virtual time, with their fakes served inside the same network."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread
import pytest
import uvicorn
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
        import time  # noqa: PLC0415  it is the code of a service

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


def test_aiohttp_as_server_and_client(simulated: SimulatedSubject) -> None:
    aiohttp: Any = pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    from aiohttp import web  # noqa: PLC0415  an optional package

    async def serve() -> None:
        async def hook(request: Any) -> Any:
            return web.json_response({"got": await request.text()})

        app = web.Application()
        app.router.add_post("/hook", hook)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "0.0.0.0", 8080).start()
        await asyncio.sleep(10_000)

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

    simulated.start("webhook", serve)
    assert simulated.run(case) == [(200, {"got": f"order {number}"}) for number in range(3)]


def test_httpx_as_client(simulated: SimulatedSubject) -> None:
    httpx: Any = pytest.importorskip("httpx", reason="httpx is not installed")
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
