"""`KRaftCluster`: a KRaft cluster of Apache Kafka, whose nodes are processes on this machine.

It has the part of `understudy.clusters.cluster.Cluster` that a failover of the controller needs. What a client of
`LocalCluster` reads in ZooKeeper, it takes from the nodes' logs (the active controller) and from the Metadata responses
of the brokers (leaders and ISRs).
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from understudy.brokers.config.properties import format_properties
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import ClusterError, no_holder
from understudy.clusters.findings import Finding, FindingKind, findings
from understudy.clusters.java import JavaRuntime, choose_java
from understudy.clusters.picture import ClusterPicture, PartitionPicture
from understudy.clusters.processes import waiting
from understudy.clusters.processes.apache_kafka import CONSOLE_LOGGING, CONSOLE_LOGGING_2, SMALL_JVM
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.processes import ChildProcess, ProcessDied
from understudy.clusters.processes.testbed_log import TestbedLog
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.eventlog.records import FaultInjected, RunDescribed, StepReached
from understudy.foundation.wire.messages.metadata import MetadataResponse

TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.1
_ANSWER_TIMEOUT_MS: Final = 2_000
_HOST: Final = "127.0.0.1"
_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
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
_ACTIVE: Final = re.compile(rb"Becoming the active controller at epoch (\d+)")
_LOG4J_2: Final = ".log4j2.properties"
_STARTED: Final = "Kafka Server started"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KRaftNode:
    """The handle of a node: the faults that can be injected into its process, which are recorded before."""

    cluster: KRaftCluster
    id: int

    @property
    def name(self) -> str:
        """The node's name in imported event logs."""
        return f"{'broker' if self.id in self.cluster.brokers else 'controller'}-{self.id}"

    def kill(self) -> None:
        """End the process by SIGKILL."""
        self.cluster.record(FaultInjected(fault="kill", target=self.name, role="controller"))
        self.cluster.kill(self.id)

    def pause(self) -> None:
        """Stop the process by SIGSTOP: its connections stay open and silent."""
        self.cluster.record(FaultInjected(fault="pause", target=self.name, role="controller"))
        self.cluster.processes[self.id].pause()


