"""A whole cluster in one process and in virtual time, spoken to in the domain's words.

    with SimulatedCluster(seed=7, brokers=5) as cluster:
        cluster.start()
        cluster.create_topic("orders", partitions=6, replication_factor=3)
        cluster.broker(cluster.controller()).crash()
        cluster.settle()
        assert cluster.leader_of("orders", 0) is not None

Verbs such as `crash` act at once and return; `run_for` and `settle` let time pass. The brokers are
`brokers.broker.Broker`, the very code of a real process; all that differs is the `World` they are handed.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import structlog

from brokers.broker import KafkaBroker
from brokers.config.kafka_config import KafkaConfig
from brokers.membership.registration import RegistrationRefused
from foundation.cluster.errors import ApiError
from foundation.cluster.identifiers import BrokerId, TopicPartition
from foundation.eventlog.fences import Fence
from foundation.eventlog.records import FaultInjected, StepReached
from foundation.wire.network import ConnectionFailed, ConnectionLost
from foundation.wire.request_channel import RequestTimedOut
from foundation.zk.client import Create, Delete, Failure, ZooKeeperUnreachable
from foundation.zk.kafka_zk_client import SessionLost
from foundation.zk.znodes import ControllerZNode
from understudy.admin_client import AdminClient, NoBrokerAnswers
from understudy.simulator.liveness import complaints
from understudy.simulator.loop import new_loop
from understudy.simulator.network import SimulatedNetwork
from understudy.simulator.randomness import derived
from understudy.simulator.world import EPOCH_MS, Node
from understudy.simulator.znode_view import ZnodeView
from understudy.simulator.zookeeper import SimulatedZooKeeper

_T = TypeVar("_T")

PORT = 9092
SETTINGS: Mapping[str, str] = {
    "zookeeper.connect": "zookeeper:2181",
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
"""Shorter than Kafka's defaults, and in proportion to each other, so that a simulated minute holds a story."""

_RESTART_AFTER_MS = 1_000
_SETTLE_STEP_MS = 100


class Unsettled(Exception):
    """The cluster did not come to rest in time. The message lists what is still wrong."""


class Exit(NamedTuple):
    """A broker process that ended by itself."""

    at_ms: float
    node: str
    error: Exception | None

    @property
    def is_unexpected(self) -> bool:
        """Whether nothing in a broker's life explains it. What does: ZooKeeper out of reach, or its id still taken."""
        return not isinstance(self.error, ZooKeeperUnreachable | RegistrationRefused | SessionLost)


