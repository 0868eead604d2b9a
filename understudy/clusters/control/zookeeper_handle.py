"""`ZooKeeperHandle`: the faults that a verb injects into the ZooKeeper server of a local cluster."""

from __future__ import annotations

import msgspec

from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import process_entry, read_cluster_file, write_cluster_file
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
        self._cluster.record_fault("kill", self.name)
        self._server.kill()
        self._update_cluster_file()

    def pause(self) -> None:
        self._cluster.record_fault("pause", self.name)
        self._server.pause()

    def resume(self) -> None:
        self._cluster.record_fault("resume", self.name)
        self._server.resume()

    def stop(self) -> None:
        self._cluster.record_fault("stop", self.name)
        self._server.stop()
        self._update_cluster_file()

    def start(self) -> None:
        """Start the server on its data and port. Raises ZooKeeperNotStarted."""
        self._cluster.record_fault("start", self.name)
        self._server.start()
        self._update_cluster_file()

    def restart(self) -> None:
        if self.is_running:
            self.stop()
        self.start()

    def _update_cluster_file(self) -> None:
        """Write the server's process, which has started or ended, into `cluster.json`."""
        folder = self._cluster.directory
        process = process_entry(self._server.process) if self.is_running else None
        entry = msgspec.structs.replace(read_cluster_file(folder), zookeeper_process=process)
        write_cluster_file(folder, entry)
