"""Finds the columns of each row that could have other values if no record of the run were missing.

A figure is in doubt if a record that may be missing could be evidence of it: each method below names the records that
a table's columns are computed from, by node and time. `MissingEvidence` says which of them may be missing. Whatever
cannot be excluded is in doubt; a row that is missing altogether has no mark, but the counts of rows in `totals` have.

The columns that identify a row, and those that repeat one record, are never in doubt. Columns that end in
`_within_ms` go with their figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import zip_longest
from typing import Final, NamedTuple, TypeVar

import msgspec

from understudy.foundation.eventlog.records import RunDescribed, ZkWrite, ZkWriteDone
from understudy.foundation.times import micros
from understudy.history.metrics.evidence import MissingEvidence, is_broker
from understudy.history.metrics.instants import Instant
from understudy.history.metrics.leadership_history import LastState, LeadershipHistory
from understudy.history.metrics.metric_tables import (
    EventNumbers,
    Failover,
    FenceHits,
    Moment,
    PartitionNumbers,
    Reign,
    Requests,
    RunMetrics,
    Table,
    Totals,
)
from understudy.history.metrics.reigns import (
    CONTROLLER,
    NOT_A_FAULT,
    ORDERLY_ENDS,
    Fault,
    Losses,
    ReignTimes,
    faults_of,
)
from understudy.history.metrics.settings import KAFKA_KRAFT, SETTING_NAMES, UNDERSTUDY, mode_of
from understudy.history.metrics.silences import Silences
from understudy.history.reading.missing import MissingRecords
from understudy.history.reading.run_records import RunRecords, broker_node

COUNTS: Final[dict[str, frozenset[str]]] = {
    "totals": frozenset(
        {"nodes", "incarnations", "records", "controllers", "partitions", "requests", "fence_hits", "let_through"}
    ),
    "partitions": frozenset({"writes"}),
    "elections": frozenset({"records", "partitions"}),
    "failed_elections": frozenset({"partitions"}),
    "failovers": frozenset({"requests"}),
    "requests": frozenset({"sent", "resent", "partitions", "answered", "failed", "max_ms"}),
    "refusals": frozenset({"requests", "partitions"}),
    "fence_hits": frozenset({"hits", "let_through"}),
    "events": frozenset({"queued", "started", "ended", "preempted", "not_done", "took_max_ms"}),
}
"""Columns that missing records can only make larger, by table: each counts records, or is the longest of their times.
If such a column is in doubt, its value is a lower bound. `is_upper_bound` says when the time without a controller is an
upper bound. All other columns that are in doubt may be wrong in both directions."""

_DONE = "Ok"
"""`ZkWriteDone.outcome` of a write that succeeded."""
_PROCESS_ENDS = ("kill", "crash", "power_loss")
"""Faults that end a process without notice, so that its session lives on until its timeout."""
_COUNTS_OF_EVENTS = ("queued", "started", "ended", "preempted", "not_done")
_TIMES_OF_EVENTS = ("queued_p50_ms", "queued_p99_ms", "took_p50_ms", "took_p99_ms", "took_max_ms")
_COUNTS_OF_REQUESTS = ("sent", "resent", "partitions", "answered", "failed", "p50_ms", "p99_ms", "max_ms")
_MOVEMENTS = ("clean_elections", "unclean_elections", "isr_shrinks", "isr_expands")

T = TypeVar("T", bound=Table)


def is_upper_bound(run: RunMetrics) -> bool:
    """Return whether `totals.without_controller_ms`, which is in doubt, is at least the right value up to the end that
    is on record.

    It is if only the reigns of other controllers may be missing: none of the reigns on record, the run's first among
    them, may have begun or ended at another time.
    """
    first = next(iter(run.reigns), None)
    return (
        first is not None
        and first.epoch == 1
        and first.ready_at_ms is not None
        and not any({"ready_at_ms", "ended_at_ms"}.intersection(reign.doubt) for reign in run.reigns)
    )


class ReignDoubt(NamedTuple):
    """The parts of a reign that are in doubt."""

    ready: bool
    """Whether it was ready, and when."""
    ended: bool
    """When it ended, and by what."""
    noticed: bool
    """When its loss was noticed, and by which node."""
    hides_others: bool
    """Whether other controllers may have been elected between it and the next one on record."""


class Doubts:
    """The columns in doubt of the rows of one run.

    Args:
        missing: at least one stretch.
        reigns: all reigns, by epoch.
        end: the end of the run.
    """

    def __init__(
        self, run: RunRecords, missing: Sequence[MissingRecords], reigns: Sequence[ReignTimes], end: Instant
    ) -> None:
        self._run = run
        self._reigns = reigns
        self._end = end
        self._history = LeadershipHistory(run, end)
        self.evidence = MissingEvidence(run, missing, reigns, self._history)
        self._missing = missing
        self._losses = Losses(run)
        self._silences = Silences(run)
        self._timeout_setting = "session_timeout_ms" in self.of_settings()
        self._faults = [fault for fault in faults_of(run) if fault.fault != NOT_A_FAULT]
        self.of_reigns = tuple(self._of_reign(place) for place in range(len(reigns)))
        self.moves_end = self._moves_end()
        self.changes_leaders = self.evidence.of_changes(-math.inf, math.inf)
        """Whether states of partitions may be missing."""

    # -------------------------------------------------------------- settings and totals

    def of_settings(self) -> set[str]:
        """A setting depends on the first `RunDescribed` that has it, or else on the records that it is derived from."""
        doubt, evidence = set(), self.evidence
        # A record that names one of these modes is not contradicted by another one.
        if mode_of(self._run) not in (KAFKA_KRAFT, UNDERSTUDY) and evidence.of_any(-math.inf, math.inf):
            doubt.add("mode")
        for name in (each for each in SETTING_NAMES if each != "mode"):
            known = (at.us for at in self._run.of(RunDescribed) if getattr(at.data, name) not in (None, ""))
            described = next(known, None)
            if evidence.of_testbed(-math.inf, math.inf if described is None else described):
                doubt.add(name)
            elif described is None:
                is_derived = name in ("partitions", "session_timeout_ms")
                if (is_derived and evidence.of_brokers(-math.inf, math.inf)) or (
                    name == "brokers" and self._hides_nodes()
                ):
                    doubt.add(name)
        return doubt

    def of_totals(self, totals: Totals, partitions: Sequence[PartitionNumbers]) -> set[str]:
        doubt, evidence = {"records", "started_ms"}, self.evidence  # the smallest wall clock may be any record's
        if evidence.moves_begin or self.moves_end:
            doubt.add("ended_at_ms")
        if self._hides_nodes():
            doubt.add("nodes")
        if any(not each.incarnation or not self._is_on_record(each) for each in self._missing):
            doubt.add("incarnations")
        hides_reigns = evidence.of_elections(-math.inf, math.inf)
        if hides_reigns:
            doubt.add("controllers")
        if hides_reigns or any(reign.ready or reign.ended for reign in self.of_reigns) or self._ends_without_controller:
            doubt.add("without_controller_ms")
        if self.changes_leaders:
            doubt |= {"partitions", *_MOVEMENTS}
        if self.changes_leaders or any("leaderless_ms" in row.doubt for row in partitions):
            doubt |= {"leaderless_ms", "leaderless_partitions"}
        if evidence.of_brokers(-math.inf, math.inf):
            doubt |= {"requests", "fence_hits", "let_through"}
        return doubt

    def _hides_nodes(self) -> bool:
        """Return whether a node may have left no record although it wrote some."""
        return any(each.node not in self._run.signs.nodes for each in self._missing)

    def _is_on_record(self, missing: MissingRecords) -> bool:
        return (missing.node, missing.incarnation) in self._run.signs.incarnations

    @property
    def _ends_without_controller(self) -> bool:
        """Whether there is no controller at the end of the run, and it may have ended at another time."""
        ready = [reign for reign in self._reigns if reign.ready is not None]
        return self.moves_end and bool(ready) and ready[-1].loss.ended is not None

    def _moves_end(self) -> bool:
        """Return whether the run may have ended at another time, as `Totals` defines its end."""
        if self.evidence.moves_end:
            return True
        if not self._reigns:
            return self.evidence.of_elections(-math.inf, math.inf)
        final, doubt = self._reigns[-1], self.of_reigns[-1]
        if doubt.ended or doubt.hides_others:
            return True
        ended = final.loss.ended
        if ended is None or final.loss.ended_by not in ORDERLY_ENDS:
            return False
        return self.evidence.of_brokers(ended.us, math.inf)

    # -------------------------------------------------------------- reigns and failovers

    def _of_reign(self, place: int) -> ReignDoubt:
        reign, evidence = self._reigns[place], self.evidence
        following = self._reigns[place + 1].elected if place + 1 < len(self._reigns) else None
        since, until = reign.elected.us, following.us if following else math.inf
        hides_others = evidence.of_elections(since, until)
        ended = self._ended(reign, until, hides_others)
        is_unnoticed = following is None and reign.loss.ended is None
        return ReignDoubt(
            ready=reign.ready is None and evidence.of_process(reign.elected.incarnation, since, math.inf),
            ended=ended,
            noticed=ended or (not is_unnoticed and evidence.of_brokers(since, until)),
            hides_others=hides_others,
        )

    def _ended(self, reign: ReignTimes, until: float, hides_others: bool) -> bool:
        """The last fault before the next election ends a reign; or else what its own node and others wrote."""
        evidence, elected, loss = self.evidence, reign.elected, reign.loss
        if loss.by_fault and loss.ended is not None:
            later = evidence.of_testbed(loss.ended.us, until) or evidence.of_node(elected.node, loss.ended.us, until)
            return later or (hides_others and not self._reigned_until_its_fault(reign, loss.ended.us, until))
        if evidence.of_testbed(elected.us, until):
            return True
        if until == math.inf and not hides_others:
            said = math.inf if loss.ended is None else loss.ended.us
            return evidence.of_node(elected.node, elected.us, said)
        if loss.ended_by == "silence":
            is_timed = evidence.of_node(elected.node, -math.inf, until) or self._timeout_setting
            return is_timed or evidence.of_brokers(elected.us, until)
        return hides_others or evidence.of_brokers(elected.us, until)

    def _reigned_until_its_fault(self, reign: ReignTimes, fault_us: int, until: float) -> bool:
        """Return whether a controller whose successor may be missing certainly reigned until its fault.

        The fault killed its process, or an earlier one did so shortly before that its session still lived.
        Neither ZooKeeper nor a connection of the node was disturbed since ZooKeeper confirmed its epoch, so nothing
        kept the controller from noticing a loss; and its own log is complete up to then, and has no loss.
        """
        elected = reign.elected
        since = [fault for fault in self._faults if elected.us <= fault.key.us <= until]
        own = [fault for fault in since if fault.target in reign.targets]
        first_us = own[0].key.us
        timeout = self._silences.session_timeout(elected.node, first_us) or 0
        is_killed = all(fault.fault in _PROCESS_ENDS for fault in own) and 2 * (fault_us - first_us) <= timeout
        confirmed_us = self._confirmed(reign, first_us)
        is_disturbed = any(
            confirmed_us <= fault.key.us < first_us and _may_isolate(fault, elected.node) for fault in since
        )
        is_complete = not self.evidence.of_process(elected.incarnation, elected.us, first_us)
        return is_killed and not is_disturbed and is_complete and not self._losses.words(elected, first_us)

    def _confirmed(self, reign: ReignTimes, until: int) -> int:
        """Return when ZooKeeper last answered that the epoch of a controller is the newest one, at or before `until`.

        Every fenced write is refused after the election of another controller.
        """
        elected = reign.elected
        fenced = {
            at.key.seq for at in self._run.of(ZkWrite) if at.data.fenced and at.incarnation == elected.incarnation
        }
        done = (
            at.us
            for at in self._run.of(ZkWriteDone)
            if at.incarnation == elected.incarnation and at.cause in fenced and at.data.outcome == _DONE
        )
        return max((us for us in done if elected.us <= us <= until), default=elected.us)

    def doubt_of(self, reign: ReignTimes) -> ReignDoubt:
        """Return the parts of one of the reigns that are in doubt."""
        return next(doubt for each, doubt in zip(self._reigns, self.of_reigns, strict=True) if each is reign)

    def may_have_ended_a_reign(self, fault: Fault) -> bool:
        """Return whether a fault may have ended a reign other than as it is on record."""
        us = fault.key.us
        on_record = (
            (reign, doubt)
            for reign, following, doubt in zip_longest(self._reigns, self._reigns[1:], self.of_reigns)
            if reign.elected.us <= us and (following is None or us <= following.elected.us)
        )
        if any(doubt.ended and fault.target in reign.targets for reign, doubt in on_record):
            return True
        may_be_controllers = fault.target == CONTROLLER or self.evidence.of_node(fault.target, -math.inf, us)
        return may_be_controllers and self.evidence.of_elections_around(us)

    def of_reign(self, row: Reign, doubt: ReignDoubt) -> set[str]:
        found = self.shifted(row, "elected_at_ms", "ready_at_ms", "ended_at_ms", "noticed_at_ms")
        found |= {"ready_at_ms"} if doubt.ready else set()
        found |= {"ended_at_ms", "ended_by", "by_fault"} if doubt.ended else set()
        found |= {"noticed_at_ms", "noticed_by"} if doubt.noticed else set()
        return found

    def of_failover(self, row: Failover, place: int) -> set[str]:
        """The takeover is in the new controller's log. The rest depends on how the reign before ended.

        Args:
            place: of the new reign among all reigns.
        """
        lost, new, reign = self.of_reigns[place - 1], self.of_reigns[place], self._reigns[place]
        evidence, process = self.evidence, reign.elected.incarnation
        since = reign.elected.us
        ready_us = math.inf if reign.ready is None else reign.ready.us
        doubt = self.shifted(row, "lost_at_ms")
        if lost.hides_others:
            doubt |= {"previous_epoch", "previous_broker"}
        if lost.ended or lost.hides_others:
            doubt |= {"cause", "by_fault", "lost_at_ms", "detection_ms", "outage_ms"}
        if lost.noticed or lost.hides_others:
            doubt |= {"noticed_by", "detection_ms", "election_ms"}
        if new.ready:
            doubt |= {"takeover_ms", "outage_ms", "brokers", "partitions"}
        if new.ready or evidence.of_process(process, since, ready_us):
            doubt |= {"reading_ms", "deciding_ms", "writing_ms"}
        if row.writing_ms is None and evidence.of_process(process, -math.inf, math.inf):
            doubt |= {"deciding_ms", "writing_ms"}
        # A request to a broker that cannot be reached may be sent at any later time.
        if evidence.of_process(process, since, math.inf):
            doubt |= {"propagation_ms", "requests", "unanswered"}
        return doubt

    # -------------------------------------------------------------- partitions

    def of_partitions(
        self, rows: Iterable[PartitionNumbers], history: LeadershipHistory
    ) -> Iterator[tuple[PartitionNumbers, set[str]]]:
        """States are written by controllers; the logs of a node, the testbed and controllers say when it was down."""
        of_alike = cache(self._of_partition)
        for row in rows:
            yield row, of_alike(row.leader, history.last_state(row.topic, row.partition))

    def _of_partition(self, leader: int | None, last: LastState | None) -> set[str]:
        """Return the columns in doubt of a partition; `leader` is None if it is deleted."""
        doubt: set[str] = set()
        if self.changes_leaders:
            doubt |= {"writes", "leaderless_ms", *_MOVEMENTS}
        if last is None:
            return doubt | ({"leader", "leader_epoch", "isr"} if self.changes_leaders else set())
        begins = last.until if leader is None else last.since
        if self.evidence.may_replace(begins, last.writer_epoch):
            doubt |= {"leader", "leader_epoch", "isr"}
        if any(self.leader_may_be_down(each, last.until) for each in last.leaders) or (
            self.moves_end and leader is not None and self.is_leaderless_at_the_end(leader)
        ):
            doubt.add("leaderless_ms")
        return doubt

    def leader_may_be_down(self, leader: int, until: float) -> bool:
        """Return whether a leader may have been down at other times up to `until`."""
        if leader < 0:
            return False
        evidence = self.evidence
        return (
            evidence.of_testbed(-math.inf, until)
            or evidence.of_node(broker_node(leader), -math.inf, until)
            or evidence.of_changes(-math.inf, until)
            or self._timeout_setting
        )

    def is_leaderless_at_the_end(self, leader: int) -> bool:
        return leader < 0 or self._history.is_down(broker_node(leader), self._end.us)

    # -------------------------------------------------------------- requests, fences, events

    def of_request_kind(self, row: Requests) -> set[str]:
        """Requests of controller events are in the logs of controllers; others in the logs of all brokers."""
        is_missing = self.changes_leaders if row.event else self.evidence.of_brokers(-math.inf, math.inf)
        return set(_COUNTS_OF_REQUESTS) if is_missing else set()

    def of_fence(self, row: FenceHits) -> set[str]:
        doubt = self.shifted(row, "first_at_ms")
        if self.evidence.of_node(row.node, -math.inf, math.inf):
            doubt |= {"hits", "let_through"}
        if self.evidence.of_node(row.node, -math.inf, micros(row.first_at_ms)):
            doubt.add("first_at_ms")
        return doubt

    def of_event(self, row: EventNumbers) -> set[str]:
        """Every broker has controller events, for example `Startup`."""
        is_missing = self.evidence.of_brokers(-math.inf, math.inf)
        return {*_COUNTS_OF_EVENTS, *_TIMES_OF_EVENTS} if is_missing else set()

    def of_moment(self, row: Moment) -> set[str]:
        return self.shifted(row, "at_ms")

    def shifted(self, row: Table, *columns: str) -> set[str]:
        """Return the times of a row that count from the run's first record, if that may be missing."""
        return {name for name in columns if getattr(row, name) is not None} if self.evidence.moves_begin else set()