class SimulatedBroker:
    """One broker's machine: what can be done to it."""

    def __init__(
        self, cluster: SimulatedCluster, broker_id: BrokerId, node: Node, properties: Mapping[str, str]
    ) -> None:
        self.id = broker_id
        self.node = node
        self.running: KafkaBroker | None = None
        """The broker of the current process; None while there is none."""
        self.wanted = False
        """Whether it should be up: what exits by itself is then started again, as a supervisor would."""
        self.stopping = False
        self._cluster = cluster
        self._config = KafkaConfig.from_properties(properties)

    @property
    def alive(self) -> bool:
        return self.node.alive

    @property
    def paused(self) -> bool:
        return self.node.process is not None and self.node.process.paused

    @property
    def session_id(self) -> int | None:
        """The session that owns this broker's registration."""
        return self._cluster.session_of(self.id)

    def start(self) -> None:
        """Start a process. Harmless while one is alive."""
        self.wanted = True
        if self.alive:
            return
        self.stopping = False
        timeout = self._config.zookeeper_session_timeout_ms
        world = self.node.start(
            self._cluster.zookeeper,
            self._cluster.network,
            session_timeout_ms=timeout,
            connection_timeout_ms=self._config.zookeeper_connection_timeout_ms or timeout,
        )
        assert self.node.process is not None
        broker = KafkaBroker(self._config, world)
        self.running = broker
        self.node.process.spawn(self._live(broker), name=self.node.name)

    def crash(self) -> None:
        """SIGKILL; it stays down until `restart`."""
        self.wanted = False
        self._cluster.struck("kill", self)
        self._end()

    def restart(self) -> None:
        """Start it again after a crash or stop; while it is still stopping, once it has."""
        if not self.alive:
            self._cluster.struck("start", self)
        self.start()

    def bounce(self, down_ms: float) -> None:
        """Kill it and start it again `down_ms` later: shorter than its session, nobody may notice it was gone."""
        self.crash()
        self._cluster.after(down_ms, self.restart)

    def pause(self) -> None:
        """SIGSTOP."""
        if self.alive and self.node.process is not None and not self.paused:
            self._cluster.struck("pause", self)
            self.node.process.pause()

    def resume(self) -> None:
        """SIGCONT."""
        if self.paused and self.node.process is not None:
            self._cluster.struck("continue", self)
            self.node.process.resume()

    def stop(self) -> None:
        """Begin a controlled shutdown; the process ends when it is done."""
        self.wanted = False
        if self.alive and not self.stopping and self.running is not None and self.node.process is not None:
            self.stopping = True
            self._cluster.struck("stop", self)
            self.node.process.spawn(self._shut_down(self.running), name=f"{self.node.name} shutdown")

    def expire_session(self) -> None:
        """End the session of its registration at the server."""
        session_id = self.session_id
        if session_id is not None:
            self._cluster.struck("expire", self)
            self._cluster.zookeeper.expire(session_id)

    def arm(self, point: str, action: str, *, resume_after_ms: float | None = None) -> None:
        """Have it `pause` or `crash` when it next reaches `point` (a name of `controller.points.POINTS`)."""
        if action == "crash":
            self.node.arm(point, action, self.crash)
        elif action == "pause":
            self.node.arm(point, action, lambda: self._pause_at_point(resume_after_ms))
        else:
            raise ValueError(f"action {action!r} is unknown; expected 'pause' or 'crash'")

    def _pause_at_point(self, resume_after_ms: float | None) -> None:
        self.pause()
        if resume_after_ms is not None:
            self._cluster.after(resume_after_ms, self.resume)

    async def _live(self, broker: KafkaBroker) -> None:
        try:
            await broker.start()
            await broker.wait_closed()
        except Exception as error:  # noqa: BLE001  what kills a process is judged by the run, not hidden here
            if not self.stopping:
                self._exited(error)
            return
        if not self.stopping:
            self._exited(None)

    def _exited(self, error: Exception | None) -> None:
        if self._cluster.loop.is_closed():
            return  # the run is over, and what unwinds now is no death
        self._cluster.exits.append(Exit(self._cluster.now_ms, self.node.name, error))
        self._end()
        self._cluster.after(_RESTART_AFTER_MS, self._start_again)

    async def _shut_down(self, broker: KafkaBroker) -> None:
        await broker.shutdown()
        self._end()
        self._cluster.after(0, self._start_again)

    def _start_again(self) -> None:
        if self.wanted:
            self.start()

    def _end(self) -> None:
        self.running = None
        self.stopping = False
        if self.node.process is not None:
            self.node.process.kill()


