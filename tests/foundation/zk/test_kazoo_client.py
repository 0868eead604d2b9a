"""The kazoo adapter: its threads, servers that die or do not answer, several hosts, session timeouts.

What it has in common with the simulator's client is tested in `tests/contracts`.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, ANYONE_ID_UNSAFE, Permissions

from tests.contracts.real_subject import Proxy
from tests.contracts.subject import PATIENCE_S, Session
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.foundation.zk import jute
from understudy.foundation.zk.client import (
    Create,
    Created,
    Failure,
    Notification,
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
from understudy.foundation.zk.kazoo_client import KazooSession, KazooZooKeeper


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of its own, which the test may kill and pause."""
    with EmbeddedZooKeeper(tmp_path) as server:
        yield server


async def opened(connect_string: str, *, session_timeout_ms: int = 30_000) -> Session:
    """A session; its default timeout is long enough for the restart of a server on a busy machine."""
    session = Session()
    session.zk = await KazooZooKeeper(connect_string, session_timeout_ms=session_timeout_ms).connect(session.listen)
    return session


def living_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "zookeeper-connection"]


def left_over(before: list[threading.Thread]) -> list[threading.Thread]:
    """The threads that have been started since and do not end within a short time."""
    come = [thread for thread in living_threads() if thread not in before]
    for thread in come:
        thread.join(PATIENCE_S)
    return [thread for thread in come if thread.is_alive()]


def block_the_loop_until_suspended(session: Session) -> None:
    """Block the loop until the connection thread has noticed a cut, of which the loop is therefore not notified yet."""
    assert isinstance(session.zk, KazooSession)
    deadline = time.monotonic() + PATIENCE_S
    while not session.zk._link._suspended and time.monotonic() < deadline:
        time.sleep(0.01)
    assert session.notifications == []


