"""Runs Apache ZooKeeper from jars that our wheel or PySpark has: a real server that starts in a fraction of a second.

It needs five jars and two JVM flags. The server binds a free port of the loopback interface and keeps it over restarts.
Mirrors Kafka's `kafka.zk.EmbeddedZookeeper`, except that this one is a process and can be killed, paused and restarted.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
from pathlib import Path

from understudy.brokers.config.properties import format_properties
from understudy.clusters.java import JavaRuntime, choose_java
from understudy.clusters.processes import linux
from understudy.clusters.processes.processes import ChildProcess, ProcessDied
from understudy.clusters.processes.zookeeper_jars import JarsNotFound, zookeeper_jars
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted, ZooKeeperServer

_MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
_POLL_S = 0.02
_READY_TIMEOUT_S = 60.0
_BIND_ATTEMPTS = 20
_BIND_PAUSE_S = 0.25


class EmbeddedZooKeeper(ZooKeeperServer):
    """One standalone server; a context manager that starts and stops it.

    Args:
        directory: the folder for `zoo.cfg`, `zookeeper.log` and `data/`; None for a temporary one, which is deleted at
            the end.
        port: the client port; 0 takes a free one.
        host: the address to bind; `0.0.0.0` binds every interface.
        tick_time_ms: the granularity of session expiry. It is short, so that sessions end soon after their timeout.
        force_sync: fsync every transaction. Without it a killed server loses nothing, but a loss of the machine's
            power may lose transactions.
        java: the runtime; None for the result of `choose_java()`.
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
    ) -> None:
        super().__init__()
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="understudy-zookeeper-")
        self.directory = Path(directory or self._temporary_name()).absolute()
        self.port = port
        self.host = host
        self.java = java or choose_java()
        self._config = {
            "tickTime": str(tick_time_ms),
            # The bounds by default, 2 to 20 ticks, would silently shorten a session of 6 s to 4 s.
            "minSessionTimeout": "200",
            "maxSessionTimeout": "600000",
            "dataDir": str(self.directory / "data"),
            "clientPortAddress": host,
            "maxClientCnxns": "0",
        }
        self._force_sync = force_sync
        self._configured_port = port

    # -- addresses and folders

    @property
    def connect_string(self) -> str:
        return f"{self._reachable_host}:{self.port}"

    @property
    def transaction_log_dir(self) -> Path:
        return self.directory / "data" / "version-2"

    @property
    def log(self) -> Path:
        return self.directory / "zookeeper.log"

    @property
    def pid(self) -> int:
        return self.process.pid

    # -- starting

    def start(self) -> None:
        """Start the server, on its last port if it had one, and wait until it answers `srvr`.

        Raises:
            ZooKeeperNotStarted: it ended early, or did not answer within a minute.
        """
        if self.is_running:
            raise ZooKeeperNotStarted(f"this ZooKeeper is running already, as process {self.pid}")
        (self.directory / "data").mkdir(parents=True, exist_ok=True)
        (self.directory / "data").chmod(0o700)
        wanted = self.port
        for attempts_left in reversed(range(_BIND_ATTEMPTS)):
            try:
                self._launch(wanted or (0 if linux.can_list_ports() else _free_port(self._reachable_host)))
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
        text = format_properties({**self._config, "clientPort": str(port)})
        config.write_text(_in_latin_1(text), encoding="latin-1")
        self._configured_port = port
        self._process = ChildProcess("ZooKeeper", self._command(config), log=self.log, directory=self.directory)

    def _command(self, config: Path) -> list[str]:
        try:
            jars = zookeeper_jars()
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
            _MAIN,
            str(config),
        ]

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        port: int | None = None
        while time.monotonic() < deadline:
            self.process.check()
            port = port or self._bound_port()
            if port and "Mode:" in four_letter_word(self._reachable_host, port, "srvr"):
                self.port = port
                return
            time.sleep(_POLL_S)
        tail = self.process.log_tail()
        self.process.kill()
        raise ZooKeeperNotStarted(f"ZooKeeper did not answer within {_READY_TIMEOUT_S:.0f} s with {self.java}:\n{tail}")

    def _bound_port(self) -> int | None:
        if linux.can_list_ports():
            return next(iter(linux.listening_ports(self.pid)), None)
        return self._configured_port

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
