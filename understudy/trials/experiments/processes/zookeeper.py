"""The faults of the links to ZooKeeper, which the proxy injects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.trials.experiments.each_broker import FLAP_MS, begin_repeating, to_all
from understudy.trials.experiments.engine import Undo
from understudy.trials.experiments.live.action_types import ActionEngine, Brokers, LiveAction, Options


def _slow_zookeeper(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    engine.cluster.delay_zookeeper(options["by"])
    return lambda: engine.cluster.delay_zookeeper(0.0)


def _flap_zookeeper(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    def reset() -> None:
        for broker in brokers:
            engine.cluster.reset_zookeeper_connection(broker.id)

    return begin_repeating(reset, options.get("every", FLAP_MS), engine.after)


def _hold_watch(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        engine.cluster.hold_next_event(broker.id)
    return lambda: to_all(lambda broker: engine.cluster.heal_zookeeper(broker.id), brokers)


ACTIONS: Final[Mapping[str, LiveAction]] = {
    "slow-zookeeper": _slow_zookeeper,
    "flap-zookeeper": _flap_zookeeper,
    "hold-watch": _hold_watch,
}
