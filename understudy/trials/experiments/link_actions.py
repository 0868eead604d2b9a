"""Injects faults into the links between brokers, and into single requests on them, for all engines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from understudy.clusters.request_rules import Effect
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.trials.experiments.each_broker import Broker, Brokers, on_each, to_all
from understudy.trials.experiments.injecting import CannotInject, Undo
from understudy.trials.experiments.language.actions import Action, Links, OnZooKeeper, RequestFault

if TYPE_CHECKING:
    from understudy.clusters.processes.local_cluster import LocalCluster

EFFECTS: Final = {
    "hold": Effect.HOLD,
    "delay-request": Effect.DELAY,
    "drop-request": Effect.CUT_BEFORE,
    "drop-answer": Effect.LOSE_ANSWER,
    "drop-connection": Effect.CUT_AFTER,
    "duplicate": Effect.DUPLICATE,
    "corrupt": Effect.CORRUPT,
    "shorten": Effect.SHORTEN,
}
"""The effect of a rule for requests, by the action that makes it."""
_ALONE: Final = "it needs other brokers: the target, or ZooKeeper, is all that is named"


def on_links(
    cluster: LocalCluster | SimulatedCluster, action: Links, brokers: Brokers, peers: Sequence[int]
) -> Undo | None:
    """Do an action to the links of each broker with the others, and with ZooKeeper if it is named."""
    others, servers = _others(brokers, peers), _servers_among(cluster, action)
    if not others and action.name in ("delay", "throttle", "split"):
        raise CannotInject(_ALONE)
    if not others and not servers and action.name == "refuse":
        raise CannotInject("it needs other brokers, or zookeeper: the target is all that is named")

    def change(broker: Broker, *, begins: bool) -> None:
        match action.name:
            case "cut":
                _cut(broker.id, begins)
            case "reset" if begins:
                if servers:
                    cluster.reset_zookeeper_connection(broker.id, servers)
                if others:
                    cluster.reset(broker.id, others)
            case "refuse":
                if others:
                    cluster.refuse(broker.id, others, begins)
                if servers:
                    cluster.refuse_to_zookeeper(broker.id, begins, servers)
            case "delay":
                cluster.delay(broker.id, others, action.by.ms * begins)
            case "throttle":
                cluster.throttle(broker.id, others, action.bytes * begins)
            case "split":
                cluster.split(broker.id, others, action.bytes * begins)

    def _cut(broker_id: int, begins: bool) -> None:
        requests, answers = action.direction != "received", action.direction != "sent"
        if servers and begins:
            cluster.cut_from_zookeeper(broker_id, requests=requests, answers=answers, servers=servers)
        elif servers:
            cluster.heal_zookeeper(broker_id, servers)
        if others and begins:
            cluster.cut(broker_id, others, direction=action.direction or "both")
        elif others:
            cluster.heal_between(broker_id, others)

    return on_each(brokers, lambda each: change(each, begins=True), lambda each: change(each, begins=False))


def cut_zookeeper(
    cluster: LocalCluster | SimulatedCluster,
    action: OnZooKeeper,
    servers: Sequence[int],
    brokers: Sequence[int],
    *,
    begins: bool,
) -> None:
    """Cut servers of ZooKeeper from the other servers that an action names, and from brokers; or end that."""
    others = [server for server in _servers_among(cluster, action) if server not in servers]
    for server in servers if others else ():
        cluster.cut_zookeeper_server(server, others, begins)
    for broker in brokers:
        if begins:
            cluster.cut_from_zookeeper(broker, servers=servers)
        else:
            cluster.heal_zookeeper(broker, servers)


def _servers_among(cluster: LocalCluster | SimulatedCluster, action: Action) -> tuple[int, ...]:
    """Return the ids of the ZooKeeper servers among the peers of an action. Raises ClusterError."""
    named = [peer.name for peer in action.peers if peer.role == "zookeeper"]
    return tuple(dict.fromkeys(server for name in named for server in cluster.zookeeper_servers(name)))


def on_next_requests(
    cluster: LocalCluster | SimulatedCluster, action: RequestFault, brokers: Brokers, peers: Sequence[int]
) -> Undo:
    """Inject a fault into the next request that each broker sends to the others."""
    others, effect = _others(brokers, peers), EFFECTS[action.name]
    if not others:
        raise CannotInject(_ALONE)
    names = [
        cluster.add_rule(broker.id, others, effect, api=action.api, delay_ms=action.by.ms, count=action.count or 1)
        for broker in brokers
    ]
    return lambda: to_all(cluster.remove_rule, names)


def _others(brokers: Brokers, peers: Sequence[int]) -> list[int]:
    own = {broker.id for broker in brokers}
    return [peer for peer in peers if peer not in own]
