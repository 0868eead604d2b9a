"""`ControlServer`: serves the control port of one cluster, in a thread of the process that runs the cluster.

`ControlPort` is the server of any kind of cluster; `compose_server` has its subclass for compose projects.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.app import application
from understudy.clusters.control.control_file import (
    CONTROL_FILE,
    CONTROL_FILE_VERSION,
    ControlEntry,
    write_control_file,
)
from understudy.clusters.control.http_thread import ANY_PORT, HttpThread, hosts_of, is_loopback, listen
from understudy.clusters.control.verbs import ANSWER_TIMEOUT_S, ClusterVerbs, Commanded
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import this_process


class ControlPort(HttpThread):
    """The HTTP server of a control port; after its end no further verb is done.

    Args:
        commands: the cluster that requests act on; it is closed at the end.
        zookeeper_connect: the ZooKeeper from which `GET /cluster` reads the cluster.
        listener: a socket of `listen_for_control`.
    """

    def __init__(self, commands: Commanded, zookeeper_connect: str, listener: socket.socket) -> None:
        host, port = listener.getsockname()[:2]
        self.entry = ControlEntry(
            version=CONTROL_FILE_VERSION, host=host, port=port, token=secrets.token_urlsafe(32), owner=this_process()
        )
        self._commands = commands
        self._view = ClusterView(zookeeper_connect, answer_timeout_s=ANSWER_TIMEOUT_S)
        super().__init__(
            application(commands, self._view, hosts=hosts_of(listener), token=self.entry.token),
            listener,
            name="understudy-control",
        )

    def close(self) -> None:
        self.ask_to_end()
        self._commands.close()
        super().close()
        self._view.close()


class ControlServer(ControlPort):
    """The control port of a cluster of processes, whose address is in `control.json`.

    Args:
        cluster: a cluster that has started. In the `with` block nothing else may act on it.
        address: host and port to listen on; port 0 is any free one.
        report: is called with a line for each verb, from another thread.

    Raises:
        ClusterError: the host is not loopback, or the port cannot be opened.
    """

    def __init__(
        self, cluster: LocalCluster, address: tuple[str, int] = ANY_PORT, *, report: Callable[[str], None]
    ) -> None:
        listener = listen_for_control(address)
        super().__init__(ClusterVerbs(cluster, report), cluster.zookeeper_connect, listener)
        self._directory = cluster.directory

    def start(self) -> None:
        super().start()
        write_control_file(self._directory, self.entry)

    def close(self) -> None:
        (self._directory / CONTROL_FILE).unlink(missing_ok=True)
        super().close()


def listen_for_control(address: tuple[str, int] = ANY_PORT) -> socket.socket:
    """Open the socket of a control port. Raises ClusterError if the host is not loopback, or the port is taken."""
    host, port = address
    return listen(check_loopback(host), port, what="the control port", option="--control")


def check_loopback(host: str) -> str:
    """Return the address for a host that is loopback.

    Raises:
        ClusterError: the host is another address, or a name other than localhost.
    """
    if not is_loopback(host):
        raise ClusterError(
            f"the control port cannot listen on {host}: it kills processes, and is served on loopback only; "
            "give 127.0.0.1:PORT"
        )
    return "127.0.0.1" if host == "localhost" else host
