"""`ControlServer`: serves the control port of one cluster, in a thread of the process that runs the cluster.

`ControlPort` is the server of any kind of cluster; `compose_server` has its subclass for compose projects.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

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

TOKEN_VARIABLE: Final = "UNDERSTUDY_CONTROL_TOKEN"
"""Environment variable with the token of `understudy up --control`."""
SHORTEST_TOKEN: Final = 16
LOOPBACK_OF: Final[Mapping[str, str]] = MappingProxyType({"0.0.0.0": "127.0.0.1", "::": "::1"})
"""Addresses of every interface, each with the one by which programs of this machine reach it."""


class ControlPort(HttpThread):
    """The HTTP server of a control port; after its end no further verb is done.

    Args:
        commands: the cluster that requests act on; it is closed at the end.
        zookeeper_connect: the ZooKeeper from which `GET /cluster` reads the cluster.
        listener: a socket of `listen_for_control`.
        token: the token that requests must carry; None for a new one.
    """

    def __init__(
        self, commands: Commanded, zookeeper_connect: str, listener: socket.socket, token: str | None = None
    ) -> None:
        host, port = listener.getsockname()[:2]
        self.entry = ControlEntry(
            version=CONTROL_FILE_VERSION,
            host=LOOPBACK_OF.get(host, host),
            port=port,
            token=token or secrets.token_urlsafe(32),
            owner=this_process(),
        )
        self._commands = commands
        self._view = ClusterView(zookeeper_connect, answer_timeout_s=ANSWER_TIMEOUT_S)
        super().__init__(
            application(
                commands,
                self._view,
                hosts=hosts_of(listener) if is_loopback(host) else None,
                token=self.entry.token,
            ),
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
        token: the user's own token, which an address that is not loopback needs; None for a new one.
        report: is called with a line for each verb, from another thread.

    Raises:
        ClusterError: as `check_exposure`, or the port cannot be opened.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        address: tuple[str, int] = ANY_PORT,
        *,
        token: str | None = None,
        report: Callable[[str], None],
    ) -> None:
        listener = listen_for_control(address, token)
        super().__init__(ClusterVerbs(cluster, report), cluster.zookeeper_connect, listener, token)
        self._directory = cluster.directory

    def start(self) -> None:
        super().start()
        write_control_file(self._directory, self.entry)

    def close(self) -> None:
        (self._directory / CONTROL_FILE).unlink(missing_ok=True)
        super().close()


def listen_for_control(address: tuple[str, int] = ANY_PORT, token: str | None = None) -> socket.socket:
    """Open the socket of a control port. Raises ClusterError as `check_exposure`, or if the port is taken."""
    host, port = address
    check_exposure(host, token)
    return listen(host, port, what="the control port", option="--control")


def check_exposure(host: str, token: str | None) -> None:
    """Check the user's own token, without which only programs of this machine may reach the control port.

    Raises:
        ClusterError: the token is short or cannot be sent in a header, or there is none and the host is not loopback.
    """
    if token is not None and (len(token) < SHORTEST_TOKEN or not _is_sendable(token)):
        raise ClusterError(
            f"the token of the control port has to be at least {SHORTEST_TOKEN} letters, digits or signs of ASCII "
            f"without spaces; the given one has {len(token)} characters; `openssl rand -hex 16` makes one"
        )
    if token is None and not is_loopback(host):
        raise ClusterError(
            f"the control port cannot listen on {host} without a token of your own: it kills processes; "
            f"set {TOKEN_VARIABLE}, or give 127.0.0.1:PORT"
        )


def _is_sendable(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token
