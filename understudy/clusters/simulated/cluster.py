"""`SimulatedCluster`: a cluster of brokers in one process and in virtual time.

    with SimulatedCluster(seed=7, brokers=5) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        cluster.controller().kill()
        cluster.settle()
        assert cluster.leader_id("orders", 0) is not None

It implements `understudy.clusters.cluster.Cluster`, as a cluster of processes does. `run_for`, `wait_until` and
`settle` let time pass. The brokers are `understudy.brokers.broker.KafkaBroker`, as in a real process; only their
`World` differs.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import structlog

from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.cluster import Cluster, Unsettled, no_holder, no_such_broker
from understudy.clusters.findings import FindingKind, Findings, findings, in_words
from understudy.clusters.picture import ClusterPicture
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.environment import STEP_MS, WAIT_TIMEOUT_S, SimulatedEnvironment
from understudy.clusters.simulated.world import Node
from understudy.clusters.software import software_version
from understudy.clusters.zookeeper_servers import name_of
from understudy.foundation.cluster.errors import ApiError
from understudy.foundation.cluster.identifiers import BrokerId, TopicPartition
from understudy.foundation.eventlog.fences import Switch
from understudy.foundation.eventlog.records import LogSeen, ProcessExiting, RunDescribed
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestTimedOut

_T = TypeVar("_T")

PORT = 9092
ZOOKEEPER_PORT = 2181
SETTINGS: Mapping[str, str] = {
    "zookeeper.connect": f"zookeeper:{ZOOKEEPER_PORT}",
    "zookeeper.session.timeout.ms": "6000",
    "zookeeper.connection.timeout.ms": "6000",
    "log.dir": "data",
    "replica.lag.time.max.ms": "4000",
    "controller.socket.timeout.ms": "3000",
    "request.timeout.ms": "5000",
    "replica.socket.timeout.ms": "3000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "leader.imbalance.check.interval.seconds": "20",
}
"""Timeouts and intervals, shorter than Kafka's defaults but in proportion to each other: more elections per minute."""


