"""`ShapeCluster`: a compose file of tests/compose/shapes on free ports, acted on as a user of that file would.

Each file has the variables, volumes, commands and health checks with which projects run Kafka's images, and our image
in their place. Its key `x-shape` says how it is tested:

    brokers: the broker id of each service that is a broker
    host: the bootstrap servers for clients on this machine; null if they need a port that a test does not take
    published: the address at which a broker answers this machine, if `host` is null
    inside: the bootstrap servers for tools in the brokers' containers
    zookeeper: the connect string for zookeeper-shell there
    zookeeper_service: the broker whose container has the ZooKeeper; absent if it has a container of its own
    tools: how the file's users call Kafka's tools: `{}`, `{}.sh` or a path with `{}`
    topics: the partitions of topics that the file itself creates
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.compose.compose_cluster import ComposeFailed, eventually, run
from understudy.clusters.containers.cleanup import leftovers
from understudy.clusters.processes.free_ports import free_ports

SHAPES = Path(__file__).parent / "shapes"
_PORT = re.compile(r"\$\{(\w*PORT):-\d+\}")
_CONTROLLER = re.compile(r'"brokerid":(\d+)')
_TIMEOUT_S = 180


@dataclass(slots=True, kw_only=True)
class Shape:
    """What `x-shape` says, as above."""

    brokers: dict[str, int]
    host: str | None
    published: str = ""
    inside: str
    zookeeper: str
    zookeeper_service: str | None = None
    tools: str
    topics: dict[str, int] = field(default_factory=dict)


class ShapeCluster:
    """One compose file under a project name of its own. `down` removes everything that `up` has made."""

    def __init__(self, file: Path, *, project: str, image: str) -> None:
        self._project = project
        self._flags = ["docker", "compose", "--project-name", project, "--file", str(file)]
        names = sorted(set(_PORT.findall(file.read_text())))
        ports = dict(zip(names, map(str, free_ports(len(names))), strict=True))
        # The project's name is also in the environment, because files make names of containers from it.
        self._environment = {**os.environ, **ports, "UNDERSTUDY_IMAGE": image, "COMPOSE_PROJECT_NAME": project}
        self.shape = Shape(**json.loads(self.compose("config", "--format", "json"))["x-shape"])

    def compose(self, *words: str, stdin: str = "") -> str:
        """Run a command of `docker compose` on the project, and return what it printed. Raises ComposeFailed."""
        return run([*self._flags, *words], SHAPES, _TIMEOUT_S, self._environment, stdin)

    # ------------------------------------------------------------------ from its beginning to its end

    def up(self) -> None:
        """Start the services as the file says, and wait until all are healthy or have ended with exit code 0."""
        self.compose("up", "--detach", "--no-build")
        eventually(lambda: not self.not_ready(), "every service is healthy", _TIMEOUT_S)

    def not_ready(self) -> dict[str, str]:
        """The state of each service that is not healthy yet, or that has failed."""
        found = {}
        for line in self.compose("ps", "--all", "--format", "json").splitlines():
            each = json.loads(line)
            has_ended = each["State"] == "exited" and each["ExitCode"] == 0
            if not has_ended and (each["State"] != "running" or each["Health"] not in ("", "healthy")):
                found[each["Service"]] = f"{each['State']} {each['Health']} {each['ExitCode']}"
        return found

    def down(self) -> dict[str, list[str]]:
        """Remove the project with its volumes, and return the resources that the engine still has of it, by kind."""
        self.compose("down", "--volumes", "--remove-orphans", "--timeout", "5")
        return leftovers(SHAPES, self._project)

    def logs(self, *services: str) -> str:
        return self.compose("logs", "--no-color", *services)

    # ------------------------------------------------------------------ inside

    def tool(self, name: str, *arguments: str, stdin: str = "", service: str | None = None) -> str:
        """Run one of Kafka's tools in the container of a broker that runs. Raises ComposeFailed."""
        chosen = service or self._running()[0]
        return self.compose("exec", "-T", chosen, self.shape.tools.format(name), *arguments, stdin=stdin)

    def create_topic(self, name: str, partitions: int) -> None:
        replicas = str(min(3, len(self.shape.brokers)))
        self.tool(
            *("kafka-topics", "--bootstrap-server", self.shape.inside, "--create", "--if-not-exists"),
            *("--topic", name, "--partitions", str(partitions), "--replication-factor", replicas),
        )

    def has_its_topics(self) -> bool:
        """Whether kafka-topics describes the topics that the file creates, each with its number of partitions."""
        return {topic: self._partitions_of(topic) for topic in self.shape.topics} == self.shape.topics

    def _partitions_of(self, topic: str) -> int:
        try:
            text = self.tool("kafka-topics", "--bootstrap-server", self.shape.inside, "--describe", "--topic", topic)
        except ComposeFailed as failed:
            if "does not exist" not in str(failed):
                raise
            return 0
        found = re.search(r"PartitionCount:\s*(\d+)", text)
        assert found is not None, text
        return int(found[1])

    def produce_inside(self, topic: str, values: list[str]) -> None:
        """Produce with kafka-console-producer, acknowledged by the whole ISR. Raises ComposeFailed."""
        options = ("--bootstrap-server", self.shape.inside, "--topic", topic, "--producer-property", "acks=all")
        self.tool("kafka-console-producer", *options, stdin="".join(f"{value}\n" for value in values))

    def consume_inside(self, topic: str, count: int) -> list[str]:
        """Read a topic from the beginning with kafka-console-consumer, until it has read `count` records."""
        options = ("--bootstrap-server", self.shape.inside, "--topic", topic, "--from-beginning")
        limits = ("--max-messages", str(count), "--timeout-ms", "60000")
        return self.tool("kafka-console-consumer", *options, *limits).splitlines()

    # ------------------------------------------------------------------ the controller

    def controller(self) -> str | None:
        """The service of the controller, which zookeeper-shell reads; None if there is none at this moment."""
        try:
            found = _CONTROLLER.search(self.tool("zookeeper-shell", self.shape.zookeeper, "get", "/controller"))
        except ComposeFailed:
            return None
        return self._service_by_id[int(found[1])] if found else None

    def kill_controller(self) -> str:
        """Kill the controller's container, wait for another controller, and start the killed one again.

        If the ZooKeeper is in the same container or there is no other broker, nothing can take over: a container that
        was alone is restarted, one with the ZooKeeper is killed and started again.

        Returns:
            the service.
        """
        victim = eventually(self.controller, "there is a controller")
        if len(self.shape.brokers) == 1:
            self.compose("restart", victim)
        elif victim == self.shape.zookeeper_service:
            self.compose("kill", victim)
            self.compose("start", victim)
        else:
            self.compose("kill", victim)
            eventually(lambda: self.controller() not in (None, victim), "another broker is controller")
            return victim
        eventually(lambda: self.controller() is not None, "there is a controller again")
        return victim

    def start(self, service: str) -> None:
        self.compose("start", service)
        eventually(lambda: not self.not_ready(), "every service is healthy", _TIMEOUT_S)

    @cached_property
    def _service_by_id(self) -> dict[int, str]:
        return {broker: service for service, broker in self.shape.brokers.items()}

    def _running(self) -> list[str]:
        running = self.compose("ps", "--services", "--filter", "status=running").split()
        return [service for service in self.shape.brokers if service in running] or list(self.shape.brokers)
