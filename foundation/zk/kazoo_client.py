"""Implements the `ZooKeeper` port over kazoo: sessions on a real ensemble.

This half runs on the loop, `kazoo_connection` in kazoo's thread. Neither waits for the other: requests are put into
kazoo's queue, and answers and notifications come back through another, in the order of the connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from understudy.foundation.zk import jute
from understudy.foundation.zk.armed_watches import SET_WATCHES_BYTES, Arming, arming, chunks
from understudy.foundation.zk.chroot import create_chroot_if_necessary, session_expired
from understudy.foundation.zk.client import (
    MAX_REQUEST_BYTES,
    Children,
    Create,
    Created,
    Delete,
    Failure,
    Listener,
    MultiFailed,
    MultiOk,
    Notification,
    Op,
    OpResult,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    ZNodeData,
    ZooKeeperUnreachable,
)
from understudy.foundation.zk.kazoo_connection import KazooLink, LoopCalls, Reply, Request

_CLOSING_GRACE_S = 2.0

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class KazooZooKeeper:
    """A real ZooKeeper ensemble on which sessions can be opened.

    Args:
        connect_string: `host:port,host:port/chroot`, as in `zookeeper.connect`.
        session_timeout_ms: `zookeeper.session.timeout.ms`; the server may grant another.
        connection_timeout_ms: `zookeeper.connection.timeout.ms`.
        creates_chroot: create a chroot that is missing; otherwise nothing is found in it.

    Raises:
        ValueError: `connect_string` names no servers, or an empty folder in its chroot.
    """

    def __init__(
        self,
        connect_string: str,
        *,
        session_timeout_ms: int = 18_000,
        connection_timeout_ms: int = 18_000,
        creates_chroot: bool = True,
    ) -> None:
        hosts, slash, chroot = connect_string.partition("/")
        if "//" in slash + chroot or not all(_is_address(host.strip()) for host in hosts.split(",")):
            raise ValueError(f"zookeeper.connect={connect_string!r}: expected host:port,host:port/chroot")
        self._connect_string = connect_string
        self._hosts = hosts
        self._chroot = (slash + chroot).rstrip("/")
        self._session_timeout_ms = session_timeout_ms
        self._connection_timeout_ms = connection_timeout_ms
        self._creates_chroot = creates_chroot

    async def connect(self, listener: Listener) -> KazooSession:
        """Open a session. The listener receives nothing before this returns.

        Raises:
            ZooKeeperUnreachable: no server answered within the connection timeout, or the chroot cannot be created.
        """
        session = KazooSession(self._hosts, self._session_timeout_ms, listener)
        try:
            async with asyncio.timeout(self._connection_timeout_ms / 1000):
                await session.open(self._chroot, creates_chroot=self._creates_chroot)
        except TimeoutError:
            await session.close()
            raise ZooKeeperUnreachable(
                f"no ZooKeeper server answered at {self._connect_string} within {self._connection_timeout_ms} ms; "
                "is it running, and is zookeeper.connect right?"
            ) from None
        except BaseException:
            await session.close()
            raise
        return session


class KazooSession:
    """A handle on one session; implements `ZooKeeperClient`. Made by `KazooZooKeeper.connect`, used on its loop."""

    def __init__(self, hosts: str, timeout_ms: int, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        self._chroot = ""
        self._listener = listener
        self._new_future = loop.create_future
        self._under_way: dict[asyncio.Future[Reply], None] = {}
        self._opened = asyncio.Event()
        self._connected = asyncio.Event()
        self._thread_ended = asyncio.Event()
        self._is_handed_over = False
        self._over = False
        self._cuts = 0
        self._last_zxid = 0
        self._link = KazooLink(hosts, timeout_ms, self, LoopCalls(loop))

    # ------------------------------------------------------------------ the session

    async def open(self, chroot: str, *, creates_chroot: bool = True) -> None:
        """Wait for the session, create the folders of `chroot` that are missing, and confine the session to it.

        Raises:
            ZooKeeperUnreachable: the session expired meanwhile, or the chroot cannot be created.
        """
        self._link.start()
        await self._opened.wait()
        if creates_chroot:
            await create_chroot_if_necessary(self, chroot)
        if not await self.connected():
            raise session_expired(self)
        self._chroot = chroot
        self._is_handed_over = True

    @property
    def session_id(self) -> int:
        return self._link.credentials[0]

    @property
    def session_timeout_ms(self) -> int:
        return self._link.granted_timeout_ms

    @property
    def last_zxid(self) -> int:
        return self._last_zxid

    @property
    def credentials(self) -> tuple[int, bytes]:
        """The session's id and password, with which another client can take the session over and end it."""
        return self._link.credentials

    async def connected(self) -> bool:
        await self._connected.wait()
        return not self._over

    async def close(self) -> None:
        """End the session at the server if it is connected; otherwise the server ends it when it times out."""
        self._end()
        self._link.close()
        bound_s = self.session_timeout_ms / 1000 + _CLOSING_GRACE_S
        try:
            async with asyncio.timeout(bound_s):
                await self._thread_ended.wait()
        except TimeoutError:
            _log.warning("the connection thread did not end within %.1f s; it ends with the process", bound_s)
            self._answer_all(Failure.SESSION_EXPIRED)

    # ------------------------------------------------------------------ reads

    async def get(self, path: str, *, watch: bool = False) -> ZNodeData | Failure:
        return await self._read(jute.GET_DATA, path, jute.read_node, watch)

    async def exists(self, path: str, *, watch: bool = False) -> Stat | Failure:
        return await self._read(jute.EXISTS, path, jute.read_stat, watch)

    async def children(self, path: str, *, watch: bool = False) -> Children | Failure:
        return await self._read(jute.GET_CHILDREN_2, path, jute.read_children, watch)

    async def _read(self, request_type: int, path: str, read: Callable[[bytes, int], _T], watch: bool) -> _T | Failure:
        path = self._full(path)
        request = Request(request_type, jute.read_request(path, watch), read)
        return await self._ask(request, arming(request_type, path) if watch else None)

    async def get_many(self, paths: Sequence[str], *, watch: bool = False) -> list[ZNodeData | Failure]:
        """Read with MultiRead, which arms no watches; a SetWatches that follows at once arms them.

        It is sent as of the read's zxid, so that the server reports what has changed between the two. From servers
        without MultiRead, `MULTI_READ_PATHS` znodes at a time are read by pipelined requests, as Kafka does.
        """
        if self._link.lacks_multi_read:
            return await self._get_pipelined(paths, watch)
        full_paths = [self._full(path) for path in paths]
        together = chunks(full_paths, SET_WATCHES_BYTES if watch else MAX_REQUEST_BYTES)
        answers = await asyncio.gather(*[self._get_chunk(chunk, watch) for chunk in together])
        return [result for answer in answers for result in answer]

    async def _get_chunk(self, paths: Sequence[str], watch: bool) -> list[ZNodeData | Failure]:
        request = Request(jute.MULTI_READ, jute.multi_read_request(paths), jute.read_many)
        answer = await self._ask(request, watched=paths if watch else ())
        return [answer] * len(paths) if isinstance(answer, Failure) else answer

    async def _get_pipelined(self, paths: Sequence[str], watch: bool) -> list[ZNodeData | Failure]:
        results: list[ZNodeData | Failure] = []
        for chunk in chunks(paths, MAX_REQUEST_BYTES):
            results += await asyncio.gather(*[self.get(path, watch=watch) for path in chunk])
        return results

    # ------------------------------------------------------------------ writes

    async def write(self, op: Create | SetData | Delete) -> OpResult | Failure:
        body = jute.op_request(op, self._full(op.path))
        request: Request[OpResult] = Request(jute.op_code(op), body, _READ_RESULT[type(op)])
        answer = await self._ask(request)
        return answer if isinstance(answer, Failure) else self._without_chroot(answer)

    async def multi(self, ops: Sequence[Op]) -> MultiOk | MultiFailed | Failure:
        request = Request(
            jute.MULTI, jute.multi_request(ops, self._full), lambda data, offset: [jute.read_multi(data, offset)]
        )
        reply = await self._reply(request)
        answer, zxid = reply
        if isinstance(answer, Failure):
            return answer
        outcome = answer[0]
        return outcome if isinstance(outcome, MultiFailed) else MultiOk(tuple(map(self._without_chroot, outcome)), zxid)

    # ------------------------------------------------------------------ requests and answers

    async def _ask(
        self, request: Request[_T], arming: Arming | None = None, *, watched: Sequence[str] = ()
    ) -> _T | Failure:
        return (await self._reply(request, arming, watched))[0]

    async def _reply(
        self, request: Request[_T], arming: Arming | None = None, watched: Sequence[str] = ()
    ) -> tuple[_T | Failure, int]:
        """Return the answer and the zxid that it came with."""
        if self._over:
            return Failure.SESSION_EXPIRED, self._last_zxid
        if not self._connected.is_set():
            return Failure.UNKNOWN, self._last_zxid
        if len(request.body) > MAX_REQUEST_BYTES:
            return Failure.TOO_LARGE, self._last_zxid
        future: asyncio.Future[Reply] = self._new_future()
        self._under_way[future] = None
        self._link.send(request, future, arming, watched, self._cuts)
        return cast(tuple[_T | Failure, int], await future)

    def answered(self, future: asyncio.Future[Reply], reply: Reply) -> None:
        self._last_zxid = max(self._last_zxid, reply[1])
        self._under_way.pop(future, None)
        if not future.done():
            future.set_result(reply)

    def notified(self, notification: Notification) -> None:
        if self._over:
            return
        match notification:
            case SessionSuspended():
                self._cuts += 1
                self._connected.clear()
                # A request that was sent after the connection had ended gets no other answer.
                self._answer_all(Failure.UNKNOWN)
            case SessionResumed():
                self._connected.set()
            case SessionExpired():
                self._end()
        if self._is_handed_over:
            self._listener(notification)

    def watch_fired(self, path: str, kind: WatchKind) -> None:
        self.notified(WatchFired(path[len(self._chroot) :] or "/", kind))

    def opened(self) -> None:
        self._connected.set()
        self._opened.set()

    def thread_ended(self) -> None:
        """Answer the requests that were put into kazoo's queue while it ended: nothing else will."""
        self._answer_all(Failure.SESSION_EXPIRED)
        self._thread_ended.set()

    def _answer_all(self, failure: Failure) -> None:
        for future in list(self._under_way):
            self.answered(future, (failure, self._last_zxid))

    def _end(self) -> None:
        self._over = True
        self._connected.set()

    # ------------------------------------------------------------------ the chroot

    def _full(self, path: str) -> str:
        if not self._chroot:
            return path
        return self._chroot if path == "/" else self._chroot + path

    def _without_chroot(self, result: OpResult) -> OpResult:
        return Created(result.path[len(self._chroot) :]) if self._chroot and isinstance(result, Created) else result


def _is_address(host: str) -> bool:
    """`host:port`, or a host alone, which means port 2181."""
    name, colon, port = host.rpartition(":")
    if host.endswith("]") or not colon:
        return bool(host)
    return bool(name) and port.isdecimal()


_READ_RESULT: dict[type, Callable[[bytes, int], OpResult]] = {
    Create: jute.read_created,
    SetData: jute.read_updated,
    Delete: jute.read_deleted,
}
