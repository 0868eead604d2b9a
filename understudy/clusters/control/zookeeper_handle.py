"""`ZooKeeperHandle`: the faults that a verb injects into a ZooKeeper server of a local cluster."""

from __future__ import annotations

from collections.abc import Callable

from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.zookeeper_ensemble import ZooKeeperEnsemble


class ZooKeeperHandle:
    """A server that a cluster has started. Each fault is recorded in the event log before it is injected.

    Args:
        number: its id in the ensemble.
        role: the role by which it was found, for example `leader`; empty if it was named otherwise.
    """

    def __init__(self, cluster: LocalCluster, ensemble: ZooKeeperEnsemble, number: int, role: str) -> None:
        self.name = ensemble.name_of(number)
        self.role = role
        self._cluster = cluster
        self._server = ensemble.servers[number]

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
        """Start the server on its data and port; one of an ensemble does not wait for a quorum.

        Raises:
            ZooKeeperNotStarted: it does not start.
        """
        self._inject("start", self._server.start)

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    def _inject(self, fault: str, action: Callable[[], None]) -> None:
        self._cluster.record_fault(fault, self.name, self.role)
        action()
        self._cluster.write_cluster_file()
