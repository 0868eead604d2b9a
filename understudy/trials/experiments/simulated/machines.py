"""The faults of the clocks and disks of simulated brokers."""

from __future__ import annotations

from understudy.clusters.simulated.clocks import SimulatedClock
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.clusters.simulated.disk import SimulatedDisk
from understudy.trials.experiments.disk_faults import MachineFaultsOfBrokers, Operations


class SimulatedMachines(MachineFaultsOfBrokers):
    """The faults of all brokers' clocks and disks."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def step_clock(self, broker_id: int, by_ms: float) -> None:
        self._clock(broker_id).offset_ms += by_ms

    def run_clock_at(self, broker_id: int, rate: float) -> None:
        self._clock(broker_id).run_at(rate)

    def correct_clock(self, broker_id: int) -> None:
        self._clock(broker_id).correct()

    def disk_of(self, broker_id: int) -> SimulatedDisk:
        return self._cluster.broker(broker_id).node.disk

    def break_disk(self, broker_id: int, name: str, operations: Operations, delay_ms: float) -> None:
        faults = self.disk_of(broker_id).faults
        for operation in operations.names:
            if operations.error:
                faults.fail("", operation, operations.error, name=name)
            else:
                faults.slow(operation, delay_ms, name=name)

    def skip_flushes(self, broker_id: int, name: str) -> None:
        self.disk_of(broker_id).faults.skip_flushes(name=name)

    def tear_append(self, broker_id: int, name: str) -> None:
        self.disk_of(broker_id).faults.end_in_append(self._cluster.broker(broker_id).kill, name=name)

    def mend_disk(self, broker_id: int, name: str) -> None:
        self.disk_of(broker_id).faults.remove(name)

    def not_injected(self) -> list[str]:
        """Describe the faults of disks that have affected no operation so far."""
        return [
            f"{name.partition('-no-')[0]}: {broker.name} did not use its disk so"
            for broker in self._cluster.brokers
            for name in broker.node.disk.faults.missed()
        ]

    def heal(self) -> None:
        """End all faults."""
        for broker in self._cluster.brokers:
            broker.node.disk.faults.clear()
            broker.node.clock.correct()

    def _clock(self, broker_id: int) -> SimulatedClock:
        return self._cluster.broker(broker_id).node.clock
