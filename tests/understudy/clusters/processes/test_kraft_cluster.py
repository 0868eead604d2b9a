"""The state of a KRaft cluster, from the logs of its nodes and the metadata of its brokers. No Java runs here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from understudy.clusters.cluster import ClusterError, WaitTimedOut
from understudy.clusters.findings import FindingKind, findings
from understudy.clusters.processes.kraft_cluster import KRaftCluster, picture_of
from understudy.clusters.processes.processes import ChildProcess, ProcessDied
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import FaultInjected
from understudy.foundation.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.history.reading.reader import read


@dataclass
class Process:
    """A process that only has a state."""

    name: str
    is_running: bool = True
    is_paused: bool = False

    def kill(self) -> None:
        self.is_running = False

    def pause(self) -> None:
        self.is_paused = True

    def wait(self, _: float) -> bool:
        return True

    def check(self) -> None:
        if not self.is_running:
            raise ProcessDied(f"{self.name} ended with exit code 1")

    def log_tail(self, _: int = 20) -> str:
        return "    (empty)"


def started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> KRaftCluster:
    """A cluster whose nodes have processes without a program."""
    monkeypatch.setattr(KRaftCluster, "_format_all", lambda self: [self._configure(node) for node in self.nodes])
    cluster = KRaftCluster(folder / "libs", folder / "cluster")
    cluster.processes = {node: cast(ChildProcess, Process(f"node {node}")) for node in cluster.nodes}
    return cluster


def log(cluster: KRaftCluster, node: int, text: str) -> None:
    with cluster.log(node).open("a") as file:
        file.write(text)


def active(node: int, epoch: int) -> str:
    return (
        f"[2026-05-01 12:00:00,000] INFO [QuorumController id={node}] Becoming the active controller at epoch {epoch}, "
    )


def test_the_controller_is_the_last_that_became_active_and_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, monkeypatch) as cluster:
        assert cluster.controller_id() is None
        with pytest.raises(ClusterError, match="no broker is controller at this moment"):
            cluster.controller()
        log(cluster, 2, active(2, 3) + "next write offset 1.\n")
        log(cluster, 3, active(3, 7) + "next write off")
        assert cluster.controller_id() == 2, "the line of node 3 is not complete"
        log(cluster, 3, "set 9.\nanother line\n")
        assert cluster.controller_id() == 3
        cluster.controller().pause()
        assert cluster.controller_id() is None
        log(cluster, 1, active(1, 8) + "next write offset 12.\n")
        assert cluster.controller_id() == 1
        cluster.controller().kill()
        assert cluster.controller_id() is None
        cluster.check()
    faults = [record.data for record in read([tmp_path / "cluster" / "testbed"]).records]
    assert [(each.fault, each.target) for each in faults if isinstance(each, FaultInjected)] == [
        ("pause", "broker-3"),
        ("kill", "broker-1"),
    ]


def test_a_relative_folder_is_that_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node runs in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    cluster = KRaftCluster(Path("libs"), Path("cluster"))
    assert cluster.log_folder(1) == tmp_path / "cluster" / "node-1" / "data"
    assert f"{tmp_path}/libs/*" in cluster.command("kafka.Kafka", logging=cluster.folder / "log4j.properties")


def test_a_node_that_ends_without_a_fault_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(tmp_path, monkeypatch) as cluster:
        cast(Process, cluster.processes[2]).is_running = False
        with pytest.raises(ClusterError, match="node 2 ended with exit code 1"):
            cluster.wait_until(lambda: False, "never")
        cluster.kill(2)
        with pytest.raises(WaitTimedOut, match="not within 0 s: never"):
            cluster.wait_until(lambda: False, "never", timeout_s=0)
    assert not any(process.is_running for process in cluster.processes.values())


def metadata(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]], brokers: tuple[int, ...]) -> MetadataResponse:
    """The answer of a broker: the leader, the replicas and the ISR of each partition."""
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(node_id=broker) for broker in brokers),
        topics=(
            MetadataResponseTopic(
                name="orders",
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=number, leader_id=leader, leader_epoch=1, replica_nodes=replicas, isr_nodes=isr
                    )
                    for number, (leader, replicas, isr) in enumerate(partitions)
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("answer", "controller", "unresolved"),
    [
        (metadata((1, (1, 2), (1, 2)), (2, (2, 3), (2,)), brokers=(1, 2)), 1, []),
        (metadata((1, (1, 2), (1, 2)), brokers=(1, 2)), None, [FindingKind.CONTROLLER]),
        (metadata((1, (1, 2), (1, 2)), brokers=(1, 2, 3)), 2, [FindingKind.REGISTRATION]),
        (metadata((1, (1, 2), (1, 2)), brokers=(1,)), 2, [FindingKind.REGISTRATION]),
        (metadata((3, (3, 2), (3, 2)), brokers=(1, 2)), 2, [FindingKind.LEADERLESS]),
        (metadata((-1, (3, 2), (2,)), brokers=(1, 2)), 2, [FindingKind.LEADERLESS]),
        (metadata((1, (1, 2), (1,)), brokers=(1, 2)), 2, [FindingKind.UNDER_REPLICATED]),
    ],
)
def test_the_metadata_of_a_broker_has_the_findings_of_a_cluster_with_zookeeper(
    answer: MetadataResponse, controller: int | None, unresolved: list[FindingKind]
) -> None:
    """Broker 3 is lost."""
    found = findings(picture_of(answer, controller), running=[BrokerId(1), BrokerId(2)])
    assert [finding.kind for finding in found.unresolved] == unresolved
