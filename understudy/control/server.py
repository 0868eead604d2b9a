"""`ControlServer`: serves the control port of one cluster, in a thread of the process that runs the cluster."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Final

import uvicorn

from understudy.cluster import ClusterError
from understudy.control.app import application
from understudy.control.control_file import (
    CONTROL_FILE_VERSION,
    ControlEntry,
    remove_control_file,
    write_control_file,
)
from understudy.control.verbs import ANSWER_TIMEOUT_S, ClusterVerbs
from understudy.testbed.cluster_view import ClusterView
from understudy.testbed.local_cluster import LocalCluster
from understudy.testbed.run_folder import this_process

ANY_PORT: Final = ("127.0.0.1", 0)
_START_TIMEOUT_S: Final = 10.0
_END_TIMEOUT_S: Final = 5.0
_MOST_CONNECTIONS: Final = 64
_POLL_S: Final = 0.005


class ControlServer:
    """A context manager: entering it starts the server, leaving it ends the server and does no further verb.

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
        self._cluster = cluster
        self._socket = _listen(*address)
        host, port = self._socket.getsockname()[:2]
        self.entry = ControlEntry(
            version=CONTROL_FILE_VERSION, host=host, port=port, token=secrets.token_urlsafe(32), owner=this_process()
        )
        self._verbs = ClusterVerbs(cluster, report)
        self._view = ClusterView(cluster.zookeeper_connect, answer_timeout_s=ANSWER_TIMEOUT_S)
        hosts = frozenset({self.entry.address, f"localhost:{port}"})
        self._server = uvicorn.Server(
            uvicorn.Config(
                application(self._verbs, self._view, hosts=hosts, token=self.entry.token),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=_MOST_CONNECTIONS,
                timeout_graceful_shutdown=1,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="understudy-control", daemon=True)

    def __enter__(self) -> ControlServer:
        try:
            self._thread.start()
            deadline = time.monotonic() + _START_TIMEOUT_S
            while not self._server.started:
                if not self._thread.is_alive() or time.monotonic() > deadline:
                    raise ClusterError(f"the control port {self.entry.address} was not served")
                time.sleep(_POLL_S)
            write_control_file(self._cluster.directory, self.entry)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove `control.json`, end the server, and undo what would keep the cluster from stopping in order."""
        remove_control_file(self._cluster.directory)
        self._server.should_exit = True
        self._verbs.close()
        if self._thread.is_alive():
            self._thread.join(_END_TIMEOUT_S)
        self._socket.close()
        self._view.close()

    def _serve(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))


def check_loopback(host: str) -> str:
    """Return the address for a host that is loopback.

    Raises:
        ClusterError: it is another one, or a name other than localhost.
    """
    try:
        is_loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise ClusterError(
            f"the control port cannot listen on {host}: it kills processes, and is served on loopback only; "
            "give 127.0.0.1:PORT"
        )
    return "127.0.0.1" if host == "localhost" else host


def _listen(host: str, port: int) -> socket.socket:
    address = check_loopback(host)
    listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ClusterError(
            f"the control port {host}:{port} cannot be opened: {error.strerror}; give another by --control"
        ) from None
    return listener
