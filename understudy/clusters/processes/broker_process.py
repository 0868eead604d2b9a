"""`BrokerProcess`: one broker of a local cluster, with its folder, `server.properties` and process."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from understudy.brokers.config.properties import format_properties
from understudy.brokers.machine.answers_file import names_given, read_answers
from understudy.brokers.machine.injected_faults import APPLIED, MachineFaults
from understudy.brokers.metrics.metrics_server import ADDRESS_FILE
from understudy.clusters.processes import waiting_broker
from understudy.clusters.processes.broker_forks import forks_of_this_process
from understudy.clusters.processes.fixed_address import FixedAddress, two_listeners
from understudy.clusters.processes.processes import ChildProcess, RunningProcess
from understudy.clusters.processes.run_folder import BrokerEntry, replace_file
from understudy.foundation.wire.armed_answers import ArmedAnswer, named

HOST = "127.0.0.1"


class BrokerProcess:
    """A broker that can be started many times; it keeps its folder and, if it is free, its port.

    Args:
        address: the address by which clients reach it, which it keeps always; None for a free port of loopback.
        forked: whether its processes are forks of `forks_of_this_process()`, if the system has them; otherwise they do
            their imports themselves.
    """

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        *,
        rack: str | None,
        properties: Mapping[str, str],
        environment: Mapping[str, str] | None = None,
        address: FixedAddress | None = None,
        forked: bool = True,
    ) -> None:
        self.id = broker_id
        self.address = address
        self.rack = rack
        self.directory = directory
        self.config = directory / "server.properties"
        self.log = directory / "broker.log"
        self.events = directory / "events"
        self.points = directory / "points.json"
        self.answers = directory / "answers.json"
        self.faults = directory / "faults.json"
        self.port = 0
        """The port on loopback that it registered last; 0 before its first registration."""
        self._environment = {**os.environ, **environment} if environment else None
        self._forked = forked
        self.process: RunningProcess | None = None
        self.should_run = False
        """Whether it has been started, and no fault that ends it has been injected since."""
        self.is_restarting = False
        """Whether it is stopping, and will be started once it has ended."""
        self.properties = dict(properties)
        """Keys of `server.properties`; they override those that this class sets, and are read at each launch."""

    @property
    def name(self) -> str:
        return f"broker-{self.id}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running

    @property
    def is_missing(self) -> bool:
        """Whether it should run and does not, or is being restarted."""
        return self.is_restarting or (self.should_run and not self.is_running)

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    def prepare(self) -> None:
        """Start a process that does its imports and then waits for `launch`; a fork needs none. Returns at once."""
        if self._forked and forks_of_this_process() is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-P", "-m", waiting_broker.MODULE, self.config.name]
        self.process = ChildProcess(
            self.name, command, log=self.log, directory=self.directory, environment=self._environment, waits=True
        )

    def launch(self) -> None:
        """Write the configuration, and start the broker, in the prepared process if there is one.

        Returns at once; for a fork, when the template has done its imports.
        """
        self._write_config()
        forks = forks_of_this_process() if self._forked else None
        if forks is not None:
            environment = os.environ if self._environment is None else self._environment
            self.process = forks.fork(
                self.name, self.config.name, log=self.log, directory=self.directory, environment=environment
            )
        elif isinstance(self.process, ChildProcess) and self.process.is_waiting:
            self.process.go_ahead()
        else:
            self.process = ChildProcess(
                self.name, self._command(), log=self.log, directory=self.directory, environment=self._environment
            )
        self.should_run = True

    def _write_config(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.config.write_text(format_properties(self._all_properties()), encoding="utf-8")

    def arm(self, point: str, action: str) -> None:
        """Pause or crash the broker when it next reaches `point`; other armed points stay armed."""
        armed = self.armed()
        armed[point] = action
        self.directory.mkdir(parents=True, exist_ok=True)
        replace_file(self.points, json.dumps(armed, indent=2).encode() + b"\n")
        if action == "crash":
            self.should_run = False

    def armed(self) -> dict[str, str]:
        """The actions of the points that are armed and have not been reached, by point."""
        try:
            found = json.loads(self.points.read_bytes())
        except FileNotFoundError:
            return {}
        return {str(point): str(action) for point, action in found.items()}

    def named_answer(self, answer: ArmedAnswer) -> ArmedAnswer:
        """Return an answer with a name that this broker's other armed answers do not have."""
        return named(answer, {*self.answers_given(), *(each.name for each in read_answers(self.answers))})

    def arm_answer(self, answer: ArmedAnswer) -> None:
        """Arm an answer of `named_answer`; others stay armed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        replace_file(self.answers, msgspec.json.encode([*read_answers(self.answers), answer]))

    def answers_given(self) -> Counter[str]:
        """How often it has given each armed answer, by its name."""
        return names_given(self.answers)

    def disarm_answers(self) -> None:
        """Arm no answer any more."""
        self.answers.unlink(missing_ok=True)

    def set_faults(self, faults: MachineFaults) -> None:
        """Give its disk and clock these faults, and no others, from now on; also in later processes.

        It reads them only if `understudy.faults.file` among its properties names the file.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        replace_file(self.faults, msgspec.json.encode(faults))

    def applied_faults(self) -> frozenset[str]:
        """The names of the faults of its disk that have taken effect."""
        try:
            return frozenset(self.faults.with_name(self.faults.name + APPLIED).read_text(encoding="utf-8").split())
        except FileNotFoundError:
            return frozenset()

    def metrics_address(self) -> str | None:
        """The address of its metrics server, from the file that it writes; None if it serves no metrics."""
        try:
            return (self.directory / "data" / ADDRESS_FILE).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None

    def entry(self, run: Path) -> BrokerEntry:
        """Its entry in the `cluster.json` of the run folder `run`."""
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
        # With -P, a folder `brokers` or `controller` in the working directory does not hide our packages (D17).
        return [sys.executable, "-P", "-m", "understudy.brokers", self.config.name]

    def _all_properties(self) -> dict[str, str]:
        rack = {} if self.rack is None else {"broker.rack": self.rack}
        return {
            "broker.id": str(self.id),
            **rack,
            **self._listeners(),
            "log.dirs": str(self.directory / "data"),
            "understudy.events.dir": str(self.events),
            "understudy.points.file": str(self.points),
            "understudy.answers.file": str(self.answers),
            **self.properties,
        }

    def _listeners(self) -> dict[str, str]:
        own = f"{HOST}:{self.port if _is_free(self.port) else 0}"
        if self.address is None:
            return {"listeners": f"PLAINTEXT://{own}"}
        if not self.address.advertised_host:
            return {"listeners": f"PLAINTEXT://{self.address}"}
        return two_listeners((own, own), (f"{self.address.bound_host}:{self.address.port}", str(self.address)))


def _is_free(port: int) -> bool:
    """Whether a restarted broker can bind its old port, so that bootstrap addresses stay valid."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
