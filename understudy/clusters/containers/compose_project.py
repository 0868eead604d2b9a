"""`ComposeProject`: the containers of a compose project with brokers, and the commands of docker on them.

The control port of a compose project and experiments in containers use it. It acts on the services `broker-N` and
`zookeeper` of one project, and on no other container. Nothing is recorded here: `understudy.clusters.control.compose`
and `compose_cluster` record a fault before they inject it.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.docker_command import DockerFailed, docker

EVENTS_TARGET: Final = "/run/understudy"
"""Path at which the repository's compose file mounts the folder of the event logs in a broker's container."""
ZOOKEEPER: Final = "zookeeper"
"""Name of ZooKeeper's service."""
_ID_AND_SERVICE: Final = '{{.Id}} {{index .Config.Labels "com.docker.compose.service"}}'
LABEL: Final = "com.docker.compose.project"
"""Label with the name of the project, on everything that compose creates."""
_LOOK_TIMEOUT_S: Final = 10.0
_PAUSE_ATTEMPTS: Final = 20
_PAUSE_WAIT_S: Final = 0.25

_COMMANDS: Final = {"resume": "unpause"}
"""Command of `docker compose`, and of `docker`, for a change whose name differs from it."""
_STATE: Final = "{{.Id}} {{.State.Status}} {{.State.ExitCode}} {{.State.Pid}}"
_MISSING: Final = "No such object"
_SIGNALLED: Final = 128
"""A container whose process was ended by signal n has the exit code 128 + n."""
_FRESH_S: Final = 0.25
"""Maximum age of a state that is used again; after a command on a container, all states are read again."""


class Service(NamedTuple):
    """A broker or ZooKeeper of the project, as the resolved compose file has it.

    Attributes:
        broker_id: the broker's id; None for ZooKeeper.
    """

    name: str
    broker_id: int | None
    rack: str = ""


class ContainerState(NamedTuple):
    """The state of a container in the engine.

    Attributes:
        status: such as `running`, `paused` or `exited`; `removed` if it no longer exists.
        exit_code: the exit code as in `ChildProcess`: negative for the signal that ended it.
        pid: the pid of its first process, 0 if none runs.
    """

    status: str
    exit_code: int
    pid: int

    @property
    def is_running(self) -> bool:
        return self.status in ("running", "paused", "restarting")


_REMOVED: Final = ContainerState("removed", -9, 0)


