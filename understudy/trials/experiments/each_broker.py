"""Does the same to each broker of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from understudy.trials.experiments.injecting import Undo

if TYPE_CHECKING:
    from understudy.clusters.processes.local_broker import LocalBroker
    from understudy.clusters.simulated.broker import SimulatedBroker

Broker: TypeAlias = "LocalBroker | SimulatedBroker"
Brokers: TypeAlias = "Sequence[Broker]"
T = TypeVar("T")


def on_each(
    brokers: Brokers, act: Callable[[Broker], None], undo: Callable[[Broker], None] | None = None
) -> Undo | None:
    """Do `act` to each broker, and return a function that does `undo` to each; None without `undo`."""
    to_all(act, brokers)
    return None if undo is None else lambda: to_all(undo, brokers)


def to_all(act: Callable[[T], object], values: Iterable[T]) -> None:
    """Do `act` to each value, in order."""
    for each in values:
        act(each)


def begin_start(broker: Broker) -> None:
    """Start a broker without waiting for it. Harmless if it runs."""
    broker.begin_start()
