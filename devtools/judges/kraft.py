"""Runs KRaft clusters of Apache Kafka, whose nodes are processes on this machine, and Kafka's tools for them."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from devtools.judges.maven import VERSION, jars
from understudy.brokers.config.properties import format_properties
from understudy.clusters.java import JavaRuntime, choose_java
from understudy.clusters.processes.apache_kafka import SMALL_JVM
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.processes import ChildProcess

VERSIONS: Final = (VERSION, "4.2.0")
"""Versions of Kafka: the last with ZooKeeper mode, and the newest."""
TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
_ARTIFACTS: Final = ("kafka_2.13", "kafka-tools", "kafka-shell")
_CONSOLE: Final = {
    "log4j.rootLogger": "INFO, stdout",
    "log4j.appender.stdout": "org.apache.log4j.ConsoleAppender",
    "log4j.appender.stdout.layout": "org.apache.log4j.PatternLayout",
    "log4j.appender.stdout.layout.ConversionPattern": "[%d] %p %m (%c)%n",
}
_NODE: Final = {
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
}

T = TypeVar("T")


def kraft_libs(version: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The folder with the jars of a version of Apache Kafka, its tools and its metadata shell.

    Raises:
        NotFetched: there is no Maven, or it failed.
    """
    artifacts = [("org.apache.kafka", name, version) for name in _ARTIFACTS]
    return jars(f"kraft-{version}", [*artifacts, ("org.slf4j", "slf4j-reload4j", "1.7.36")], environment)


class ToolFailed(Exception):
    """One of Kafka's tools has failed. The message has its name and its output."""


class NotReached(Exception):
    """A cluster was not in the expected state in time. The message has the ends of the nodes' logs."""


@dataclass(frozen=True, slots=True)
class QuorumStatus:
    """What `kafka-metadata-quorum describe --status` says."""

    leader: int
    epoch: int
    high_watermark: int