class SimulatedCluster:
    """The cluster and its surroundings.

    Args:
        seed: decides everything that is left to chance.
        brokers: how many; their hosts are called `broker-1` and so on.
        first_broker_id: the id of the first; the others count on.
        racks: the rack of each broker, in order.
        settings: `server.properties` of all brokers, over `SETTINGS`.
        own_settings: the same of each broker, in order, over those of all.
        fences_off: fences that let everything pass.
        reordering: let processes overtake each other now and then.
        trace: keep a checksum over every callback.
    """

    def __init__(
        self,
        seed: int,
        *,
        brokers: int = 3,
        first_broker_id: int = 1,
        racks: Sequence[str] | None = None,
        settings: Mapping[str, str] | None = None,
        own_settings: Sequence[Mapping[str, str]] | None = None,
        fences_off: tuple[Fence, ...] = (),
        reordering: bool = False,
        trace: bool = False,
    ) -> None:
        _keep_operators_logs_quiet()
        self.seed = seed
        self.run_id = f"seed-{seed}"
        self.loop = new_loop(reordering=derived(seed, "reordering") if reordering else None, trace=trace)
        self.zookeeper = SimulatedZooKeeper(
            self.loop, random=derived(seed, "zookeeper"), wall_ms=lambda: EPOCH_MS + self.loop.time() * 1000
        )
        self.network = SimulatedNetwork(self.loop, seed=seed)
        self.znodes = ZnodeView(self.zookeeper.tree)
        self.chronicle: list[bytes] = []
        """Every node's event log in the one order in which it was written."""
        self.exits: list[Exit] = []
        self.asked = Counter[str]()
        """How often `complaints` has asked which question (`liveness.QUESTIONS`)."""
        self.brokers: dict[BrokerId, SimulatedBroker] = {}
        for number in range(first_broker_id, first_broker_id + brokers):
            broker_id = BrokerId(number)
            node = Node(
                f"broker-{number}",
                run=self.run_id,
                seed=seed,
                loop=self.loop,
                chronicle=self.chronicle,
                switched_off=fences_off,
            )
            properties = {
                **SETTINGS,
                "broker.id": str(number),
                "listeners": f"PLAINTEXT://broker-{number}:{PORT}",
                "understudy.run.id": self.run_id,
                **(settings or {}),
                **(own_settings[number - first_broker_id] if own_settings is not None else {}),
            }
            if racks is not None:
                properties["broker.rack"] = racks[number - first_broker_id]
            self.brokers[broker_id] = SimulatedBroker(self, broker_id, node, properties)
        self.simulator = Node("simulator", run=self.run_id, seed=seed, loop=self.loop, chronicle=self.chronicle)
        world = self.simulator.start(
            self.zookeeper, self.network, session_timeout_ms=6_000, connection_timeout_ms=6_000
        )
        self._events = world.events
        self.admin = AdminClient(world.network, [f"broker-{number}:{PORT}" for number in self.brokers])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the run; afterwards `loop.failures` is complete."""
        self.loop.close()

    # ------------------------------------------------------------------ time

    @property
    def now_ms(self) -> float:
        return self.loop.time() * 1000

    def run_for(self, ms: float) -> None:
        """Let virtual time pass."""
        self.loop.run_for(ms / 1000)

    def after(self, ms: float, verb: Callable[[], None]) -> None:
        """Do something later, on nobody's behalf."""
        self.loop.call_later(ms / 1000, verb, context=self.zookeeper.context)

    def settle(self, *, within_ms: float = 60_000) -> float:
        """Let time pass until nothing is wrong with the cluster; how long that took, in ms.

        Raises:
            Unsettled: something still is.
        """
        began = self.now_ms
        while wrong := self.complaints():
            if self.now_ms - began >= within_ms:
                raise Unsettled(f"seed {self.seed}, after {within_ms:.0f} ms of peace: " + "; ".join(wrong))
            self.run_for(_SETTLE_STEP_MS)
        return self.now_ms - began

    def complaints(self) -> list[str]:
        """What keeps the cluster from being at rest; empty when all is well."""
        missing = [
            broker.node.name
            for broker in self.brokers.values()
            if broker.wanted and (broker.stopping or not broker.alive)
        ]
        running = {
            number: broker.running
            for number, broker in self.brokers.items()
            if broker.running is not None and not broker.paused and not broker.stopping
        }
        return [f"{name} is not up yet" for name in missing] + complaints(self.znodes, running, self.asked)

    # ------------------------------------------------------------------ people

    def start(self, *, settle: bool = True) -> None:
        """Start every broker and wait until the cluster is at rest."""
        for broker in self.brokers.values():
            broker.start()
        if settle:
            self.run_for(_SETTLE_STEP_MS)
            self.settle()

    def broker(self, broker_id: int | None) -> SimulatedBroker:
        """A broker by id.

        Raises:
            KeyError: there is none, or (None) there is no controller just now.
        """
        if broker_id is None or BrokerId(broker_id) not in self.brokers:
            raise KeyError(f"broker {broker_id} does not exist; this cluster has {', '.join(map(str, self.brokers))}")
        return self.brokers[BrokerId(broker_id)]

    def controller(self) -> BrokerId | None:
        """Who owns `/controller` now."""
        return self.znodes.controller_id()

    def leader_of(self, topic: str, partition: int) -> BrokerId | None:
        """The leader ZooKeeper knows; None where there is none."""
        state = self.znodes.state(TopicPartition(topic, partition))
        return None if state is None or state.leader < 0 else state.leader

    def isr_of(self, topic: str, partition: int) -> tuple[BrokerId, ...]:
        state = self.znodes.state(TopicPartition(topic, partition))
        return () if state is None else state.isr

    def strays(self) -> list[tuple[BrokerId, TopicPartition]]:
        """Replicas on running brokers to which ZooKeeper assigns none."""
        topics = self.znodes.topics()
        assigned = {
            partition: placed.replicas for topic in topics.values() for partition, placed in topic.partitions.items()
        }
        return [
            (number, partition)
            for number, broker in self.brokers.items()
            if broker.running is not None
            for partition in sorted(broker.running.hosted)
            if number not in assigned.get(partition, ())
        ]

    def session_of(self, broker_id: int) -> int | None:
        """The session that owns a broker's registration."""
        stat = self.zookeeper.tree.exists(f"/brokers/ids/{broker_id}")
        return None if isinstance(stat, Failure) else stat.ephemeral_owner

    # ------------------------------------------------------------------ faults that have no single broker

    def cut(self, one_side: Sequence[int], other_side: Sequence[int], *, one_way: bool = False) -> None:
        """Hold everything between two groups of brokers, or only what the first sends the second."""
        one, other = [f"broker-{number}" for number in one_side], [f"broker-{number}" for number in other_side]
        self._events.append(FaultInjected(fault="cut", target=f"{', '.join(one)} -> {', '.join(other)}"))
        if one_way:
            self.network.cut(one, other)
        else:
            self.network.partition(one, other)

    def cut_from_zookeeper(self, broker_id: int, *, requests: bool = True, answers: bool = True) -> None:
        """Hold everything between a broker and ZooKeeper, or one direction of it."""
        self._events.append(FaultInjected(fault="cut", target=f"broker-{broker_id} -> zookeeper"))
        self.zookeeper.hold(f"broker-{broker_id}", requests=requests, answers=answers)

    def reset_zookeeper_connection(self, broker_id: int) -> None:
        self._events.append(FaultInjected(fault="reset", target=f"broker-{broker_id} -> zookeeper"))
        self.zookeeper.reset(f"broker-{broker_id}")

    def depose(self) -> None:
        """Delete `/controller`, as operators do to move the controller; the old one lives on and has to hear of it."""
        controller = self.controller()
        if controller is not None:
            self.struck("depose", self.broker(controller))
            self.zookeeper.operate([Delete(ControllerZNode.path)])

    def stop_zookeeper(self) -> None:
        """The ensemble is gone for everybody; sessions do not end meanwhile."""
        self._events.append(FaultInjected(fault="stop", target="zookeeper"))
        self.zookeeper.go_down()

    def start_zookeeper(self) -> None:
        if not self.zookeeper.reachable:
            self._events.append(FaultInjected(fault="start", target="zookeeper"))
            self.zookeeper.come_back()

    def heal_zookeeper(self, broker_id: int) -> None:
        self._events.append(FaultInjected(fault="heal", target=f"broker-{broker_id} -> zookeeper"))
        self.zookeeper.heal(f"broker-{broker_id}")

    def heal_network(self) -> None:
        self._events.append(FaultInjected(fault="heal", target="all links"))
        self.network.heal()

    def heal(self) -> None:
        """End every fault: links flow, ZooKeeper answers, all brokers are awake and up."""
        self.zookeeper.unknown_probability = 0.0
        self.zookeeper.lost_answers.clear()
        self.start_zookeeper()
        self.heal_network()
        for number, broker in self.brokers.items():
            broker.node.disarm()
            self.heal_zookeeper(number)
            broker.resume()
            if not broker.stopping:
                broker.start()
            broker.wanted = True

    def struck(self, fault: str, broker: SimulatedBroker) -> None:
        role = "controller" if self.controller() == broker.id else ""
        self._events.append(FaultInjected(fault=fault, target=broker.node.name, role=role))

    def step(self, name: str, note: str = "") -> None:
        """Mark in the log that a story has come this far."""
        self._events.append(StepReached(step=name, note=note))

    # ------------------------------------------------------------------ an operator with a shell

    def write(self, path: str, data: bytes = b"", *, sequential: bool = False) -> bool:
        """Create a znode by hand; whether that was possible."""
        made = self.zookeeper.reachable and self.zookeeper.operate([Create(path, data, sequential=sequential)])
        if made:
            self._events.append(FaultInjected(fault="write", target=path))
        return made

    # ------------------------------------------------------------------ clients

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Create a topic as a client does, over the wire, and wait for the answer. Raises as
        `AdminClient.create_topic`."""
        self.ask(
            self.admin.create_topic(
                name, partitions=partitions, replication_factor=replication_factor, assignment=assignment
            )
        )

    def ask(self, call: Coroutine[Any, Any, _T]) -> _T:
        """Run a client's call to its end."""
        assert self.simulator.process is not None
        answer: _T = self.loop.run_until_complete(self.simulator.process.spawn(call))
        return answer

    def begin(self, call: Coroutine[Any, Any, object]) -> None:
        """Start a client's call; that it is refused or finds nobody is part of its life under faults."""
        assert self.simulator.process is not None
        self.simulator.process.spawn(_bearing_refusal(call))

    # ------------------------------------------------------------------ what is left behind

    @property
    def nodes(self) -> list[Node]:
        return [*(broker.node for broker in self.brokers.values()), self.simulator]

    def dump(self, folder: Path) -> None:
        """Write every node's event log as a run on real processes would have left it."""
        for broker in self.brokers.values():
            broker.node.dump(folder / broker.node.name / "events")
        self.simulator.dump(folder / "testbed" / "events")


async def _bearing_refusal(call: Coroutine[Any, Any, object]) -> None:
    with contextlib.suppress(ApiError, NoBrokerAnswers, ConnectionFailed, ConnectionLost, RequestTimedOut):
        await call


def _keep_operators_logs_quiet() -> None:
    """Operators' logs of a thousand simulated brokers help nobody; the event log tells the story."""
    if not structlog.is_configured():
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
