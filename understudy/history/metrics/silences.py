"""Computes the silence of a node that was lost without a recorded fault, as `metric_tables` defines it."""

from __future__ import annotations

from bisect import bisect_right

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import SessionOpened
from understudy.history.metrics.instants import Instant
from understudy.history.metrics.settings import settings_row
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.run_records import RunRecords


class Silences:
    """The silences of a run. All times are microseconds."""

    def __init__(self, run: RunRecords) -> None:
        self._signs = run.signs
        self._setting_ms = settings_row(run).session_timeout_ms
        self._opened = grouped((opened.node, opened) for opened in run.of(SessionOpened))

    def began(self, incarnation: Incarnation, until: Instant) -> Instant | None:
        """Return when the silence before `until` began; None if no record has the session timeout.

        The incarnation must have a record at or before `until`.
        """
        timeout = self.session_timeout(incarnation[0], until.us)
        if timeout is None:
            return None
        last_sign = self._signs.last_until(incarnation, until.us)
        # ZooKeeper expires sessions at ticks, which may be half a session timeout apart.
        is_plausible = 2 * (until.us - last_sign) <= 3 * timeout
        return Instant(last_sign, incarnation) if is_plausible else Instant(until.us - timeout, until.on)

    def session_timeout(self, node: str, until: int) -> int | None:
        """Return the session timeout of a node at some time; None if no record has it."""
        opened = self._opened.get(node, ())
        place = bisect_right(opened, until, key=lambda at: at.us)
        timeout_ms = opened[place - 1].data.timeout_ms if place else self._setting_ms
        return None if timeout_ms is None else timeout_ms * 1000
