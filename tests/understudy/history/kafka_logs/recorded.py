"""What event logs record of a cluster, to compare two sets: elections of controllers, partition states, times."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from understudy.foundation.eventlog.records import (
    BrokersChanged,
    ControllerElected,
    Envelope,
    Leadership,
    LeadershipWritten,
    RequestSent,
    RunDescribed,
    SessionOpened,
    StepReached,
    TopicsChanged,
)
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read


class Recorded(NamedTuple):
    """Records by subject, with their times in milliseconds since 1970."""

    records: tuple[Envelope, ...]

    @property
    def elections(self) -> dict[int, tuple[int, float]]:
        """The broker and the time of each election, by controller epoch."""
        return {
            record.data.epoch: (record.data.broker_id, record.wall_ms)
            for record in self.records
            if isinstance(record.data, ControllerElected)
        }

    @property
    def brokers_by_epoch(self) -> dict[int, int]:
        return {epoch: broker for epoch, (broker, _) in self.elections.items()}

    def states(self, why: str | None = None) -> dict[Leadership, tuple[str, float]]:
        """The reason and the time of each partition state that was written; `why` selects one reason."""
        return {
            state: (record.data.why, record.wall_ms)
            for record in self.records
            if isinstance(record.data, LeadershipWritten) and why in (None, record.data.why)
            for state in record.data.partitions
        }

    @property
    def reasons(self) -> dict[Leadership, str]:
        return {state: why for state, (why, _) in self.states().items()}

    @property
    def deleted_topics(self) -> set[str]:
        return {
            topic for record in self.records if isinstance(record.data, TopicsChanged) for topic in record.data.deleted
        }

    @property
    def brokers_changed(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        return [(r.data.new, r.data.dead) for r in self.records if isinstance(r.data, BrokersChanged)]

    def requests(self) -> list[RequestSent]:
        return [record.data for record in self.records if isinstance(record.data, RequestSent)]

    def leaderless_ms(self, until_ms: float) -> dict[tuple[str, int], float]:
        """The time without a leader of each partition until a time; the records' clocks are replaced by wall clocks.

        The session timeout, which dates the silence of a broker that is gone, is left out: not every log has it, and
        silence is as long as a log has no lines. Without it such a broker is down from when it was seen to be gone.
        """
        records = [
            _by_wall_clock(record)
            for record in self.records
            if record.wall_ms <= until_ms and not isinstance(record.data, SessionOpened | RunDescribed)
        ]
        end = msgspec.structs.replace(
            records[-1],
            node="end",
            incarnation=1,
            seq=1,
            mono_ms=until_ms,
            wall_ms=until_ms,
            data=StepReached(step="end"),
        )
        metrics = measure("compared", [*records, end])
        return {(row.topic, row.partition): row.leaderless_ms for row in metrics.partitions}


def recorded(*folders: Path) -> Recorded:
    """Read event logs; there must be no damage in them."""
    reading = read(folders)
    assert reading.findings == ()
    return Recorded(tuple(sorted(reading.records, key=lambda record: record.wall_ms)))


def both(first: Recorded, second: Recorded) -> Recorded:
    return Recorded(tuple(sorted((*first.records, *second.records), key=lambda record: record.wall_ms)))


def largest_difference(first: Recorded, second: Recorded, states: Iterable[Leadership]) -> float:
    """The largest difference between the times that two sets of logs give for the same states."""
    there, here = first.states(), second.states()
    return max((abs(there[state][1] - here[state][1]) for state in states), default=0.0)


def _by_wall_clock(record: Envelope) -> Envelope:
    return msgspec.structs.replace(record, run="compared", mono_ms=record.wall_ms)
