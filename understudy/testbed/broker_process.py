"""One broker of a local cluster: its folder, its `server.properties`, its process."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from brokers.config.properties import format_properties
from brokers.metrics.metrics_server import ADDRESS_FILE
from understudy.testbed import linux, waiting_broker
from understudy.testbed.processes import ChildProcess
from understudy.testbed.run_folder import BrokerEntry, write_whole

HOST = "127.0.0.1"


class BrokerProcess:
    """A broker that can be started again and again; it keeps its folder and, where it can, its port."""

    def __init__(self, broker_id: int, directory: Path, *, rack: str | None, properties: Mapping[str, str]) -> None:
        self.id = broker_id
        self.rack = rack
        self.directory = directory
        self.config = directory / "server.properties"
        self.log = directory / "broker.log"
        self.events = directory / "events"
        self.points = directory / "points.json"
        self.port = 0
        """The port it registered last; 0 before."""
        self.process: ChildProcess | None = None
        self.should_run = False
        """Whether it has been started, and no fault has been injected that ends it."""
        self.properties = dict(properties)
        """Keys of `server.properties` over those that this class sets; read at each launch."""

    @property
    def name(self) -> str:
        return f"broker-{self.id}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_running and linux.is_paused(self.process.pid)

    def prepare(self) -> None:
        """Start a process that does its imports and then waits for `launch`; does not wait itself."""
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", waiting_broker.MODULE, self.config.name]
        self.process = ChildProcess(self.name, command, log=self.log, directory=self.directory, waits=True)

    def launch(self) -> None:
        """Write its configuration, and start it or let the prepared process go ahead; does not wait."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text(format_properties(self._all_properties()), encoding="utf-8")
        if self.process is not None and self.process.is_waiting:
            self.process.go_ahead()
        else:
            self.process = ChildProcess(self.name, self._command(), log=self.log, directory=self.directory)
        self.should_run = True

    def arm(self, point: str, action: str) -> None:
        """Have it pause or crash when it next reaches `point`; other armed points stay armed."""
        armed = self.armed()
        armed[point] = action
        self.directory.mkdir(parents=True, exist_ok=True)
        write_whole(self.points, json.dumps(armed, indent=2).encode() + b"\n")
        if action == "crash":
            self.should_run = False

    def armed(self) -> dict[str, str]:
        """The points that are armed and have not been reached yet."""
        try:
            found = json.loads(self.points.read_bytes())
        except FileNotFoundError:
            return {}
        return {str(point): str(action) for point, action in found.items()}

    def metrics_address(self) -> str | None:
        """Where it serves metrics, as it wrote itself; None where it does not."""
        try:
            return (self.directory / "data" / ADDRESS_FILE).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None

    def entry(self, run: Path) -> BrokerEntry:
        process = self.process if self.is_running else None
        return BrokerEntry(
            id=self.id,
            rack=self.rack,
            pid=process.pid if process else None,
            started=process.started if process else 0,
            port=self.port,
            config=self.config.relative_to(run).as_posix(),
            log=self.log.relative_to(run).as_posix(),
            events=self.events.relative_to(run).as_posix(),
        )

    def _command(self) -> list[str]:
        # -P and the working directory: no `brokers` or `controller` folder of the user's can hide ours (D17).
        return [sys.executable, "-P", "-m", "brokers", self.config.name]

    def _all_properties(self) -> dict[str, str]:
        rack = {} if self.rack is None else {"broker.rack": self.rack}
        return {
            "broker.id": str(self.id),
            **rack,
            "listeners": f"PLAINTEXT://{HOST}:{self.port if _is_free(self.port) else 0}",
            "log.dirs": str(self.directory / "data"),
            "understudy.events.dir": str(self.events),
            "understudy.points.file": str(self.points),
            **self.properties,
        }


def _is_free(port: int) -> bool:
    """Whether a restarted broker can have its port back, so that bootstrap addresses stay true."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
