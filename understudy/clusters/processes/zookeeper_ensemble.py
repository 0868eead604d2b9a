"""`ZooKeeperEnsemble`: the ZooKeeper that a cluster has started, which is one server or several."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper, four_letter_word
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted, ZooKeeperServer
from understudy.clusters.zookeeper_servers import check_count, find_servers, name_of

_QUORUM_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02


class ZooKeeperEnsemble:
    """The servers by their ids, from 1. Its faults act on all of them, or on those with the ids that are given.

    One server is a standalone one; several elect a leader among them, and serve while a majority is connected to it.
    """

    def __init__(
        self, servers: Mapping[int, ZooKeeperServer], peer_ports: Mapping[int, tuple[int, int]] | None = None
    ) -> None:
        self.servers = dict(servers)
        self.peer_ports = dict(peer_ports or {})
        """The peer port and the election port of each member; empty for a standalone server."""

    @classmethod
    def embedded(cls, directory: Path, count: int, java: JavaRuntime | None) -> ZooKeeperEnsemble:
        """A server in `directory/zookeeper`, or several in `directory/zookeeper-1` and so on.

        Raises:
            ClusterError: a cluster cannot have this number of servers.
        """
        check_count(count)
        if count == 1:
            return cls({1: EmbeddedZooKeeper(directory / "zookeeper", java=java)})
        ports = iter(free_ports(3 * count))
        clients = {number: next(ports) for number in range(1, count + 1)}
        peer_ports = {number: (next(ports), next(ports)) for number in clients}
        members = {number: f"127.0.0.1:{peer}:{election}" for number, (peer, election) in peer_ports.items()}
        return cls(
            {
                number: EmbeddedZooKeeper(
                    directory / f"zookeeper-{number}", port=port, java=java, my_id=number, servers=members
                )
                for number, port in clients.items()
            },
            peer_ports,
        )

    @property
    def connect_string(self) -> str:
        """`host:port` of every server, separated by commas; a chroot may be appended."""
        return ",".join(server.connect_string for server in self.servers.values())

    @property
    def transaction_log_dirs(self) -> tuple[Path, ...]:
        """The folder of each server's transaction logs; a transaction is committed if it is in most of them."""
        return tuple(server.transaction_log_dir for server in self.servers.values())

    @property
    def is_running(self) -> bool:
        """Whether any server runs."""
        return any(server.is_running for server in self.servers.values())

    def connect_through(self, addresses: Mapping[int, Mapping[int, str]]) -> None:
        """Let each server use other addresses of the others, for example ports of a proxy, from its next start on."""
        for number, others in addresses.items():
            server = self.servers[number]
            assert isinstance(server, EmbeddedZooKeeper), "only processes of this machine are members"
            server.connect_through(others)

    def name_of(self, number: int) -> str:
        """The name of a server in the records of faults: `zookeeper`, or `zookeeper-2` in an ensemble."""
        return name_of(number, self.servers)

    def find(self, which: str) -> tuple[int, ...]:
        """Return the ids of the servers that a word names. See `find_servers`."""
        return find_servers(which, self.servers, self.leader)

    def leader(self) -> int | None:
        """The id of the server that leads the ensemble now, or of the standalone server; None if there is none."""
        modes = ((number, self._mode(number)) for number in self.servers)
        return next((number for number, mode in modes if mode in ("leader", "standalone")), None)

    def start(self, *numbers: int) -> None:
        """Start the servers that do not run; if a majority runs then, wait until each of the started ones serves.

        Raises:
            ZooKeeperNotStarted: a server did not start, or does not serve within a minute.
        """
        started = [number for number in numbers or self.servers if not self.servers[number].is_running]
        for number in started:
            self.servers[number].start()
        able = [server for server in self.servers.values() if server.is_running and not server.is_paused]
        if 2 * len(able) <= len(self.servers):
            return
        deadline = time.monotonic() + _QUORUM_TIMEOUT_S
        while silent := [number for number in started if not self._mode(number)]:
            if time.monotonic() > deadline:
                listed = ", ".join(map(str, silent))
                raise ZooKeeperNotStarted(
                    f"ZooKeeper servers {listed} are not part of a quorum within {_QUORUM_TIMEOUT_S:.0f} s:\n"
                    + "\n".join(self.servers[number].process.log_tail() for number in silent)
                )
            for number in silent:
                self.servers[number].process.check()
            time.sleep(_POLL_S)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop every server with SIGTERM; send SIGKILL to servers that still run after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        for server in self.servers.values():
            server.stop(max(0.1, deadline - time.monotonic()))

    def kill(self, *numbers: int) -> None:
        """Kill the servers that run (SIGKILL)."""
        self._each(numbers, lambda server: server.is_running, lambda server: server.kill())

    def pause(self, *numbers: int) -> None:
        """Pause the servers that run."""
        self._each(numbers, lambda server: server.is_running, lambda server: server.pause())

    def resume(self, *numbers: int) -> None:
        """Resume the servers that are paused."""
        self._each(numbers, lambda server: server.is_paused, lambda server: server.resume())

    def _each(
        self,
        numbers: Sequence[int],
        is_able: Callable[[ZooKeeperServer], bool],
        act: Callable[[ZooKeeperServer], None],
    ) -> None:
        for number in numbers or self.servers:
            if is_able(self.servers[number]):
                act(self.servers[number])

    def _mode(self, number: int) -> str:
        """The mode that a server reports, for example `follower`; empty if it does not serve."""
        server = self.servers[number]
        if not server.is_running or server.is_paused:
            return ""
        host, _, port = server.connect_string.rpartition(":")
        lines = four_letter_word(host, int(port), "srvr").splitlines()
        return next((line.removeprefix("Mode: ") for line in lines if line.startswith("Mode: ")), "")
