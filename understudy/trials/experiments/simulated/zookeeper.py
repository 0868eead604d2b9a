"""The faults of the simulated ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.trials.experiments.each_broker import FLAP_MS, begin_repeating, to_all
from understudy.trials.experiments.engine import Undo
from understudy.trials.experiments.simulated.action_types import Brokers, Options, SimulatedAction


def _stop_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    cluster.stop_zookeeper()
    return cluster.start_zookeeper


def _start_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    cluster.start_zookeeper()


def _restart_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    cluster.stop_zookeeper()
    cluster.start_zookeeper()


def _pause_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    cluster.record_fault("pause", "zookeeper")
    cluster.zookeeper.pause()

    def end() -> None:
        cluster.record_fault("resume", "zookeeper")
        cluster.zookeeper.resume()

    return end


def _slow_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    cluster.record_fault("delay", "zookeeper")
    cluster.zookeeper.slow_ms = options["by"]

    def end() -> None:
        cluster.record_fault("heal", "zookeeper")
        cluster.zookeeper.slow_ms = 0.0

    return end


def _flap_zookeeper(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    def reset() -> None:
        for broker in brokers:
            cluster.reset_zookeeper_connection(broker.id)

    return begin_repeating(reset, options.get("every", FLAP_MS), cluster.after)


def _hold_watch(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        cluster.record_fault("hold-watch", f"{broker.name} -> zookeeper")
        cluster.zookeeper.hold_next_event(broker.name)
    return lambda: to_all(lambda broker: cluster.heal_zookeeper(broker.id), brokers)


ACTIONS: Final[Mapping[str, SimulatedAction]] = {
    "stop-zookeeper": _stop_zookeeper,
    "start-zookeeper": _start_zookeeper,
    "restart-zookeeper": _restart_zookeeper,
    "pause-zookeeper": _pause_zookeeper,
    "slow-zookeeper": _slow_zookeeper,
    "flap-zookeeper": _flap_zookeeper,
    "hold-watch": _hold_watch,
}
