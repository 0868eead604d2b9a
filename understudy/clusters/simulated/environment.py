"""The environment of simulated brokers: virtual time, ZooKeeper, the network, and the faults injected into them.

A fault is recorded in the event log of the node `simulator` before it is injected. A cut link or connection delays
the bytes that are sent and loses none, as TCP does; resetting a connection loses the bytes on their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from understudy.brokers.exits import TEMPORARY
from understudy.clusters.answers import AnswerHandle
from understudy.clusters.clients.client_events import ClientLog
from understudy.clusters.cluster import ClusterError, WaitTimedOut
from understudy.clusters.request_rules import Direction, Effect, RequestRule
from understudy.clusters.simulated.clocks import EPOCH_MS
from understudy.clusters.simulated.loop import new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.clusters.simulated.node_log import NodeLog
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.world import Node, RunLog
from understudy.clusters.simulated.znode_view import ZnodeView
from understudy.clusters.simulated.zookeeper import LostAnswer, SimulatedZooKeeper
from understudy.clusters.zookeeper_servers import check_count, find_servers, name_of, names_of
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import Envelope, FaultInjected, StepReached
from understudy.foundation.times import moment
from understudy.foundation.wire.registry import API_BY_NAME
from understudy.foundation.zk.client import Create, Delete
from understudy.foundation.zk.znodes import ControllerZNode
from understudy.history.reading.lines import decode_record

T = TypeVar("T")

WAIT_TIMEOUT_S = 60.0
STEP_MS = 100
"""Virtual time between two evaluations of a condition."""


class Exit(NamedTuple):
    """The end of a broker process that no fault ended."""

    at_ms: float
    node: str
    error: Exception | None

    @property
    def is_unexpected(self) -> bool:
        """Whether a correct broker would not have ended.

        It may end if ZooKeeper is unreachable, its session is lost, or its id is registered by another session.
        """
        return not isinstance(self.error, TEMPORARY)


class SimulatedEnvironment:
    """Virtual time, ZooKeeper and the network of one run.

    Args:
        seed: determines everything random.
        run_id: the run id of every record; by default the seed gives one.
        reordering: change the order in which processes run their callbacks at random. See `SimulatedLoop`.
        own_clocks, zookeepers: as in `SimulatedCluster`.

    Raises:
        ClusterError: ZooKeeper cannot have this number of servers.
    """

    def __init__(
        self,
        seed: int,
        *,
        run_id: str | None = None,
        reordering: bool = False,
        own_clocks: bool = False,
        zookeepers: int = 1,
    ) -> None:
        check_count(zookeepers)
        self.seed = seed
        self.run_id = run_id or f"seed-{seed}"
        self.loop = new_loop(reordering=derived(seed, "reordering") if reordering else None)
        self.zookeeper = SimulatedZooKeeper(
            self.loop,
            random=derived(seed, "zookeeper"),
            servers=zookeepers,
            wall_ms=lambda: EPOCH_MS + self.loop.time() * 1000,
        )
        self.network = SimulatedNetwork(self.loop, seed=seed)
        self.znodes = ZnodeView(self.zookeeper.tree)
        self.log_lines = RunLog()
        self.exits: list[Exit] = []
        self.answers: list[AnswerHandle] = []
        """The answers that were armed at the brokers."""
        self.simulator = Node(
            "simulator",
            run=self.run_id,
            seed=seed,
            loop=self.loop,
            log_lines=self.log_lines,
            has_own_clock=own_clocks,
        )
        """The node that runs the clients and records the injected faults."""
        self.nodes = [self.simulator]
        """All nodes."""
        self.client_logs: dict[str, NodeLog] = {}
        """The event logs of the clients of loads, by client. They run on the simulator's node, and have its clock."""
        self.client_nodes = [self.simulator.name]
        """The nodes that run clients, by name: the simulator, and one for each process of a user."""
        self.before_fault: Callable[[str], None] = lambda target: None
        """Called with the target of each fault before it is recorded."""
        self._own_clocks = own_clocks
        world = self.simulator.start(
            self.zookeeper, self.network, session_timeout_ms=6_000, connection_timeout_ms=6_000
        )
        self.client_network = world.network
        self._events = world.events
        self._records: list[Envelope] = []
        self._isolated: set[str] = set()
        self._rules: dict[str, RequestRule] = {}
        """Every rule for requests, also removed ones, by its name."""

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
                    raise ClusterError(f"{ended.node} ended at {moment(ended.at_ms)} with {ended.error!r}")
            if self.now_ms - began_ms >= timeout_s * 1000:
                raise WaitTimedOut(f"seed {self.seed}, not within {timeout_s:g} s: {what}")
            self.run_for(STEP_MS)
        return value

    # ------------------------------------------------------------------ reading ZooKeeper

    def controller_id(self) -> BrokerId | None:
        """The id of the broker that owns `/controller`; None if there is no controller."""
        return self.znodes.controller_id()

    # ------------------------------------------------------------------ records

    def records(self) -> Sequence[Envelope]:
        """Return what `log_lines` holds now, decoded, with the virtual time as `mono_ms`. No line is decoded twice."""
        new = map(decode_record, self.log_lines[len(self._records) :])
        self._records += map(self._in_virtual_time, new) if self._own_clocks else new
        return self._records

    def _in_virtual_time(self, record: Envelope) -> Envelope:
        log = next(log for log in self.logs if log.name == record.node)
        now_ms = log.boots[record.incarnation].now_ms(record.mono_ms)
        return msgspec.structs.replace(record, mono_ms=round(now_ms, 3))

    @property
    def logs(self) -> list[NodeLog]:
        """The event logs of all nodes and clients."""
        return [*(node.log for node in self.nodes), *self.client_logs.values()]

    def open_client_log(self, name: str) -> ClientLog:
        """Begin the event log of a client of a load; the name of the client is its node."""
        if name not in self.client_logs:
            clock = self.simulator.event_clock
            self.client_logs[name] = NodeLog(name, run=self.run_id, clock=clock, write=self.log_lines.append)
        return ClientLog(self.client_logs[name].start("client", machine=self.simulator.name))

    def record_fault(self, fault: str, target: str, role: str = "") -> None:
        """Record a fault; call it before the fault is injected."""
        self.before_fault(target)
        self._events.append(FaultInjected(fault=fault, target=target, role=role))

    def record_step(self, step: str, note: str = "") -> None:
        """Record a step of an experiment in the event log."""
        self._events.append(StepReached(step=step, note=note))

    # ------------------------------------------------------------------ faults of the network

    def cut(self, one: int, others: Sequence[int], *, direction: Direction = "both") -> None:
        """Hold what a broker and others send to each other, or one direction of it, until it is healed."""
        own, peers = _names(one, others)
        sources, destinations = (peers, own) if direction == "received" else (own, peers)
        self.record_fault("cut", f"{', '.join(sources)} -> {', '.join(destinations)}")
        if direction == "both":
            self.network.partition(sources, destinations)
        else:
            self.network.cut(sources, destinations)

    def heal_between(self, one: int, others: Sequence[int]) -> None:
        """End the cuts between a broker and others, without a record."""
        own, peers = _names(one, others)
        for peer in peers:
            self.network.heal_between(own, [peer])

    def cut_from_clients(self, broker_id: int) -> None:
        """Hold everything between a broker and all clients."""
        self.record_fault("cut", f"broker-{broker_id} -> clients")
        self.network.partition([f"broker-{broker_id}"], self.client_nodes)

    def heal_clients(self, broker_id: int) -> None:
        """End the cut between a broker and all clients."""
        self.record_fault("heal", f"broker-{broker_id} -> clients")
        self.network.heal_between([f"broker-{broker_id}"], self.client_nodes)

    def refuse(self, one: int, others: Sequence[int], is_refusing: bool) -> None:
        """Refuse the connections that a broker opens to others, or accept them again; open ones stay."""
        self._record_link("refuse", one, others, is_refusing)
        self.network.refuse(*_names(one, others), is_refusing)

    def reset(self, one: int, others: Sequence[int]) -> None:
        """Break all connections of broker `one`, not only to `others`; it may connect again at once."""
        self.record_fault("reset", f"broker-{one} -> all")
        self.network.reset(f"broker-{one}")

    def delay(self, one: int, others: Sequence[int], by_ms: float) -> None:
        """Delay what a broker and others send to each other by `by_ms` milliseconds more each way; 0 ends it."""
        self._record_link("delay", one, others, by_ms)
        self.network.delay(*_names(one, others), by_ms)

    def throttle(self, one: int, others: Sequence[int], bytes_per_s: float) -> None:
        """Limit each connection between a broker and others to `bytes_per_s` bytes a second; 0 ends the limit."""
        self._record_link("throttle", one, others, bytes_per_s)
        self.network.throttle(*_names(one, others), bytes_per_s)

    def split(self, one: int, others: Sequence[int], piece_bytes: int) -> None:
        """Carry what a broker and others send to each other in pieces of `piece_bytes` bytes; 0 ends it."""
        self._record_link("split", one, others, piece_bytes)
        self.network.split(*_names(one, others), piece_bytes)

    def _record_link(self, fault: str, one: int, others: Sequence[int], degree: float) -> None:
        """Record a fault of links, or its end if `degree` is 0."""
        own, peers = _names(one, others)
        self.record_fault(fault if degree else "heal", f"{own[0]} -> {', '.join(peers)}")

    def add_rule(
        self,
        one: int,
        others: Sequence[int],
        effect: Effect,
        *,
        api: str | None = None,
        delay_ms: float = 0.0,
        count: int = 1,
    ) -> str:
        """Inject a fault into the next request that a broker sends to others; return the name of its rule."""
        own, peers = _names(one, others)
        rule = RequestRule(
            name=f"{effect.value}-{len(self._rules)}",
            sources=own,
            destinations=peers,
            effect=effect,
            api=None if api is None else API_BY_NAME[api].key,
            delay_ms=delay_ms,
            count=count,
        )
        self._rules[rule.name] = rule
        self.record_fault(effect.value, f"{own[0]} -> {', '.join(peers)}: {api or 'all requests'}")
        self.network.requests.add(rule)
        return rule.name

    def remove_rule(self, name: str) -> None:
        """End a fault of requests, and send the requests that it holds."""
        rule = self._rules[name]
        self.record_fault("heal", f"{rule.effect.value} of {', '.join(rule.sources)}")
        self.network.requests.remove(name)

    def heal_network(self) -> None:
        """End all faults of links and requests."""
        self.record_fault("heal", "all links")
        self._isolated.clear()
        self.network.heal()

    def isolate_node(self, node: str, others: Sequence[str]) -> None:
        """Hold everything between a node and `others`, all clients, and ZooKeeper."""
        self._isolated.add(node)
        self.network.partition([node], [*others, *self.client_nodes])
        self.zookeeper.hold(node)

    def end_isolation(self, node: str, others: Sequence[str]) -> None:
        """End what `isolate_node` began, except for the links to nodes that are isolated themselves."""
        self._isolated.discard(node)
        others = [other for other in (*others, *self.client_nodes) if other not in self._isolated]
        self.network.heal_between([node], others)
        self.zookeeper.heal(node)

    # ------------------------------------------------------------------ faults of ZooKeeper

    def cut_from_zookeeper(
        self, broker_id: int, *, requests: bool = True, answers: bool = True, servers: Sequence[int] = ()
    ) -> None:
        """Hold everything between a broker and ZooKeeper, or one direction of it.

        Args:
            servers: the ids of the servers, here as in the faults below; empty for all.
        """
        self._record_zookeeper("cut", servers, broker_id)
        self.zookeeper.hold(f"broker-{broker_id}", requests=requests, answers=answers, servers=servers)

    def heal_zookeeper(self, broker_id: int, servers: Sequence[int] = ()) -> None:
        """End the cut between a broker and ZooKeeper."""
        self._record_zookeeper("heal", servers, broker_id)
        self.zookeeper.heal(f"broker-{broker_id}", servers)

    def reset_zookeeper_connection(self, broker_id: int, servers: Sequence[int] = ()) -> None:
        """Break a broker's connection to ZooKeeper; it may connect again at once."""
        self._record_zookeeper("reset", servers, broker_id)
        self.zookeeper.reset(f"broker-{broker_id}", servers=servers)

    def refuse_to_zookeeper(self, broker_id: int, is_refusing: bool, servers: Sequence[int] = ()) -> None:
        """Break a broker's connection to ZooKeeper and refuse new ones; or let it connect again."""
        if is_refusing:
            self._record_zookeeper("refuse", servers, broker_id)
            self.zookeeper.cut(f"broker-{broker_id}", servers=servers)
        else:
            self.heal_zookeeper(broker_id, servers)

    def cut_zookeeper_server(self, server: int, others: Sequence[int], is_cut: bool) -> None:
        """Hold everything between a server of the ensemble and others, or end that."""
        own, peers = self._server_name(server), [other for other in others if other != server]
        names = [self._server_name(other) for other in others]
        if not peers:
            raise ClusterError(f"{own} has no link to {', '.join(names)}; name other servers of the ensemble")
        self.record_fault("cut" if is_cut else "heal", f"{own} -> {', '.join(names)}")
        for peer in peers:
            change = self.zookeeper.quorum.cut if is_cut else self.zookeeper.quorum.heal
            change(server, peer)

    def lose_answer(self, broker_id: int, path: str, applied: bool) -> None:
        """Break a broker's connection to ZooKeeper at its next write to a path that contains this; see `LostAnswer`."""
        self.record_fault("lose-answer", f"broker-{broker_id} -> zookeeper")
        self.zookeeper.lost_answers.append(LostAnswer(f"broker-{broker_id}", path, applied))

    def hold_next_event(self, broker_id: int) -> None:
        """Hold the next watch event for a broker and what follows on its connection, until `heal_zookeeper`."""
        self.record_fault("hold-watch", f"broker-{broker_id} -> zookeeper")
        self.zookeeper.hold_next_event(f"broker-{broker_id}")

    def delay_zookeeper(self, by_ms: float, servers: Sequence[int] = ()) -> None:
        """Delay everything that ZooKeeper sends to clients by `by_ms` milliseconds; 0 ends it."""
        self._record_zookeeper("delay" if by_ms else "heal", servers)
        self.zookeeper.slow(by_ms, *servers)

    def zookeeper_servers(self, which: str = "") -> tuple[int, ...]:
        """The ids of the ZooKeeper servers that a word names now: empty for all, `leader`, or an id.

        Raises:
            ClusterError: there is no such server.
        """
        return find_servers(which, self.zookeeper.servers, self.zookeeper.quorum.leader)

    def pause_zookeeper(self, *servers: int) -> None:
        """Pause all servers, or those with these ids: they answer nothing, and expire no session. Raises as
        `stop_zookeeper`."""
        self.zookeeper.pause(*self._running_zookeepers("pause", servers))

    def resume_zookeeper(self, *servers: int) -> None:
        """End the pause of all servers, or of those with these ids. Harmless if there is none."""
        for number in servers or self.zookeeper.servers:
            self.record_fault("resume", self._server_name(number))
        self.zookeeper.resume(*servers)

    def stop_zookeeper(self, *servers: int) -> None:
        """Stop all servers, or those with these ids: no node can reach them.

        Raises:
            ClusterError: it is an ensemble, and none of them is running.
        """
        self.zookeeper.stop(*self._running_zookeepers("stop", servers))

    def start_zookeeper(self, *servers: int) -> None:
        """Start all servers again, or those with these ids. Harmless if they run."""
        gone = [number for number in servers or self.zookeeper.servers if not self.zookeeper.servers[number].is_up]
        for number in gone:
            self.record_fault("start", self._server_name(number))
        if gone:
            self.zookeeper.start(*gone)

    def _running_zookeepers(self, fault: str, servers: Sequence[int]) -> list[int]:
        """Record a fault of the servers that run, and return their ids. One that is standalone counts as running."""
        found = self.zookeeper.servers
        running = [number for number in servers or found if found[number].is_up or len(found) == 1]
        if not running:
            raise ClusterError("ZooKeeper is not running")
        for number in running:
            self.record_fault(fault, self._server_name(number))
        return running

    def _server_name(self, number: int) -> str:
        return name_of(number, self.zookeeper.servers)

    def _record_zookeeper(self, fault: str, servers: Sequence[int], broker_id: int | None = None) -> None:
        """Record a fault of servers, or of a broker's links to them."""
        named = names_of(servers, self.zookeeper.servers)
        self.record_fault(fault, named if broker_id is None else f"broker-{broker_id} -> {named}")

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


def _names(one: int, others: Sequence[int]) -> tuple[list[str], list[str]]:
    return [f"broker-{one}"], [f"broker-{number}" for number in others]
