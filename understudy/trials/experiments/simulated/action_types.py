"""The types of the simulator's actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from understudy.clusters.simulated.broker import SimulatedBroker
from understudy.clusters.simulated.cluster import SimulatedCluster
from understudy.trials.experiments.engine import Undo

Brokers: TypeAlias = Sequence[SimulatedBroker]
Options: TypeAlias = Mapping[str, Any]
"""The values of an action's keys by attribute, drawn; `peer_ids` are the brokers that `peers` stands for."""
SimulatedAction: TypeAlias = Callable[[SimulatedCluster, Brokers, Any, Options], Undo | None]
