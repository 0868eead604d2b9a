"""`LinkFaults`: the faults that a cluster injects into the links between its brokers, their clients and ZooKeeper.

A fault is recorded before it is injected, in the words of the simulator. A cut delays the bytes that are sent and loses
none, as TCP does; resetting a connection loses the bytes on their way.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Mapping, Sequence

from understudy.clusters.cluster import ClusterError, Unsupported, no_such_broker
from understudy.clusters.processes.fixed_address import FixedAddress
from understudy.clusters.processes.proxied_brokers import ProxiedBrokers, node_of
from understudy.clusters.processes.proxy.frames import closing_requests
from understudy.clusters.processes.proxy.proxy import CLIENT, ZOOKEEPER
from understudy.clusters.processes.zookeeper_ensemble import ZooKeeperEnsemble
from understudy.clusters.request_rules import Direction, Effect, LostWrite, RequestRule
from understudy.foundation.wire.registry import API_BY_NAME

_EXPIRE_TIMEOUT_S = 10.0


class LinkFaults:
    """The faults of links; `LocalCluster` inherits them.

    All of them raise `Unsupported` if the cluster was created without `proxied=True`, and `ClusterError` if it has no
    such broker.
    """

    embedded_zookeeper: ZooKeeperEnsemble | None
    """The ZooKeeper that the cluster has started; None if it uses another one."""

    def __init__(self, *, proxied: bool) -> None:
        self.is_proxied = proxied
        self.proxy: ProxiedBrokers | None = None
        """The proxy; None if the cluster has none, or does not run."""
        self._isolated: set[int] = set()
        self._numbers = itertools.count(1)

    # -- for the cluster

    @property
    def broker_ids(self) -> tuple[int, ...]:
        raise NotImplementedError

    def record_fault(self, fault: str, target: str, role: str = "") -> None:
        raise NotImplementedError

    def write_cluster_file(self) -> None:
        raise NotImplementedError

    def _start_proxy(self, zookeeper_connect: str, addresses: Mapping[int, FixedAddress]) -> None:
        """Start the proxy, if the cluster has one that does not run. Raises ClusterError as `ProxiedBrokers`."""
        if self.is_proxied and self.proxy is None:
            self.proxy = ProxiedBrokers(self.broker_ids, zookeeper_connect, addresses)
            if self.embedded_zookeeper is not None:
                self.embedded_zookeeper.connect_through(self.proxy.connect_peers(self.embedded_zookeeper.peer_ports))

    def _proxied_properties(self, broker_id: int) -> dict[str, str]:
        """The keys of `server.properties` by which a broker's traffic goes through the proxy; empty without a proxy."""
        return self.proxy.properties[broker_id] if self.proxy is not None else {}

    def _close_proxy(self) -> None:
        if self.proxy is not None:
            self.proxy.stop()
            self.proxy = None

    # -- brokers

    def isolate_broker(self, broker_id: int, role: str = "") -> None:
        """Hold all traffic of a broker: with other brokers, clients and ZooKeeper. See `BrokerHandle.isolate`."""
        proxy = self._proxy_to(f"{node_of(broker_id)} cannot be isolated")
        self.record_fault("isolate", node_of(broker_id), role)
        self._isolated.add(broker_id)
        proxy.hold(_pairs(node_of(broker_id), self._all_but(broker_id)))

    def heal_broker(self, broker_id: int, role: str = "") -> None:
        """End the isolation and the cuts of a broker, except for its links to brokers that are isolated themselves."""
        proxy = self._proxy_to(f"{node_of(broker_id)} cannot be healed")
        self.record_fault("heal", node_of(broker_id), role)
        self._isolated.discard(broker_id)
        isolated = {node_of(other) for other in self._isolated}
        proxy.release(_pairs(node_of(broker_id), [each for each in self._all_but(broker_id) if each not in isolated]))

    def cut(self, one: int, others: Sequence[int], *, direction: Direction = "both") -> None:
        """Hold what a broker and others send to each other, or one direction of it, until it is healed."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to(f"{node_of(one)} cannot be cut from others")
        self.record_fault("cut", _target(one, others, direction))
        proxy.hold(_pairs(node_of(one), nodes, direction))

    def heal_between(self, one: int, others: Sequence[int]) -> None:
        """End the cuts between a broker and others; what was held arrives late and in order."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("links cannot be healed")
        self.record_fault("heal", _target(one, others))
        proxy.release(_pairs(node_of(one), nodes))

    def heal_links(self) -> None:
        """End all faults of links, also of links to ZooKeeper; what was held arrives late and in order."""
        proxy = self._proxy_to("links cannot be healed")
        self.record_fault("heal", "all links")
        self._isolated.clear()
        proxy.heal()

    def refuse(self, one: int, others: Sequence[int], is_refusing: bool) -> None:
        """Reset every connection that a broker opens to others, or let it connect; open ones stay."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("connections cannot be refused")
        self.record_fault("refuse" if is_refusing else "heal", _target(one, others, "sent"))
        proxy.refuse(_pairs(node_of(one), nodes, "sent"), is_refusing)

    def cut_from_clients(self, broker_id: int) -> None:
        """Hold everything between a broker and all clients; `heal_clients` and `heal_broker` end it."""
        proxy = self._proxy_to(f"{node_of(broker_id)} cannot be cut from clients")
        node = self._node(broker_id)
        self.record_fault("cut", f"{node} -> clients")
        proxy.hold(_pairs(node, [CLIENT]))

    def heal_clients(self, broker_id: int) -> None:
        """End the cut between a broker and all clients."""
        proxy = self._proxy_to(f"{node_of(broker_id)} cannot be healed")
        node = self._node(broker_id)
        self.record_fault("heal", f"{node} -> clients")
        proxy.release(_pairs(node, [CLIENT]))

    def not_injected(self) -> list[str]:
        """The faults of single requests and writes that were recorded, but have met no request or write so far."""
        return self._proxy_to("the faults of requests are unknown").not_injected()

    def reset(self, one: int, others: Sequence[int]) -> None:
        """Break the connections between a broker and others (RST); they may connect again at once."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("connections cannot be reset")
        self.record_fault("reset", _target(one, others))
        proxy.reset([(node_of(one), node) for node in nodes])

    def delay(self, one: int, others: Sequence[int], by_ms: float) -> None:
        """Delay what a broker and others send to each other by `by_ms` milliseconds each way; 0 ends it."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("links cannot be delayed")
        self.record_fault("delay" if by_ms else "heal", _target(one, others))
        proxy.delay(_pairs(node_of(one), nodes), by_ms)

    def throttle(self, one: int, others: Sequence[int], bytes_per_s: float) -> None:
        """Limit each connection between a broker and others to `bytes_per_s` bytes a second; 0 ends the limit."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("links cannot be throttled")
        self.record_fault("throttle" if bytes_per_s else "heal", _target(one, others))
        proxy.throttle(_pairs(node_of(one), nodes), bytes_per_s)

    def split(self, one: int, others: Sequence[int], piece_bytes: int) -> None:
        """Forward what a broker and others send to each other in pieces of `piece_bytes` bytes; 0 ends it."""
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("traffic cannot be split")
        self.record_fault("split" if piece_bytes else "heal", _target(one, others))
        proxy.split(_pairs(node_of(one), nodes), piece_bytes)

    # -- single requests

    def add_rule(
        self,
        one: int,
        others: Sequence[int],
        effect: Effect,
        *,
        api: str | None = None,
        nth: int = 1,
        every: int | None = None,
        delay_ms: float = 0.0,
        count: int = 1,
    ) -> str:
        """Inject a fault into requests that a broker sends to others; see `RequestRule` for its options.

        Args:
            api: Kafka's name, such as `LeaderAndIsr`; None for every request.

        Returns:
            The name of the rule, for `remove_rule`.

        Raises:
            ClusterError: there is no such API.
        """
        if api is not None and api not in API_BY_NAME:
            raise ClusterError(f"there is no API {api!r}; Kafka's are {', '.join(sorted(API_BY_NAME))}")
        nodes = self._nodes(one, others)
        proxy = self._proxy_to("requests cannot be changed")
        rule = RequestRule(
            name=f"{effect.value}-{next(self._numbers)}",
            sources=(node_of(one),),
            destinations=tuple(nodes),
            effect=effect,
            api=None if api is None else API_BY_NAME[api].key,
            nth=nth,
            every=every,
            delay_ms=delay_ms,
            count=count,
        )
        self.record_fault(effect.value, f"{_target(one, others, 'sent')}: {api or 'all requests'}")
        proxy.add_rule(rule)
        return rule.name

    def remove_rule(self, name: str) -> None:
        """End a fault of requests, and forward the requests that it holds. Harmless if it has ended."""
        proxy = self._proxy_to("requests cannot be released")
        self.record_fault("heal", name)
        proxy.remove_rule(name)

    # -- ZooKeeper

    def zookeeper_servers(self, which: str = "") -> tuple[int, ...]:
        """The ids of the ZooKeeper servers that a word names now: empty for all, `leader`, or an id.

        Raises:
            ClusterError: there is no such server, or this cluster has not started its ZooKeeper.
        """
        if self.embedded_zookeeper is None:
            raise ClusterError("zookeeper cannot be a target: this cluster uses a server that it did not start")
        return self.embedded_zookeeper.find(which)

    def stop_zookeeper(self, *servers: int) -> None:
        """End all servers at once, or those with these ids. Raises ClusterError if none of them is running."""
        ensemble, running = self._running_zookeeper("stop", servers)
        ensemble.kill(*running)
        self.write_cluster_file()

    def start_zookeeper(self, *servers: int) -> None:
        """Start all servers again, or those with these ids. Harmless if they run."""
        ensemble = self.embedded_zookeeper
        if ensemble is None:
            return
        gone = [number for number in servers or ensemble.servers if not ensemble.servers[number].is_running]
        for number in gone:
            self.record_fault("start", ensemble.name_of(number))
        if gone:
            ensemble.start(*gone)
            self.write_cluster_file()

    def pause_zookeeper(self, *servers: int) -> None:
        """Pause all servers, or those with these ids. Raises as `stop_zookeeper`."""
        ensemble, running = self._running_zookeeper("pause", servers)
        ensemble.pause(*running)

    def resume_zookeeper(self, *servers: int) -> None:
        """End the pause of all servers, or of those with these ids."""
        ensemble = self.embedded_zookeeper
        if ensemble is not None:
            for number in servers or ensemble.servers:
                self.record_fault("resume", ensemble.name_of(number))
            ensemble.resume(*servers)

    def _running_zookeeper(self, fault: str, servers: Sequence[int]) -> tuple[ZooKeeperEnsemble, list[int]]:
        """Record a fault of the servers that run, and return the ensemble and their ids."""
        ensemble = self.embedded_zookeeper
        running = (
            [number for number in servers or ensemble.servers if ensemble.servers[number].is_running]
            if ensemble
            else []
        )
        if ensemble is None or not running:
            raise ClusterError("ZooKeeper is not running")
        for number in running:
            self.record_fault(fault, ensemble.name_of(number))
        return ensemble, running

    def refuse_to_zookeeper(self, broker_id: int, is_refusing: bool, servers: Sequence[int] = ()) -> None:
        """Break a broker's connection to ZooKeeper and reset those that it opens; or let it connect again.

        Args:
            servers: the ids of the servers, here as in the faults below; empty for all.
        """
        proxy = self._proxy_to("connections cannot be refused")
        node, zookeepers = self._node(broker_id), self._zookeepers(proxy, servers)
        self.record_fault("refuse" if is_refusing else "heal", f"{node} -> {_in_words(proxy, zookeepers)}")
        pairs = [(node, zookeeper) for zookeeper in zookeepers]
        proxy.refuse(pairs, is_refusing)
        if is_refusing:
            proxy.reset(pairs)

    def cut_from_zookeeper(
        self, broker_id: int, *, requests: bool = True, answers: bool = True, servers: Sequence[int] = ()
    ) -> None:
        """Hold everything between a broker and ZooKeeper, or one direction of it."""
        proxy = self._proxy_to(f"{node_of(broker_id)} cannot be cut from ZooKeeper")
        node, zookeepers = self._node(broker_id), self._zookeepers(proxy, servers)
        self.record_fault("cut", f"{node} -> {_in_words(proxy, zookeepers)}")
        proxy.hold(_pairs(node, zookeepers, "sent") * requests + _pairs(node, zookeepers, "received") * answers)

    def heal_zookeeper(self, broker_id: int, servers: Sequence[int] = ()) -> None:
        """End the cut between a broker and ZooKeeper."""
        proxy = self._proxy_to(f"{node_of(broker_id)} cannot be healed")
        node, zookeepers = self._node(broker_id), self._zookeepers(proxy, servers)
        self.record_fault("heal", f"{node} -> {_in_words(proxy, zookeepers)}")
        proxy.release(_pairs(node, zookeepers))

    def cut_zookeeper_server(self, server: int, others: Sequence[int], is_cut: bool) -> None:
        """Hold everything between a server of the ensemble and others, or end that."""
        proxy = self._proxy_to("servers of ZooKeeper cannot be cut from each other")
        (node,), peers = self._zookeepers(proxy, [server]), self._zookeepers(proxy, others)
        pairs = _pairs(node, [peer for peer in peers if peer != node])
        if not pairs:
            raise ClusterError(f"{node} has no link to {', '.join(peers)}; name other servers of the ensemble")
        self.record_fault("cut" if is_cut else "heal", f"{node} -> {', '.join(peers)}")
        if is_cut:
            proxy.hold(pairs)
        else:
            proxy.release(pairs)

    def delay_zookeeper(self, by_ms: float, servers: Sequence[int] = ()) -> None:
        """Delay everything that ZooKeeper sends to brokers by `by_ms` milliseconds; 0 ends it."""
        proxy = self._proxy_to("ZooKeeper cannot be delayed")
        zookeepers = self._zookeepers(proxy, servers)
        self.record_fault("delay" if by_ms else "heal", _in_words(proxy, zookeepers))
        proxy.delay(itertools.product(zookeepers, map(node_of, self.broker_ids)), by_ms)

    def hold_next_event(self, broker_id: int) -> None:
        """Hold the next watch event for a broker and what follows on its connection, until `heal_zookeeper`."""
        proxy = self._proxy_to("watch events cannot be held")
        node = self._node(broker_id)
        self.record_fault("hold-watch", f"{node} -> zookeeper")
        proxy.hold_next_event((_server_of(proxy, node), node))

    def reset_zookeeper_connection(self, broker_id: int, servers: Sequence[int] = ()) -> None:
        """Break a broker's connection to ZooKeeper; it may connect again at once."""
        proxy = self._proxy_to("connections cannot be reset")
        node, zookeepers = self._node(broker_id), self._zookeepers(proxy, servers)
        self.record_fault("reset", f"{node} -> {_in_words(proxy, zookeepers)}")
        proxy.reset([(node, zookeeper) for zookeeper in zookeepers])

    def expire_session(self, broker_id: int, role: str = "") -> None:
        """Make ZooKeeper end a broker's session at once: another connection takes it over and closes it.

        Harmless if the session has ended.

        Raises:
            ClusterError: the broker has not had a session, or the server does not answer in time.
        """
        proxy = self._proxy_to(f"the session of {node_of(broker_id)} cannot be expired")
        node = self._node(broker_id)
        found = proxy.session_of(node)
        if found is None:
            raise ClusterError(f"the session of {node} cannot be expired: it has had none")
        session, address = found
        self.record_fault("expire", node, role)
        try:
            with socket.create_connection(address, _EXPIRE_TIMEOUT_S) as connection:
                connection.sendall(closing_requests(session))
                while connection.recv(4096):
                    pass  # the server closes the connection after its answers
        except OSError as error:
            raise ClusterError(f"ZooKeeper has not ended the session of {node}: {error}") from None

    def lose_answer(self, broker_id: int, path: str, applied: bool) -> None:
        """Break a broker's connection to ZooKeeper at its next write, so that it does not learn the outcome.

        Args:
            path: the write must contain an operation whose path, without the chroot, contains this.
            applied: whether ZooKeeper applies the write before the connection breaks.
        """
        proxy = self._proxy_to("answers of ZooKeeper cannot be lost")
        node = self._node(broker_id)
        self.record_fault("lose-answer", f"{node} -> zookeeper")
        proxy.lose_write(node, LostWrite(path, applied), _server_of(proxy, node))

    # -- internals

    def _proxy_to(self, refused: str) -> ProxiedBrokers:
        if not self.is_proxied:
            raise Unsupported(
                f"{refused}: this LocalCluster has no proxy between its processes; create it with proxied=True, or use "
                "a SimulatedCluster"
            )
        if self.proxy is None:
            raise ClusterError(f"{refused}: this cluster does not run")
        return self.proxy

    def _node(self, broker_id: int) -> str:
        if broker_id not in self.broker_ids:
            raise no_such_broker(broker_id, self.broker_ids)
        return node_of(broker_id)

    def _nodes(self, one: int, others: Sequence[int]) -> list[str]:
        own = self._node(one)
        return [node for node in map(self._node, others) if node != own]

    def _all_but(self, broker_id: int) -> list[str]:
        zookeepers = self.proxy.zookeepers if self.proxy is not None else ()
        return [*self._nodes(broker_id, self.broker_ids), CLIENT, *zookeepers]

    def _zookeepers(self, proxy: ProxiedBrokers, servers: Sequence[int]) -> list[str]:
        """The nodes of the servers with these ids; all if there are none."""
        nodes = list(proxy.zookeepers)
        if unknown := [number for number in servers if not 1 <= number <= len(nodes)]:
            raise ClusterError(f"there is no ZooKeeper server {unknown[0]}; this cluster has {len(nodes)}")
        return [nodes[number - 1] for number in servers] or nodes


def _target(one: int, others: Sequence[int], direction: Direction = "both") -> str:
    """The target of a fault in its record, such as `broker-1 -> broker-2, broker-3`."""
    own, peers = node_of(one), ", ".join(map(node_of, others))
    return f"{peers} -> {own}" if direction == "received" else f"{own} -> {peers}"


def _in_words(proxy: ProxiedBrokers, zookeepers: Sequence[str]) -> str:
    """The target of a fault of the links to all servers of ZooKeeper, or to some of them."""
    return ZOOKEEPER if len(zookeepers) == len(proxy.zookeepers) else ", ".join(zookeepers)


def _server_of(proxy: ProxiedBrokers, node: str) -> str:
    """The server of ZooKeeper to which a broker has connected last."""
    found = proxy.session_of(node)
    nodes = {address: server for server, address in proxy.zookeepers.items()}
    return nodes[found[1]] if found is not None else next(iter(proxy.zookeepers))


def _pairs(one: str, others: Sequence[str], direction: Direction = "both") -> list[tuple[str, str]]:
    """The links between a node and others, as what the first node of each pair sends to the second."""
    sent = [(one, other) for other in others]
    received = [(other, one) for other in others]
    return {"both": sent + received, "sent": sent, "received": received}[direction]
