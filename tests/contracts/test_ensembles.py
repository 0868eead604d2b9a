"""ZooKeeper ensembles: servers that are cut off or killed, and what becomes of sessions. Each case runs on both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.contracts.servers import (
    SERVERS,
    Case,
    RealServersSubject,
    Servers,
    ServersSubject,
    SimulatedServersSubject,
)
from tests.contracts.subject import PATIENCE_S, Session, data_of
from tests.shares import at_night
from understudy.foundation.zk.client import (
    Create,
    Created,
    Failure,
    OpResult,
    SessionExpired,
    SessionResumed,
    SessionSuspended,
    SetData,
    Updated,
    ZooKeeperClient,
)

pytestmark = pytest.mark.xdist_group("zookeeper ensemble contract")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServersSubject]:
    with RealServersSubject.started(tmp_path_factory.mktemp("servers")) as subject:
        yield subject


REAL = at_night("servers of ZooKeeper stay as they are; with one server the contract is tested each time")


@pytest.fixture(params=["simulated", pytest.param("real", marks=REAL)])
def subject(request: pytest.FixtureRequest) -> ServersSubject:
    if request.param == "simulated":
        return SimulatedServersSubject()
    found: RealServersSubject = request.getfixturevalue("real")
    return found


def contract(case: Case) -> Callable[[ServersSubject], None]:
    def test(subject: ServersSubject) -> None:
        subject.run(case)

    test.__name__ = case.__name__
    return test


async def written(zk: ZooKeeperClient, op: Create | SetData) -> OpResult | Failure:
    """Write when the session is connected, again if a server has gone meanwhile."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            assert await zk.connected()
            outcome = await zk.write(op)
            if outcome is not Failure.UNKNOWN:
                return outcome


async def reconnected(session: Session) -> bool:
    """Wait until the session reaches a server that serves; return whether the session still exists."""
    async with asyncio.timeout(PATIENCE_S):
        return await session.zk.connected()


@contract
async def test_a_server_without_a_majority_serves_nobody_until_it_is_healed(servers: Servers) -> None:
    alone, other = await servers.open(3), await servers.open(1, 2)
    assert await alone.zk.write(Create("/a", b"before")) == Created("/a")
    await servers.cut(3)
    await alone.wait_for(SessionSuspended)
    assert isinstance(await written(other.zk, SetData("/a", b"meanwhile")), Updated)
    await servers.heal(3)
    await reconnected(alone)
    assert await data_of((await servers.open(3)).zk, "/a") == b"meanwhile"


@contract
async def test_a_session_expires_if_its_client_reaches_only_a_server_without_a_majority(servers: Servers) -> None:
    alone, other = await servers.open(3), await servers.open(1, 2)
    assert await alone.zk.write(Create("/mine", ephemeral=True)) == Created("/mine")
    async with asyncio.timeout(PATIENCE_S):
        while await other.zk.exists("/mine") is Failure.NO_NODE:  # the server of the other client may be behind
            await asyncio.sleep(0.01)
    await servers.cut(3)
    async with asyncio.timeout(PATIENCE_S):
        while await other.zk.exists("/mine") is not Failure.NO_NODE:
            await asyncio.sleep(0.1)
    assert SessionExpired() not in alone.notifications, "it cannot learn that"
    await servers.heal(3)
    await alone.wait_for(SessionExpired)


@contract
async def test_a_write_to_a_server_without_a_majority_gets_no_answer_and_is_not_applied(servers: Servers) -> None:
    alone, other = await servers.open(3), await servers.open(1, 2)
    await servers.cut(3)
    assert await alone.zk.write(Create("/lost")) is Failure.UNKNOWN
    await servers.wait_until_silent(3)
    assert await written(other.zk, Create("/kept")) == Created("/kept")
    await servers.heal(3)
    await reconnected(alone)
    zk = (await servers.open(3)).zk
    assert await zk.exists("/lost") is Failure.NO_NODE
    assert await data_of(zk, "/kept") == b""


@contract
async def test_a_client_moves_to_another_server_and_keeps_its_session(servers: Servers) -> None:
    """Each server is killed once, the leader among them."""
    session = await servers.open(*SERVERS)
    session_id = session.zk.session_id
    assert await session.zk.write(Create("/mine", ephemeral=True)) == Created("/mine")
    for server in SERVERS:
        await servers.kill(server)
        assert isinstance(await written(session.zk, SetData("/mine", str(server).encode())), Updated)
        assert await data_of(session.zk, "/mine") == str(server).encode()
        await servers.start(server)
    assert session.zk.session_id == session_id
    assert SessionResumed() in session.notifications
    assert SessionExpired() not in session.notifications


@contract
async def test_without_a_majority_no_session_expires(servers: Servers) -> None:
    session = await servers.open(*SERVERS)
    assert await session.zk.write(Create("/mine", ephemeral=True)) == Created("/mine")
    await servers.kill(1)
    await servers.kill(2)
    await session.wait_until_suspended()
    assert await session.zk.exists("/mine") is Failure.UNKNOWN
    await asyncio.sleep(8)  # two session timeouts
    await servers.start(1)
    assert await reconnected(session)
    assert not isinstance(await session.zk.exists("/mine"), Failure)
    assert SessionExpired() not in session.notifications
