"""Says whether missing records may be evidence of something: in which windows, of which nodes and what they may hold.

All times are microseconds after the run's first record. Whatever cannot be excluded is possible.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from understudy.foundation.eventlog.records import WatchFiredRecord
from understudy.history.metrics.leadership_history import LeadershipHistory
from understudy.history.metrics.reigns import CONTROLLER, ReignTimes
from understudy.history.metrics.settings import BROKER_NODE
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.missing import TESTBED, MissingRecords
from understudy.history.reading.run_records import RunRecords

ALWAYS = (-math.inf, math.inf)


class Stretch(NamedTuple):
    """A stretch of time in which records of a node may be missing.

    A stretch up to the first or the last record of the run has no bound there, unless that record is the testbed's:
    the testbed writes before it starts the first broker and after it has stopped the last one.
    """

    since: float
    until: float
    node: str
    """Empty if it may be any broker."""
    incarnation: int
    """0 if it may be any."""

    @property
    def is_broker(self) -> bool:
        return not self.node or is_broker(self.node)

    def is_of(self, process: Incarnation) -> bool:
        """Whether the records may be of a process."""
        return self.is_of_node(process[0]) and self.incarnation in (0, process[1])

    def is_of_node(self, node: str) -> bool:
        return self.node == node or (not self.node and is_broker(node))


class _Times:
    """Stretches of time, for the question whether one of them meets another stretch."""

    def __init__(self, stretches: Iterable[tuple[float, float]]) -> None:
        self._since: list[float] = []
        self._until: list[float] = []
        for since, until in sorted(stretches):
            if self._until and since <= self._until[-1]:
                self._until[-1] = max(self._until[-1], until)
            else:
                self._since.append(since)
                self._until.append(until)

    def meet(self, since: float, until: float) -> bool:
        place = bisect_right(self._since, until)
        return since <= until and place > 0 and since <= self._until[place - 1]


class _Change(NamedTuple):
    """A stretch in which a controller may have written records about partitions that are missing."""

    since: float
    until: float
    epoch: float
    """The largest controller epoch that they can have."""


class _EpochGap(NamedTuple):
    """A time in which a controller may have been elected without a record of it, with an epoch up to `epoch`."""

    since: float
    until: float
    epoch: float


class MissingEvidence:
    """The records that are missing of a run.

    Args:
        missing: at least one stretch.
        reigns: the reigns that are on record, by epoch.
        history: of the partitions.
    """

    def __init__(
        self,
        run: RunRecords,
        missing: Sequence[MissingRecords],
        reigns: Sequence[ReignTimes],
        history: LeadershipHistory,
    ) -> None:
        self._stretches = tuple(_stretches(run, missing))
        self._times_by_name: dict[Hashable, _Times] = {}
        self.moves_begin = any(stretch.since == -math.inf for stretch in self._stretches)
        """Whether the run may have begun earlier, so that all times after its first record are too small."""
        self.moves_end = any(stretch.until == math.inf for stretch in self._stretches)
        """Whether the run may have gone on."""
        self._gaps = tuple(_epoch_gaps(run, reigns, self._stretches, history))
        changes = tuple(self._changes(reigns))
        self._change_times = _Times((each.since, each.until) for each in changes)
        self._last_change_us = max((each.until for each in changes), default=-math.inf)
        self._last_change_epoch = max((each.epoch for each in changes), default=-math.inf)

    def of_any(self, since: float, until: float) -> bool:
        """Return whether any records may be missing between two times, both included; likewise the methods below."""
        return self._times("any", lambda _: True).meet(since, until)

    def of_testbed(self, since: float, until: float) -> bool:
        """Return whether records of the testbed, or of another node that is no broker, may be missing."""
        return self._times("testbed", lambda stretch: not stretch.is_broker).meet(since, until)

    def of_brokers(self, since: float, until: float) -> bool:
        """Return whether records of any broker may be missing."""
        return self._times("brokers", lambda stretch: stretch.is_broker).meet(since, until)

    def of_node(self, node: str, since: float, until: float) -> bool:
        """Return whether records of a node may be missing."""
        return self._times(("node", node), lambda stretch: stretch.is_of_node(node)).meet(since, until)

    def of_process(self, process: Incarnation, since: float, until: float) -> bool:
        """Return whether records of one incarnation may be missing."""
        return self._times(process, lambda stretch: stretch.is_of(process)).meet(since, until)

    def of_changes(self, since: float, until: float) -> bool:
        """Return whether a controller's records about partitions may be missing."""
        return self._change_times.meet(since, until)

    def may_replace(self, us: float, writer_epoch: int) -> bool:
        """Return whether a missing state may be newer than a state from some time, which a controller of
        `writer_epoch` wrote."""
        return self._last_change_us >= us or self._last_change_epoch > writer_epoch

    def of_elections(self, since: float, until: float) -> bool:
        """Return whether the election of another controller may be missing: an epoch is not on record, and the log of
        a broker is missing at that time."""
        return any(self.of_brokers(max(since, gap.since), min(until, gap.until)) for gap in self._gaps)

    def of_elections_around(self, us: float) -> bool:
        """Return whether a controller may have reigned at a time whose election is missing."""
        return any(gap.since <= us <= gap.until and self.of_elections(gap.since, us) for gap in self._gaps)

    def _times(self, name: Hashable, is_meant: Callable[[Stretch], bool]) -> _Times:
        """Return the times of the stretches that are meant, which have a name of their own."""
        found = self._times_by_name.get(name)
        if found is None:
            meant = ((each.since, each.until) for each in self._stretches if is_meant(each))
            found = self._times_by_name[name] = _Times(meant)
        return found

    def _changes(self, reigns: Sequence[ReignTimes]) -> Iterator[_Change]:
        for stretch in self._stretches:
            if not stretch.is_broker:
                if stretch.node not in _TESTBEDS:
                    yield _Change(stretch.since, stretch.until, math.inf)
                continue
            for reign in reigns:
                if stretch.is_of(reign.elected.incarnation) and reign.elected.us <= stretch.until:
                    since = max(stretch.since, reign.elected.us)
                    yield _Change(since, stretch.until, reign.elected.data.epoch)
            for gap in self._gaps:
                since = max(stretch.since, gap.since)
                if since <= min(stretch.until, gap.until):
                    yield _Change(since, stretch.until, gap.epoch)


