"""The environment of simulated brokers: virtual time, ZooKeeper, the network, and the faults injected into them.

A fault is recorded in the event log of the node `simulator` before it is injected. A cut link or connection delays
what is sent over it and loses nothing, as TCP does; resetting a connection loses what was on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from understudy.brokers.exits import TEMPORARY
from understudy.clusters.cluster import ClusterError, WaitTimedOut
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.world import EPOCH_MS, Node, RunLog
from understudy.clusters.simulated.znode_view import ZnodeView
from understudy.clusters.simulated.zookeeper import SimulatedZooKeeper
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import Envelope, FaultInjected, StepReached
from understudy.foundation.zk.client import Create, Delete, Failure
from understudy.foundation.zk.znodes import BrokerIdZNode, ControllerZNode
from understudy.history.reading.lines import decode_record

T = TypeVar("T")

WAIT_TIMEOUT_S = 60.0
STEP_MS = 100
"""How much virtual time passes between two evaluations of a condition."""


class Exit(NamedTuple):
    """The end of a broker process that no fault ended."""

    at_ms: float
    node: str
    error: Exception | None

    @property
    def is_unexpected(self) -> bool:
        """Whether a correct broker would not have ended.

        It may end where ZooKeeper is unreachable, its session is lost, or its id is registered by another session.
        """
        return not isinstance(self.error, TEMPORARY)


class SimulatedEnvironment:
    """Virtual time, ZooKeeper and the network of one run.

    Args:
        seed: determines everything random.
        run_id: the run id of every record; by default the seed gives one.
        reordering: change the order in which processes run their callbacks at random. See `SimulatedLoop`.
        trace: compute a checksum over every callback. See `SimulatedLoop`.
    """

    def __init__(self, seed: int, *, run_id: str | None = None, reordering: bool = False, trace: bool = False) -> None:
        self.seed = seed
        self.run_id = run_id or f"seed-{seed}"
        self.loop = new_loop(reordering=derived(seed, "reordering") if reordering else None, trace=trace)
        self.zookeeper = SimulatedZooKeeper(
            self.loop, random=derived(seed, "zookeeper"), wall_ms=lambda: EPOCH_MS + self.loop.time() * 1000
        )
        self.network = SimulatedNetwork(self.loop, seed=seed)
        self.znodes = ZnodeView(self.zookeeper.tree)
        self.log_lines = RunLog()
        self.exits: list[Exit] = []
        self.simulator = Node("simulator", run=self.run_id, seed=seed, loop=self.loop, log_lines=self.log_lines)
        """The node that runs the clients and records the injected faults."""
        world = self.simulator.start(
            self.zookeeper, self.network, session_timeout_ms=6_000, connection_timeout_ms=6_000
        )
        self.client_network = world.network
        self._events = world.events
        self._records: list[Envelope] = []
        self._isolated: set[str] = set()

    # ------------------------------------------------------------------ time

    @property
    def now_ms(self) -> float:
        """Virtual milliseconds since the run began."""
        return self.loop.time() * 1000

    def run_for(self, ms: float) -> None:
        """Let virtual time pass."""
        self.loop.run_for(ms / 1000)

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Schedule an action. It belongs to no process, so that no fault prevents it."""
        self.loop.call_later(ms / 1000, action, context=self.zookeeper.context)

    def wait_until(self, condition: Callable[[], T | None], what: str, timeout_s: float = WAIT_TIMEOUT_S) -> T:
        """Let virtual time pass until `condition` is true, and return its value. See `Cluster.wait_until`."""
        began_ms, known_exits = self.now_ms, len(self.exits)
        while not (value := condition()):
            for ended in self.exits[known_exits:]:
                if ended.is_unexpected:
                    raise ClusterError(f"{ended.node} ended at {ended.at_ms:.0f} ms with {ended.error!r}")
            if self.now_ms - began_ms >= timeout_s * 1000:
                raise WaitTimedOut(f"seed {self.seed}, not within {timeout_s:g} s: {what}")
            self.run_for(STEP_MS)
        return value

    # ------------------------------------------------------------------ reading ZooKeeper

    def controller_id(self) -> BrokerId | None:
        """The id of the broker that owns `/controller`; None if there is no controller."""
        return self.znodes.controller_id()

    def session_of(self, broker_id: int) -> int | None:
        """The session that owns a broker's registration; None if the broker is not registered."""
        stat = self.zookeeper.tree.exists(BrokerIdZNode.path(BrokerId(broker_id)))
        return None if isinstance(stat, Failure) else stat.ephemeral_owner

    # ------------------------------------------------------------------ records

    def records(self) -> Sequence[Envelope]:
        """Return what `log_lines` holds now, decoded. No line is decoded twice."""
        self._records += map(decode_record, self.log_lines[len(self._records) :])
        return self._records

    def record_fault(self, fault: str, target: str, role: str = "") -> None:
        """Record a fault; call it before the fault is injected."""
        self._events.append(FaultInjected(fault=fault, target=target, role=role))

    def record_step(self, step: str, note: str = "") -> None:
        """Record a step of an experiment in the event log."""
        self._events.append(StepReached(step=step, note=note))

    # ------------------------------------------------------------------ faults of the network

    def cut(self, one_side: Sequence[int], other_side: Sequence[int], *, one_way: bool = False) -> None:
        """Hold everything between two groups of brokers, or only what the first group sends to the second."""
        one, other = [f"broker-{number}" for number in one_side], [f"broker-{number}" for number in other_side]
        self.record_fault("cut", f"{', '.join(one)} -> {', '.join(other)}")
        if one_way:
            self.network.cut(one, other)
        else:
            self.network.partition(one, other)

    def delay(self, one: int, others: Sequence[int], by_ms: float) -> None:
        """Delay what a broker and others send to each other by `by_ms` more each way; 0 ends it."""
        own, peers = f"broker-{one}", [f"broker-{number}" for number in others]
        self.record_fault("delay" if by_ms else "heal", f"{own} -> {', '.join(peers)}")
        self.network.delay([own], peers, by_ms)

    def heal_network(self) -> None:
        """End all cuts and delays of the network."""
        self.record_fault("heal", "all links")
        self._isolated.clear()
        self.network.heal()

    def isolate_node(self, node: str, others: Iterable[str]) -> None:
        """Hold everything between a node and `others`, and between it and ZooKeeper."""
        self._isolated.add(node)
        self.network.partition([node], others)
        self.zookeeper.hold(node)

    def end_isolation(self, node: str, others: Iterable[str]) -> None:
        """End what `isolate_node` began, except for the links to nodes that are isolated themselves."""
        self._isolated.discard(node)
        self.network.heal_between([node], [other for other in others if other not in self._isolated])
        self.zookeeper.heal(node)

    # ------------------------------------------------------------------ faults of ZooKeeper

    def cut_from_zookeeper(self, broker_id: int, *, requests: bool = True, answers: bool = True) -> None:
        """Hold everything between a broker and ZooKeeper, or one direction of it."""
        self.record_fault("cut", f"broker-{broker_id} -> zookeeper")
        self.zookeeper.hold(f"broker-{broker_id}", requests=requests, answers=answers)

    def heal_zookeeper(self, broker_id: int) -> None:
        """End the cut between a broker and ZooKeeper."""
        self.record_fault("heal", f"broker-{broker_id} -> zookeeper")
        self.zookeeper.heal(f"broker-{broker_id}")

    def reset_zookeeper_connection(self, broker_id: int) -> None:
        """Break a broker's connection to ZooKeeper; it may connect again at once."""
        self.record_fault("reset", f"broker-{broker_id} -> zookeeper")
        self.zookeeper.reset(f"broker-{broker_id}")

    def stop_zookeeper(self) -> None:
        """Stop the ensemble: no node can reach it, and no session expires."""
        self.record_fault("stop", "zookeeper")
        self.zookeeper.stop()

    def start_zookeeper(self) -> None:
        """Start the ensemble again. Harmless if it runs."""
        if not self.zookeeper.reachable:
            self.record_fault("start", "zookeeper")
            self.zookeeper.start()

    def depose(self) -> None:
        """Delete `/controller`, as operators do to move the controller. Harmless if there is no controller.

        The old controller keeps running, and is notified by its watch.
        """
        controller = self.controller_id()
        if controller is not None:
            self.record_fault("depose", f"broker-{controller}", "controller")
            self.zookeeper.operate([Delete(ControllerZNode.path)])

    def write(self, path: str, data: bytes = b"", *, sequential: bool = False) -> bool:
        """Create a znode as an operator with a ZooKeeper shell does; return whether it was created."""
        created = self.zookeeper.reachable and self.zookeeper.operate([Create(path, data, sequential=sequential)])
        if created:
            self.record_fault("write", path)
        return created