class ComposeProject:
    """One compose project.

    Args:
        folder: the folder of the compose file.
        config: the resolved compose file, as `docker compose config --format json` prints it.
        flags: the options of `docker compose` before each command; empty if it finds file and name by itself.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self._config = config
        self._flags = tuple(flags)
        self.ids: dict[str, str] = {}
        """The container id of each service, if `create` has read the ids; commands are faster with them."""
        self._states: dict[str, ContainerState] = {}
        self._read_s = 0.0
        self.services = _services(config)
        self.brokers = tuple(service for service in self.services if service.broker_id is not None)
        if not self.brokers:
            raise ClusterError(f"{folder} has no compose file with services broker-1, broker-2, …")

    @classmethod
    def of_folder(cls, folder: Path) -> ComposeProject:
        """Read the compose file in `folder`.

        Raises:
            ClusterError: docker is missing, or there is no compose file with brokers.
        """
        return cls(folder, json.loads(docker(folder, "compose", "config", "--format", "json")))

    # ------------------------------------------------------------------ settings

    @property
    def run_id(self) -> str:
        return _overrides(self._config, "broker-1").get("understudy.run.id", "compose")

    @property
    def zookeeper_address(self) -> str:
        """`host:port` at which this machine reaches ZooKeeper. Raises ClusterError if no port is published."""
        address = self.published(ZOOKEEPER)
        if address is None:
            raise ClusterError("the compose file publishes no port of zookeeper, which a role or `depose` needs")
        return address

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout of the brokers; None if their command does not set it."""
        text = _overrides(self._config, "broker-1").get("zookeeper.session.timeout.ms", "")
        return int(text) if text.isdecimal() else None

    def published(self, service: str) -> str | None:
        """Return the `host:port` at which this machine reaches a service; None if no port is published."""
        for port in self._config["services"].get(service, {}).get("ports", ()):
            if number := port.get("published"):
                return f"{port.get('host_ip') or '127.0.0.1'}:{number}"
        return None

    @property
    def events_folder(self) -> Path:
        """The folder of the event logs that the containers share. Raises ClusterError if they share none."""
        for volume in self._config["services"].get("broker-1", {}).get("volumes", ()):
            if volume.get("target") == EVENTS_TARGET and volume.get("type") == "bind":
                return Path(volume["source"])
        raise ClusterError(
            f"this machine has no event logs of it: the compose file mounts no folder at {EVENTS_TARGET} of broker-1"
        )

    # ------------------------------------------------------------------ its containers

    def is_running(self) -> bool:
        """Whether a container of the project is running, or paused. Raises DockerFailed and NoDocker."""
        label = f"label={LABEL}={self._config['name']}"
        return bool(docker(self.folder, "ps", "--quiet", "--filter", label, timeout_s=_LOOK_TIMEOUT_S).strip())

    def statuses(self) -> dict[str, str]:
        """The status of each service's container, such as `running`, `paused` or `exited`."""
        return {each["Service"]: each["State"] for each in self._containers()}

    def state(self, service: str) -> ContainerState:
        """The state of a container that `create` has made."""
        if time.monotonic() - self._read_s > _FRESH_S:
            found = dict(self._inspected(list(self.ids.values())))
            self._states = {name: found.get(container, _REMOVED) for name, container in self.ids.items()}
            self._read_s = time.monotonic()
        return self._states.get(service, _REMOVED)

    def log(self, service: str, *, tail: int | str = "all") -> str:
        """The log of a container, or its last lines. Raises DockerFailed."""
        return self.compose("logs", "--no-color", "--no-log-prefix", "--tail", str(tail), service)

    def save_log(self, service: str, file: Path) -> None:
        """Write the log of a container to a file. Harmless if there is no container."""
        with contextlib.suppress(DockerFailed, OSError):
            file.write_text(self.log(service), encoding="utf-8")

    # ------------------------------------------------------------------ commands

    def compose(self, *words: str) -> str:
        """Run a command of `docker compose` on this project, and return what it printed. Raises as `docker`."""
        return docker(self.folder, "compose", *self._flags, *words)

    def create(self) -> None:
        """Create all containers, start none, and read their full ids, which stay the same until they are removed."""
        self.compose("create", "--no-build")
        short = [str(each["ID"]) for each in self._containers()]
        found = docker(self.folder, "inspect", "--format", _ID_AND_SERVICE, *short) if short else ""
        self.ids = {service: container for container, service in map(str.split, found.splitlines())}

    def signal(self, name: str, service: str) -> None:
        """Send a signal such as `SIGTERM` to the process in a container. Harmless if it has ended."""
        try:
            docker(self.folder, "kill", "--signal", name, self._container(service))
        except DockerFailed as failed:
            if "is not running" not in str(failed):
                raise
        self._read_s = 0.0

    def change(self, change: str, service: str) -> None:
        """Change the state of a service's container.

        Args:
            change: `kill`, `pause`, `resume`, `stop`, `start`, `restart`, `isolate` or `heal`. The last two take the
                container off the project's network, and back.

        Raises:
            DockerFailed: the command of docker failed.
            ClusterError: it has no container, or the project no network.
        """
        self._read_s = 0.0
        if change == "isolate":
            docker(self.folder, "network", "disconnect", self._network(), self._container(service))
        elif change == "heal":
            alias = ("--alias", service)
            docker(self.folder, "network", "connect", *alias, self._network(), self._container(service))
        else:
            self._command(change, service)

    def _command(self, change: str, service: str) -> None:
        """Run a command. On a busy machine the engine may be unable to freeze a container at once."""
        command = _COMMANDS.get(change, change)
        for attempts_left in reversed(range(_PAUSE_ATTEMPTS if change == "pause" else 1)):
            try:
                if service in self.ids:
                    docker(self.folder, command, self.ids[service])
                else:
                    self.compose(command, service)
            except DockerFailed as error:
                if not attempts_left or "unable to freeze" not in str(error):
                    raise
                time.sleep(_PAUSE_WAIT_S)
            else:
                return

    def _network(self) -> str:
        network = self._config.get("networks", {}).get("default", {}).get("name")
        if not network:
            raise ClusterError(
                "the compose project has no default network from which a container could be disconnected"
            )
        return str(network)

    def _container(self, service: str) -> str:
        if service in self.ids:
            return self.ids[service]
        found = [str(each["ID"]) for each in self._containers() if each["Service"] == service]
        if not found:
            raise ClusterError(f"{service} has no container; `docker compose up` creates it")
        return found[0]

    def _containers(self) -> list[dict[str, Any]]:
        output = self.compose("ps", "--all", "--format", "json").strip()
        if output.startswith("["):  # Compose before 2.21 prints one array, later versions an object in each line.
            found: list[dict[str, Any]] = json.loads(output)
            return found
        return [json.loads(line) for line in output.splitlines()]

    def _inspected(self, containers: Sequence[str]) -> Iterator[tuple[str, ContainerState]]:
        """Return the id and state of each container that is not removed."""
        if not containers:
            return
        try:
            lines = docker(self.folder, "inspect", "--format", _STATE, *containers).splitlines()
        except DockerFailed as failed:
            if _MISSING not in str(failed):
                raise
            # The whole command fails if one container is missing.
            for each in containers if len(containers) > 1 else ():
                yield from self._inspected((each,))
            return
        for container, status, exit_code, pid in map(str.split, lines):
            code = int(exit_code)
            yield container, ContainerState(status, _SIGNALLED - code if code > _SIGNALLED else code, int(pid))


def _services(config: Mapping[str, Any]) -> tuple[Service, ...]:
    found = []
    for name in sorted(config.get("services", {})):
        overrides = _overrides(config, name)
        if name == ZOOKEEPER:
            found.append(Service(name, None))
        elif name.startswith("broker-") and name[7:].isdecimal():
            found.append(Service(name, int(name[7:]), overrides.get("broker.rack", "")))
    return tuple(found)


def _overrides(config: Mapping[str, Any], service: str) -> dict[str, str]:
    """The `KEY=VALUE` arguments of `--override` in a service's entrypoint and command."""
    described = config["services"].get(service, {})
    words = [*(described.get("entrypoint") or ()), *(described.get("command") or ())]
    given = (word.partition("=") for flag, word in itertools.pairwise(words) if flag == "--override")
    return {key: value for key, _, value in given}
