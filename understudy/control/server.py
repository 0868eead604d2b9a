"""`ControlServer`: serves the control port of one cluster, in a thread of the process that runs the cluster."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from understudy.cluster import ClusterError
from understudy.control.app import application
from understudy.control.control_file import (
    CONTROL_FILE_VERSION,
    ControlEntry,
    remove_control_file,
    write_control_file,
)
from understudy.control.http_thread import ANY_PORT, HttpThread, hosts_of, is_loopback, listen
from understudy.control.verbs import ANSWER_TIMEOUT_S, ClusterVerbs
from understudy.testbed.cluster_view import ClusterView
from understudy.testbed.local_cluster import LocalCluster
from understudy.testbed.run_folder import this_process


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
        listener = listen(check_loopback(address[0]), address[1], what="the control port", option="--control")
        host, port = listener.getsockname()[:2]
        self.entry = ControlEntry(
            version=CONTROL_FILE_VERSION, host=host, port=port, token=secrets.token_urlsafe(32), owner=this_process()
        )
        self._verbs = ClusterVerbs(cluster, report)
        self._view = ClusterView(cluster.zookeeper_connect, answer_timeout_s=ANSWER_TIMEOUT_S)
        self._http = HttpThread(
            application(self._verbs, self._view, hosts=hosts_of(listener), token=self.entry.token),
            listener,
            name="understudy-control",
        )

    def __enter__(self) -> ControlServer:
        try:
            self._http.start()
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
        self._http.ask_to_end()
        self._verbs.close()
        self._http.close()
        self._view.close()


def check_loopback(host: str) -> str:
    """Return the address for a host that is loopback.

    Raises:
        ClusterError: it is another one, or a name other than localhost.
    """
    if not is_loopback(host):
        raise ClusterError(
            f"the control port cannot listen on {host}: it kills processes, and is served on loopback only; "
            "give 127.0.0.1:PORT"
        )
    return "127.0.0.1" if host == "localhost" else host
