"""`ComposeCluster`: a cluster whose brokers and ZooKeeper run in containers of their own compose project.

It is a `LocalCluster` with another kind of process: the same waits, roles, records and run folder. Everything that it
makes carries the name of its project, and is removed at the end: by `stop` or `close`, and by a `CleanupProcess` if
this program is killed. It acts on no other container, and pulls no image.
"""

from __future__ import annotations

import dataclasses
import os
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.cleanup import CleanupProcess, take_down
from understudy.clusters.containers.compose_file import HOST, INTERNAL_PORT, ComposePlan
from understudy.clusters.containers.compose_project import ZOOKEEPER, ComposeProject
from understudy.clusters.containers.container_process import ContainerProcess
from understudy.clusters.containers.docker_command import docker, require_engine, require_image
from understudy.clusters.java import JavaRuntime
from understudy.clusters.processes.broker_process import BrokerProcess
from understudy.clusters.processes.embedded_zookeeper import four_letter_word
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.local_broker import STOP_TIMEOUT_S
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.zookeeper_ensemble import ZooKeeperEnsemble
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted, ZooKeeperServer
from understudy.foundation.eventlog.records import RunDescribed

IMAGE_VARIABLE: Final = "UNDERSTUDY_IMAGE"
IMAGE: Final = "understudy"
"""The image that docker-compose.yml builds; `UNDERSTUDY_IMAGE` names another one, as there."""
COMPOSE_FILE: Final = "compose.yaml"
_READY_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05
_NAME_LENGTH: Final = 40
_ROOTLESS: Final = "name=rootless"


class ComposeCluster(LocalCluster):
    """Brokers 1 to `brokers`, and a ZooKeeper, in containers.

    Args:
        name: a readable part of the project's name.
        image: the image of all containers; None for the value of `UNDERSTUDY_IMAGE`, or `understudy`.
        The others are as in `LocalCluster`.
    """

    def __init__(
        self,
        brokers: int,
        *,
        name: str,
        directory: Path,
        racks: Sequence[str] | None = None,
        session_timeout_ms: int = 3_000,
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        run: str | None = None,
        described: RunDescribed | None = None,
        image: str | None = None,
    ) -> None:
        project = f"understudy-{re.sub('[^a-z0-9-]+', '-', name.lower())[:_NAME_LENGTH]}-{secrets.token_hex(4)}"
        self._image = image or os.environ.get(IMAGE_VARIABLE) or IMAGE
        zookeeper_port, *ports = free_ports(1 + brokers)
        self._plan = ComposePlan(
            project=project,
            folder=directory.absolute(),
            image=self._image,
            user=f"{os.getuid()}:{os.getgid()}",
            zookeeper_port=zookeeper_port,
            broker_ports=dict(enumerate(ports, start=1)),
            environment=environment or {},
        )
        file = self._plan.folder / COMPOSE_FILE
        flags = ("--project-name", project, "--file", str(file))
        self._project = ComposeProject(self._plan.folder, self._plan.config(), flags)
        self._cleanup: CleanupProcess | None = None
        super().__init__(
            brokers,
            racks=racks,
            directory=directory,
            session_timeout_ms=session_timeout_ms,
            properties=properties,
            run=run,
            described=described,
        )

    @property
    def network(self) -> str:
        """The name of the network that the containers share, for other containers."""
        return self._plan.network

    @property
    def bootstrap_inside(self) -> str:
        """`host:port` of every broker for clients in that network, separated by commas."""
        return ",".join(f"broker-{broker_id}:{INTERNAL_PORT}" for broker_id in self.broker_ids)

    # ------------------------------------------------------------------ from its beginning to its end

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop the brokers as `LocalCluster.stop` does, then remove the project. Raises DockerFailed."""
        super().stop(timeout_s)
        self._take_down()

    def close(self) -> None:
        """Remove the project at once. Harmless if it is removed. Raises DockerFailed."""
        try:
            self._take_down()
        finally:
            super().close()

    def _own_zookeeper(self, servers: int, java: JavaRuntime | None) -> ZooKeeperEnsemble:
        return ZooKeeperEnsemble({1: ContainerZooKeeper(self._project, self._plan)})

    def _process(self, broker_id: int, rack: str | None) -> BrokerProcess:
        folder = self.directory / f"broker-{broker_id}"
        return BrokerContainer(
            broker_id, folder, rack=rack, properties=self._properties, plan=self._plan, project=self._project
        )

    def _start_zookeeper(self, ensemble: ZooKeeperEnsemble) -> None:
        """Start the cleanup process, create all containers, and start ZooKeeper's container."""
        folder = self._plan.folder
        require_engine(folder)
        require_image(folder, self._image)
        if _ROOTLESS in docker(folder, "info", "--format", "{{json .SecurityOptions}}"):
            # The root of such an engine is the user of this program.
            self._plan = dataclasses.replace(self._plan, user="0:0")
        for service in (ZOOKEEPER, *(f"broker-{broker_id}" for broker_id in self.broker_ids)):
            (folder / service).mkdir(parents=True, exist_ok=True)
        (folder / COMPOSE_FILE).write_text(self._plan.text(), encoding="utf-8")
        self._cleanup = CleanupProcess(folder, self._plan.project)
        self._project.create()
        ensemble.start()

    def _take_down(self) -> None:
        """Save the logs of the brokers, and remove the project; then dismiss the cleanup process."""
        if self._cleanup is None:
            return
        for broker_id in self.broker_ids:
            self._project.save_log(f"broker-{broker_id}", self.directory / f"broker-{broker_id}" / "broker.log")
        take_down(self._plan.folder, self._plan.project)
        self._cleanup.dismiss()
        self._cleanup = None

    # ------------------------------------------------------------------ faults of links

    def isolate_broker(self, broker_id: int, role: str = "") -> None:
        """Take a broker's container off the project's network: its traffic is refused, not held."""
        broker = self.process_of(broker_id)
        if not broker.is_running:
            raise ClusterError(f"isolate was not injected: {broker.name} is not running")
        if broker_id in self._isolated:
            raise ClusterError(f"isolate was not injected: {broker.name} is isolated")
        self.record_fault("isolate", broker.name, role)
        self._project.change("isolate", broker.name)
        self._isolated.add(broker_id)

    def heal_broker(self, broker_id: int, role: str = "") -> None:
        """Connect a broker's container again. Harmless if it is not isolated."""
        broker = self.process_of(broker_id)
        self.record_fault("heal", broker.name, role)
        if broker_id in self._isolated:
            self._project.change("heal", broker.name)
            self._isolated.discard(broker_id)

    def heal_links(self) -> None:
        for broker_id in sorted(self._isolated):
            self.heal_broker(broker_id)

    def not_injected(self) -> list[str]:
        return []