class KRaftCluster:
    """A KRaft cluster. Its block ends with the end of all processes.

    Args:
        libs: as `kraft_libs` returns it.
        folder: gets a folder for each node.
        controllers: the ids of the nodes that are voters.
        brokers: the ids of the nodes that are brokers; a node may be both.
        properties: more keys for every node.
    """

    def __init__(
        self,
        libs: Path,
        folder: Path,
        *,
        controllers: Sequence[int] = (1, 2, 3),
        brokers: Sequence[int] = (1, 2, 3),
        properties: Mapping[str, str] | None = None,
        java: JavaRuntime | None = None,
    ) -> None:
        self.folder = folder
        self.controllers, self.brokers = tuple(controllers), tuple(brokers)
        self.nodes = tuple(sorted({*controllers, *brokers}))
        self.processes: dict[int, ChildProcess] = {}
        self._libs = libs
        self._java = java or choose_java()
        self._properties = dict(properties or {})
        ports = free_ports(2 * len(self.nodes))
        self._ports = dict(zip(self.nodes, zip(ports[::2], ports[1::2], strict=True), strict=True))

    def __enter__(self) -> KRaftCluster:
        for node in self.nodes:
            self._format(node)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(TIMEOUT_S)

    def start(self, *nodes: int) -> None:
        """Start nodes; without any, all."""
        for node in nodes or self.nodes:
            folder = self.node_folder(node)
            logging = f"-Dlog4j.configuration={(folder / 'log4j.properties').as_uri()}"
            command = self._command("kafka.Kafka", str(folder / "server.properties"), options=(logging,))
            self.processes[node] = ChildProcess(f"node {node}", command, log=folder / "server.log", directory=folder)

    def kill(self, node: int) -> float:
        """End a node by SIGKILL; return the time in milliseconds since 1970."""
        ms = time.time() * 1000
        self.processes[node].kill()
        self.processes[node].wait(TIMEOUT_S)
        return ms

    def stop(self, *nodes: int) -> None:
        """Stop nodes in order, as an operator does; without any, all at once."""
        for node in nodes or self.nodes:
            self.processes[node].ask_to_end()
        for node in nodes or self.nodes:
            if not self.processes[node].wait(TIMEOUT_S):
                self.processes[node].kill()
                self.processes[node].wait(TIMEOUT_S)

    def node_folder(self, node: int) -> Path:
        return self.folder / f"node-{node}"

    def log_folder(self, node: int) -> Path:
        """The folder that contains `__cluster_metadata-0`."""
        return self.node_folder(node) / "data"

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{self._ports[broker][0]}" for broker in self.brokers)

    # ------------------------------------------------------------------ tools

    def tool(self, main_class: str, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run one of Kafka's tools that has to exit with 0, and return its output.

        Raises:
            ToolFailed: it exited with another code.
            subprocess.TimeoutExpired: it has not ended in time.
        """
        logging = self.folder / "tools-log4j.properties"
        logging.write_text(format_properties({**_CONSOLE, "log4j.rootLogger": "ERROR, stdout"}), encoding="utf-8")
        command = self._command(main_class, *arguments, options=(f"-Dlog4j.configuration={logging.as_uri()}",))
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        if done.returncode != 0:
            raise ToolFailed(f"{main_class} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def quorum(self) -> QuorumStatus:
        """Ask the quorum for its leader and epoch, as `kafka-metadata-quorum describe --status` does."""
        text = self.tool(
            "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-server", self.bootstrap, "describe", "--status"
        )
        found = {
            name: int(value)
            for name, value in re.findall(r"^(LeaderId|LeaderEpoch|HighWatermark):\s*(-?\d+)", text, re.MULTILINE)
        }
        return QuorumStatus(found["LeaderId"], found["LeaderEpoch"], found["HighWatermark"])

    def topics(self, *arguments: str) -> str:
        """Run `kafka-topics` with some arguments."""
        return self.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.bootstrap, *arguments)

    def create_topic(self, name: str, assignment: Sequence[Sequence[int]]) -> None:
        replicas = ",".join(":".join(map(str, each)) for each in assignment)
        self.topics("--create", "--topic", name, "--replica-assignment", replicas)

    def dump(self, segment: Path) -> str:
        """Return the records of a segment of `__cluster_metadata`, as `kafka-dump-log` prints them."""
        return self.tool("kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(segment))

    def shell(self, segment: Path, *command: str) -> str:
        """Run a command of `kafka-metadata-shell` over a segment of `__cluster_metadata`."""
        return self.tool("org.apache.kafka.shell.MetadataShell", "--snapshot", str(segment), *command)

    def wait_until(self, what: str, condition: Callable[[], T], timeout_s: float = TIMEOUT_S) -> T:
        """Return the result of `condition` once it is true.

        Raises:
            NotReached: it was not true in time.
        """
        deadline = time.monotonic() + timeout_s
        while not (found := condition()):
            if time.monotonic() > deadline:
                logs = "\n".join(f"{process.name}:\n{process.log_tail()}" for process in self.processes.values())
                raise NotReached(f"not within {timeout_s:g} s: {what}\n{logs}")
            time.sleep(_POLL_S)
        return found

    def wait_for_line(self, pattern: str, *nodes: int, count: int = 1) -> list[tuple[int, str]]:
        """Return the lines of some nodes, by default of all, that contain a pattern, with their nodes, once there are
        `count` of them.

        Raises:
            NotReached: there were fewer in time.
        """
        return self.wait_until(
            f"{count} lines with {pattern}",
            lambda: found if len(found := self.lines(pattern, *nodes)) >= count else [],
        )

    def lines(self, pattern: str, *nodes: int) -> list[tuple[int, str]]:
        """Return the lines of some nodes, by default of all, that contain a pattern, each with its node."""
        return [
            (node, line)
            for node in nodes or self.nodes
            for line in self.text_of(node).splitlines()
            if re.search(pattern, line)
        ]

    def text_of(self, node: int) -> str:
        """What a node has logged."""
        return (self.node_folder(node) / "server.log").read_text(encoding="utf-8", errors="replace")

    # ------------------------------------------------------------------ nodes

    def _format(self, node: int) -> None:
        folder = self.node_folder(node)
        folder.mkdir(parents=True)
        roles = [role for role, ids in (("broker", self.brokers), ("controller", self.controllers)) if node in ids]
        broker_port, controller_port = self._ports[node]
        listeners = {"broker": f"PLAINTEXT://127.0.0.1:{broker_port}"} | {
            "controller": f"CONTROLLER://127.0.0.1:{controller_port}"
        }
        voters = ",".join(f"{voter}@127.0.0.1:{self._ports[voter][1]}" for voter in self.controllers)
        properties = {
            **_NODE,
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "controller.quorum.voters": voters,
            "listeners": ",".join(listeners[role] for role in roles),
            "log.dirs": str(folder / "data"),
            **self._properties,
        }
        if roles == ["controller"]:
            properties.pop("inter.broker.listener.name")
        (folder / "server.properties").write_text(format_properties(properties), encoding="utf-8")
        (folder / "log4j.properties").write_text(format_properties(_CONSOLE), encoding="utf-8")
        self.tool("kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", str(folder / "server.properties"))

    def _command(self, main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
        java = [str(self._java.executable), *SMALL_JVM, "-Duser.timezone=UTC", *options, "-cp", f"{self._libs}/*"]
        return [*java, main_class, *arguments]
