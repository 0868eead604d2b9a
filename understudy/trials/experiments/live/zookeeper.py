"""The faults of the ZooKeeper server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.live.action_types import ActionEngine, Brokers, LiveAction, Options


def _stop_zookeeper(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    zookeeper = engine.cluster.embedded_zookeeper
    if zookeeper is None or not zookeeper.is_running:
        raise CannotInject("ZooKeeper is not running")
    engine.cluster.record_fault("stop", "zookeeper")
    zookeeper.kill()
    return lambda: _start_zookeeper(engine, brokers, value, options)


def _start_zookeeper(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    zookeeper = engine.cluster.embedded_zookeeper
    if zookeeper is not None and not zookeeper.is_running:
        engine.cluster.record_fault("start", "zookeeper")
        zookeeper.start()


def _restart_zookeeper(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    _stop_zookeeper(engine, brokers, value, options)
    _start_zookeeper(engine, brokers, value, options)


def _pause_zookeeper(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    zookeeper = engine.cluster.embedded_zookeeper
    if zookeeper is None or not zookeeper.is_running:
        raise CannotInject("ZooKeeper is not running")
    engine.cluster.record_fault("pause", "zookeeper")
    zookeeper.pause()

    def end() -> None:
        engine.cluster.record_fault("resume", "zookeeper")
        zookeeper.resume()

    return end


ACTIONS: Final[Mapping[str, LiveAction]] = {
    "stop-zookeeper": _stop_zookeeper,
    "start-zookeeper": _start_zookeeper,
    "restart-zookeeper": _restart_zookeeper,
    "pause-zookeeper": _pause_zookeeper,
}
