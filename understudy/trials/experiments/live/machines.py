"""The faults of the clocks and disks of brokers, which the brokers read from a file of faults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import msgspec

from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.machine.injected_faults import ClockFault, InjectedDiskFault, MachineFaults
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.trials.experiments.disk_faults import MachineFaultsOfBrokers, Operations

PROPERTIES: Final = {"understudy.faults.file": "faults.json"}
"""Properties that let a broker read the file of faults in its folder."""


class Machines(MachineFaultsOfBrokers):
    """The faults of all brokers' clocks and disks."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._disks: dict[int, list[InjectedDiskFault]] = {}
        self._clocks: dict[int, ClockFault] = {}
        self._injected: list[tuple[str, int]] = []
        """The name and the broker of each fault of a disk that was injected."""

    def step_clock(self, broker_id: int, by_ms: float) -> None:
        clock = self._clock(broker_id)
        self._set_clock(broker_id, msgspec.structs.replace(clock, offset_ms=clock.offset_ms + by_ms))

    def run_clock_at(self, broker_id: int, rate: float) -> None:
        now_ms = time.monotonic_ns() / 1e6
        shift_ms = self._clock(broker_id).shift(now_ms)
        self._set_clock(broker_id, ClockFault(offset_ms=shift_ms, rate=rate, since_ms=now_ms))

    def correct_clock(self, broker_id: int) -> None:
        self._set_clock(broker_id, ClockFault())

    def disk_of(self, broker_id: int) -> FileDisk:
        """Return the files of a broker; a running broker may change them meanwhile."""
        return FileDisk(Path(self._cluster.broker(broker_id).process.directory) / "data")

    def break_disk(self, broker_id: int, name: str, operations: Operations, delay_ms: float) -> None:
        self._add(
            broker_id,
            InjectedDiskFault(name=name, operations=operations.names, error=operations.error, delay_ms=delay_ms),
        )

    def tear_append(self, broker_id: int, name: str) -> None:
        self._cluster.broker(broker_id).process.should_run = False
        self._add(broker_id, InjectedDiskFault(name=name, operations=("append",), kills=True))

    def mend_disk(self, broker_id: int, name: str) -> None:
        self._disks[broker_id] = [fault for fault in self._disks.get(broker_id, ()) if fault.name != name]
        self._write(broker_id)

    def not_injected(self) -> list[str]:
        """Describe the faults of disks that have affected no operation so far."""
        return [
            f"{name.partition('-no-')[0]}: broker-{broker_id} did not use its disk so"
            for name, broker_id in self._injected
            if name not in self._cluster.broker(broker_id).process.applied_faults()
        ]

    def heal(self) -> None:
        """End all faults."""
        for broker_id in {*self._disks, *self._clocks}:
            self._cluster.broker(broker_id).process.set_faults(MachineFaults())
        self._disks.clear()
        self._clocks.clear()

    def _add(self, broker_id: int, fault: InjectedDiskFault) -> None:
        self._injected.append((fault.name, broker_id))
        self._disks.setdefault(broker_id, []).append(fault)
        self._write(broker_id)

    def _clock(self, broker_id: int) -> ClockFault:
        return self._clocks.get(broker_id, ClockFault())

    def _set_clock(self, broker_id: int, fault: ClockFault) -> None:
        self._clocks[broker_id] = fault
        self._write(broker_id)

    def _write(self, broker_id: int) -> None:
        faults = MachineFaults(disk=tuple(self._disks.get(broker_id, ())), clock=self._clock(broker_id))
        self._cluster.broker(broker_id).process.set_faults(faults)
