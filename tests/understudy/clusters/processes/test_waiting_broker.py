"""`waiting_broker`: a process that does its imports, waits for a line, and then starts the broker."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.brokers.config.properties import format_properties
from understudy.clusters.processes import linux, waiting_broker
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ChildProcess]:
    command = [sys.executable, "-P", "-m", waiting_broker.MODULE, "server.properties"]
    process = ChildProcess("broker-1", command, log=tmp_path / "broker.log", directory=tmp_path, waits=True)
    yield process
    process.kill()


def test_the_configuration_is_read_after_the_go_ahead(process: ChildProcess, tmp_path: Path) -> None:
    """The configuration contains ZooKeeper's port, which is not known before."""
    waited = process.is_waiting
    assert not process.wait(1.0)
    (tmp_path / "server.properties").write_text(format_properties({"broker.id": "1", "process.roles": "broker"}))
    process.go_ahead()
    assert (waited, process.is_waiting) == (True, False)
    assert process.wait(60)
    assert process.exit_code == 1
    assert "ZooKeeper mode only" in process.log.read_text()


def test_the_process_exits_where_its_input_ends_without_a_go_ahead(process: ChildProcess) -> None:
    process._close_input()
    assert process.wait(60)
    assert (process.exit_code, process.log.read_text()) == (0, "")


def test_a_go_ahead_for_a_process_that_has_ended_is_harmless(process: ChildProcess) -> None:
    process.kill()
    assert not process.is_waiting
    second = ChildProcess(
        "ended", [sys.executable, "-c", ""], log=process.log, directory=process.log.parent, waits=True
    )
    assert second.wait(60)
    second.go_ahead()


def test_brokers_do_their_imports_while_zookeeper_starts() -> None:
    with LocalCluster(brokers=2, forked=False) as cluster:
        assert cluster.embedded_zookeeper is not None
        for broker in cluster.brokers:
            child = broker.process.process
            assert child is not None
            assert child.started <= cluster.embedded_zookeeper.servers[1].process.started
            log = broker.process.log.read_text()
            assert "error" not in log, "it has not tried to connect before ZooKeeper was ready"
            assert "warning" not in log
        cluster.broker(1).restart()
        assert cluster.broker(1).is_running


def test_waiting_brokers_are_ended_where_zookeeper_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(server: EmbeddedZooKeeper) -> None:
        raise ZooKeeperNotStarted("not started by this test")

    monkeypatch.setattr(EmbeddedZooKeeper, "start", fail)
    cluster = LocalCluster(brokers=2, directory=tmp_path, forked=False)
    with pytest.raises(ZooKeeperNotStarted, match="not started by this test"):
        cluster.start()
    for broker in cluster.brokers:
        child = broker.process.process
        assert child is not None
        assert linux.start_time(child.pid) is None
    cluster.close()
