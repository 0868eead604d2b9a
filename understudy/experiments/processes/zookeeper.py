"""The faults of the ZooKeeper process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.experiments.each_broker import FLAP_MS, begin_repeating, to_all
from understudy.experiments.engine import CannotInject, Undo
from understudy.experiments.processes.action_types import Brokers, Options, ProcessAction, Processes


def _stop_zookeeper(engine: Processes, brokers: Brokers, value: Any, options: Options) -> Undo:
    zookeeper = engine.cluster.embedded_zookeeper
    if zookeeper is None or not zookeeper.is_running:
        raise CannotInject("ZooKeeper is not running")
    engine.cluster.record_fault("stop", "zookeeper")
    zookeeper.kill()
    return lambda: _start_zookeeper(engine, brokers, value, options)


def _start_zookeeper(engine: Processes, brokers: Brokers, value: Any, options: Options) -> None:
    zookeeper = engine.cluster.embedded_zookeeper
    if zookeeper is not None and not zookeeper.is_running:
        engine.cluster.record_fault("start", "zookeeper")
        zookeeper.start()


def _restart_zookeeper(engine: Processes, brokers: Brokers, value: Any, options: Options) -> None:
    _stop_zookeeper(engine, brokers, value, options)
    _start_zookeeper(engine, brokers, value, options)


def _pause_zookeeper(engine: Processes, brokers: Brokers, value: Any, options: Options) -> Undo:
    zookeeper = engine.cluster.embedded_zookeeper
    if zookeeper is None or not zookeeper.is_running:
        raise CannotInject("ZooKeeper is not running")
    engine.cluster.record_fault("pause", "zookeeper")
    zookeeper.pause()

    def end() -> None:
        engine.cluster.record_fault("continue", "zookeeper")
        zookeeper.resume()

    return end


def _slow_zookeeper(engine: Processes, brokers: Brokers, value: Any, options: Options) -> Undo:
    engine.cluster.delay_zookeeper(options["by"])
    return lambda: engine.cluster.delay_zookeeper(0.0)


def _flap_zookeeper(engine: Processes, brokers: Brokers, value: Any, options: Options) -> Undo:
    def reset() -> None:
        for broker in brokers:
            engine.cluster.reset_zookeeper_connection(broker.id)

    return begin_repeating(reset, options.get("every", FLAP_MS), engine.after)


def _hold_watch(engine: Processes, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        engine.cluster.hold_next_event(broker.id)
    return lambda: to_all(lambda broker: engine.cluster.heal_zookeeper(broker.id), brokers)


ACTIONS: Final[Mapping[str, ProcessAction]] = {
    "stop-zookeeper": _stop_zookeeper,
    "start-zookeeper": _start_zookeeper,
    "restart-zookeeper": _restart_zookeeper,
    "pause-zookeeper": _pause_zookeeper,
    "slow-zookeeper": _slow_zookeeper,
    "flap-zookeeper": _flap_zookeeper,
    "hold-watch": _hold_watch,
}
