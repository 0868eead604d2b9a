"""The cluster in which controllers are measured: two brokers without replicas, and three stub brokers with all of them.

Either of the two brokers may become controller; the stubs only answer control requests. The cluster is the same for
Understudy and for Apache Kafka: every change is made through ZooKeeper or by a request to the controller, and a
measurement ends with the last control request that a stub received.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka_beside import KafkaCluster
from benchmarks.store import open_store
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.processes import ChildProcess
from understudy.foundation.cluster.assignment import ReplicaAssignment
from understudy.foundation.cluster.errors import error_name
from understudy.foundation.cluster.identifiers import BrokerId, topic_id_from_bytes
from understudy.foundation.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from understudy.foundation.zk.client import MAX_REQUEST_BYTES, Create, Delete, MultiOk, ZooKeeperClient, request_bytes
from understudy.foundation.zk.znodes import TopicZNode

STUBS = (1001, 1002, 1003)
CONTROLLERS = (1, 2)
PATIENCE_S = 600.0
CREATION_PATIENCE = 4
"""The factor by which stubs may stay longer without requests while topics are created.

A controller sends none before it has written all partition states of an event.
"""
SESSION_TIMEOUT_MS = 30_000
"""Long, so that no broker loses its session while two processes keep the machine busy."""

SETTINGS = {"auto.leader.rebalance.enable": "false"}
"""Leaders move only when the benchmark moves them."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """A running cluster of this kind.

    Attributes:
        pids: the pid of each broker that may be controller.
        operator: the ZooKeeper session for changes by hand, on the loop of `runner`. It writes in as few transactions
            as possible, because the controller is measured and not its operator.
        quiet_ms: for a number of partitions, how long no stub may have received a request before a measurement counts
            as complete. Kafka sends nothing for seconds between writing states and sending them.
        run_folder: the run folder of the cluster; None for Kafka's.
    """

    zookeeper: str
    view: ClusterView
    pids: Callable[[], Mapping[int, int]]
    folder: Path
    stubs: dict[int, ChildProcess]
    operator: ZooKeeperClient
    runner: asyncio.Runner
    quiet_ms: Callable[[int], float]
    run_folder: Path | None = None

    def create_topics(self, first: int, topics: int, partitions: int, *, cluster_size: int) -> float:
        """Create topics as znodes, with three replicas and leaders in turn; seconds until all stubs received all."""
        rotated = [tuple(BrokerId(stub) for stub in STUBS[shift:] + STUBS[:shift]) for shift in range(len(STUBS))]
        assignment = {partition: ReplicaAssignment(rotated[partition % 3]) for partition in range(partitions)}
        creates = []
        for number in range(first, first + topics):
            data = TopicZNode.encode(topic_id_from_bytes((1 << 64 | number).to_bytes(16)), assignment)
            creates.append(Create(TopicZNode.path(f"topic-{number:05d}"), data))
        together = max(1, MAX_REQUEST_BYTES // max(map(request_bytes, creates)))
        transactions = [creates[at : at + together] for at in range(0, topics, together)]

        async def write() -> None:
            for outcome in await asyncio.gather(*map(self.operator.multi, transactions)):
                if not isinstance(outcome, MultiOk):
                    raise SystemExit(f"the topics could not be written: {outcome}")

        return self._timed(lambda: self.runner.run(write()), cluster_size, patience=CREATION_PATIENCE)

    def depose(self, *, cluster_size: int) -> float:
        """Delete `/controller`, as an operator would; seconds until the next controller's last request."""

        async def delete() -> None:
            await self.operator.write(Delete("/controller"))

        return self._timed(lambda: self.runner.run(delete()), cluster_size)

    def stop_stub(self, stub: int, *, cluster_size: int) -> float:
        """Close a stub's session; seconds until the last request to the other stubs."""
        return self._timed(lambda: self.stubs.pop(stub).ask_to_end(), cluster_size, since="leaving")

    def start_stub(self, stub: int, *, cluster_size: int) -> float:
        """Register a stub; seconds until the last request to the stubs."""
        return self._timed(lambda: self._start(stub), cluster_size, since="joining")

    def controlled_shutdown(self, stub: int, *, cluster_size: int) -> float:
        """Request the controlled shutdown of a stub; seconds until the controller's response."""
        brokers = self.view.brokers()
        controller = brokers[BrokerId(self.controller_id())].broker.endpoints[0]
        admin = AdminClient(SocketNetwork(), (), timeout_ms=int(PATIENCE_S * 1000))
        request = ControlledShutdownRequest(broker_id=stub, broker_epoch=brokers[BrokerId(stub)].epoch)
        begun = time.monotonic()
        response = asyncio.run(admin.ask(controller.host, controller.port, request))
        seconds = time.monotonic() - begun
        assert isinstance(response, ControlledShutdownResponse)
        if response.error_code or response.remaining_partitions:
            raise SystemExit(
                f"controlled shutdown: {error_name(response.error_code)}, {len(response.remaining_partitions)} remain"
            )
        self._quiet(self._lines(), time.monotonic() * 1000, cluster_size)
        return seconds

    def controller_id(self) -> int:
        found = self.view.controller_id()
        if found is None:
            raise SystemExit("the cluster has no controller")
        return found

    def controller_memory_mb(self) -> float:
        return resident_mb(self.pids()[self.controller_id()])

    # -- the stubs

    def _start(self, stub: int) -> None:
        command = [sys.executable, "-m", "benchmarks.stub_broker", self.zookeeper, str(self._log(stub)), str(stub)]
        self.stubs[stub] = ChildProcess(f"stub-{stub}", command, log=self.folder / f"{stub}.out", directory=Path.cwd())
        until(lambda: stub in self.view.brokers())

    def _log(self, stub: int) -> Path:
        return self.folder / f"{stub}.jsonl"

    def _lines(self) -> dict[int, int]:
        """The size of each stub's log in bytes."""
        return {stub: self._log(stub).stat().st_size if self._log(stub).exists() else 0 for stub in STUBS}

    def _since(self, offsets: Mapping[int, int]) -> list[dict[str, object]]:
        logs = [self._log(stub).read_bytes()[offset:] for stub, offset in offsets.items() if self._log(stub).exists()]
        return [json.loads(line) for log in logs for line in log.splitlines() if line.endswith(b"}")]

    def _timed(
        self, act: Callable[[], object], cluster_size: int, *, since: str | None = None, patience: int = 1
    ) -> float:
        """Seconds from just before `act`, or from the line `since` of a stub's log, to the last request after it."""
        offsets = self._lines()
        begun = time.monotonic() * 1000
        act()
        last = self._quiet(offsets, begun, cluster_size * patience, silent=False)
        marks = [line["ms"] for line in self._since(offsets) if since is not None and line.get("what") == since]
        return (last - (float(str(marks[0])) if marks else begun)) / 1000

    def _quiet(self, offsets: Mapping[int, int], begun: float, cluster_size: int, *, silent: bool = True) -> float:
        """The time of the last request, once none has come for `quiet_ms`; `silent`: there may be none at all."""
        last = begun

        def quiet() -> bool:
            nonlocal last
            times = [float(str(line["ms"])) for line in self._since(offsets) if "key" in line]
            last = max(times, default=begun)
            return (bool(times) or silent) and time.monotonic() * 1000 - last > self.quiet_ms(cluster_size)

        until(quiet)
        return last


