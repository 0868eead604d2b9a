"""The real subject of the contract: the embedded server, the kazoo adapter, and a TCP proxy per session in between."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket

import pytest
from kazoo.client import KazooClient

from tests.contracts.subject import PATIENCE_S, SESSION_TIMEOUT_MS, Case, Session
from understudy.foundation.zk.client import ZooKeeperUnreachable
from understudy.foundation.zk.kazoo_client import KazooSession, KazooZooKeeper

CASE_TIMEOUT_S = 180.0

_chroots = itertools.count(1)


class Proxy:
    """Forwards bytes between one session and the server; can hold either direction, and cut the connection."""

    def __init__(self, server: tuple[str, int]) -> None:
        self._server = server
        self._listener: asyncio.Server | None = None
        self._clients: list[asyncio.StreamWriter] = []
        self._servers: list[asyncio.StreamWriter] = []
        self._half_closed: list[asyncio.StreamWriter] = []
        self._held: list[tuple[asyncio.StreamWriter, bytes]] = []
        self._carriers: list[asyncio.Task[None]] = []
        self._is_cut = False
        self._hold_requests = False
        self._hold_answers = False
        self._answers_left: int | None = None
        self._held_back = asyncio.Event()

    async def start(self) -> int:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def hold_requests(self) -> None:
        self._hold_requests = True

    def carry_requests(self) -> None:
        """Forward requests that arrive from now on; held ones stay held."""
        self._hold_requests = False

    async def wait_for_held_request(self) -> None:
        """Wait until a request is held on the way to the server."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._held:
                await asyncio.sleep(0.01)

    def hold_answers(self) -> None:
        self._hold_answers = True

    def cut(self) -> None:
        self.cut_client_end()
        self._held.clear()
        for server in self._half_closed:
            server.transport.abort()
        self._half_closed.clear()

    def cut_client_end(self) -> None:
        """Cut the connection to the client, but keep that to the server and the requests held on the way to it."""
        self._is_cut = True
        self._hold_requests = self._hold_answers = False
        self._half_closed += self._servers
        self._servers.clear()
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()

    async def deliver_held_requests(self) -> None:
        for server, data in self._held:
            # The server closes its end once the session has reconnected.
            with contextlib.suppress(OSError):
                server.write(data)
                await server.drain()
        self._held.clear()

    def heal(self, *, answers: int | None = None) -> None:
        """Accept connections again, and forward only `answers` packets of the server on the next ones, if given."""
        self._is_cut = False
        self._answers_left = answers
        self._held_back.clear()

    async def wait_for_held_answer(self) -> None:
        """Wait until the server has sent more answers than `heal` allowed."""
        async with asyncio.timeout(PATIENCE_S):
            await self._held_back.wait()

    async def stop(self) -> None:
        self.cut()
        assert self._listener is not None
        self._listener.close()
        await self._listener.wait_closed()
        await asyncio.gather(*self._carriers)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_connection(*self._server)
        self._clients.append(writer)
        self._servers.append(server_writer)
        self._carriers += [
            asyncio.create_task(self._carry_requests(reader, server_writer)),
            asyncio.create_task(self._carry_answers(server_reader, writer)),
        ]

    async def _carry_requests(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await client.read(65536):
                if self._hold_requests:
                    self._held.append((server, data))
                else:
                    server.write(data)
                    await server.drain()
        if server not in self._half_closed:
            server.transport.abort()

    async def _carry_answers(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await server.readexactly(4)
                answer = await server.readexactly(int.from_bytes(size, "big"))
                if self._hold_answers or self._answers_left == 0:
                    self._held_back.set()
                    continue
                if self._answers_left is not None:
                    self._answers_left -= 1
                client.write(size + answer)
                await client.drain()
        client.transport.abort()


class RealEnsemble:
    def __init__(self, connect_string: str, chroot: str) -> None:
        host, port = connect_string.split(":")
        self._server = (host, int(port))
        self._chroot = chroot
        self._proxies: dict[Session, Proxy] = {}

    async def open(self, *, chroot: str = "", session_timeout_ms: int = SESSION_TIMEOUT_MS) -> Session:
        proxy = Proxy(self._server)
        port = await proxy.start()
        session = Session()
        self._proxies[session] = proxy
        zookeeper = KazooZooKeeper(
            f"127.0.0.1:{port}{self._chroot}{chroot}",
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=round(PATIENCE_S * 1000),
        )
        session.zk = await zookeeper.connect(session.listen)
        return session

    async def cut(self, session: Session) -> None:
        self._proxies[session].cut()
        await session.wait_until_suspended()

    async def cut_client_end(self, session: Session) -> None:
        self._proxies[session].cut_client_end()
        await session.wait_until_suspended()

    async def deliver_held_requests(self, session: Session) -> None:
        await self._proxies[session].deliver_held_requests()

    async def heal(self, session: Session) -> None:
        self._proxies[session].heal()

    async def hold_requests(self, session: Session) -> None:
        self._proxies[session].hold_requests()

    async def wait_for_held_request(self, session: Session) -> None:
        await self._proxies[session].wait_for_held_request()

    async def hold_answers(self, session: Session) -> None:
        self._proxies[session].hold_answers()

    async def expire(self, session: Session) -> None:
        """Close the session through another client with its id and password, while its own connection is cut."""
        assert isinstance(session.zk, KazooSession)
        self._proxies[session].cut()
        await asyncio.to_thread(_take_over_and_close, self._server, session.zk.credentials)
        self._proxies[session].heal()

    async def connect_refused(self) -> str:
        with socket.socket() as not_listening:
            not_listening.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{not_listening.getsockname()[1]}/chroot"
            zookeeper = KazooZooKeeper(address, connection_timeout_ms=700)
            with pytest.raises(ZooKeeperUnreachable) as raised:
                await zookeeper.connect(lambda _: None)
        return str(raised.value)

    async def close(self) -> None:
        for session, proxy in self._proxies.items():
            if hasattr(session, "zk"):
                await session.zk.close()
            await proxy.stop()


def _take_over_and_close(server: tuple[str, int], credentials: tuple[int, bytes]) -> None:
    other = KazooClient(hosts=f"{server[0]}:{server[1]}", client_id=credentials, timeout=SESSION_TIMEOUT_MS / 1000)
    other.start(timeout=PATIENCE_S)
    other.stop()
    other.close()


class RealSubject:
    """Runs each case below a chroot of its own on the shared server."""

    def __init__(self, connect_string: str) -> None:
        self._connect_string = connect_string

    def run(self, case: Case) -> None:
        async def run_case() -> None:
            ensemble = RealEnsemble(self._connect_string, f"/contract-{next(_chroots)}")
            try:
                async with asyncio.timeout(CASE_TIMEOUT_S):
                    await case(ensemble)
            finally:
                await ensemble.close()

        asyncio.run(run_case())
