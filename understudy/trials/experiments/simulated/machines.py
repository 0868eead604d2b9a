"""The faults of the clocks and disks of simulated brokers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.trials.experiments.disk_damage import DAMAGES, Damage, copy, restore
from understudy.trials.experiments.disk_faults import DISK_FAULTS, DiskFaultKind
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.simulated.action_types import Brokers, Options, SimulatedAction

_numbers = itertools.count(1)


def not_injected(cluster: SimulatedCluster) -> list[str]:
    """The faults of disks that have met no operation so far, in words."""
    return [
        f"{name.partition(' ')[0]}: {broker.name} did not use its disk so"
        for broker in cluster.brokers
        for name in broker.node.disk.faults.missed()
    ]


def heal(broker: SimulatedBroker) -> None:
    """End all faults of a broker's disk and clock."""
    broker.node.disk.clear_faults()
    broker.node.clock.correct()


# ------------------------------------------------------------------ clocks


def _step_clock(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        cluster.record_fault("step-clock", broker.name)
        broker.node.clock.offset_ms += options["by"]
    return _correcting(cluster, brokers)


def _drift_clock(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        cluster.record_fault("drift-clock", broker.name)
        broker.node.clock.run_at(options["percent"] / 100)
    return _correcting(cluster, brokers)


def _freeze_clock(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    for broker in brokers:
        cluster.record_fault("freeze-clock", broker.name)
        broker.node.clock.run_at(0.0)
    return _correcting(cluster, brokers)


def _correcting(cluster: SimulatedCluster, brokers: Brokers) -> Undo:
    def end() -> None:
        for broker in brokers:
            cluster.record_fault("correct-clock", broker.name)
            broker.node.clock.correct()

    return end


# ------------------------------------------------------------------ disks


def _disk_fault(fault: str, kind: DiskFaultKind) -> SimulatedAction:
    def perform(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
        name = f"{fault} {next(_numbers)}"
        for broker in brokers:
            cluster.record_fault(fault, broker.name)
            for operation in kind.operations:
                if kind.error:
                    broker.node.disk.faults.fail("", operation, kind.error, name=name)
                else:
                    broker.node.disk.faults.slow(operation, options["by"], name=name)
        return _removing(cluster, brokers, name)

    return perform


def _skip_flushes(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    name = f"skip-flushes {next(_numbers)}"
    for broker in brokers:
        cluster.record_fault("skip-flushes", broker.name)
        broker.node.disk.faults.skip_flushes(name=name)
    return _removing(cluster, brokers, name)


def _removing(cluster: SimulatedCluster, brokers: Brokers, name: str) -> Undo:
    def end() -> None:
        for broker in brokers:
            cluster.record_fault("heal-disk", broker.name)
            broker.node.disk.faults.remove(name)

    return end


def _tear_append(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> Undo:
    name = f"tear-append {next(_numbers)}"
    for broker in brokers:
        cluster.record_fault("tear-append", broker.name)
        broker.node.disk.faults.end_in_append(broker.kill, name=name)

    def end() -> None:
        for broker in brokers:
            broker.node.disk.faults.remove(name)
            broker.begin_start()

    return end


def _damage(fault: str, damage: Damage) -> SimulatedAction:
    """An action that kills brokers, damages their disks, and starts them again."""

    def perform(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
        for broker in brokers:
            if broker.is_running:
                broker.kill()
            cluster.record_fault(fault, broker.name)
            try:
                damage(broker.node.disk, options.get("count", 1))
            except CannotInject:
                broker.begin_start()
                raise
            cluster.after(options["lasts"], broker.begin_start)

    return perform


def _roll_back_disk(cluster: SimulatedCluster, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        cluster.record_fault("copy-disk", broker.name)
        copied = copy(broker.node.disk)

        def roll_back(broker: SimulatedBroker = broker, copied: Any = copied) -> None:
            if broker.is_running:
                broker.kill()
            cluster.record_fault("roll-back-disk", broker.name)
            restore(broker.node.disk, copied)
            broker.begin_start()

        cluster.after(options["lasts"], roll_back)


ACTIONS: Final[Mapping[str, SimulatedAction]] = {
    "step-clock": _step_clock,
    "drift-clock": _drift_clock,
    "freeze-clock": _freeze_clock,
    **{name: _disk_fault(name, kind) for name, kind in DISK_FAULTS.items()},
    "skip-flushes": _skip_flushes,
    "tear-append": _tear_append,
    **{name: _damage(name, damage) for name, damage in DAMAGES.items()},
    "roll-back-disk": _roll_back_disk,
}
