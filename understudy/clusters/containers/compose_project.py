"""`ComposeProject`: the containers of a compose project with brokers, and the commands of docker on them.

It acts on the services `broker-N` and `zookeeper` of one project, and on no other container. Nothing is recorded here:
`understudy.clusters.control.compose` and `compose_cluster` record a fault before they inject it.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.docker_command import DockerFailed, docker

EVENTS_TARGET: Final = "/run/understudy"
"""Where the repository's compose file mounts the folder of the event logs in a broker's container."""
ZOOKEEPER: Final = "zookeeper"
"""The service that is ZooKeeper."""
_ID_AND_SERVICE: Final = '{{.Id}} {{index .Config.Labels "com.docker.compose.service"}}'
LABEL: Final = "com.docker.compose.project"
"""The label that has the name of the project, of everything that compose makes."""
_LOOK_TIMEOUT_S: Final = 10.0
_PAUSE_ATTEMPTS: Final = 20
_PAUSE_WAIT_S: Final = 0.25

_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kill": ("kill",),
    "pause": ("pause",),
    "resume": ("unpause",),
    "stop": ("stop",),
    "start": ("start",),
    "restart": ("restart",),
}
"""The command of `docker compose`, and of `docker`, for a change."""


class Service(NamedTuple):
    """A broker or ZooKeeper of the project, as the resolved compose file has it.

    Attributes:
        broker_id: None of ZooKeeper.
    """

    name: str
    broker_id: int | None
    rack: str = ""


class ComposeProject:
    """One compose project.

    Args:
        folder: the folder of the compose file.
        config: the resolved compose file, as `docker compose config --format json` prints it.
        flags: what `docker compose` is given before each command; empty if it finds file and name by itself.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], flags: Sequence[str] = ()) -> None:
        self.folder = folder
        self._config = config
        self._flags = tuple(flags)
        self.ids: dict[str, str] = {}
        """The container of each service, where `remember_containers` has read them; commands are faster with them."""
        self.services = _services(config)
        if not self.services:
            raise ClusterError(f"{folder} has no compose file with services broker-1, broker-2, …")

    @classmethod
    def of_folder(cls, folder: Path) -> ComposeProject:
        """Read the compose file in `folder`.

        Raises:
            ClusterError: docker is missing, or there is no compose file with brokers.
        """
        return cls(folder, json.loads(docker(folder, "compose", "config", "--format", "json")))

    # ------------------------------------------------------------------ what it is

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
        """The session timeout of the brokers; None if their command does not say it."""
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

    def is_running(self) -> bool:
        """Whether a container of the project is running, or paused. Raises DockerFailed and NoDocker."""
        label = f"label={LABEL}={self._config['name']}"
        return bool(docker(self.folder, "ps", "--quiet", "--filter", label, timeout_s=_LOOK_TIMEOUT_S).strip())

    def states(self) -> dict[str, str]:
        """The state of each service's container, such as `running`, `paused` or `exited`."""
        return {each["Service"]: each["State"] for each in self._containers()}

    def remember_containers(self) -> None:
        """Read the full ids of all containers, which stay those until the containers are removed."""
        short = [str(each["ID"]) for each in self._containers()]
        found = docker(self.folder, "inspect", "--format", _ID_AND_SERVICE, *short) if short else ""
        self.ids = {service: container for container, service in map(str.split, found.splitlines())}

    # ------------------------------------------------------------------ commands

    def compose(self, *words: str) -> str:
        """Run a command of `docker compose` on this project, and return what it printed. Raises as `docker`."""
        return docker(self.folder, "compose", *self._flags, *words)

    def change(self, change: str, service: str) -> None:
        """Change the state of a service's container.

        Args:
            change: `kill`, `pause`, `resume`, `stop`, `start`, `restart`, `isolate` or `heal`. The last two take the
                container off the project's network, and back.

        Raises:
            DockerFailed: the command of docker failed.
            ClusterError: it has no container, or the project no network.
        """
        if change == "isolate":
            docker(self.folder, "network", "disconnect", self._network(), self._container(service))
        elif change == "heal":
            alias = ("--alias", service)
            docker(self.folder, "network", "connect", *alias, self._network(), self._container(service))
        else:
            self._command(change, service)

    def _command(self, change: str, service: str) -> None:
        """Run a command. On a busy machine the engine may be unable to freeze a container at once."""
        for attempts_left in reversed(range(_PAUSE_ATTEMPTS if change == "pause" else 1)):
            try:
                if service in self.ids:
                    docker(self.folder, *_COMMANDS[change], self.ids[service])
                else:
                    self.compose(*_COMMANDS[change], service)
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


def _services(config: Mapping[str, Any]) -> tuple[Service, ...]:
    found = []
    for name in sorted(config.get("services", {})):
        overrides = _overrides(config, name)
        if name == ZOOKEEPER:
            found.append(Service(name, None))
        elif name.startswith("broker-") and name[7:].isdecimal():
            found.append(Service(name, int(name[7:]), overrides.get("broker.rack", "")))
    return tuple(found) if any(service.broker_id is not None for service in found) else ()


def _overrides(config: Mapping[str, Any], service: str) -> dict[str, str]:
    """The `KEY=VALUE` arguments of `--override` in a service's entrypoint and command."""
    described = config["services"].get(service, {})
    words = [*(described.get("entrypoint") or ()), *(described.get("command") or ())]
    given = (word.partition("=") for flag, word in itertools.pairwise(words) if flag == "--override")
    return {key: value for key, _, value in given}
