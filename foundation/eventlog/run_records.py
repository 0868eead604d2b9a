"""The records of one run as the metrics need them: by type, in order, in whole microseconds after the first."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from foundation.eventlog.records import Envelope, Payload

P = TypeVar("P", bound=Payload)


class Key(NamedTuple):
    """The place of a record in the total order of its run; `us` is microseconds after the run's first record."""

    us: int
    node: str
    incarnation: int
    seq: int


@dataclass(frozen=True, slots=True)
class At(Generic[P]):
    """A record with its place in the run."""

    key: Key
    data: P
    cause: int | None
    controller_epoch: int

    @property
    def us(self) -> int:
        return self.key.us

    @property
    def node(self) -> str:
        return self.key.node

    @property
    def incarnation(self) -> tuple[str, int]:
        return (self.key.node, self.key.incarnation)


class RunRecords:
    """All records of one run.

    Attributes:
        signs: the key of every record, in order.
        started_ms: the smallest wall clock, in milliseconds since 1970.
    """

    def __init__(self, records: Iterable[Envelope]) -> None:
        given = list(records)
        start = min((micros(record.mono_ms) for record in given), default=0)
        self.started_ms = min((record.wall_ms for record in given), default=0.0)
        self.signs: list[Key] = []
        self._by_type: dict[type, list[At[Any]]] = {}
        placed = [(Key(micros(r.mono_ms) - start, r.node, r.incarnation, r.seq), r) for r in given]
        for key, record in sorted(placed, key=lambda pair: pair[0]):
            self.signs.append(key)
            at = At(key, record.data, record.cause, record.controller_epoch)
            self._by_type.setdefault(type(record.data), []).append(at)

    def of(self, kind: type[P]) -> list[At[P]]:
        """Return all records of one type, in order."""
        return self._by_type.get(kind, [])


def micros(ms: float) -> int:
    """Return milliseconds as whole microseconds, rounded half up; Python and Spark both calculate with them."""
    return math.floor(ms * 1000 + 0.5)


def millis(us: int) -> float:
    return us / 1000


def optional_millis(us: int | None) -> float | None:
    return None if us is None else us / 1000


def broker_node(broker: int) -> str:
    """Return the node name of a broker."""
    return f"broker-{broker}"
