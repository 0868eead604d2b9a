"""`LocalCluster`: starting, stopping and the faults of broker processes, their records, and the run folder."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from understudy.brokers.config.properties import parse_properties
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.cluster import ClusterError, WaitTimedOut
from understudy.clusters.processes import linux
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import ProcessEntry, read_cluster_file, write_cluster_file
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.records import (
    Envelope,
    FaultInjected,
    LogSeen,
    Payload,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    StepReached,
)
from understudy.history.reading.reader import read

SESSION_MS = 3_000
"""Short, because many tests wait for the end of a session; long enough not to end on a busy machine."""


@pytest.fixture(scope="module")
def shared(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers that many tests share; the name of the run folder contains a space."""
    folder = tmp_path_factory.mktemp("cluster") / "run folder"
    with LocalCluster(
        3, racks=["a", "b"], zookeeper=zookeeper, directory=folder, session_timeout_ms=SESSION_MS
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> Iterator[LocalCluster]:
    yield shared
    for broker in shared.brokers:
        if broker.is_running:
            broker.resume()
        else:
            broker.start()
    shared.wait_until(
        lambda: len(shared.view.brokers()) == 3 and shared.controller_id(), "all brokers are registered again"
    )
    # The controller notices a registration later, and creates no topic with more replicas than brokers it knows.
    shared.wait_until(lambda: len(shared.ask(shared.admin.metadata(())).brokers) == 3, "the controller knows of them")


def create_topic(cluster: LocalCluster, topic: str, partitions: int = 3) -> None:
    client = AdminClient(SocketNetwork(), cluster.bootstrap.split(","))
    asyncio.run(client.create_topic(topic, partitions=partitions, replication_factor=len(cluster.broker_ids)))
    expected = [TopicPartition(topic, partition) for partition in range(partitions)]
    cluster.wait_until(lambda: all(cluster.view.leader(partition) for partition in expected), f"{topic} has leaders")


def records_of(cluster: LocalCluster, node: str) -> list[Payload]:
    return [record.data for record in read([cluster.directory]).records if record.node == node]


def test_brokers_register_and_one_of_them_is_controller(cluster: LocalCluster) -> None:
    registered = cluster.view.brokers()
    assert [(broker_id, found.broker.rack) for broker_id, found in registered.items()] == [
        (1, "a"),
        (2, "b"),
        (3, "a"),
    ]
    assert cluster.controller_id() in cluster.broker_ids
    assert cluster.controller().role == "controller"
    assert cluster.bootstrap == ",".join(f"127.0.0.1:{found.broker.endpoints[0].port}" for found in registered.values())


def test_cluster_json_describes_the_brokers_and_their_files(cluster: LocalCluster) -> None:
    found = read_cluster_file(cluster.directory)
    assert found.run == cluster.run
    assert found.zookeeper == cluster.zookeeper_connect
    assert found.bootstrap == cluster.bootstrap
    assert found.owner.pid == os.getpid()
    for broker in found.brokers:
        assert broker.state == "running"
        assert broker.port in linux.listening_ports(broker.pid or 0)
        properties = parse_properties((cluster.directory / broker.config).read_text())
        assert properties["log.dirs"] == str(cluster.directory / f"broker-{broker.id}" / "data")
        assert properties["zookeeper.connect"] == cluster.zookeeper_connect
        assert (cluster.directory / broker.log).exists()
        assert list((cluster.directory / broker.events).glob(f"broker-{broker.id}-0001-*.jsonl"))


def test_a_killed_controller_is_replaced_and_the_fault_is_recorded(cluster: LocalCluster) -> None:
    controller = cluster.controller()
    endpoints = cluster.view.brokers()[BrokerId(controller.id)].broker.endpoints
    controller.kill()
    assert not controller.is_running
    assert records_of(cluster, "testbed")[-1] == FaultInjected(fault="kill", target=controller.name, role="controller")
    assert (
        next(broker for broker in read_cluster_file(cluster.directory).brokers if broker.id == controller.id).pid
        is None
    )
    cluster.wait_until(lambda: cluster.controller_id() not in (None, controller.id), "another broker is controller")
    controller.start()
    assert cluster.view.brokers()[BrokerId(controller.id)].broker.endpoints[0].port == endpoints[0].port
    started = [record.data for record in read([cluster.directory]).records if record.node == controller.name]
    assert sum(isinstance(record, ProcessStarted) for record in started) >= 2


def test_a_fault_in_a_leader_is_recorded_with_its_role(cluster: LocalCluster) -> None:
    create_topic(cluster, "by-role", partitions=1)
    leader = cluster.leader("by-role", 0)
    assert leader.id == cluster.view.leader(TopicPartition("by-role", 0))
    leader.pause()
    leader.resume()
    faults = [record for record in records_of(cluster, "testbed") if isinstance(record, FaultInjected)]
    assert [(fault.fault, fault.target, fault.role) for fault in faults[-2:]] == [
        ("pause", leader.name, "leader of by-role-0"),
        ("resume", leader.name, "leader of by-role-0"),
    ]
    with pytest.raises(ClusterError, match="no broker is leader of nothing-7 at this moment"):
        cluster.leader("nothing", 7)


def test_a_paused_broker_loses_its_registration_and_registers_again_when_resumed(cluster: LocalCluster) -> None:
    follower = next(broker for broker in cluster.brokers if broker.id != cluster.controller_id())
    epoch = cluster.view.brokers()[BrokerId(follower.id)].epoch
    follower.pause()
    cluster.wait_until(lambda: follower.id not in cluster.view.brokers(), "its session has timed out")
    assert (
        next(broker for broker in read_cluster_file(cluster.directory).brokers if broker.id == follower.id).state
        == "paused"
    )
    follower.resume()
    cluster.wait_until(lambda: follower.id in cluster.view.brokers(), "it has registered again")
    assert cluster.view.brokers()[BrokerId(follower.id)].epoch > epoch


@pytest.mark.parametrize("action", ["pause", "crash"])
def test_an_armed_point_pauses_or_crashes_the_controller_once(cluster: LocalCluster, action: str) -> None:
    controller = cluster.controller()
    epoch = cluster.view.picture().controller_epoch
    controller.arm("partition.after_write", action)
    assert controller.process.armed() == {"partition.after_write": action}
    client = AdminClient(SocketNetwork(), cluster.bootstrap.split(","), timeout_ms=20_000)

    async def create_topic_until_takeover() -> None:
        creating = asyncio.create_task(client.create_topic(f"armed-{action}", partitions=1, replication_factor=3))
        await asyncio.to_thread(
            cluster.wait_until, lambda: cluster.view.picture().controller_epoch > epoch, "another broker is controller"
        )
        creating.cancel()
        await asyncio.gather(creating, return_exceptions=True)

    asyncio.run(create_topic_until_takeover())
    assert controller.process.armed() == {}
    assert controller.is_running == (action == "pause")
    assert PointReached(point="partition.after_write", action=action) in records_of(cluster, controller.name)
    armed = StepReached(step="armed", note=f"{controller.name}: {action} at partition.after_write")
    assert armed in records_of(cluster, "testbed")


@pytest.mark.parametrize(
    ("point", "action", "message"),
    [
        (
            "partition.befor_write",
            "pause",
            "there is no point 'partition.befor_write'; the points are election.before_write,",
        ),
        ("partition.before_write", "explode", "a point can pause or crash a broker, not 'explode'"),
    ],
)
def test_an_unknown_point_or_action_is_refused(cluster: LocalCluster, point: str, action: str, message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        cluster.broker(1).arm(point, action)


def test_a_fault_in_a_stopped_broker_is_an_error_and_is_not_recorded(cluster: LocalCluster) -> None:
    broker = cluster.broker(2)
    broker.stop()
    before = records_of(cluster, "testbed")
    for verb in (broker.kill, broker.pause, broker.resume, broker.stop):
        with pytest.raises(ClusterError, match="was not injected: broker-2 is not running"):
            verb()
    assert records_of(cluster, "testbed") == before
    broker.start()
    with pytest.raises(ClusterError, match="broker-2 cannot be started: it is running"):
        broker.start()


def test_a_stopped_broker_deletes_its_registration_and_exits_with_code_0(cluster: LocalCluster) -> None:
    broker = cluster.broker(3)
    broker.stop()
    child = broker.process.process
    assert child is not None
    assert child.exit_code == 0
    assert 3 not in cluster.view.brokers()
    assert any(isinstance(record, ProcessExiting) for record in records_of(cluster, "broker-3"))


def test_a_wait_ends_where_a_broker_has_ended_without_a_fault(cluster: LocalCluster) -> None:
    broker = cluster.broker(1)
    child = broker.process.process
    assert child is not None
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ClusterError, match=r"(?s)broker-1 ended with SIGKILL\. End of .*broker\.log"):
        cluster.wait_until(lambda: False, "what never happens")


def test_a_wait_that_times_out_names_the_registered_brokers(cluster: LocalCluster) -> None:
    with pytest.raises(WaitTimedOut, match=r"not within 0 s: rain\. Registered brokers: 1, 2, 3; controller: [123]"):
        cluster.wait_until(lambda: False, "rain", timeout_s=0)


def test_an_unknown_broker_id_is_refused(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match="there is no broker 9; this cluster has 1, 2, 3"):
        cluster.broker(9)


def test_a_broker_that_does_not_start_is_reported_with_the_end_of_its_log(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    cluster = LocalCluster(1, zookeeper=zookeeper, directory=tmp_path, properties={"process.roles": "broker"})
    with pytest.raises(
        ClusterError, match=r"(?s)broker-1 ended with exit code 1\. End of .*process\.roles.*ZooKeeper mode only"
    ):
        cluster.start()
    cluster.close()


def test_cluster_json_appears_when_the_cluster_can_be_used(tmp_path: Path) -> None:
    """Its addresses can be used at once, also in a run folder that has been used before."""
    for _ in range(2):
        cluster = LocalCluster(2, directory=tmp_path, session_timeout_ms=SESSION_MS)
        with ThreadPoolExecutor() as pool:
            found = pool.submit(wait_for_cluster_json, tmp_path, cluster.run)
            with cluster:
                bootstrap, live_brokers = found.result(timeout=60)
                assert bootstrap == cluster.bootstrap
                assert live_brokers == {1, 2}


def wait_for_cluster_json(folder: Path, run: str) -> tuple[str, set[int]]:
    """Wait for the file of `run`; return its bootstrap servers, and the brokers in the metadata of the last one."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            content = json.loads((folder / "cluster.json").read_text())
            if content["run"] == run:
                break
        time.sleep(0.005)
    for address in content["bootstrap"].split(","):
        metadata = asyncio.run(AdminClient(SocketNetwork(), [address], timeout_ms=1_000).metadata())
        assert metadata.controller_id > 0
    return content["bootstrap"], {broker.node_id for broker in metadata.brokers}


def test_a_cluster_that_does_not_start_leaves_no_cluster_json(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    broken = {"process.roles": "broker"}
    with (
        pytest.raises(ClusterError, match=r"(?s)exit code 1\. End of .*process\.roles"),
        LocalCluster(1, zookeeper=zookeeper, directory=tmp_path, properties=broken),
    ):
        pass
    assert not (tmp_path / "cluster.json").exists()
    with LocalCluster(1, zookeeper=zookeeper, directory=tmp_path) as cluster:
        run = cluster.run
    with (
        pytest.raises(ClusterError),
        LocalCluster(1, zookeeper=zookeeper, directory=tmp_path, properties=broken),
    ):
        pass
    assert read_cluster_file(tmp_path).run == run, "the file of the earlier cluster is restored"


def test_several_clusters_run_side_by_side(shared: LocalCluster, zookeeper: EmbeddedZooKeeper) -> None:
    """One shares the ZooKeeper of the first, one has a server and a temporary folder of its own."""
    with LocalCluster(1, zookeeper=zookeeper) as sharing, LocalCluster(1) as separate:
        clusters = (shared, sharing, separate)
        assert len({cluster.zookeeper_connect for cluster in clusters}) == 3
        found = (found for cluster in clusters for found in cluster.view.brokers().values())
        ports = [registered.broker.endpoints[0].port for registered in found]
        assert len(set(ports)) == len(ports) == 5
        folder = separate.directory
        pid = read_cluster_file(folder).brokers[0].pid
        assert pid is not None
    assert linux.start_time(pid) is None
    assert not folder.exists()


def test_a_run_folder_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ClusterError, match=r"cannot be a run folder: .*; give another"):
        LocalCluster(1, zookeeper="127.0.0.1:1", directory=tmp_path / "file" / "run").start()


def test_a_run_folder_in_use_is_refused(shared: LocalCluster, tmp_path: Path) -> None:
    owner = ProcessEntry(pid=os.getppid(), started=linux.start_time(os.getppid()) or 0)
    write_cluster_file(tmp_path, msgspec.structs.replace(read_cluster_file(shared.directory), owner=owner))
    with pytest.raises(
        ClusterError, match=f"is in use by a cluster that process {owner.pid} runs; end it or give another"
    ):
        LocalCluster(1, directory=tmp_path).start()


def test_a_run_folder_with_an_earlier_cluster_keeps_its_topics_and_logs(tmp_path: Path) -> None:
    with LocalCluster(2, directory=tmp_path, session_timeout_ms=SESSION_MS) as first:
        create_topic(first, "kept")
    # The first cluster was killed: its registrations exist until their sessions have ended.
    with LocalCluster(2, directory=tmp_path, session_timeout_ms=SESSION_MS) as second:
        assert second.run != first.run
        second.wait_until(
            lambda: second.view.leader(TopicPartition("kept", 0)) is not None, "the partition has a leader"
        )
        assert {partition.topic for partition in second.view.picture().partitions} == {"kept"}
        second.stop()
    records = read([tmp_path]).records
    nodes = {(record.node, record.incarnation) for record in records}
    assert {("broker-1", 1), ("broker-1", 2), ("testbed", 1), ("testbed", 2)} <= nodes
    last = {(record.run, record.node): (record.incarnation, record.seq) for record in sorted(records, key=_place)}
    for run, incarnation in ((first.run, 1), (second.run, 2)):
        seen = [record.data for record in records if record.run == run and isinstance(record.data, LogSeen)]
        assert [(each.node, each.incarnation) for each in seen] == [
            ("broker-1", incarnation),
            ("broker-2", incarnation),
        ]
        assert [(each.incarnation, each.seq) for each in seen] == [last[run, each.node] for each in seen]
    started = [record.data for record in records if isinstance(record.data, ProcessStarted)]
    assert all(each.has_testbed for each in started)
    assert {each.after_seq for each in started} == {0}, "the incarnation before belongs to another run"
    assert len({(each.machine, each.boot) for each in started}) == 1


def _place(record: Envelope) -> tuple[int, int]:
    return record.incarnation, record.seq


def test_a_cluster_without_brokers_is_refused() -> None:
    with pytest.raises(ClusterError, match="a cluster cannot have 0 brokers; give at least 1"):
        LocalCluster(0)
