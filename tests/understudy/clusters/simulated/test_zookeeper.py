"""The faults of the simulated ZooKeeper: held and lost packets, unknown outcomes, paused and killed clients.

The behaviour that it shares with a real server is tested in `tests/contracts`.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from understudy.checks.history import OpKind, tree_after
from understudy.clusters.simulated.loop import SimulatedLoop
from understudy.clusters.simulated.zookeeper import LostAnswer, SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper
from understudy.foundation.zk.client import (
    Check,
    Checked,
    Create,
    Created,
    Failure,
    MultiFailed,
    MultiOk,
    Notification,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    SetData,
    Updated,
    WatchFired,
    WatchKind,
    ZooKeeperClient,
)

TIMEOUT_MS = 6_000


@pytest.fixture
def server(loop: SimulatedLoop) -> SimulatedZooKeeper:
    return SimulatedZooKeeper(loop, random=random.Random(7))


async def connect(
    server: SimulatedZooKeeper, node: str, notifications: list[Notification] | None = None
) -> ZooKeeperClient:
    zookeeper = NodeZooKeeper(server, node, session_timeout_ms=TIMEOUT_MS)
    return await zookeeper.connect((notifications if notifications is not None else []).append)


def test_the_session_of_a_paused_process_expires_and_it_is_notified_when_resumed(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    broker, notifications = loop.process("broker-1"), list[Notification]()

    async def own() -> ZooKeeperClient:
        zk = await connect(server, "broker-1", notifications)
        await zk.write(Create("/controller", b"1", ephemeral=True))
        return zk

    owning = broker.spawn(own())
    loop.run_for(1)
    broker.pause()
    loop.run_for(TIMEOUT_MS / 1000 + 1)
    assert server.tree.exists("/controller") is Failure.NO_NODE
    assert notifications == []
    broker.resume()
    loop.run_for(2)
    assert notifications == [SessionSuspended(), SessionExpired()]
    assert server.transactions[-1].closed_session
    assert server.transactions[-1].session_id == owning.result().session_id
    assert [op.kind for op in server.transactions[-1].ops] == [OpKind.DELETE]


def test_a_session_survives_a_pause_shorter_than_its_timeout(loop: SimulatedLoop, server: SimulatedZooKeeper) -> None:
    broker, notifications = loop.process("broker-1"), list[Notification]()

    async def own() -> None:
        zk = await connect(server, "broker-1", notifications)
        await zk.write(Create("/controller", b"1", ephemeral=True))

    broker.spawn(own())
    loop.run_for(1)
    broker.pause()
    loop.run_for(3)
    broker.resume()
    loop.run_for(20)
    assert not isinstance(server.tree.exists("/controller"), Failure)
    assert SessionExpired() not in notifications


def test_the_session_of_a_killed_process_exists_until_its_timeout(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    broker = loop.process("broker-1")

    async def own() -> None:
        zk = await connect(server, "broker-1")
        await zk.write(Create("/controller", b"1", ephemeral=True))

    broker.spawn(own())
    loop.run_for(1)
    broker.kill()
    loop.run_for(4)
    assert not isinstance(server.tree.exists("/controller"), Failure)
    loop.run_for(4)
    assert server.tree.exists("/controller") is Failure.NO_NODE
    assert server.live_sessions == ()


@pytest.mark.parametrize("applied", [True, False])
def test_the_outcome_of_a_write_with_a_lost_answer_is_unknown(
    loop: SimulatedLoop, server: SimulatedZooKeeper, applied: bool
) -> None:
    async def scenario() -> list[Notification]:
        notifications: list[Notification] = []
        zk = await connect(server, "broker-1", notifications)
        server.lost_answers.append(LostAnswer(node="broker-1", path="/controller", applied=applied))
        assert await zk.write(Create("/controller", b"1")) is Failure.UNKNOWN
        assert await zk.connected()
        assert isinstance(await zk.exists("/controller"), Failure) is not applied
        assert await zk.write(Create("/other", b"")) == Created("/other")
        return notifications

    assert loop.run_until_complete(scenario()) == [SessionSuspended(), SessionResumed()]


def test_no_request_of_an_old_connection_is_applied_after_the_session_has_a_new_one(loop: SimulatedLoop) -> None:
    """Requests of a broken connection arrive before the first request of the next one, or never (Z4)."""
    late = lost = 0
    for seed in range(60):
        server = SimulatedZooKeeper(loop, random=random.Random(seed))

        async def scenario(server: SimulatedZooKeeper = server) -> bool:
            zk = await connect(server, "broker-1")
            await zk.write(Create("/a", b"old"))
            server.hold("broker-1", requests=True, answers=False)
            writing = asyncio.ensure_future(zk.write(SetData("/a", b"late")))
            await asyncio.sleep(6)
            assert await writing is Failure.UNKNOWN
            server.heal("broker-1")
            assert await zk.connected()
            node = await zk.get("/a")
            assert not isinstance(node, Failure)
            await asyncio.sleep(10)
            assert await zk.get("/a") == node
            return node.data == b"late"

        if loop.run_until_complete(scenario()):
            late += 1
        else:
            lost += 1
    assert late > 5
    assert lost > 5


def test_held_answers_arrive_late_where_the_link_heals_in_time(loop: SimulatedLoop, server: SimulatedZooKeeper) -> None:
    async def scenario() -> None:
        zk = await connect(server, "broker-1")
        server.hold("broker-1")
        writing = asyncio.ensure_future(zk.write(Create("/a", b"")))
        await asyncio.sleep(2)
        assert not writing.done()
        server.heal("broker-1")
        assert await writing == Created("/a")

    loop.run_until_complete(scenario())


def test_a_watch_fires_after_a_reconnect_for_a_change_during_the_cut(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    async def scenario() -> list[Notification]:
        notifications: list[Notification] = []
        watcher, writer = await connect(server, "broker-1", notifications), await connect(server, "broker-2")
        await writer.write(Create("/a", b""))
        await watcher.get("/a", watch=True)
        await watcher.exists("/b", watch=True)
        await watcher.children("/", watch=True)
        await watcher.exists("/c", watch=True)
        server.cut("broker-1")
        await writer.write(SetData("/a", b"x"))
        await writer.write(Create("/b", b""))
        server.heal("broker-1")
        assert await watcher.connected()
        await asyncio.sleep(1)
        await writer.write(Create("/c", b""))
        await writer.write(SetData("/a", b"y"))
        await asyncio.sleep(1)
        return notifications

    assert loop.run_until_complete(scenario()) == [
        SessionSuspended(),
        SessionResumed(),
        WatchFired("/a", WatchKind.CHANGED),
        WatchFired("/b", WatchKind.CREATED),
        WatchFired("/", WatchKind.CHILDREN),
        WatchFired("/c", WatchKind.CREATED),
    ]


def test_the_history_has_exactly_the_transactions_that_were_applied(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    async def scenario() -> None:
        zk = await connect(server, "broker-1")
        await zk.write(Create("/epoch", b"1"))
        outcome = await zk.multi([Check("/epoch", 0), Create("/a", b"x"), SetData("/epoch", b"2", 0)])
        assert isinstance(outcome, MultiOk)
        assert outcome.zxid == server.zxid
        assert [type(result) for result in outcome.results] == [Checked, Created, Updated]
        before = server.zxid
        assert await zk.multi([SetData("/a", b"gone"), Check("/epoch", 0)]) == MultiFailed(1, Failure.BAD_VERSION)
        assert server.zxid == before + 1

    loop.run_until_complete(scenario())
    assert [[(op.kind, op.path, op.version) for op in transaction.ops] for transaction in server.transactions] == [
        [(OpKind.CREATE, "/epoch", 0)],
        [(OpKind.CHECK, "/epoch", 0), (OpKind.CREATE, "/a", 0), (OpKind.SET, "/epoch", 1)],
    ]
    tree = tree_after(server.transactions)
    assert (tree["/a"].data, tree["/epoch"].data, tree["/epoch"].version) == (b"x", b"2", 1)
    assert tree["/epoch"].mzxid == server.transactions[-1].zxid


def test_writes_have_unknown_outcomes_with_the_configured_probability(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    async def scenario() -> tuple[int, int]:
        zk = await connect(server, "broker-1")
        server.unknown_probability = 0.2
        unknown = applied = 0
        for number in range(200):
            if await zk.write(Create(f"/{number}", b"")) is Failure.UNKNOWN:
                unknown += 1
                assert await zk.connected()
                applied += not isinstance(await zk.exists(f"/{number}"), Failure)
        return unknown, applied

    unknown, applied = loop.run_until_complete(scenario())
    assert 20 < unknown < 70
    assert 5 < applied < unknown - 5


def test_a_request_that_a_killed_process_had_sent_still_arrives(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    broker = loop.process("broker-1")

    async def write_and_be_killed() -> None:
        zk = await connect(server, "broker-1")
        loop.call_later(0.0001, broker.kill)
        await zk.write(Create("/sent-before-kill", b""))
        raise AssertionError("a killed process receives no answer")

    broker.spawn(write_and_be_killed())
    loop.run_for(1)
    assert not isinstance(server.tree.exists("/sent-before-kill"), Failure)


def test_closing_a_session_over_a_cut_link_takes_no_longer_than_its_timeout(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    async def scenario() -> float:
        zk = await connect(server, "broker-1")
        server.hold("broker-1")
        began = loop.time()
        await zk.close()
        return loop.time() - began

    assert loop.run_until_complete(scenario()) <= TIMEOUT_MS / 1000


def test_held_notifications_of_a_session_that_ended_arrive_when_the_link_heals(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    async def scenario() -> list[Notification]:
        notifications: list[Notification] = []
        zk = await connect(server, "broker-1", notifications)
        await zk.exists("/a", watch=True)
        server.hold("broker-1", requests=False, answers=True)
        server.operate([Create("/a", b"")])
        server.expire(zk.session_id)
        await asyncio.sleep(1)
        assert notifications == []
        server.heal("broker-1")
        await asyncio.sleep(1)
        return notifications

    assert loop.run_until_complete(scenario()) == [
        WatchFired("/a", WatchKind.CREATED),
        SessionSuspended(),
        SessionExpired(),
    ]


def test_no_session_expires_while_the_ensemble_is_down_and_all_have_their_full_timeout_afterwards(
    loop: SimulatedLoop, server: SimulatedZooKeeper
) -> None:
    broker, notifications = loop.process("broker-1"), list[Notification]()
    opening = broker.spawn(connect(server, "broker-1", notifications))
    loop.run_for(1)
    session = opening.result()
    writing = broker.spawn(session.write(Create("/a", b"", ephemeral=True)))
    loop.run_for(1)
    assert writing.result() == Created("/a")
    server.stop()
    asking = broker.spawn(session.get("/a"))
    loop.run_for(60)
    assert asking.result() is Failure.UNKNOWN
    assert server.live_sessions == (session.session_id,)
    assert notifications == [SessionSuspended()]
    broker.pause()
    server.start()
    loop.run_for(TIMEOUT_MS / 1000 - 0.1)
    assert server.live_sessions == (session.session_id,)
    broker.resume()
    loop.run_for(1)
    assert notifications == [SessionSuspended(), SessionResumed()]
