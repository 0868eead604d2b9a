"""`ZooKeeperHandle`: the faults that a verb injects into the ZooKeeper server of a local cluster."""

from __future__ import annotations

from collections.abc import Callable

from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.zookeeper_server import ZooKeeperServer


class ZooKeeperHandle:
    """The server that a cluster has started. Each fault is recorded in the event log before it is injected."""

    name = "zookeeper"
    role = ""

    def __init__(self, cluster: LocalCluster, server: ZooKeeperServer) -> None:
        self._cluster = cluster
        self._server = server

    @property
    def is_running(self) -> bool:
        return self._server.is_running

    @property
    def is_paused(self) -> bool:
        return self._server.is_paused

    def kill(self) -> None:
        self._inject("kill", self._server.kill)

    def pause(self) -> None:
        self._inject("pause", self._server.pause)

    def resume(self) -> None:
        self._inject("resume", self._server.resume)

    def stop(self) -> None:
        self._inject("stop", self._server.stop)

    def start(self) -> None:
        """Start the server on its data and port. Raises ZooKeeperNotStarted."""
        self._inject("start", self._server.start)

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    def _inject(self, fault: str, action: Callable[[], None]) -> None:
        self._cluster.record_fault(fault, self.name)
        action()
        self._cluster.write_cluster_file()