class BrokerContainer(BrokerProcess):
    """A broker in a container; its folder is mounted there."""

    def __init__(
        self,
        broker_id: int,
        directory: Path,
        *,
        rack: str | None,
        properties: Mapping[str, str],
        plan: ComposePlan,
        project: ComposeProject,
    ) -> None:
        super().__init__(broker_id, directory, rack=rack, properties=properties)
        self._plan = plan
        self._project = project

    def prepare(self) -> None:
        """Do nothing: a container starts its process at once."""

    def launch(self) -> None:
        """Write the configuration, and start the container. Returns before the broker is ready."""
        self._write_config()
        self._project.change("start", self.name)
        self.process = ContainerProcess(self._project, self.name)
        self.should_run = True

    def _all_properties(self) -> dict[str, str]:
        return {**super()._all_properties(), **self._plan.properties_of(self.id)}


class ContainerZooKeeper(ZooKeeperServer):
    """A ZooKeeper in a container; a pause freezes the container."""

    def __init__(self, project: ComposeProject, plan: ComposePlan) -> None:
        super().__init__()
        self._project = project
        self._port = plan.zookeeper_port
        self._folder = plan.folder / ZOOKEEPER

    @property
    def connect_string(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def transaction_log_dir(self) -> Path:
        return self._folder / "data" / "version-2"

    def start(self) -> None:
        self._project.change("start", ZOOKEEPER)
        process = self._process = ContainerProcess(self._project, ZOOKEEPER)
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while "Mode:" not in four_letter_word(HOST, self._port, "srvr"):
            if not process.is_running or time.monotonic() > deadline:
                raise ZooKeeperNotStarted(f"ZooKeeper does not answer. End of its log:\n{process.log_tail()}")
            time.sleep(_POLL_S)
