"""`ZooKeeperServer`: the server that a cluster has started, whatever runs it, and the faults of its process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from understudy.clusters.processes.processes import RunningProcess


class ZooKeeperNotStarted(Exception):
    """The server cannot run. The message names the missing part, or ends with the server's log."""


class ZooKeeperServer(ABC):
    """A server that a cluster has started; `start` sets `_process`."""

    def __init__(self) -> None:
        self._process: RunningProcess | None = None

    @property
    @abstractmethod
    def connect_string(self) -> str:
        """`host:port`, for `zookeeper.connect`; a chroot may be appended. Valid once the server has started."""

    @property
    @abstractmethod
    def transaction_log_dir(self) -> Path:
        """The folder of the server's transaction logs and snapshots (`log.<zxid>`, `snapshot.<zxid>`)."""

    @abstractmethod
    def start(self) -> None:
        """Start the server on its data, and wait until it answers `srvr`.

        Raises:
            ZooKeeperNotStarted: it ended early, or did not answer within a minute.
        """

    @property
    def process(self) -> RunningProcess:
        if self._process is None:
            raise ZooKeeperNotStarted("this ZooKeeper has not been started")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    @property
    def is_paused(self) -> bool:
        return self._process is not None and self._process.is_paused

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop the server with SIGTERM, and after `timeout_s` with SIGKILL. Harmless if it has not been started."""
        if self._process is not None:
            self._process.ask_to_end()
            if not self._process.wait(timeout_s):
                self._process.kill()

    def kill(self) -> None:
        """Kill the server (SIGKILL). Every write that it had acknowledged is in its transaction log."""
        self.process.kill()

    def pause(self) -> None:
        """Pause the server. It expires no session meanwhile."""
        self.process.pause()

    def resume(self) -> None:
        self.process.resume()