def _may_isolate(fault: Fault, node: str) -> bool:
    """Return whether a fault of another target may keep a node from ZooKeeper: not of a broker, nor of a znode."""
    target = fault.target
    return (
        not is_broker(target)
        and not target.startswith("/")
        and any(name in target for name in (node, "zookeeper", "all"))
    )


def marked(row: T, doubt: Iterable[str]) -> T:
    """Return a row with its columns in doubt."""
    columns = tuple(sorted({*row.doubt, *doubt}))
    return msgspec.structs.replace(row, doubt=columns) if columns else row


def mark(doubts: Doubts, metrics: RunMetrics, history: LeadershipHistory) -> RunMetrics:
    """Return the tables of a run with the columns in doubt of each row.

    Args:
        history: of all states of the run.
    """
    in_leaders, in_brokers = doubts.changes_leaders, doubts.evidence.of_brokers(-math.inf, math.inf)
    partitions = tuple(marked(row, doubt) for row, doubt in doubts.of_partitions(metrics.partitions, history))
    return msgspec.structs.replace(
        metrics,
        settings=marked(metrics.settings, doubts.of_settings()),
        totals=marked(metrics.totals, doubts.of_totals(metrics.totals, partitions)),
        reigns=tuple(
            marked(row, doubts.of_reign(row, doubt))
            for row, doubt in zip(metrics.reigns, doubts.of_reigns, strict=True)
        ),
        failovers=tuple(
            marked(row, doubts.of_failover(row, place)) for place, row in enumerate(metrics.failovers, start=1)
        ),
        partitions=partitions,
        elections=tuple(
            marked(row, ("records", "partitions", "elected") if in_leaders else ()) for row in metrics.elections
        ),
        failed_elections=tuple(marked(row, ("partitions",) if in_leaders else ()) for row in metrics.failed_elections),
        requests=tuple(marked(row, doubts.of_request_kind(row)) for row in metrics.requests),
        refusals=tuple(marked(row, ("requests", "partitions") if in_brokers else ()) for row in metrics.refusals),
        fence_hits=tuple(marked(row, doubts.of_fence(row)) for row in metrics.fence_hits),
        events=tuple(marked(row, doubts.of_event(row)) for row in metrics.events),
        moments=tuple(marked(row, doubts.of_moment(row)) for row in metrics.moments),
    )