_BROKER = re.compile(BROKER_NODE)
_TESTBEDS = (TESTBED, "simulator")
"""Nodes that inject faults, and write no record about partitions."""


def is_broker(node: str) -> bool:
    """Return whether a node, or the target of a fault, is a broker."""
    return _BROKER.fullmatch(node) is not None


def _stretches(run: RunRecords, missing: Sequence[MissingRecords]) -> Iterator[Stretch]:
    first_us, last_us = 0, run.signs.last_us
    is_testbeds = {first_us: False, last_us: False}
    if not any(stretch.node in _TESTBEDS for stretch in missing):
        own = [process for process in run.signs.incarnations if process[0] in _TESTBEDS]
        is_testbeds = {us: any(run.signs.last_until(process, us) == us for process in own) for us in is_testbeds}
    for each in missing:
        since, until = float(each.from_us), float(each.until_us)
        if each.from_us <= first_us and not is_testbeds[first_us]:
            since = -math.inf
        if each.until_us >= last_us and not is_testbeds[last_us]:
            until = math.inf
        yield Stretch(since, until, each.node, each.incarnation)


def _epoch_gaps(
    run: RunRecords, reigns: Sequence[ReignTimes], stretches: Sequence[Stretch], history: LeadershipHistory
) -> Iterator[_EpochGap]:
    """Yield the times at which another controller may have been elected: `/controller_epoch` grows by 1 each time."""
    if not reigns:
        yield _EpochGap(*ALWAYS, math.inf)
        return
    first, last = reigns[0].elected, reigns[-1].elected
    if first.data.epoch > 1:
        yield _EpochGap(-math.inf, first.us, first.data.epoch - 1)
    for before, after in pairwise(reign.elected for reign in reigns):
        if after.data.epoch > before.data.epoch + 1:
            yield _EpochGap(before.us, after.us, after.data.epoch - 1)
    if not _reigned_to_the_end(run, reigns[-1], stretches, history):
        yield _EpochGap(last.us, math.inf, math.inf)


def _reigned_to_the_end(
    run: RunRecords, reign: ReignTimes, stretches: Sequence[Stretch], history: LeadershipHistory
) -> bool:
    """Return whether the last controller on record was the run's last: nothing ended its reign, and another broker
    with a complete log lived to the end and was not notified that `/controller` is deleted."""
    if reign.loss.ended is not None or any(not stretch.node for stretch in stretches):
        return False
    watchers = {
        node
        for node in run.signs.nodes
        if is_broker(node)
        and node != reign.elected.node
        and not any(stretch.is_of_node(node) for stretch in stretches)
        and not history.is_down(node, run.signs.last_us)
    }
    was_deleted = any(
        at.data.path == CONTROLLER and at.data.kind == "deleted" and at.us >= reign.elected.us
        for at in run.of(WatchFiredRecord)
    )
    return bool(watchers) and not was_deleted
