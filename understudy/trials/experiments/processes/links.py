"""The faults of links between broker processes, their clients and ZooKeeper, which the proxy injects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.clusters.request_rules import Effect
from understudy.clusters.values import Target
from understudy.trials.experiments.each_broker import to_all
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.live.action_types import ActionEngine, Brokers, LiveAction, Options


def _with_zookeeper(options: Options) -> bool:
    return any(isinstance(peer, Target) and peer.role == "zookeeper" for peer in options["peers"])


def _other_ids(brokers: Brokers, options: Options) -> list[int]:
    own = {broker.id for broker in brokers}
    return [peer for peer in options["peer_ids"] if peer not in own]


def _other_brokers(brokers: Brokers, options: Options) -> list[int]:
    others = _other_ids(brokers, options)
    if not others:
        raise CannotInject("it needs other brokers: the target, or ZooKeeper, is all that is named")
    return others


def _cut(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    cluster, direction, others = engine.cluster, options.get("direction", "both"), _other_ids(brokers, options)
    for broker in brokers:
        if _with_zookeeper(options):
            cluster.cut_from_zookeeper(broker.id, requests=direction != "received", answers=direction != "sent")
        if others:
            cluster.cut(broker.id, others, direction=direction)

    def end() -> None:
        for broker in brokers:
            if _with_zookeeper(options):
                cluster.heal_zookeeper(broker.id)
            if others:
                cluster.heal_between(broker.id, others)

    return end


def _reset(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    others = _other_ids(brokers, options)
    for broker in brokers:
        if _with_zookeeper(options):
            engine.cluster.reset_zookeeper_connection(broker.id)
        if others:
            engine.cluster.reset(broker.id, others)


def _delay(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _other_brokers(brokers, options)
    for broker in brokers:
        engine.cluster.delay(broker.id, others, options["by"])
    return lambda: to_all(lambda broker: engine.cluster.delay(broker.id, others, 0.0), brokers)


def _throttle(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _other_brokers(brokers, options)
    for broker in brokers:
        engine.cluster.throttle(broker.id, others, options["bytes"])
    return lambda: to_all(lambda broker: engine.cluster.throttle(broker.id, others, 0.0), brokers)


def _refuse(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    cluster, others, with_zookeeper = engine.cluster, _other_ids(brokers, options), _with_zookeeper(options)
    if not others and not with_zookeeper:
        raise CannotInject("it needs other brokers, or zookeeper: the target is all that is named")
    for broker in brokers:
        if others:
            cluster.refuse(broker.id, others)
        if with_zookeeper:
            cluster.refuse_to_zookeeper(broker.id, True)

    def end() -> None:
        for broker in brokers:
            if others:
                cluster.accept(broker.id, others)
            if with_zookeeper:
                cluster.refuse_to_zookeeper(broker.id, False)

    return end


def _split(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    others = _other_brokers(brokers, options)
    for broker in brokers:
        engine.cluster.split(broker.id, others, options["bytes"])
    return lambda: to_all(lambda broker: engine.cluster.split(broker.id, others, 0), brokers)


def _cut_clients(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        engine.cluster.cut_from_clients(broker.id)
    return lambda: to_all(lambda broker: engine.cluster.heal_clients(broker.id), brokers)


def _expire(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        engine.cluster.expire_session(broker.id, broker.role)


def _lose_answer(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        engine.cluster.lose_answer(broker.id, options["path"], options.get("applied", True))


def _on_next_request(effect: Effect) -> LiveAction:
    """An action on the next request that each broker sends to the others."""

    def perform(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
        others = _other_brokers(brokers, options)
        names = [
            engine.cluster.add_rule(
                broker.id,
                others,
                effect,
                api=options.get("api"),
                delay_ms=options.get("by", 0.0),
                count=options.get("count", 1),
            )
            for broker in brokers
        ]

        def end() -> None:
            for name in names:
                engine.cluster.remove_rule(name)

        return end

    return perform


ACTIONS: Final[Mapping[str, LiveAction]] = {
    "cut": _cut,
    "cut-clients": _cut_clients,
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
    "expire": _expire,
    "lose-answer": _lose_answer,
}
