"""The faults of the ZooKeeper process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


ACTIONS: Final[Mapping[str, ProcessAction]] = {
    "stop-zookeeper": _stop_zookeeper,
    "start-zookeeper": _start_zookeeper,
}