def test_a_session_survives_the_restart_of_the_server(own_zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        session = await opened(own_zookeeper.connect_string + "/app")
        session_id = session.zk.session_id
        await session.zk.write(Create("/mortal", b"", ephemeral=True))
        await session.zk.get("/mortal", watch=True)
        own_zookeeper.kill()
        await session.wait_for(SessionSuspended)
        assert await session.zk.get("/mortal") is Failure.UNKNOWN
        await asyncio.to_thread(own_zookeeper.start)
        await session.wait_for(SessionResumed)
        assert session.zk.session_id == session_id
        node = await session.zk.get("/mortal")
        assert isinstance(node, ZNodeData)
        assert node.stat.ephemeral_owner == session_id
        await session.zk.write(SetData("/mortal", b"x"))
        await session.wait_for_watch("/mortal", WatchKind.CHANGED)
        await session.zk.close()

    asyncio.run(scenario())


def test_a_server_that_does_not_answer_suspends_the_session(own_zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        # The client notices after two thirds of the timeout; the last third is left for the server to answer again.
        session = await opened(own_zookeeper.connect_string, session_timeout_ms=9_000)
        own_zookeeper.pause()
        write = asyncio.ensure_future(session.zk.write(Create("/a")))
        await session.wait_for(SessionSuspended)
        assert await write is Failure.UNKNOWN
        own_zookeeper.resume()
        await session.wait_for(SessionResumed)
        await session.zk.close()

    asyncio.run(scenario())


def test_a_server_that_does_not_answer_is_noticed_while_requests_are_sent(own_zookeeper: EmbeddedZooKeeper) -> None:
    """Sent requests do not count as heartbeats of the server."""

    async def scenario() -> None:
        session = await opened(own_zookeeper.connect_string, session_timeout_ms=1_500)
        own_zookeeper.pause()
        reads: list[asyncio.Future[Stat | Failure]] = []
        while not session.notifications and len(reads) < 60:
            reads.append(asyncio.ensure_future(session.zk.exists("/")))
            await asyncio.sleep(0.1)
        assert session.notifications == [SessionSuspended()]
        assert set(await asyncio.gather(*reads)) == {Failure.UNKNOWN}
        own_zookeeper.resume()
        await session.zk.close()

    asyncio.run(scenario())


def test_a_request_sent_before_a_cut_is_notified_is_answered_during_the_cut(own_zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        session = await opened(own_zookeeper.connect_string + "/late")
        own_zookeeper.kill()
        block_the_loop_until_suspended(session)
        async with asyncio.timeout(PATIENCE_S):
            assert await session.zk.write(Create("/a")) is Failure.UNKNOWN
        assert session.notifications == [SessionSuspended()]
        await asyncio.to_thread(own_zookeeper.start)
        assert await session.zk.connected()
        assert await session.zk.exists("/a") is Failure.NO_NODE
        await session.zk.close()

    asyncio.run(scenario())


def test_a_session_expires_by_the_servers_clock(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        owner = await opened(f"127.0.0.1:{await proxy.start()}/clock", session_timeout_ms=3_000)
        observer = await opened(f"{zookeeper.connect_string}/clock")
        assert owner.zk.session_timeout_ms == 3_000
        await owner.zk.write(Create("/mortal", ephemeral=True))
        assert isinstance(await observer.zk.exists("/mortal", watch=True), Stat)
        proxy.cut()
        await observer.wait_for_watch("/mortal", WatchKind.DELETED)
        proxy.heal()
        await owner.wait_for(SessionExpired)
        assert owner.notifications == [SessionSuspended(), SessionExpired()]
        await owner.zk.close()
        await observer.zk.close()
        await proxy.stop()

    asyncio.run(scenario())


def test_one_answering_server_of_several_is_enough(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        # No server listens on port 1.
        session = await opened(f"127.0.0.1:1,{zookeeper.connect_string}/several")
        assert isinstance(await session.zk.exists("/"), Stat)
        await session.zk.close()

    asyncio.run(scenario())


def test_a_server_that_accepts_and_never_answers_is_unreachable_within_the_timeout(
    zookeeper: EmbeddedZooKeeper,
) -> None:
    async def scenario() -> None:
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        silent = f"127.0.0.1:{await proxy.start()}"
        proxy.hold_requests()
        ensemble = KazooZooKeeper(silent, session_timeout_ms=30_000, connection_timeout_ms=500)
        async with asyncio.timeout(10):
            with pytest.raises(ZooKeeperUnreachable, match=f"{silent} within 500 ms"):
                await ensemble.connect(lambda _: None)
        await proxy.stop()

    before = living_threads()
    asyncio.run(scenario())
    assert left_over(before) == []


def test_a_reconnect_without_answer_is_tried_again_within_the_session_timeout(zookeeper: EmbeddedZooKeeper) -> None:
    """ZooKeeper does not answer connections that reach it while it starts."""

    async def scenario() -> None:
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        session = await opened(f"127.0.0.1:{await proxy.start()}", session_timeout_ms=9_000)
        session_id = session.zk.session_id
        proxy.cut()
        await session.wait_for(SessionSuspended)
        proxy.hold_requests()
        proxy.heal()
        await proxy.wait_for_held_request()
        proxy.carry_requests()
        await session.wait_for(SessionResumed)
        assert session.zk.session_id == session_id
        await session.zk.close()
        await proxy.stop()

    asyncio.run(scenario())


class OldServer:
    """Stands for a server older than ZooKeeper 3.6: answers MultiRead with UNIMPLEMENTED and closes the connection."""

    def __init__(self, server: str) -> None:
        host, port = server.split(":")
        self._server = (host, int(port))
        self._connections: list[asyncio.Task[None]] = []
        self.types: list[list[int]] = []
        """The types of the requests of each connection; 0 for the one that connects."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Accept connections; yield `host:port`."""
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with listener:
            yield f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            listener.close()
            await asyncio.gather(*self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        types: list[int] = []
        self.types.append(types)
        server_reader, server_writer = await asyncio.open_connection(*self._server)
        answers = asyncio.create_task(self._carry_answers(server_reader, writer))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                size = await reader.readexactly(4)
                request = await reader.readexactly(int.from_bytes(size, "big"))
                xid, kind = struct.unpack_from("!ii", request)
                types.append(kind if types else 0)
                if types[-1] == jute.MULTI_READ:
                    writer.write(struct.pack("!iiqi", 16, xid, 0, -6))
                    await writer.drain()
                    break
                server_writer.write(size + request)
                await server_writer.drain()
        writer.close()
        server_writer.close()
        await answers

    async def _carry_answers(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await server.read(65536):
                writer.write(data)
        writer.close()


def test_a_server_without_multi_read_is_noticed_once_and_read_by_pipelined_requests(
    zookeeper: EmbeddedZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        old = OldServer(zookeeper.connect_string)
        async with old.running() as address:
            session = await opened(f"{address}/old")
            await session.zk.multi([Create("/a", b"1"), Create("/b", b"2")])
            found = await session.zk.get_many(["/a", "/absent", "/b"], watch=True)
            assert [node.data if isinstance(node, ZNodeData) else node for node in found] == [
                b"1",
                Failure.NO_NODE,
                b"2",
            ]
            await session.zk.write(SetData("/b", b"3"))
            await session.wait_for_watch("/b", WatchKind.CHANGED)
            await session.zk.close()
        first, second = old.types
        assert first == [0, jute.MULTI_READ]
        assert jute.MULTI_READ not in second
        assert second.count(jute.GET_DATA) == 3
        assert {type(notification) for notification in session.notifications} == {WatchFired}

    with caplog.at_level("INFO"):
        asyncio.run(scenario())
    assert [record.getMessage().partition(" and ")[0] for record in caplog.records] == [
        "this ZooKeeper is older than 3.6"
    ]


def test_no_thread_of_a_session_is_left_after_closing(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        closed = await opened(zookeeper.connect_string)
        await closed.zk.close()
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        cut = await opened(f"127.0.0.1:{await proxy.start()}")
        proxy.cut()
        await cut.wait_for(SessionSuspended)
        await cut.zk.close()
        await proxy.stop()
        with pytest.raises(ZooKeeperUnreachable):
            await KazooZooKeeper("127.0.0.1:1", connection_timeout_ms=300).connect(lambda _: None)

    before = living_threads()
    asyncio.run(scenario())
    assert left_over(before) == []


def test_a_cancelled_connect_leaves_no_thread(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        connecting = asyncio.ensure_future(KazooZooKeeper("127.0.0.1:1").connect(lambda _: None))
        await asyncio.sleep(0.1)
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

    before = living_threads()
    asyncio.run(scenario())
    assert left_over(before) == []


@pytest.mark.parametrize("answers", [0, 1, 2])
@pytest.mark.parametrize("ends_by", ["cancellation", "timeout"])
def test_a_connect_that_ends_while_the_server_is_silent_leaves_nothing_behind(
    zookeeper: EmbeddedZooKeeper, answers: int, ends_by: str
) -> None:
    """The server falls silent before it opens the session, before it answers the empty MultiRead, or when the chroot is
    looked for."""

    async def scenario() -> None:
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        address = f"127.0.0.1:{await proxy.start()}"
        proxy.heal(answers=answers)
        timeout_ms = 1_000 if ends_by == "timeout" else 60_000
        ensemble = KazooZooKeeper(f"{address}/silent", session_timeout_ms=3_000, connection_timeout_ms=timeout_ms)
        connecting = asyncio.ensure_future(ensemble.connect(lambda _: None))
        await proxy.wait_for_held_answer()
        async with asyncio.timeout(PATIENCE_S):
            if ends_by == "cancellation":
                connecting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await connecting
            else:
                with pytest.raises(ZooKeeperUnreachable, match=f"{address}/silent within 1000 ms"):
                    await connecting
        await proxy.stop()

    before = living_threads()
    asyncio.run(scenario())
    assert left_over(before) == []


def test_a_chroot_that_cannot_be_created_is_named_with_the_reason(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        session = await opened(zookeeper.connect_string)
        await session.zk.write(Create("/mortal", ephemeral=True))
        with pytest.raises(
            ZooKeeperUnreachable, match=r"chroot /mortal/kafka of .* cannot be created: NoChildrenForEphemerals"
        ):
            await opened(zookeeper.connect_string + "/mortal/kafka")
        await session.zk.close()

    before = living_threads()
    asyncio.run(scenario())
    assert left_over(before) == []


def create_with_permissions(zookeeper: EmbeddedZooKeeper, permissions: dict[str, int]) -> None:
    """Create the znodes, parents first, and then grant every client these permissions on each."""
    client = KazooClient(hosts=zookeeper.connect_string)
    client.start(timeout=PATIENCE_S)
    for path in permissions:
        client.create(path)
    for path in sorted(permissions, reverse=True):
        client.set_acls(path, [ACL(permissions[path], ANYONE_ID_UNSAFE)])
    client.stop()
    client.close()


def test_a_chroot_need_not_be_created(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        reading = KazooZooKeeper(zookeeper.connect_string + "/never-made", creates_chroot=False)
        session = await reading.connect(lambda notification: None)
        assert await session.exists("/") is Failure.NO_NODE
        await session.close()

    asyncio.run(scenario())


def test_a_chroot_that_exists_below_a_locked_parent_is_used(zookeeper: EmbeddedZooKeeper) -> None:
    """Kafka does so since KAFKA-12866. The last folder may be written to; its parent may not even be read."""
    create_with_permissions(
        zookeeper,
        {"/locked": Permissions.READ, "/locked/apps": Permissions.ADMIN, "/locked/apps/kafka": Permissions.ALL},
    )

    async def scenario() -> None:
        session = await opened(zookeeper.connect_string + "/locked/apps/kafka")
        assert await session.zk.write(Create("/brokers")) == Created("/brokers")
        await session.zk.close()
        session = await opened(zookeeper.connect_string + "/locked/apps/kafka/missing/folders")
        assert await session.zk.write(Create("/brokers")) == Created("/brokers")
        await session.zk.close()

    asyncio.run(scenario())


def test_a_chroot_that_is_missing_below_a_locked_parent_is_named_with_the_remedy(zookeeper: EmbeddedZooKeeper) -> None:
    create_with_permissions(zookeeper, {"/read-only": Permissions.READ})

    async def scenario() -> None:
        with pytest.raises(
            ZooKeeperUnreachable,
            match=r"chroot /read-only/apps/kafka of .* and /read-only/apps cannot be created: NoAuth; "
            r"this client lacks the CREATE permission on /read-only; create /read-only/apps/kafka by hand",
        ):
            await opened(zookeeper.connect_string + "/read-only/apps/kafka")

    before = living_threads()
    asyncio.run(scenario())
    assert left_over(before) == []


@pytest.mark.parametrize(
    "connect_string", ["", "/chroot", "host:port", "one:2181,,two:2181", ":2181", "one:2181//a", "one:2181/a//b"]
)
def test_a_connect_string_without_host_is_refused(connect_string: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        KazooZooKeeper(connect_string)


@pytest.mark.parametrize("connect_string", ["host", "host:2181", "a:1, b:2/chroot/", "[::1]:2181", "[::1]"])
def test_hosts_are_accepted_with_and_without_port(connect_string: str) -> None:
    KazooZooKeeper(connect_string)


def test_an_exception_of_a_listener_is_reported_and_the_session_continues(zookeeper: EmbeddedZooKeeper) -> None:
    reported: list[dict[str, Any]] = []

    def listener(_: Notification) -> None:
        raise ValueError("a mistake of the listener's")

    async def scenario() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        zk = await KazooZooKeeper(zookeeper.connect_string + "/raises").connect(listener)
        await zk.write(Create("/a"))
        await zk.get("/a", watch=True)
        await zk.write(SetData("/a", b"x"))
        assert isinstance(await zk.get("/a"), ZNodeData)
        await zk.close()

    asyncio.run(scenario())
    assert [str(context["exception"]) for context in reported] == ["a mistake of the listener's"]


def test_a_cancelled_request_does_not_affect_the_next(zookeeper: EmbeddedZooKeeper) -> None:
    async def scenario() -> None:
        session = await opened(zookeeper.connect_string + "/given-up")
        for _ in range(50):
            given_up = asyncio.ensure_future(session.zk.exists("/"))
            await asyncio.sleep(0)
            given_up.cancel()
        assert isinstance(await session.zk.exists("/"), Stat)
        await session.zk.close()

    asyncio.run(scenario())


def test_thousands_of_concurrent_requests_do_not_deadlock(zookeeper: EmbeddedZooKeeper) -> None:
    """More than the wake-up pipe holds, from the loop and, for the watches, from the connection thread."""

    async def scenario() -> None:
        session = await opened(zookeeper.connect_string + "/many")
        await session.zk.write(Create("/a"))
        for _ in range(5):
            found = await asyncio.gather(*[session.zk.get_many(["/a"], watch=True) for _ in range(2_000)])
            assert all(isinstance(node, ZNodeData) for (node,) in found)
        await session.zk.close()

    # If the two threads blocked each other, no timeout of the loop would fire.
    thread = threading.Thread(target=asyncio.run, args=(scenario(),), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


@pytest.mark.parametrize("answers", [2, 3, 4, 5])
def test_a_second_cut_while_watches_are_set_again_loses_no_watch(zookeeper: EmbeddedZooKeeper, answers: int) -> None:
    """Some notifications are lost, while answers to SetWatches for other paths have carried a newer zxid."""

    async def scenario() -> None:
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        chroot = f"/twice-{answers}"
        session = await opened(f"127.0.0.1:{await proxy.start()}{chroot}")
        other = await opened(zookeeper.connect_string + chroot)
        await other.zk.multi([Create("/data"), Create("/folder")])
        await session.zk.get("/data", watch=True)
        await session.zk.exists("/absent", watch=True)
        await session.zk.children("/folder", watch=True)
        proxy.cut()
        await session.wait_for(SessionSuspended)
        await other.zk.multi([Create("/absent"), Create("/folder/a")])
        proxy.heal(answers=answers)
        await session.wait_for(SessionResumed)
        await proxy.wait_for_held_answer()
        proxy.cut()
        await session.wait_for(SessionSuspended, times=2)
        proxy.heal()
        await session.wait_for(SessionResumed, times=2)
        assert isinstance(await session.zk.exists("/"), Stat)
        assert sorted(fired.path for fired in session.fired) == ["/absent", "/folder"]
        await session.zk.close()
        await other.zk.close()
        await proxy.stop()

    asyncio.run(scenario())


def test_under_load_and_cuts_every_request_is_answered(zookeeper: EmbeddedZooKeeper) -> None:
    """The connection is cut at random times: no request hangs, and every acknowledged write is there."""

    async def scenario() -> None:
        host, port = zookeeper.connect_string.split(":")
        proxy = Proxy((host, int(port)))
        session = await opened(f"127.0.0.1:{await proxy.start()}/load")
        await session.zk.write(Create("/a"))
        acknowledged = unknown = 0

        async def write(writer: int) -> None:
            nonlocal acknowledged, unknown
            for number in range(100):
                answer = await session.zk.write(Create(f"/a/{writer}-{number}"))
                if answer is Failure.UNKNOWN:
                    unknown += 1
                    assert await session.zk.connected()
                else:
                    acknowledged += not isinstance(answer, Failure)

        async def cut() -> None:
            for cuts in range(1, 6):
                await asyncio.sleep(0.03)
                proxy.cut()
                await session.wait_for(SessionSuspended, times=cuts)
                proxy.heal()
                await session.wait_for(SessionResumed, times=cuts)

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(cut(), *[write(writer) for writer in range(20)])
        stat = await session.zk.exists("/a")
        assert isinstance(stat, Stat)
        assert acknowledged <= stat.num_children <= acknowledged + unknown
        await session.zk.close()
        await proxy.stop()

    asyncio.run(scenario())
