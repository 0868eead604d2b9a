"""The types of the actions on brokers that run in real time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from understudy.brokers.machine.injected_faults import ClockFault, DiskFault
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.trials.experiments.engine import Undo


class MachineFaultsOfBrokers(Protocol):
    """What the actions use of the faults of clocks and disks; see `machines.Machines`."""

    def add(self, broker: LocalBroker, fault: DiskFault) -> None: ...

    def remove(self, broker: LocalBroker, name: str) -> None: ...

    def set_clock(self, broker: LocalBroker, change: Callable[[ClockFault, float], ClockFault]) -> None: ...


class ActionEngine(Protocol):
    """What the actions use of their engine."""

    cluster: LocalCluster

    @property
    def machines(self) -> MachineFaultsOfBrokers: ...

    @property
    def seed(self) -> int: ...

    def after(self, ms: float, action: Callable[[], None]) -> None: ...

    def resume_at(self, broker_id: int, point: str, lasts_ms: float) -> None: ...


Brokers: TypeAlias = Sequence[LocalBroker]
Options: TypeAlias = Mapping[str, Any]
LiveAction: TypeAlias = Callable[[ActionEngine, Brokers, Any, Options], Undo | None]
