"""The types of the actions on processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from understudy.experiments.engine import Undo
from understudy.testbed.local_broker import LocalBroker
from understudy.testbed.local_cluster import LocalCluster


class Processes(Protocol):
    """What the actions use of their engine."""

    cluster: LocalCluster

    @property
    def seed(self) -> int: ...

    def after(self, ms: float, action: Callable[[], None]) -> None: ...

    def resume_at(self, broker_id: int, point: str, lasts_ms: float) -> None: ...


Brokers: TypeAlias = Sequence[LocalBroker]
Options: TypeAlias = Mapping[str, Any]
ProcessAction: TypeAlias = Callable[[Processes, Brokers, Any, Options], Undo | None]
