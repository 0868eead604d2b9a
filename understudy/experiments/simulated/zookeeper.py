"""The faults of the simulated ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.experiments.engine import Undo
from understudy.experiments.simulated.action_types import Brokers, Options, SimulatedAction
from understudy.simulator.cluster import SimulatedCluster


def _stop_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    cluster.stop_zookeeper()
    return cluster.start_zookeeper


def _start_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    cluster.start_zookeeper()


ACTIONS: Final[Mapping[str, SimulatedAction]] = {
    "stop-zookeeper": _stop_zookeeper,
    "start-zookeeper": _start_zookeeper,
}
