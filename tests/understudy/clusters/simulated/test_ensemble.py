"""The servers of a simulated ensemble: elections, proposals that wait, and servers that are behind.

What it shares with a real ensemble is tested in `tests/contracts/test_ensembles.py`.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from understudy.clusters.cluster import ClusterError
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.loop import SimulatedLoop, new_loop
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.clusters.simulated.zookeeper_client import NodeZooKeeper, SimulatedSession
from understudy.clusters.simulated.zookeeper_quorum import ELECTION_MS, SYNC_LIMIT_MS
from understudy.foundation.eventlog.records import FaultInjected
from understudy.foundation.zk.client import (
    Check,
    Children,
    Create,
    Created,
    Delete,
    Failure,
    Listener,
    SessionExpired,
    SessionSuspended,
    SetData,
    Updated,
    ZNodeData,
)

TICK_S = 0.5
NOTICED_S = SYNC_LIMIT_MS / 1000 + TICK_S
"""Time after which a server has noticed that another one is silent."""
ELECTED_S = ELECTION_MS[1] / 1000 + TICK_S


@pytest.fixture
def zookeeper(loop: SimulatedLoop) -> SimulatedZooKeeper:
    return SimulatedZooKeeper(loop, random=random.Random(7), servers=3)


async def connect(
    zookeeper: SimulatedZooKeeper, *servers: int, listener: Listener = lambda _: None, timeout_ms: int = 10_000
) -> SimulatedSession:
    client = NodeZooKeeper(zookeeper, "broker-1", session_timeout_ms=timeout_ms, servers=servers)
    session = await client.connect(listener)
    assert isinstance(session, SimulatedSession)
    return session


def cut(zookeeper: SimulatedZooKeeper, server: int) -> None:
    for other in set(zookeeper.servers) - {server}:
        zookeeper.quorum.cut(server, other)


def serving(zookeeper: SimulatedZooKeeper) -> list[int]:
    return [server.number for server in zookeeper.servers.values() if server.is_serving]


def settled(zookeeper: SimulatedZooKeeper) -> None:
    """Let everything arrive, and assert that all servers have the same znodes."""
    zookeeper.quorum.heal_all()
    zookeeper.loop.run_for(NOTICED_S + ELECTED_S)
    assert serving(zookeeper) == [1, 2, 3]
    assert {server.zxid for server in zookeeper.servers.values()} == {zookeeper.zxid}
    for server in zookeeper.servers.values():
        assert server.tree.children("/") == zookeeper.tree.children("/")


def test_a_killed_leader_costs_an_election_in_which_no_server_serves(
    loop: SimulatedLoop, zookeeper: SimulatedZooKeeper
) -> None:
    assert zookeeper.quorum.leader() == 3
    zookeeper.stop(3)
    loop.run_for(TICK_S / 2)
    assert serving(zookeeper) == []
    loop.run_for(ELECTED_S)
    assert serving(zookeeper) == [1, 2]
    assert zookeeper.quorum.leader() == 2
    zookeeper.start(3)
    loop.run_for(TICK_S / 2)
    assert zookeeper.quorum.leader() == 2
    settled(zookeeper)


def test_each_leader_has_an_epoch_in_its_zxids(loop: SimulatedLoop, zookeeper: SimulatedZooKeeper) -> None:
    async def write(path: str) -> int:
        session = await connect(zookeeper, 1)
        await session.write(Create(path))
        return zookeeper.zxid

    assert loop.run_until_complete(write("/a")) == 0x1_0000_0002
    zookeeper.stop(3)
    loop.run_for(ELECTED_S)
    assert loop.run_until_complete(write("/b")) == 0x2_0000_0002


@pytest.mark.parametrize("server", [1, 3])
def test_a_server_that_is_cut_off_serves_old_data_until_it_notices(
    loop: SimulatedLoop, zookeeper: SimulatedZooKeeper, server: int
) -> None:
    """It is a follower, or the leader, which the others replace."""

    async def scenario() -> None:
        alone, other = await connect(zookeeper, server), await connect(zookeeper, 2)
        await other.write(Create("/a", b"old"))
        cut(zookeeper, server)
        if server == 1:
            assert isinstance(await other.write(SetData("/a", b"new")), Updated)
        else:
            assert await other.write(SetData("/a", b"new")) is Failure.UNKNOWN, "it follows the leader that is cut off"
        node = await alone.get("/a")
        assert isinstance(node, ZNodeData) is (server == 1)
        if isinstance(node, ZNodeData):
            assert node.data == b"old"
        await asyncio.sleep(NOTICED_S + ELECTED_S)
        assert serving(zookeeper) == sorted({1, 2, 3} - {server})

    loop.run_until_complete(scenario())
    settled(zookeeper)


def test_a_client_does_not_go_back_to_a_server_that_is_behind() -> None:
    """A leader that was paused has been replaced, and serves until it notices that."""
    tried = 0
    for seed in range(20):
        loop = new_loop()
        zookeeper = SimulatedZooKeeper(loop, random=random.Random(seed), servers=3)

        async def scenario(zookeeper: SimulatedZooKeeper = zookeeper) -> int:
            session = await connect(zookeeper, 2, 3)
            zookeeper.pause(3)
            await asyncio.sleep(NOTICED_S + ELECTED_S)
            assert await session.connected()
            assert await session.write(Create("/a")) == Created("/a")
            zookeeper.resume(3)
            zookeeper.cut("broker-1", servers=(2,))
            found = 0
            while zookeeper.servers[3].leadership is not None:
                await asyncio.sleep(0.01)
                found |= len(zookeeper.link("broker-1", 3).connections)
                assert await session.exists("/a") is not Failure.NO_NODE
            return found

        tried += loop.run_until_complete(scenario())
        loop.close()
    assert tried > 0, "no client has tried to connect to it"


def test_a_sessions_requests_take_effect_in_order(loop: SimulatedLoop, zookeeper: SimulatedZooKeeper) -> None:
    """A follower answers what follows a write once it has applied the write."""

    async def scenario() -> None:
        session = await connect(zookeeper, 1)
        await session.write(Create("/a", b"0"))
        for number in range(20):
            data = str(number).encode()
            writes = [asyncio.ensure_future(session.write(SetData("/a", data))) for _ in range(2)]
            node = await asyncio.ensure_future(session.get("/a"))
            assert isinstance(node, ZNodeData)
            assert node.data == data
            assert all(write.done() for write in writes)

    loop.run_until_complete(scenario())


def test_writes_that_a_cut_holds_are_applied_if_it_ends_in_time(
    loop: SimulatedLoop, zookeeper: SimulatedZooKeeper
) -> None:
    async def scenario() -> None:
        session = await connect(zookeeper, 1)
        cut(zookeeper, 1)
        writing = asyncio.ensure_future(session.write(Create("/a")))
        await asyncio.sleep(2)
        assert not writing.done()
        assert zookeeper.tree.exists("/a") is Failure.NO_NODE
        zookeeper.quorum.heal_all()
        assert await writing == Created("/a")

    loop.run_until_complete(scenario())
    settled(zookeeper)


def test_a_proposal_that_a_leader_alone_has_logged_is_lost_or_applied(
    loop: SimulatedLoop, zookeeper: SimulatedZooKeeper
) -> None:
    """Lost if the other servers have elected a leader; applied if all servers elect one, whose log is the newest."""

    async def propose(path: str) -> None:
        session = await connect(zookeeper, 3)
        for one, other in ((1, 2), (1, 3), (2, 3)):
            zookeeper.quorum.cut(one, other)
        assert await session.write(Create(path)) is Failure.UNKNOWN
        assert serving(zookeeper) == []

    loop.run_until_complete(propose("/applied"))
    assert zookeeper.tree.exists("/applied") is Failure.NO_NODE
    settled(zookeeper)
    assert not isinstance(zookeeper.tree.exists("/applied"), Failure)
    assert zookeeper.quorum.leader() == 3
    loop.run_until_complete(propose("/lost"))
    zookeeper.quorum.heal(1, 2)
    loop.run_for(ELECTED_S)
    assert zookeeper.quorum.leader() == 2
    settled(zookeeper)
    assert zookeeper.tree.exists("/lost") is Failure.NO_NODE
    assert [op.path for each in zookeeper.transactions for op in each.ops] == ["/applied"]


def test_a_paused_leader_is_replaced_and_follows_when_it_is_resumed(
    loop: SimulatedLoop, zookeeper: SimulatedZooKeeper
) -> None:
    async def scenario() -> None:
        session = await connect(zookeeper, 1, 2, 3)
        assert await session.write(Create("/mine", ephemeral=True)) == Created("/mine")
        zookeeper.pause(3)
        await asyncio.sleep(NOTICED_S + ELECTED_S)
        assert zookeeper.quorum.leader() == 2
        assert await session.connected()
        assert isinstance(await session.write(SetData("/mine", b"2")), Updated)
        zookeeper.resume(3)

    loop.run_until_complete(scenario())
    settled(zookeeper)
    assert zookeeper.quorum.leader() == 2
    assert len(zookeeper.live_sessions) == 1


def test_a_short_pause_of_the_leader_costs_no_election(loop: SimulatedLoop, zookeeper: SimulatedZooKeeper) -> None:
    zookeeper.pause(3)
    loop.run_for(3)
    zookeeper.resume(3)
    loop.run_for(NOTICED_S)
    assert zookeeper.quorum.leader() == 3


def test_sessions_expire_by_the_leaders_clock(loop: SimulatedLoop, zookeeper: SimulatedZooKeeper) -> None:
    """A client at a follower keeps its session through the follower's answers to the leader's pings."""

    async def scenario() -> None:
        ended: list[object] = []
        session = await connect(zookeeper, 1, listener=ended.append)
        await asyncio.sleep(30)
        assert session.session_id in zookeeper.live_sessions
        zookeeper.expire(session.session_id)
        await asyncio.sleep(2)
        assert SessionExpired() in ended
        assert session.session_id not in zookeeper.live_sessions
        assert zookeeper.transactions[-1].closed_session

    loop.run_until_complete(scenario())


def test_a_leader_refuses_a_session_that_it_is_closing(loop: SimulatedLoop, zookeeper: SimulatedZooKeeper) -> None:
    """It has timed out there, and no majority has the transaction that closes it (`SessionTrackerImpl.isClosing`)."""

    async def scenario() -> None:
        ended: list[object] = []
        session = await connect(zookeeper, 3, listener=ended.append, timeout_ms=1_000)
        cut(zookeeper, 3)
        zookeeper.hold("broker-1")
        await asyncio.sleep(3)
        assert ended == [SessionSuspended()]
        zookeeper.heal("broker-1")
        await asyncio.sleep(1.5)
        assert ended == [SessionSuspended(), SessionExpired()]
        assert session.session_id in zookeeper.live_sessions

    loop.run_until_complete(scenario())


def test_an_operators_write_needs_a_leader_with_a_majority(loop: SimulatedLoop, zookeeper: SimulatedZooKeeper) -> None:
    assert zookeeper.operate([Create("/a"), SetData("/a", b"x"), Check("/a", 1)])
    assert not zookeeper.operate([Delete("/b")])
    assert zookeeper.tree.exists("/a") is Failure.NO_NODE, "the followers have not answered yet"
    loop.run_for(TICK_S)
    found = zookeeper.tree.get("/a")
    assert isinstance(found, ZNodeData)
    assert found.data == b"x"
    cut(zookeeper, 3)
    assert not zookeeper.operate([Delete("/a")])
    zookeeper.quorum.heal_all()
    assert zookeeper.operate([Delete("/a")])


@pytest.mark.parametrize("seed", range(40))
def test_servers_agree_after_faults_that_are_drawn(loop: SimulatedLoop, seed: int) -> None:
    """What was acknowledged is there, a write without an answer once or never, and all servers have the same."""
    draw = random.Random(seed)
    zookeeper = SimulatedZooKeeper(loop, random=random.Random(seed), servers=draw.choice((3, 5)))
    servers = tuple(zookeeper.servers)
    acknowledged: set[str] = set()

    async def write(node: str) -> None:
        client = NodeZooKeeper(zookeeper, node, session_timeout_ms=4_000, connection_timeout_ms=600_000)
        session = await client.connect(lambda _: None)
        number, seen = 0, 0
        while loop.time() < 60:
            number += 1
            if not await session.connected():
                session = await client.connect(lambda _: None)
                seen = 0
                continue
            if await session.write(Create(f"/{node}-", str(number).encode(), sequential=True)) is not Failure.UNKNOWN:
                acknowledged.add(f"{node}:{number}")
            listed = await session.children("/")
            if isinstance(listed, Children):
                assert listed.stat.pzxid >= seen, "a session has gone back in time"
                seen = listed.stat.pzxid
            await asyncio.sleep(0.3)

    async def disturb() -> None:
        zookeeper.stop(servers[-1])  # the leader
        while loop.time() < 50:
            await asyncio.sleep(draw.uniform(0.1, 4))
            one, other = draw.sample(servers, 2)
            match draw.randrange(8):
                case 0:
                    zookeeper.stop(one)
                case 1:
                    zookeeper.pause(one)
                case 2:
                    zookeeper.quorum.cut(one, other)
                case 3:
                    zookeeper.quorum.heal_all()
                case 4:
                    zookeeper.resume()
                case 5:
                    zookeeper.hold(f"client-{draw.randrange(3)}", servers=(one,))
                case 6:
                    for node in range(3):
                        zookeeper.heal(f"client-{node}")
                case 7:
                    zookeeper.start(one)
        zookeeper.start()
        zookeeper.resume()
        zookeeper.quorum.heal_all()
        for node in range(3):
            zookeeper.heal(f"client-{node}")

    async def run() -> None:
        await asyncio.gather(disturb(), *(write(f"client-{number}") for number in range(3)))

    loop.run_until_complete(run())
    loop.run_for(NOTICED_S + ELECTED_S)
    values: dict[int, list[str]] = {}
    for server in zookeeper.servers.values():
        assert server.zxid == zookeeper.zxid
        listed = server.tree.children("/")
        assert isinstance(listed, Children)
        for name in listed.names:
            node = server.tree.get(f"/{name}")
            assert isinstance(node, ZNodeData)
            if name != "zookeeper":
                values.setdefault(server.number, []).append(f"{name.rpartition('-')[0]}:{node.data.decode()}")
    first = values[1]
    assert all(found == first for found in values.values())
    assert len(set(first)) == len(first), "a write was applied twice"
    assert acknowledged <= set(first)
    assert len(acknowledged) > 30
    zxids = [each.zxid for each in zookeeper.transactions]
    assert zxids == sorted(set(zxids))
    assert zxids[-1] >> 32 > 1, "no leader was replaced"


# ------------------------------------------------------------------ a cluster on an ensemble


def faults(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    data = [record.data for record in cluster.records()]
    return [(each.fault, each.target) for each in data if isinstance(each, FaultInjected)]


def test_a_cluster_serves_while_a_majority_of_its_servers_does() -> None:
    with SimulatedCluster(3, brokers=3, zookeepers=3) as cluster:
        cluster.start()
        registered = cluster.znodes.brokers()
        (leader,) = cluster.zookeeper_servers("leader")
        cluster.stop_zookeeper(leader)
        with pytest.raises(ClusterError, match="no ZooKeeper server is leader at this moment"):
            cluster.zookeeper_servers("leader")
        with pytest.raises(ClusterError, match="ZooKeeper is not running"):
            cluster.stop_zookeeper(leader)
        cluster.create_topic("orders", partitions=2, replication_factor=3)
        cluster.settle()
        assert cluster.znodes.brokers() == registered, "no broker has lost its session"
        cluster.start_zookeeper(leader)
        assert faults(cluster) == [("stop", "zookeeper-3"), ("start", "zookeeper-3")]
        with pytest.raises(ClusterError, match="there is no ZooKeeper server 4; the servers are 1, 2, 3"):
            cluster.zookeeper_servers("4")


def test_faults_of_servers_are_recorded_as_on_processes() -> None:
    with SimulatedCluster(3, brokers=3, zookeepers=3) as cluster:
        cluster.start()
        cluster.cut_zookeeper_server(1, [2, 3], is_cut=True)
        cluster.cut_zookeeper_server(1, [2, 3], is_cut=False)
        cluster.cut_from_zookeeper(2, servers=[1, 3])
        cluster.heal_zookeeper(2, [1, 3])
        cluster.delay_zookeeper(5.0, [2])
        cluster.delay_zookeeper(0.0)
        with pytest.raises(ClusterError, match="zookeeper-1 has no link to zookeeper-1; name other servers"):
            cluster.cut_zookeeper_server(1, [1], is_cut=True)
        assert faults(cluster) == [
            ("cut", "zookeeper-1 -> zookeeper-2, zookeeper-3"),
            ("heal", "zookeeper-1 -> zookeeper-2, zookeeper-3"),
            ("cut", "broker-2 -> zookeeper-1, zookeeper-3"),
            ("heal", "broker-2 -> zookeeper-1, zookeeper-3"),
            ("delay", "zookeeper-2"),
            ("heal", "zookeeper"),
        ]


@pytest.mark.parametrize("zookeepers", [0, 8])
def test_an_ensemble_of_an_impossible_size_is_refused(zookeepers: int) -> None:
    with pytest.raises(ClusterError, match=f"zookeepers={zookeepers}: give 1 for a standalone server, or up to 7"):
        SimulatedCluster(1, zookeepers=zookeepers)


def test_two_runs_of_a_seed_on_an_ensemble_write_the_same_records() -> None:
    def run() -> list[bytes]:
        with SimulatedCluster(5, brokers=3, zookeepers=3) as cluster:
            cluster.start()
            cluster.create_topic("orders", partitions=3, replication_factor=3)
            cluster.stop_zookeeper(*cluster.zookeeper_servers("leader"))
            cluster.controller().kill()
            cluster.run_for(12_000)
            cluster.heal()
            cluster.settle()
        return list(cluster.log_lines)

    assert run() == run()


def test_a_broker_uses_the_servers_of_its_connect_string() -> None:
    own = [{"zookeeper.connect": "zookeeper-1:2181,zookeeper-2:2181"}, {"zookeeper.connect": "zookeeper-3:2181"}]
    with SimulatedCluster(5, brokers=2, zookeepers=3, own_settings=own) as cluster:
        cluster.start()
        cluster.cut_zookeeper_server(3, [1, 2], is_cut=True)
        cluster.run_for(20_000)
        assert list(cluster.znodes.brokers()) == [1]
        cluster.heal()
        cluster.settle()
        assert list(cluster.znodes.brokers()) == [1, 2]