class SimulatedCluster(SimulatedEnvironment):
    """The brokers of one run and their environment; implements `Cluster`.

    Args:
        seed: determines everything random.
        brokers: the number of brokers; their hosts are `broker-1` and so on.
        first_broker_id: the id of the first broker; the other ids follow it.
        zookeepers: the number of ZooKeeper servers; several are an ensemble, which a failure of fewer than half of them
            does not stop.
        racks: the rack of each broker, in order.
        settings: `server.properties` of all brokers; they override `SETTINGS`.
        own_settings: `server.properties` of each broker, in order; they override `settings`.
        fences_off: fences that refuse nothing, and fixes that are undone.
        reordering: change the order in which processes run their callbacks at random. See `SimulatedLoop`.
        run_id: the run id of every record; by default the seed gives one.
        described: the fields of `RunDescribed` that the cluster does not set itself, for example the planned fault.
        own_clocks: give each node a monotonic clock of its own, with an origin and a drift that the seed draws. Only
            the times in the event log, and `ProcessStarted.boot`, depend on it. By default all nodes share one clock.
    """

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        first_broker_id: int = 1,
        zookeepers: int = 1,
        racks: Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
        own_settings: Sequence[Mapping[str, str]] | None = None,
        fences_off: tuple[Switch, ...] = (),
        reordering: bool = False,
        run_id: str | None = None,
        described: RunDescribed | None = None,
        own_clocks: bool = False,
    ) -> None:
        _disable_operator_logs()
        super().__init__(seed, run_id=run_id, reordering=reordering, own_clocks=own_clocks, zookeepers=zookeepers)
        self.examined = Counter[FindingKind]()
        """Number of cases that all calls of `findings` have examined, by kind."""
        self._brokers: dict[BrokerId, SimulatedBroker] = {}
        servers = self.zookeeper.servers
        names = [f"broker-{first_broker_id + position}" for position in range(brokers)]
        for position, name in enumerate(names):
            broker_id = BrokerId(first_broker_id + position)
            node = Node(
                name,
                run=self.run_id,
                seed=seed,
                loop=self.loop,
                log_lines=self.log_lines,
                switched_off=fences_off,
                broker_id=broker_id,
                has_own_clock=own_clocks,
            )
            properties = {
                **SETTINGS,
                "zookeeper.connect": ",".join(f"{name_of(each, servers)}:{ZOOKEEPER_PORT}" for each in servers),
                "broker.id": str(broker_id),
                "listeners": f"PLAINTEXT://{name}:{PORT}",
                "understudy.run.id": self.run_id,
                **(settings or {}),
                **(own_settings[position] if own_settings is not None else {}),
            }
            if racks is not None:
                properties["broker.rack"] = racks[position]
            peers = [*(other for other in names if other != name), self.simulator.name]
            self._brokers[broker_id] = SimulatedBroker(self, broker_id, node, properties, peers=peers)
        self.brokers = tuple(self._brokers.values())
        self.broker_ids = tuple(self._brokers)
        self.nodes[:0] = [broker.node for broker in self.brokers]
        self.bootstrap = [f"{name}:{PORT}" for name in names]
        self.admin = AdminClient(self.client_network, self.bootstrap)
        timeouts = {broker.session_timeout_ms for broker in self.brokers}
        known = described or RunDescribed()
        self._events.append(
            msgspec.structs.replace(
                known,
                world="simulator",
                brokers=brokers,
                session_timeout_ms=timeouts.pop() if len(timeouts) == 1 else None,
                seed=seed if known.seed is None else known.seed,
                software_version=software_version(),
            )
        )

    def __enter__(self) -> Self:
        """Return the cluster without starting it: a test may prepare znodes or faults before it calls `start`."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start every broker that is not running, and wait until the cluster has settled."""
        if all(broker.is_running for broker in self.brokers):
            return
        for broker in self.brokers:
            broker.launch()
        self.run_for(STEP_MS)
        self.settle()

    def close(self) -> None:
        """End the run, and write the last records. Afterwards `loop.failures` and the event logs are complete."""
        if self.loop.is_closed():
            return
        self.loop.close()
        for log in (log for log in self.logs if log.lines and log is not self.simulator.log):
            self._events.append(LogSeen(node=log.name, incarnation=log.incarnation, seq=log.last_seq))
        self._events.append(ProcessExiting(reason="the run has ended"))

    # ------------------------------------------------------------------ brokers and partitions

    def broker(self, broker_id: int) -> SimulatedBroker:
        if BrokerId(broker_id) not in self._brokers:
            raise no_such_broker(broker_id, self.broker_ids)
        return self._brokers[BrokerId(broker_id)]

    def controller(self) -> SimulatedBroker:
        return self._holder(self.controller_id(), "controller")

    def leader_id(self, topic: str, partition: int) -> BrokerId | None:
        state = self.znodes.state(TopicPartition(topic, partition))
        return None if state is None or state.leader < 0 else state.leader

    def leader(self, topic: str, partition: int) -> SimulatedBroker:
        return self._holder(self.leader_id(topic, partition), f"leader of {topic}-{partition}")

    def isr(self, topic: str, partition: int) -> tuple[BrokerId, ...]:
        state = self.znodes.state(TopicPartition(topic, partition))
        return () if state is None else state.isr

    def unassigned_replicas(self) -> list[tuple[BrokerId, TopicPartition]]:
        """Replicas on running brokers that ZooKeeper does not assign to them."""
        topics = self.znodes.topics()
        assigned = {
            partition: placed.replicas for topic in topics.values() for partition, placed in topic.partitions.items()
        }
        return [
            (broker.id, partition)
            for broker in self.brokers
            if broker.instance is not None
            for partition in sorted(broker.instance.hosted)
            if broker.id not in assigned.get(partition, ())
        ]

    def _holder(self, broker_id: BrokerId | None, role: str) -> SimulatedBroker:
        if broker_id is None:
            raise no_holder(role)
        return self.broker(broker_id)

    # ------------------------------------------------------------------ findings

    def picture(self) -> ClusterPicture:
        return self.znodes.picture()

    def findings(self) -> Findings:
        """Compare the states of ZooKeeper and the running brokers now; return the findings."""
        memories = {broker.id: memory for broker in self.brokers if (memory := broker.memory()) is not None}
        missing = [
            broker.id for broker in self.brokers if broker.should_run and (broker.is_stopping or not broker.is_running)
        ]
        result = findings(self.picture(), running=memories.keys(), missing=missing, memories=memories)
        self.examined.update(result.examined)
        return result

    def settle(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Let time pass until no finding is left that the live brokers must resolve.

        Raises:
            Unsettled: such findings were left after `timeout_s`.
        """
        began_ms = self.now_ms
        while left := self.findings().unresolved:
            if self.now_ms - began_ms >= timeout_s * 1000:
                within = f"not settled within {timeout_s:g} s without faults"
                raise Unsettled(f"seed {self.seed}, {within}: {in_words(left)}")
            self.run_for(STEP_MS)

    # ------------------------------------------------------------------ faults

    def heal(self, *, but_leave: Collection[BrokerId] = ()) -> None:
        """End every fault: heal all links, start all servers and brokers, and resume those that are paused.

        Args:
            but_leave: brokers that are down and stay so.
        """
        self.zookeeper.unknown_probability = 0.0
        self.zookeeper.lost_answers.clear()
        self.zookeeper.slow(0.0)
        self.zookeeper.resume()
        self.zookeeper.quorum.heal_all()
        self.start_zookeeper()
        self.heal_network()
        for broker in self.brokers:
            broker.node.armed.clear()
            broker.node.answers.armed.clear()
            self.heal_zookeeper(broker.id)
            broker.resume_if_paused()
            if broker.id in but_leave:
                continue
            if not broker.is_stopping:
                broker.launch()
            broker.should_run = True

    def expire_session(self, broker_id: int) -> None:
        """End a broker's session; see `SimulatedBroker.expire_session`."""
        self.broker(broker_id).expire_session()

    # ------------------------------------------------------------------ clients

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic as a client does, over the wire. Raises as `AdminClient.create_topic`."""
        self.ask(
            self.admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, assignment=assignment
            )
        )

    def ask(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Run a client's call to its end, and return its result."""
        assert self.simulator.process is not None
        result: _T = self.loop.run_until_complete(self.simulator.process.spawn(call))
        return result

    def begin(self, call: Coroutine[Any, Any, object]) -> None:
        """Start a client's call and do not wait. It may fail: while faults are injected that is expected."""
        assert self.simulator.process is not None
        self.simulator.process.spawn(_ignoring_refusals(call))

    # ------------------------------------------------------------------ event logs

    def record_log(self, node: str, incarnation: int, seq: int) -> None:
        """Record how many records the event log of another node has, such as a user's process. See `LogSeen`."""
        self._events.append(LogSeen(node=node, incarnation=incarnation, seq=seq))

    def dump(self, folder: Path) -> None:
        """Write every node's event log in the layout of a run on real processes."""
        for log in self.logs:
            name = "testbed" if log is self.simulator.log else log.name
            log.dump(folder / name / "events")


def _as_cluster(cluster: SimulatedCluster) -> Cluster:
    """Let mypy check that a simulated cluster implements `Cluster`."""
    return cluster


async def _ignoring_refusals(call: Coroutine[Any, Any, object]) -> None:
    with contextlib.suppress(ApiError, NoBrokerAnswers, ConnectionFailed, ConnectionLost, RequestTimedOut):
        await call


def _disable_operator_logs() -> None:
    """Discard the operators' logs of simulated brokers: their event logs have the same information."""
    if not structlog.is_configured():
        # One logger for all, because each line that is discarded would make one.
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL),
            logger_factory=structlog.ReturnLoggerFactory(),
        )
