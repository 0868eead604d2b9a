"""The faults of links between simulated brokers, their clients and ZooKeeper."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any, Final

from understudy.clusters.request_rules import Effect, Rule
from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.randomness import derived
from understudy.clusters.simulated.zookeeper import LostAnswer
from understudy.clusters.values import Target
from understudy.foundation.wire.registry import APIS
from understudy.trials.experiments.each_broker import begin_swizzle, to_all
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.simulated.action_types import Brokers, Options, SimulatedAction

_API_KEYS: Final = {api.name: api.key for api in APIS}
_numbers = itertools.count(1)


def _with_zookeeper(options: Options) -> bool:
    return any(isinstance(peer, Target) and peer.role == "zookeeper" for peer in options["peers"])


def _cut(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    direction = options.get("direction", "both")
    others = _other_ids(brokers, options["peer_ids"])
    for broker in brokers:
        if _with_zookeeper(options):
            cluster.cut_from_zookeeper(broker.id, requests=direction != "received", answers=direction != "sent")
        if others and direction == "received":
            cluster.cut(others, [broker.id], one_way=True)
        elif others:
            cluster.cut([broker.id], others, one_way=direction == "sent")

    def end() -> None:
        for broker in brokers:
            if _with_zookeeper(options):
                cluster.heal_zookeeper(broker.id)
            for other in others:
                cluster.network.heal_between([broker.name], [cluster.broker(other).name])

    return end


def _other_ids(brokers: Brokers, peer_ids: Collection[int]) -> list[int]:
    own = {broker.id for broker in brokers}
    return [peer for peer in peer_ids if peer not in own]


def _other_brokers(brokers: Brokers, options: Options) -> list[int]:
    others = _other_ids(brokers, options["peer_ids"])
    if not others:
        raise CannotInject("it needs other brokers: the target, or ZooKeeper, is all that is named")
    return others


def _names(ids: Collection[int]) -> list[str]:
    return [f"broker-{each}" for each in ids]


def _reset(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        if _with_zookeeper(options):
            cluster.reset_zookeeper_connection(broker.id)
        if options["peer_ids"]:
            cluster.record_fault("reset", f"{broker.name} -> all")
            cluster.network.reset(broker.name)


def _delay(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _other_brokers(brokers, options)
    for broker in brokers:
        cluster.delay(broker.id, others, options["by"])
    return lambda: to_all(lambda broker: cluster.delay(broker.id, others, 0.0), brokers)


def _throttle(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _names(_other_brokers(brokers, options))

    def limit(broker: SimulatedBroker, bytes_per_s: float) -> None:
        cluster.record_fault("throttle" if bytes_per_s else "heal", f"{broker.name} -> {', '.join(others)}")
        cluster.network.throttle([broker.name], others, bytes_per_s)

    to_all(lambda broker: limit(broker, options["bytes"]), brokers)
    return lambda: to_all(lambda broker: limit(broker, 0.0), brokers)


def _split(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _names(_other_brokers(brokers, options))

    def split(broker: SimulatedBroker, piece_bytes: int) -> None:
        cluster.record_fault("split" if piece_bytes else "heal", f"{broker.name} -> {', '.join(others)}")
        cluster.network.split([broker.name], others, piece_bytes)

    to_all(lambda broker: split(broker, options["bytes"]), brokers)
    return lambda: to_all(lambda broker: split(broker, 0), brokers)


def _refuse(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _names(_other_ids(brokers, options["peer_ids"]))
    if not others and not _with_zookeeper(options):
        raise CannotInject("it needs other brokers, or zookeeper: the target is all that is named")

    def refuse(broker: SimulatedBroker, is_refusing: bool) -> None:
        if others:
            cluster.record_fault("refuse" if is_refusing else "heal", f"{broker.name} -> {', '.join(others)}")
            cluster.network.refuse([broker.name], others, is_refusing)
        if _with_zookeeper(options) and is_refusing:
            cluster.record_fault("refuse", f"{broker.name} -> zookeeper")
            cluster.zookeeper.cut(broker.name)
        elif _with_zookeeper(options):
            cluster.heal_zookeeper(broker.id)

    to_all(lambda broker: refuse(broker, True), brokers)
    return lambda: to_all(lambda broker: refuse(broker, False), brokers)


def _cut_clients(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    clients = cluster.simulator.name
    for broker in brokers:
        cluster.record_fault("cut", f"{broker.name} -> clients")
        cluster.network.partition([broker.name], [clients])

    def end() -> None:
        for broker in brokers:
            cluster.record_fault("heal", f"{broker.name} -> clients")
            cluster.network.heal_between([broker.name], [clients])

    return end


def _swizzle(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    return begin_swizzle(brokers, options["lasts"], cluster.after, derived(cluster.seed, "swizzle", cluster.now_ms))


def _on_next_request(effect: Effect) -> SimulatedAction:
    """An action on the next request that each broker sends to the others."""

    def perform(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
        others, api = _names(_other_brokers(brokers, options)), options.get("api")
        rules = [
            Rule(
                name=f"{effect.value}-{next(_numbers)}",
                sources=(broker.name,),
                destinations=tuple(others),
                effect=effect,
                api=None if api is None else _API_KEYS[api],
                delay_ms=options.get("by", 0.0),
                count=options.get("count", 1),
            )
            for broker in brokers
        ]
        for rule in rules:
            receivers = f"{', '.join(rule.sources)} -> {', '.join(others)}"
            cluster.record_fault(effect.value, f"{receivers}: {api or 'all requests'}")
            cluster.network.requests.add(rule)

        def end() -> None:
            for rule in rules:
                cluster.record_fault("heal", f"{rule.effect.value} of {', '.join(rule.sources)}")
                cluster.network.requests.remove(rule.name)

        return end

    return perform


def _heal(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        broker.heal()


def _lose_answer(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        cluster.record_fault("lose-answer", f"{broker.name} -> zookeeper")
        cluster.zookeeper.lost_answers.append(
            LostAnswer(broker.name, options["path"], applied=options.get("applied", True))
        )


ACTIONS: Final[Mapping[str, SimulatedAction]] = {
    "cut": _cut,
    "cut-clients": _cut_clients,
    "swizzle": _swizzle,
    "reset": _reset,
    "delay": _delay,
    "throttle": _throttle,
    "split": _split,
    "refuse": _refuse,
    "hold": _on_next_request(Effect.HOLD),
    "delay-request": _on_next_request(Effect.DELAY),
    "drop-request": _on_next_request(Effect.CUT_BEFORE),
    "drop-answer": _on_next_request(Effect.LOSE_ANSWER),
    "drop-connection": _on_next_request(Effect.CUT_AFTER),
    "duplicate": _on_next_request(Effect.DUPLICATE),
    "corrupt": _on_next_request(Effect.CORRUPT),
    "shorten": _on_next_request(Effect.SHORTEN),
    "heal": _heal,
    "lose-answer": _lose_answer,
}