@contextmanager
def ours() -> Iterator[Arrangement]:
    with LocalCluster(brokers=len(CONTROLLERS), session_timeout_ms=SESSION_TIMEOUT_MS, properties=SETTINGS) as cluster:

        def pids() -> dict[int, int]:
            processes = {broker.process.id: broker.process.process for broker in cluster.brokers}
            return {broker: process.pid for broker, process in processes.items() if process is not None}

        with _with_stubs(
            cluster.zookeeper_connect, cluster.view, pids, lambda size: 1_500 + size / 50, cluster.directory
        ) as arrangement:
            yield arrangement


@contextmanager
def kafkas(libs: Path) -> Iterator[Arrangement]:
    with KafkaCluster(libs, len(CONTROLLERS), session_timeout_ms=SESSION_TIMEOUT_MS, properties=SETTINGS) as kafka:

        def pids() -> dict[int, int]:
            return {broker: process.pid for broker, process in zip(CONTROLLERS, kafka.processes, strict=True)}

        with _with_stubs(
            kafka.zookeeper.connect_string, kafka.view, pids, lambda size: 3_000 + size / 10
        ) as arrangement:
            yield arrangement


@contextmanager
def _with_stubs(
    zookeeper: str,
    view: ClusterView,
    pids: Callable[[], Mapping[int, int]],
    quiet_ms: Callable[[int], float],
    run_folder: Path | None = None,
) -> Iterator[Arrangement]:
    with tempfile.TemporaryDirectory(prefix="understudy-bench-") as folder, asyncio.Runner() as runner:
        _, operator = runner.run(open_store(zookeeper))
        arrangement = Arrangement(zookeeper, view, pids, Path(folder), {}, operator, runner, quiet_ms, run_folder)
        until(lambda: set(CONTROLLERS) <= set(view.brokers()) and view.controller_id() is not None)
        try:
            for stub in STUBS:
                arrangement._start(stub)
            yield arrangement
        finally:
            for process in arrangement.stubs.values():
                process.kill()
            runner.run(operator.close())


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"the cluster did not become quiet within {PATIENCE_S:.0f} s")
        time.sleep(0.05)


def processor_seconds(pid: int) -> float:
    """The user and system time of a process so far, as the kernel counts it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """The resident set size of a process, as the kernel counts it."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line)
    return int(fields["VmRSS"].split()[0]) / 1024
