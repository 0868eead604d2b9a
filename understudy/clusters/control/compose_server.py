"""`ComposeControl`: serves the control port of a compose project, in a thread of the program that watches it."""

from __future__ import annotations

from collections.abc import Callable

from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.control.client import ControlClient
from understudy.clusters.control.compose_commands import ComposeCommands
from understudy.clusters.control.http_thread import Server
from understudy.clusters.control.server import ControlPort, listen_for_control


class ComposeControl(Server):
    """The control port of one project; its end undoes what has a duration.

    Its address and token are in no file: only `client` knows them.

    Args:
        run: the id of the run in which faults are recorded.
        report: is called with a line for each verb, from another thread.

    Raises:
        ClusterError: the compose file publishes no port of ZooKeeper.
    """

    def __init__(self, project: ComposeProject, run: str, report: Callable[[str], None]) -> None:
        zookeeper = project.zookeeper_address
        listener = listen_for_control()
        self._commands = ComposeCommands(project, run, report)
        self._port = ControlPort(self._commands, zookeeper, listener)
        self.client = ControlClient(self._port.entry)

    def start(self) -> None:
        """Start to answer. Raises ClusterError if it does not in time."""
        self._port.start()

    def close(self) -> None:
        """End the server, and undo what waits to be undone."""
        self._port.ask_to_end()
        self._commands.close()
        self._port.close()
