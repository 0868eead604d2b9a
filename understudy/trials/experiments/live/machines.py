"""The faults of the clocks and disks of brokers, which the brokers read from a file of faults."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.machine.injected_faults import ClockFault, DiskFault, MachineFaults
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.trials.experiments.disk_damage import DAMAGES, Damage, copy, restore
from understudy.trials.experiments.disk_faults import DISK_FAULTS, DiskFaultKind
from understudy.trials.experiments.engine import CannotInject, Undo
from understudy.trials.experiments.live.action_types import ActionEngine, Brokers, LiveAction, Options

PROPERTIES: Final = {"understudy.faults.file": "faults.json"}
"""By these a broker reads the file of faults in its folder."""

_numbers = itertools.count(1)


class Machines:
    """The faults of all brokers' clocks and disks."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._disks: dict[int, list[DiskFault]] = {}
        self._clocks: dict[int, ClockFault] = {}
        self._injected: dict[str, int] = {}
        """The broker by the name of each fault of a disk that was injected."""

    def add(self, broker: LocalBroker, fault: DiskFault) -> None:
        self._injected[fault.name] = broker.id
        self._disks.setdefault(broker.id, []).append(fault)
        self._write(broker)

    def remove(self, broker: LocalBroker, name: str) -> None:
        """End a fault of a disk. Harmless if there is none of this name."""
        self._disks[broker.id] = [fault for fault in self._disks.get(broker.id, ()) if fault.name != name]
        self._write(broker)

    def set_clock(self, broker: LocalBroker, change: Callable[[ClockFault, float], ClockFault]) -> None:
        """Replace the fault of a clock by what `change` makes of it, and of the monotonic milliseconds now."""
        now_ms = time.monotonic_ns() / 1e6
        self._clocks[broker.id] = change(self._clocks.get(broker.id, ClockFault()), now_ms)
        self._write(broker)

    def not_injected(self) -> list[str]:
        """The faults of disks that have met no operation so far, in words."""
        return [
            f"{name.partition('-no-')[0]}: broker-{broker_id} did not use its disk so"
            for name, broker_id in self._injected.items()
            if name not in self._cluster.broker(broker_id).process.applied_faults()
        ]

    def heal(self) -> None:
        """End all faults."""
        for broker_id in {*self._disks, *self._clocks}:
            self._cluster.broker(broker_id).process.set_faults(MachineFaults())
        self._disks.clear()
        self._clocks.clear()

    def _write(self, broker: LocalBroker) -> None:
        disk = tuple(self._disks.get(broker.id, ()))
        broker.process.set_faults(MachineFaults(disk=disk, clock=self._clocks.get(broker.id, ClockFault())))


def disk_of(broker: LocalBroker) -> FileDisk:
    """The files of a broker; one that runs may change them meanwhile."""
    return FileDisk(Path(broker.process.directory) / "data")


# ------------------------------------------------------------------ clocks


def _clock(fault: str, change: Callable[[Options, ClockFault, float], ClockFault]) -> LiveAction:
    def perform(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
        for broker in brokers:
            engine.cluster.record_fault(fault, broker.name)
            engine.machines.set_clock(broker, lambda clock, now_ms: change(options, clock, now_ms))

        def end() -> None:
            for broker in brokers:
                engine.cluster.record_fault("correct-clock", broker.name)
                engine.machines.set_clock(broker, lambda clock, now_ms: ClockFault())

        return end

    return perform


def _stepped(options: Options, clock: ClockFault, now_ms: float) -> ClockFault:
    return ClockFault(offset_ms=clock.offset_ms + options["by"], rate=clock.rate, since_ms=clock.since_ms)


def _drifting(options: Options, clock: ClockFault, now_ms: float) -> ClockFault:
    return ClockFault(offset_ms=clock.shift(now_ms), rate=options.get("percent", 0.0) / 100, since_ms=now_ms)


# ------------------------------------------------------------------ disks


def _disk_fault(fault: str, kind: DiskFaultKind) -> LiveAction:
    def perform(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
        names = {broker: f"{fault}-no-{next(_numbers)}" for broker in brokers}
        delay_ms = 0.0 if kind.error else options["by"]
        for broker, name in names.items():
            engine.cluster.record_fault(fault, broker.name)
            engine.machines.add(
                broker, DiskFault(name=name, operations=kind.operations, error=kind.error, delay_ms=delay_ms)
            )

        def end() -> None:
            for broker, name in names.items():
                engine.cluster.record_fault("heal-disk", broker.name)
                engine.machines.remove(broker, name)

        return end

    return perform


def _tear_append(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> Undo:
    names = {broker: f"tear-append-no-{next(_numbers)}" for broker in brokers}
    for broker, name in names.items():
        engine.cluster.record_fault("tear-append", broker.name)
        broker.process.should_run = False
        engine.machines.add(broker, DiskFault(name=name, operations=("append",), kills=True))

    def end() -> None:
        for broker, name in names.items():
            engine.machines.remove(broker, name)
            _begin_start(broker)
            broker.process.should_run = True

    return end


def _begin_start(broker: LocalBroker) -> None:
    if not broker.is_running:
        broker.cluster.begin_start(broker.id)


def _damage(fault: str, damage: Damage) -> LiveAction:
    """An action that kills brokers, damages their files, and starts them again."""

    def perform(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
        for broker in brokers:
            if broker.is_running:
                broker.kill()
            engine.cluster.record_fault(fault, broker.name)
            try:
                damage(disk_of(broker), options.get("count", 1))
            except (CannotInject, OSError) as refused:
                _begin_start(broker)
                raise CannotInject(str(refused)) from None
            engine.after(options["lasts"], _calling(_begin_start, broker))

    return perform


def _roll_back_disk(engine: ActionEngine, brokers: Brokers, value: Any, options: Options) -> None:
    for broker in brokers:
        engine.cluster.record_fault("copy-disk", broker.name)
        try:
            copied = copy(disk_of(broker))
        except OSError as error:
            raise CannotInject(f"the files of {broker.name} cannot be copied: {error}") from None

        def roll_back(broker: LocalBroker = broker, copied: Any = copied) -> None:
            if broker.is_running:
                broker.kill()
            engine.cluster.record_fault("roll-back-disk", broker.name)
            try:
                restore(disk_of(broker), copied)
            except OSError as error:
                raise ClusterError(f"the files of {broker.name} cannot be replaced: {error}") from None
            _begin_start(broker)

        engine.after(options["lasts"], roll_back)


def _calling(act: Callable[[LocalBroker], object], broker: LocalBroker) -> Callable[[], None]:
    def call() -> None:
        act(broker)

    return call


ACTIONS: Final[Mapping[str, LiveAction]] = {
    "step-clock": _clock("step-clock", _stepped),
    "drift-clock": _clock("drift-clock", _drifting),
    "freeze-clock": _clock("freeze-clock", _drifting),
    **{name: _disk_fault(name, kind) for name, kind in DISK_FAULTS.items()},
    "tear-append": _tear_append,
    **{name: _damage(name, damage) for name, damage in DAMAGES.items()},
    "roll-back-disk": _roll_back_disk,
}
