"""Runs Apache ZooKeeper from jars that our wheel or PySpark has: a real server that starts in a fraction of a second.

A standalone server and a member of an ensemble need the same five jars. The server binds a free port of the loopback
interface and keeps it over restarts.
Mirrors Kafka's `kafka.zk.EmbeddedZookeeper`, except that this one is a process and can be killed, paused and restarted.
"""

from __future__ import annotations

import errno
import math
import os
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from understudy.brokers.config.properties import format_properties
from understudy.clusters.java import JavaRuntime, choose_java
from understudy.clusters.processes import linux
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.processes import ChildProcess, ProcessDied
from understudy.clusters.processes.zookeeper_jars import JarsNotFound, zookeeper_jars
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted, ZooKeeperServer

_STANDALONE = "org.apache.zookeeper.server.ZooKeeperServerMain"
_MEMBER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_INIT_LIMIT_MS = 10_000
_SYNC_LIMIT_MS = 5_000
_PARAMETERS = {"clientPort": "port", "clientPortAddress": "host"}
_POLL_S = 0.02
_READY_TIMEOUT_S = 60.0
_BIND_ATTEMPTS = 20
_BIND_PAUSE_S = 0.25


class EmbeddedZooKeeper(ZooKeeperServer):
    """One server, standalone or a member of an ensemble; a context manager that starts and stops it.

    Args:
        directory: the folder for `zoo.cfg`, `zookeeper.log` and `data/`; None for a temporary one, which is deleted at
            the end.
        port: the client port; 0 takes a free one, or the one that the entry of this member in `servers` names.
        host: the address to bind; `0.0.0.0` binds every interface.
        tick_time_ms: the granularity of session expiry. It is short, so that sessions end soon after their timeout.
        force_sync: fsync every transaction. Without it a killed server loses nothing, but a loss of the machine's
            power may lose transactions.
        java: the runtime; None for the result of `choose_java()`.
        my_id: the id of this member, 1 to 255 (`data/myid`).
        servers: all members of the ensemble by their ids: the values of `server.N` in `zoo.cfg`,
            `host:peerPort:electionPort`, from ZooKeeper 3.5 on with `;clientPort` behind it. Empty for a standalone
            server.
        settings: more settings of `zoo.cfg` by their names. They replace the defaults, among them `dataDir`, and for a
            member `initLimit` (10 s) and `syncLimit` (5 s), both in ticks.
        jars: the class path, for another version of ZooKeeper; None for the result of `zookeeper_jars()`.

    Raises:
        ValueError: `servers` lacks `my_id`, its entry names another client port than `port`, or one of the other
            parameters sets a key of `settings`.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        tick_time_ms: int = 200,
        force_sync: bool = False,
        java: JavaRuntime | None = None,
        my_id: int | None = None,
        servers: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
        jars: Sequence[Path] | None = None,
    ) -> None:
        super().__init__()
        self._my_id = my_id
        self._servers = dict(servers or {})
        self._settings = dict(settings or {})
        named_port = _named_client_port(my_id, self._servers, port)
        _refuse_parameters(self._settings)
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="understudy-zookeeper-")
        self.directory = Path(directory or self._temporary_name()).absolute()
        self.port = port or named_port
        self.host = host
        self.java = java or choose_java()
        self._jars = jars
        self._config = {
            "tickTime": str(tick_time_ms),
            # The bounds by default, 2 to 20 ticks, would silently shorten a session of 6 s to 4 s.
            "minSessionTimeout": "200",
            "maxSessionTimeout": "600000",
            "dataDir": str(self.directory / "data"),
            "maxClientCnxns": "0",
        }
        if self.is_member:
            self._config["initLimit"] = str(math.ceil(_INIT_LIMIT_MS / tick_time_ms))
            self._config["syncLimit"] = str(math.ceil(_SYNC_LIMIT_MS / tick_time_ms))
        self._config |= self._settings
        self._config |= {f"server.{number}": address for number, address in self._servers.items()}
        if not named_port:
            self._config["clientPortAddress"] = host
        self._writes_port = not named_port
        self._force_sync = force_sync
        self._configured_port = self.port

    # -- addresses and folders

    @property
    def connect_string(self) -> str:
        return f"{self._reachable_host}:{self.port}"

    @property
    def transaction_log_dir(self) -> Path:
        return Path(self._config.get("dataLogDir", self._config["dataDir"])) / "version-2"

    @property
    def log(self) -> Path:
        return self.directory / "zookeeper.log"

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_member(self) -> bool:
        """Whether it is a member of an ensemble. ZooKeeper makes a standalone server of an only member."""
        return len(self._servers) > 1

    def connect_through(self, others: Mapping[int, str]) -> None:
        """Use other addresses of the other members from the next start on, for example ports of a proxy."""
        self._config |= {f"server.{number}": address for number, address in others.items()}

    # -- starting

    def start(self) -> None:
        """Start the server, on its last port if it had one, and wait until it answers `srvr`.

        A member answers before its ensemble has a leader; this does not wait for a quorum.

        Raises:
            ZooKeeperNotStarted: it ended early, or did not answer within a minute.
        """
        if self.is_running:
            raise ZooKeeperNotStarted(f"this ZooKeeper is running already, as process {self.pid}")
        data = Path(self._config["dataDir"])
        if not data.is_dir():
            data.mkdir(parents=True)
            data.chmod(0o700)
        if self._my_id is not None:
            (data / "myid").write_text(f"{self._my_id}\n")
        wanted = self.port
        for attempts_left in reversed(range(_BIND_ATTEMPTS)):
            try:
                self._launch(wanted or self._port_to_try())
                self._await_ready()
            except ProcessDied as died:
                # Between two starts, or after `_free_port`, another process may hold the port for a moment.
                if self._can_bind(self._configured_port):
                    raise ZooKeeperNotStarted(f"ZooKeeper did not start with {self.java}: {died}") from None
                if not attempts_left:
                    raise ZooKeeperNotStarted(
                        f"ZooKeeper did not start: port {self._configured_port} of {self.host} is "
                        "taken; give another, or 0"
                    ) from None
                time.sleep(_BIND_PAUSE_S)
            else:
                return

    def restart(self) -> None:
        """Stop the server, and start it on the same data and port. Sessions survive that, as with a real ensemble."""
        self.stop()
        self.start()

    def __enter__(self) -> EmbeddedZooKeeper:
        try:
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    # -- the process

    def _launch(self, port: int) -> None:
        config = self.directory / "zoo.cfg"
        client_port = {"clientPort": str(port)} if self._writes_port else {}
        text = format_properties({**self._config, **client_port})
        config.write_text(_in_latin_1(text), encoding="latin-1")
        self._configured_port = port
        self._process = ChildProcess("ZooKeeper", self._command(config), log=self.log, directory=self.directory)

    def _port_to_try(self) -> int:
        """0, with which a standalone server binds any free port; a member and old versions refuse it."""
        if self.is_member or self._jars is not None:
            return free_ports(1)[0]
        return 0 if linux.can_list_ports() else _free_port(self._reachable_host)

    def _command(self, config: Path) -> list[str]:
        try:
            jars = self._jars or zookeeper_jars()
        except JarsNotFound as missing:
            raise ZooKeeperNotStarted(str(missing)) from None
        return [
            str(self.java.executable),
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx512m",
            "-Djava.net.preferIPv4Stack=true",
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.4lw.commands.whitelist=*",
            f"-Dzookeeper.forceSync={'yes' if self._force_sync else 'no'}",
            "-Dzookeeper.preAllocSize=1024",
            "-Dslf4j.internal.verbosity=ERROR",
            "-cp",
            os.pathsep.join(map(str, jars)),
            _MEMBER if self._servers else _STANDALONE,
            str(config),
        ]

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        port: int | None = None
        while time.monotonic() < deadline:
            self.process.check()
            port = port or self._bound_port()
            if port and self._is_ready(four_letter_word(self._reachable_host, port, "srvr")):
                self.port = port
                return
            time.sleep(_POLL_S)
        tail = self.process.log_tail()
        self.process.kill()
        raise ZooKeeperNotStarted(f"ZooKeeper did not answer within {_READY_TIMEOUT_S:.0f} s with {self.java}:\n{tail}")

    def _is_ready(self, answer: str) -> bool:
        return "Mode:" in answer or (self.is_member and bool(answer))

    def _bound_port(self) -> int | None:
        if not linux.can_list_ports():
            return self._configured_port
        ports = linux.listening_ports(self.pid)
        if self._configured_port:
            return self._configured_port if self._configured_port in ports else None
        return next(iter(ports), None)

    def _can_bind(self, port: int) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((self.host, port))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                raise ZooKeeperNotStarted(
                    f"ZooKeeper did not start: it cannot bind port {port} of {self.host}: {error.strerror}; "
                    "give an address of this machine, and a port it may use"
                ) from None
            return True

    @property
    def _reachable_host(self) -> str:
        return "127.0.0.1" if self.host == "0.0.0.0" else self.host

    def _temporary_name(self) -> str:
        assert self._temporary is not None
        return self._temporary.name

    def _end(self) -> None:
        self.stop()
        if self._temporary is not None:
            self._temporary.cleanup()


def _named_client_port(my_id: int | None, servers: Mapping[int, str], port: int) -> int:
    """Return the client port that the entry of member `my_id` names behind its semicolon; 0 if it names none."""
    if not servers:
        return 0
    if my_id is None or my_id not in servers:
        raise ValueError(
            f"my_id={my_id}, but the ensemble has the servers {sorted(servers)}; give the id of one of them"
        )
    client = servers[my_id].partition(";")[2].rpartition(":")[2].strip()
    if not client:
        return 0
    if not client.isdecimal() or port not in (0, int(client)):
        raise ValueError(
            f"server.{my_id}={servers[my_id]} and port={port}: expected host:peerPort:electionPort;clientPort, "
            "and the same client port; give it in one place"
        )
    return int(client)


def _refuse_parameters(settings: Mapping[str, str]) -> None:
    for key in settings:
        parameter = "servers" if key.startswith("server.") else _PARAMETERS.get(key)
        if parameter is not None:
            raise ValueError(f"{key} is set by the parameter {parameter}; take it out of the settings")


def four_letter_word(host: str, port: int, word: str, timeout_s: float = 2.0) -> str:
    """Send one of ZooKeeper's four-letter words, and return the answer; empty if no server answers."""
    answer = b""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(word.encode())
            while chunk := connection.recv(65536):
                answer += chunk
    except OSError:
        return ""
    return answer.decode(errors="replace")


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _in_latin_1(text: str) -> str:
    """Escape characters that are not ASCII as `\\uXXXX` per UTF-16 unit: ZooKeeper reads its file as ISO 8859-1."""
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
    return "".join(chr(unit) if unit < 0x80 else f"\\u{unit:04x}" for unit in pairs)