class KRaftCluster:
    """A KRaft cluster. Its block ends with the end of all processes.

    Args:
        libs: the folder with the jars, as `kafka_jars.kafka_libs_of` returns it.
        folder: gets a folder for each node, and the event log of the testbed.
        controllers: the ids of the nodes that are voters.
        brokers: the ids of the nodes that are brokers; a node may be both.
        properties: more keys for every node.
        run: the run id of the records of faults and steps.
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
        run: str = "kraft",
    ) -> None:
        # Nodes run in folders of their own, in which a relative path would name another file.
        self.folder = folder.absolute()
        self.controllers, self.brokers = tuple(controllers), tuple(brokers)
        self.nodes = tuple(sorted({*controllers, *brokers}))
        self.processes: dict[int, ChildProcess] = {}
        self._libs = libs.absolute()
        self._java = java or choose_java()
        self._properties = dict(properties or {})
        ports = free_ports(2 * len(self.nodes))
        self._ports = dict(zip(self.nodes, zip(ports[::2], ports[1::2], strict=True), strict=True))
        self._run = run
        self._events: TestbedLog | None = None
        self._ended: set[int] = set()
        """The nodes that were killed or stopped, and not started since."""
        self._read_up_to = dict.fromkeys(self.nodes, 0)
        self._active = (-1, -1)
        """The newest epoch of an active controller, and its node."""

    def __enter__(self) -> KRaftCluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._events = TestbedLog(self.folder, run=self._run)
        self._events.append(RunDescribed(world="processes", brokers=len(self.brokers)))
        try:
            self._format_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.update(self.nodes)
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait(TIMEOUT_S)
        if self._events is not None:
            self._events.close("closed")
            self._events = None

    # ------------------------------------------------------------------ processes

    def start(self, *nodes: int) -> None:
        """Start nodes; without any, all. They may not serve requests yet."""
        for node in nodes or self.nodes:
            folder = self.node_folder(node)
            logging = folder / "log4j.properties"
            command = self.command("kafka.Kafka", str(folder / "server.properties"), logging=logging)
            self.processes[node] = ChildProcess(f"node {node}", command, log=self.log(node), directory=folder)
            self._ended.discard(node)

    def start_all(self) -> None:
        """Start all nodes, and wait until every broker has metadata of a leader of the quorum and of all brokers.

        Raises:
            WaitTimedOut: that took too long.
        """
        self.start()
        self.wait_for_line(_STARTED, count=len(self.nodes))
        self.settle()

    def kill(self, node: int) -> float:
        """End a node by SIGKILL; return the time in milliseconds since 1970."""
        self._ended.add(node)
        ms = time.time() * 1000
        self.processes[node].kill()
        self.processes[node].wait(TIMEOUT_S)
        return ms

    def stop(self, *nodes: int) -> None:
        """Stop nodes in order, as an operator does; without any, all at once."""
        self._ended.update(nodes or self.nodes)
        for node in nodes or self.nodes:
            self.processes[node].ask_to_end()
        for node in nodes or self.nodes:
            if not self.processes[node].wait(TIMEOUT_S):
                self.processes[node].kill()
                self.processes[node].wait(TIMEOUT_S)

    def check(self) -> None:
        """Raise ClusterError if a node has ended without a fault."""
        for node, process in self.processes.items():
            if node not in self._ended:
                try:
                    process.check()
                except ProcessDied as died:
                    raise ClusterError(str(died)) from None

    # ------------------------------------------------------------------ files and addresses

    def node_folder(self, node: int) -> Path:
        return self.folder / f"node-{node}"

    def log_folder(self, node: int) -> Path:
        """The folder that contains `__cluster_metadata-0`."""
        return self.node_folder(node) / "data"

    def log(self, node: int) -> Path:
        """The file with everything that a node logs."""
        return self.node_folder(node) / "server.log"

    def text_of(self, node: int) -> str:
        """What a node has logged."""
        return self.log(node).read_text(encoding="utf-8", errors="replace")

    def address(self, broker: int) -> str:
        return f"{_HOST}:{self._ports[broker][0]}"

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, self.brokers))

    def command(self, main_class: str, *arguments: str, logging: Path) -> list[str]:
        """The command line that runs a class of Kafka.

        Args:
            logging: a configuration of log4j 1; one of log4j 2 may be beside it, with the suffix `.log4j2.properties`.
        """
        chosen = f"-Dlog4j.configuration={logging.as_uri()}"
        second = f"-Dlog4j2.configurationFile={logging.with_suffix(_LOG4J_2).as_uri()}"
        options = (*SMALL_JVM, "-Duser.timezone=UTC", chosen, second)
        return [str(self._java.executable), *options, "-cp", f"{self._libs}/*", main_class, *arguments]

    # ------------------------------------------------------------------ the cluster's state

    def controller_id(self) -> int | None:
        """The active controller with the newest epoch that the nodes have logged; None if it has ended or is paused."""
        for node in self.controllers:
            for epoch in self._new_epochs(node):
                self._active = max(self._active, (epoch, node))
        node = self._active[1]
        return node if node in self._running() else None

    def controller(self) -> KRaftNode:
        """The active controller. Raises ClusterError if there is none at this moment."""
        node = self.controller_id()
        if node is None:
            raise no_holder("controller")
        return KRaftNode(self, node)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic over Kafka's protocol. Raises the errors of `AdminClient.create_topic`."""
        running = [self.address(broker) for broker in self.brokers if broker in self._running()]
        admin = AdminClient(SocketNetwork(), running)
        asyncio.run(
            admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, assignment=assignment
            )
        )

    def settle(self, *, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until no finding is left in the metadata of any live broker that the live brokers must resolve.

        Raises:
            Unsettled: such findings were left after `timeout_s`.
        """
        waiting.settle(self.wait_until, self._unresolved, timeout_s)

    def _unresolved(self) -> Iterator[Finding]:
        """Yield what the live brokers must still correct, by the metadata of each of them."""
        running = self._running()
        live = [BrokerId(broker) for broker in self.brokers if broker in running]
        controller = self.controller_id()
        for broker in live:
            admin = AdminClient(SocketNetwork(), [self.address(broker)], timeout_ms=_ANSWER_TIMEOUT_MS)
            try:
                metadata = asyncio.run(admin.metadata())
            except NoBrokerAnswers:
                yield Finding(kind=FindingKind.METADATA, message=f"broker {broker} gives no answer")
                return
            yield from findings(picture_of(metadata, controller), running=live).unresolved

    def _running(self) -> set[int]:
        """The nodes whose processes run and are not paused."""
        return {node for node, each in self.processes.items() if each.is_running and not each.is_paused}

    def _new_epochs(self, node: int) -> list[int]:
        """The epochs in which a node has become the active controller, from what it has logged since the last call."""
        if not self.log(node).is_file():
            return []
        with self.log(node).open("rb") as file:
            file.seek(self._read_up_to[node])
            text = file.read()
        whole = text.rpartition(b"\n")[0]
        self._read_up_to[node] += len(whole)
        return [int(epoch) for epoch in _ACTIVE.findall(whole)]

    # ------------------------------------------------------------------ waiting

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = TIMEOUT_S) -> T:
        """Evaluate `condition` repeatedly until it is true, and return its value. See `Cluster.wait_until`."""
        return waiting.wait_until(
            condition, what, timeout_s, poll_s=_POLL_S, check=self.check, situation=self._ends_of_logs
        )

    def _ends_of_logs(self) -> str:
        return "".join(f"\n{process.name}:\n{process.log_tail(8)}" for process in self.processes.values())

    def wait_for_line(self, pattern: str, *nodes: int, count: int = 1) -> list[tuple[int, str]]:
        """Return the lines of some nodes, by default of all, that contain a pattern, with their nodes, once there are
        `count` of them.

        Raises:
            WaitTimedOut: there were fewer in time.
        """
        return self.wait_until(
            lambda: found if len(found := self.lines(pattern, *nodes)) >= count else None,
            f"{count} lines with {pattern}",
        )

    def lines(self, pattern: str, *nodes: int) -> list[tuple[int, str]]:
        """Return the lines of some nodes, by default of all, that contain a pattern, each with its node."""
        return [
            (node, line)
            for node in nodes or self.nodes
            for line in self.text_of(node).splitlines()
            if re.search(pattern, line)
        ]

    # ------------------------------------------------------------------ records

    def record(self, payload: FaultInjected | StepReached) -> None:
        """Record a fault or a step in the event log of the testbed."""
        if self._events is None:
            raise ClusterError("this cluster has not been started")
        self._events.append(payload)

    def record_step(self, step: str, note: str = "") -> None:
        """Record a step of an experiment in the event log."""
        self.record(StepReached(step=step, note=note))

    # ------------------------------------------------------------------ nodes

    def _format_all(self) -> None:
        """Write the configuration of each node and format its log directory; all nodes at the same time."""
        tools = []
        for node in self.nodes:
            self._configure(node)
            folder = self.node_folder(node)
            arguments = ("format", "-t", _CLUSTER_ID, "-c", str(folder / "server.properties"))
            command = self.command("kafka.tools.StorageTool", *arguments, logging=folder / "log4j.properties")
            tools.append(ChildProcess(f"format {node}", command, log=folder / "format.log", directory=folder))
        try:
            for tool in tools:
                if not tool.wait(TIMEOUT_S) or tool.exit_code != 0:
                    raise ClusterError(f"{tool.name} failed:\n{tool.log_tail()}")
        finally:
            for tool in tools:
                tool.kill()

    def _configure(self, node: int) -> None:
        folder = self.node_folder(node)
        folder.mkdir(parents=True)
        roles = [role for role, ids in (("broker", self.brokers), ("controller", self.controllers)) if node in ids]
        listeners = {
            "broker": f"PLAINTEXT://{self.address(node)}",
            "controller": f"CONTROLLER://{_HOST}:{self._ports[node][1]}",
        }
        properties = {
            **_NODE,
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "controller.quorum.voters": ",".join(
                f"{voter}@{_HOST}:{self._ports[voter][1]}" for voter in self.controllers
            ),
            "listeners": ",".join(listeners[role] for role in roles),
            "log.dirs": str(folder / "data"),
            **self._properties,
        }
        if roles == ["controller"]:
            properties.pop("inter.broker.listener.name")
        (folder / "server.properties").write_text(format_properties(properties), encoding="utf-8")
        logging = folder / "log4j.properties"
        logging.write_text(format_properties(CONSOLE_LOGGING), encoding="utf-8")
        logging.with_suffix(_LOG4J_2).write_text(format_properties(CONSOLE_LOGGING_2), encoding="utf-8")


def picture_of(metadata: MetadataResponse, controller: int | None) -> ClusterPicture:
    """Return the state of a cluster as the metadata of one broker has it.

    Args:
        controller: the active controller, which clients are not told in a KRaft cluster.
    """
    brokers = (Broker(id=BrokerId(broker.node_id), endpoints=()) for broker in metadata.brokers)
    return ClusterPicture(
        controller=None if controller is None else BrokerId(controller),
        controller_epoch=0,
        brokers={broker.id: BrokerAndEpoch(broker, 0) for broker in brokers},
        partitions={
            TopicPartition(topic.name or "", partition.partition_index): PartitionPicture(
                assignment=ReplicaAssignment(tuple(map(BrokerId, partition.replica_nodes))),
                state=LeaderIsrAndControllerEpoch(
                    LeaderAndIsr(
                        leader=BrokerId(partition.leader_id),
                        leader_epoch=partition.leader_epoch,
                        isr=tuple(map(BrokerId, partition.isr_nodes)),
                    ),
                    0,
                ),
            )
            for topic in metadata.topics
            for partition in topic.partitions
        },
    )
