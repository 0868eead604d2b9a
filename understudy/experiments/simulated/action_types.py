"""The types of the simulator's actions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from understudy.experiments.engine import Undo
from understudy.simulator.broker import SimulatedBroker
from understudy.simulator.cluster import SimulatedCluster

Brokers: TypeAlias = Sequence[SimulatedBroker]
Options: TypeAlias = Mapping[str, Any]
"""The values of an action's keys by attribute, drawn; `peer_ids` are the brokers that `peers` stands for."""
SimulatedAction: TypeAlias = Callable[[SimulatedCluster, Brokers, Any, Options], Undo | None]
