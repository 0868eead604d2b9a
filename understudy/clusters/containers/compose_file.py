"""`ComposePlan`: the compose project of one cluster, and the file that describes it.

The containers run as the user of this program and write into the run folder, which is mounted into them: data, event
logs and ZooKeeper's transaction log have the same paths there as in a cluster of processes. All ports are published on
the loopback interface. The containers have the same settings as in the repository's docker-compose.yml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from understudy.clusters.containers.compose_project import ZOOKEEPER

HOME: Final = "/var/lib/understudy"
"""Path at which a container's folder of the run folder is mounted."""
CONFIG: Final = "server.properties"
ZOOKEEPER_PORT: Final = 2181
INTERNAL_PORT: Final = 9092
EXTERNAL_PORT: Final = 19092
HOST: Final = "127.0.0.1"

_SERVICE: Final[dict[str, Any]] = {
    "pull_policy": "never",
    "init": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "restart": "no",
}
_HEADER: Final = """\
# Made for one cluster, and removed with it. By hand: docker compose --project-name {project} down --volumes
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposePlan:
    """One project.

    Attributes:
        folder: the run folder.
        user: `uid:gid` of the processes in the containers.
        environment: the environment variables of every broker.
        zookeeper_port, broker_ports: the ports at which this machine reaches ZooKeeper and each broker.
    """

    project: str
    folder: Path
    image: str
    user: str
    zookeeper_port: int
    broker_ports: dict[int, int]
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def network(self) -> str:
        return f"{self.project}_default"

    def config(self) -> dict[str, Any]:
        """The resolved compose file."""
        zookeeper = ("understudy", "zookeeper", "--host", "0.0.0.0", "--port", str(ZOOKEEPER_PORT), "--dir", HOME)
        services = {ZOOKEEPER: self._service(ZOOKEEPER, zookeeper, self.zookeeper_port, ZOOKEEPER_PORT)}
        broker = ("python", "-P", "-m", "understudy.brokers", CONFIG)
        for broker_id, port in self.broker_ports.items():
            name = f"broker-{broker_id}"
            services[name] = self._service(name, broker, port, EXTERNAL_PORT)
            services[name]["environment"] = dict(self.environment)
        return {
            "name": self.project,
            "services": services,
            "networks": {"default": {"name": self.network}},
        }

    def text(self) -> str:
        """The compose file, which escapes each `$`."""
        text = yaml.safe_dump(self.config(), sort_keys=False, width=1_000)
        return _HEADER.format(project=self.project) + text.replace("$", "$$")

    def properties_of(self, broker_id: int) -> dict[str, str]:
        """The keys of `server.properties` that a broker has because it runs in a container."""
        port = self.broker_ports[broker_id]
        return {
            "zookeeper.connect": f"{ZOOKEEPER}:{ZOOKEEPER_PORT}",
            "listeners": f"EXTERNAL://0.0.0.0:{EXTERNAL_PORT},INTERNAL://0.0.0.0:{INTERNAL_PORT}",
            "advertised.listeners": f"EXTERNAL://{HOST}:{port},INTERNAL://broker-{broker_id}:{INTERNAL_PORT}",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "log.dirs": f"{HOME}/data",
            "understudy.events.dir": f"{HOME}/events",
            "understudy.points.file": f"{HOME}/points.json",
            "understudy.answers.file": f"{HOME}/answers.json",
        }

    def _service(self, name: str, command: Sequence[str], published: int, port: int) -> dict[str, Any]:
        return {
            "image": self.image,
            **_SERVICE,
            "user": self.user,
            "working_dir": HOME,
            "command": list(command),
            "ports": [{"target": port, "published": str(published), "host_ip": HOST, "protocol": "tcp"}],
            "volumes": [{"type": "bind", "source": str(self.folder / name), "target": HOME}],
        }
