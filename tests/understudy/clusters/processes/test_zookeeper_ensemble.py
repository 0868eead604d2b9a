"""`ZooKeeperEnsemble`, and a cluster on three servers: faults of some, of most and of all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.checks.history import OpKind
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.bodies import OnTarget, OnTargetFor
from understudy.clusters.control.verbs import ClusterVerbs, checked
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import read_cluster_file
from understudy.clusters.processes.zookeeper_ensemble import ZooKeeperEnsemble
from understudy.foundation.eventlog.records import FaultInjected
from understudy.history.reading.reader import read
from understudy.history.reading.transaction_log import is_whole, read_transaction_logs

pytestmark = pytest.mark.xdist_group("zookeeper ensemble")

SERVERS = (1, 2, 3)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("ensemble") / "run"
    with LocalCluster(brokers=2, zookeepers=3, directory=folder, session_timeout_ms=6_000) as cluster:
        cluster.create_topic("orders", partitions=2, replication_factor=2)
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    shared.start_zookeeper()
    shared.settle()
    return shared


def ensemble(cluster: LocalCluster) -> ZooKeeperEnsemble:
    assert cluster.embedded_zookeeper is not None
    return cluster.embedded_zookeeper


def leader_of(cluster: LocalCluster) -> int:
    return cluster.wait_until(ensemble(cluster).leader, "the ensemble has a leader")


def faults(cluster: LocalCluster) -> list[tuple[str, str, str]]:
    data = [record.data for record in read([cluster.directory / "testbed" / "events"]).records]
    return [(each.fault, each.target, each.role) for each in data if isinstance(each, FaultInjected)]


def test_brokers_connect_to_every_server_and_cluster_json_names_each(cluster: LocalCluster) -> None:
    servers = ensemble(cluster).servers
    assert tuple(servers) == SERVERS
    assert cluster.zookeeper_connect == ",".join(server.connect_string for server in servers.values())
    entry = read_cluster_file(cluster.directory)
    assert [server.id for server in entry.zookeeper_servers] == list(SERVERS)
    assert all(server.process is not None and server.process.is_running for server in entry.zookeeper_servers)
    assert entry.transaction_logs == tuple(f"zookeeper-{number}/data/version-2" for number in SERVERS)
    assert entry.zookeeper_process is None


def test_a_killed_leader_of_the_ensemble_costs_no_session(cluster: LocalCluster) -> None:
    epochs = {number: registered.epoch for number, registered in cluster.view.brokers().items()}
    leader = leader_of(cluster)
    cluster.stop_zookeeper(leader)
    down = [server.id for server in read_cluster_file(cluster.directory).zookeeper_servers if server.process is None]
    assert down == [leader]
    assert leader_of(cluster) != leader
    cluster.create_topic("made-without-it", partitions=2, replication_factor=2)
    cluster.start_zookeeper(leader)
    cluster.settle()
    assert {number: registered.epoch for number, registered in cluster.view.brokers().items()} == epochs
    assert faults(cluster)[-2:] == [("stop", f"zookeeper-{leader}", ""), ("start", f"zookeeper-{leader}", "")]


def test_without_a_majority_nothing_can_be_read_until_it_is_rebuilt(cluster: LocalCluster) -> None:
    leader = leader_of(cluster)
    others = [number for number in SERVERS if number != leader]
    cluster.stop_zookeeper(*others)
    cluster.wait_until(lambda: ensemble(cluster).leader() is None, "the last server has noticed that it is alone")
    with pytest.raises(ClusterError, match="no ZooKeeper server is leader at this moment: the ensemble has no quorum"):
        cluster.zookeeper_servers("leader")
    with ClusterView(cluster.zookeeper_connect, answer_timeout_s=0.5) as view, pytest.raises(NO_ANSWER):
        view.brokers()
    cluster.start_zookeeper(others[0])
    assert leader_of(cluster) in SERVERS
    cluster.settle()
    assert not ensemble(cluster).servers[others[1]].is_running


def test_verbs_act_on_the_leader_on_one_server_and_on_all(cluster: LocalCluster) -> None:
    lines: list[str] = []
    verbs = ClusterVerbs(cluster, lines.append)

    def do(verb: str, target: str) -> str:
        return str(verbs.begin(checked(verb, OnTarget(target=target))).result(60))

    try:
        leader = leader_of(cluster)
        assert do("kill", "zookeeper:leader") == f"zookeeper-{leader} (leader) killed"
        assert faults(cluster)[-1] == ("kill", f"zookeeper-{leader}", "leader")
        assert do("start", f"zookeeper:{leader}") == f"zookeeper-{leader} started"
        other = next(number for number in SERVERS if number != leader_of(cluster))
        assert do("pause", f"zookeeper:{other}") == f"zookeeper-{other} paused"
        assert do("resume", f"zookeeper({other})") == f"zookeeper-{other} resumed"
        assert do("kill", "zookeeper") == "zookeeper-1, zookeeper-2, zookeeper-3 killed"
        with pytest.raises(ClusterError, match="there is no ZooKeeper server 4; the servers are 1, 2, 3"):
            do("kill", "zookeeper:4")
        with pytest.raises(ClusterError, match="zookeeper-2 cannot be killed: it is not running"):
            do("kill", "zookeeper:2")
        request = checked("kill", OnTargetFor(target="zookeeper:leader", lasts="50ms"))
        with pytest.raises(ClusterError, match="no ZooKeeper server is leader"):
            verbs.begin(request)
        assert do("start", "zookeeper:1") == "zookeeper-1 started"
    finally:
        verbs.close()
    assert all(server.is_running for server in ensemble(cluster).servers.values()), "so that the cluster can stop"


def test_the_history_of_the_znodes_is_what_most_servers_have_logged(cluster: LocalCluster) -> None:
    """Other tests have ended servers before; every topic that was created is in the history."""
    cluster.create_topic("last", partitions=1, replication_factor=2)
    logs = ensemble(cluster).transaction_log_dirs
    assert is_whole(*logs)
    history = read_transaction_logs(*logs)
    assert [read.zxid for read in history] == sorted({read.zxid for read in history})
    created = {op.path for read in history for op in read.ops if op.kind is OpKind.CREATE}
    assert {"/brokers/topics/orders", "/brokers/topics/last"} <= created


def test_a_leader_that_is_cut_from_the_other_servers_is_replaced_and_follows_later(tmp_path: Path) -> None:
    """All links between the servers lead through the proxy, also the links for elections."""
    with LocalCluster(brokers=1, zookeepers=3, directory=tmp_path, session_timeout_ms=20_000, proxied=True) as cluster:
        servers = ensemble(cluster)
        leader = leader_of(cluster)
        others = [number for number in SERVERS if number != leader]
        cluster.cut_zookeeper_server(leader, others, is_cut=True)
        cluster.wait_until(lambda: servers.leader() in others, "one of the other servers leads")
        cluster.wait_until(lambda: not serves(servers, leader), "the old leader serves no more")
        cluster.cut_zookeeper_server(leader, others, is_cut=False)
        cluster.wait_until(lambda: serves(servers, leader), "the old leader follows")
        with pytest.raises(ClusterError, match="zookeeper-1 has no link to zookeeper-1; name other servers"):
            cluster.cut_zookeeper_server(1, [1], is_cut=True)
        with pytest.raises(ClusterError, match="there is no ZooKeeper server 4; this cluster has 3"):
            cluster.cut_from_zookeeper(1, servers=[4])
        recorded = faults(cluster)
    names = ", ".join(f"zookeeper-{number}" for number in others)
    assert ("cut", f"zookeeper-{leader} -> {names}", "") in recorded
    assert ("heal", f"zookeeper-{leader} -> {names}", "") in recorded


def serves(servers: ZooKeeperEnsemble, number: int) -> bool:
    server = servers.servers[number]
    assert isinstance(server, EmbeddedZooKeeper)
    return "Mode:" in four_letter_word(server.host, server.port, "srvr")


@pytest.mark.parametrize("zookeepers", [0, 8, 100])
def test_an_ensemble_of_an_impossible_size_is_refused(tmp_path: Path, zookeepers: int) -> None:
    with pytest.raises(ClusterError, match=f"zookeepers={zookeepers}: give 1 for a standalone server, or up to 7"):
        LocalCluster(zookeepers=zookeepers, directory=tmp_path)


def test_an_ensemble_beside_a_given_zookeeper_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="zookeepers=3, but the cluster is to use another ZooKeeper"):
        LocalCluster(zookeeper="127.0.0.1:2181", zookeepers=3, directory=tmp_path)
