"""Computes the `Reign` and `Failover` rows of a run, as `metric_tables` defines them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import NamedTuple, Protocol, TypeVar

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import (
    BecameCandidate,
    ContextLoaded,
    ControllerElected,
    ControllerReady,
    ControllerResigned,
    ElectionLost,
    FaultInjected,
    PointReached,
    ProcessExiting,
    RequestSent,
    ResponseReceived,
    SessionExpiredRecord,
    WatchFiredRecord,
    ZkWrite,
    ZkWriteDone,
)
from understudy.history.metrics.instants import Instant, instant, last_instant, within_us
from understudy.history.metrics.metric_tables import Failover, Reign
from understudy.history.metrics.silences import Silences
from understudy.history.reading.run_records import (
    At,
    Key,
    RunRecords,
    first_by_cause,
    firsts,
    millis,
    optional_millis,
)

CONTROLLER = "/controller"
NOT_A_FAULT = "start"
ORDERLY_ENDS = ("stop", "exit")
"""What ends a reign in order. If it ends the last one, the time after it is no outage."""
UNDONE = ("resume", "continue", "heal")
"""Faults that end an earlier fault; older runs call `resume` `continue`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """When a reign ended and by what."""

    ended: Instant | None
    ended_by: str
    by_fault: bool
    noticed: Key | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReignTimes:
    """A reign in microseconds, before it becomes a row."""

    elected: At[ControllerElected]
    ready: At[ControllerReady] | None
    loss: Loss

    @property
    def targets(self) -> tuple[str, str]:
        """Targets of the faults that may end the reign."""
        return (self.elected.node, CONTROLLER)

    def row(self) -> Reign:
        loss = self.loss
        return Reign(
            epoch=self.elected.data.epoch,
            broker=self.elected.data.broker_id,
            node=self.elected.node,
            incarnation=self.elected.key.incarnation,
            elected_at_ms=millis(self.elected.us),
            ready_at_ms=optional_millis(self.ready.us if self.ready else None),
            ended_at_ms=optional_millis(loss.ended.us if loss.ended else None),
            ended_by=loss.ended_by,
            by_fault=loss.by_fault,
            noticed_at_ms=optional_millis(loss.noticed.us if loss.noticed else None),
            noticed_by=loss.noticed.node if loss.noticed else "",
        )


def find_reigns(run: RunRecords) -> list[ReignTimes]:
    """Return all reigns, by epoch."""
    elections = sorted(run.of(ControllerElected), key=lambda elected: (elected.data.epoch, elected.key))
    ready = firsts(((at.incarnation, at.data.epoch), at) for at in run.of(ControllerReady))
    losses = Losses(run)
    return [
        ReignTimes(
            elected=elected,
            ready=ready.get((elected.incarnation, elected.data.epoch)),
            loss=losses.of(elected, following),
        )
        for elected, following in zip_longest(elections, elections[1:])
    ]


def end_of_run(run: RunRecords, reigns: Sequence[ReignTimes]) -> Instant:
    """Return the end of the run, as `Totals` defines it."""
    last = last_instant(run)
    if not reigns:
        return last
    final = reigns[-1]
    ended = final.loss.ended
    if ended is None or final.loss.ended_by not in ORDERLY_ENDS:
        return last
    others = (node for node in run.signs.nodes if node.startswith("broker-") and node != final.elected.node)
    return last if any(run.signs.last_of(node) > ended.us for node in others) else ended


class Fault(NamedTuple):
    """An injected fault, or an armed point that was reached, with its action, node and name."""

    key: Key
    fault: str
    target: str
    role: str


def faults_of(run: RunRecords) -> list[Fault]:
    """Return the faults of a run, in order."""
    faults = [Fault(at.key, at.data.fault, at.data.target, at.data.role) for at in run.of(FaultInjected)]
    faults += [Fault(at.key, at.data.action, at.node, at.data.point) for at in run.of(PointReached)]
    return sorted(faults)


class _Gone(NamedTuple):
    """A node was notified that `/controller` is deleted, or became a candidate.

    `lost_to` and `lost_at` are the winner and time of the election that it lost next; None and 0 without one.
    """

    key: Key
    lost_to: int | None
    lost_at: int


class _Words(NamedTuple):
    """The last words of an incarnation as controller: what its record says about its end."""

    key: Key
    words: str


class Losses:
    """Finds out what ended each reign."""

    def __init__(self, run: RunRecords) -> None:
        self._run = run
        self._silences = Silences(run)
        self._faults = [fault for fault in faults_of(run) if fault.fault != NOT_A_FAULT]
        deleted = _controller_gone(run)
        self._gone = sorted([*deleted, *(_Gone(at.key, None, 0) for at in run.of(BecameCandidate))])
        self._last_words = sorted(
            [_Words(at.key, "exit") for at in run.of(ProcessExiting)]
            + [_Words(at.key, "session expired") for at in run.of(SessionExpiredRecord)]
            + [_Words(at.key, "resigned") for at in run.of(ControllerResigned)]
            + [_Words(gone.key, "deleted") for gone in deleted]
        )

    def of(self, elected: At[ControllerElected], following: At[ControllerElected] | None) -> Loss:
        until = following.us if following else None
        fault = self._fault(elected, until)
        if fault is not None:
            noticed = self._noticed(elected, fault.key.us, until)
            return Loss(ended=instant(fault.key), ended_by=fault.fault, by_fault=True, noticed=noticed)
        words = self.words(elected, until)
        if following is not None:
            noticed = self._noticed(elected, elected.us, until)
            last_us = self._run.signs.last_until(elected.incarnation, noticed.us if noticed else following.us)
            ended = Instant(last_us, elected.incarnation)
            if words is None and noticed is not None:
                ended = self._silences.began(elected.incarnation, instant(noticed)) or ended
            return Loss(ended=ended, ended_by=words.words if words else "silence", by_fault=False, noticed=noticed)
        if words is not None:
            return Loss(
                ended=instant(words.key),
                ended_by=words.words,
                by_fault=False,
                noticed=self._noticed(elected, words.key.us, until),
            )
        return Loss(ended=None, ended_by="", by_fault=False, noticed=None)

    def _fault(self, elected: At[ControllerElected], until: int | None) -> Fault | None:
        targets = (elected.node, CONTROLLER)
        faults = [fault for fault in _within(self._faults, elected.us, until) if fault.target in targets]
        return faults[-1] if faults and faults[-1].fault not in UNDONE else None

    def _noticed(self, elected: At[ControllerElected], since: int, until: int | None) -> Key | None:
        for gone in _within(self._gone, since, until):
            lost_then = elected.us <= gone.lost_at and (until is None or gone.lost_at <= until)
            echo = gone.lost_to == elected.data.broker_id and lost_then
            if gone.key.node != elected.node and not echo:
                return gone.key
        return None

    def words(self, elected: At[ControllerElected], until: int | None) -> _Words | None:
        """Return the first last words of a reign up to `until`."""
        for words in _within(self._last_words, elected.us, until):
            key = words.key
            if (key.node, key.incarnation) == elected.incarnation and key.seq > elected.key.seq:
                return words
        return None


class _Placed(Protocol):
    @property
    def key(self) -> Key: ...


Placed = TypeVar("Placed", bound=_Placed)


def _within(found: Sequence[Placed], since: int, until: int | None) -> Sequence[Placed]:
    """Return the items from `since` to `until`, both included; `found` is sorted by key."""
    first = bisect_left(found, since, key=_us)
    return found[first : None if until is None else bisect_right(found, until, key=_us)]


def _us(found: _Placed) -> int:
    return found.key.us


class _Notice(NamedTuple):
    """A node was notified that `/controller` is deleted (no `winner`), or lost an election to `winner`."""

    key: Key
    winner: int | None


def _controller_gone(run: RunRecords) -> list[_Gone]:
    news = [_Notice(at.key, at.data.winner) for at in run.of(ElectionLost)]
    news += [
        _Notice(at.key, None)
        for at in run.of(WatchFiredRecord)
        if at.data.path == CONTROLLER and at.data.kind == "deleted"
    ]
    news.sort(key=lambda news: (news.key.node, news.key.incarnation, news.key.seq))
    found = []
    for gone, following in zip_longest(news, news[1:]):
        if gone.winner is None:
            same = following is not None and following.key[1:3] == gone.key[1:3] and following.winner is not None
            found.append(_Gone(gone.key, following.winner if same else None, following.key.us if same else 0))
    return sorted(found, key=lambda gone: gone.key)


def failover_rows(run: RunRecords, reigns: list[ReignTimes]) -> list[Failover]:
    """Return one row for each reign that followed another."""
    takeovers, writes = _Takeovers(run), _TakeoverWrites(run)
    return [_failover(before, reign, takeovers, writes, run) for before, reign in pairwise(reigns)]


def _failover(
    before: ReignTimes, reign: ReignTimes, takeovers: _Takeovers, writes: _TakeoverWrites, run: RunRecords
) -> Failover:
    loss, elected, ready = before.loss, reign.elected, reign.ready
    lost, began = loss.ended, instant(elected.key)
    assert lost is not None, "a reign that another follows has ended"
    requests, answered, last_answer = takeovers.of(elected)
    noticed = instant(loss.noticed) if loss.noticed else None
    loaded = writes.loaded(elected, ready) if ready else None
    written = writes.within(elected, loaded, ready.us) if ready and loaded is not None else None
    decided = ready.us - loaded - written if ready and loaded is not None and written is not None else None
    propagated = max(last_answer - ready.us, 0) if ready and last_answer is not None else None
    return Failover(
        epoch=elected.data.epoch,
        broker=elected.data.broker_id,
        previous_epoch=before.elected.data.epoch,
        previous_broker=before.elected.data.broker_id,
        cause=loss.ended_by,
        by_fault=loss.by_fault,
        noticed_by=loss.noticed.node if loss.noticed else "",
        lost_at_ms=millis(lost.us),
        detection_ms=millis(noticed.us - lost.us) if noticed else None,
        detection_within_ms=millis(within_us(run, lost, noticed)) if noticed else None,
        election_ms=millis(elected.us - noticed.us) if noticed else None,
        election_within_ms=millis(within_us(run, noticed, began)) if noticed else None,
        takeover_ms=millis(ready.us - elected.us) if ready else None,
        reading_ms=None if loaded is None else millis(loaded - elected.us),
        deciding_ms=optional_millis(decided),
        writing_ms=optional_millis(written),
        propagation_ms=optional_millis(propagated),
        outage_ms=millis(ready.us - lost.us) if ready else None,
        outage_within_ms=millis(within_us(run, lost, instant(ready.key))) if ready else None,
        requests=requests,
        unanswered=None if requests is None else requests - answered,
        brokers=len(ready.data.brokers) if ready else None,
        partitions=ready.data.partitions if ready and ready.data.partitions >= 0 else None,
    )


class _Takeovers:
    """The requests of each takeover, found by incarnation, epoch and cause."""

    def __init__(self, run: RunRecords) -> None:
        requests, answers = run.of(RequestSent), run.of(ResponseReceived)
        self._requests = grouped(((at.incarnation, at.data.controller_epoch, at.cause), at) for at in requests)
        self._answers = grouped(((at.incarnation, at.cause), at.us) for at in answers)

    def of(self, elected: At[ControllerElected]) -> tuple[int | None, int, int | None]:
        """Return how many requests and answers a takeover had, and when the last answer came, in microseconds."""
        if elected.cause is None:
            return None, 0, None
        sent = self._requests.get((elected.incarnation, elected.data.epoch, elected.cause), ())
        answers = [us for at in sent for us in self._answers.get((at.incarnation, at.key.seq), ())]
        return sum(at.data.attempt == 1 for at in sent), len(answers), max(answers, default=None)


class _TakeoverWrites:
    """The times when each new controller had read the cluster's state, and its writes to ZooKeeper."""

    def __init__(self, run: RunRecords) -> None:
        loaded = (state.key for state in run.states if state.kind is ContextLoaded)
        self._loaded = grouped(((key.node, key.incarnation), key) for key in loaded)
        self._done = first_by_cause(run.of(ZkWriteDone))
        self._writes = grouped(((write.incarnation, write.cause), write) for write in run.of(ZkWrite))
        self._recorded = frozenset(write.incarnation for write in run.of(ZkWrite))
        """The incarnations whose writes are on record."""

    def loaded(self, elected: At[ControllerElected], ready: At[ControllerReady]) -> int | None:
        """Return when the cluster's state had been read, in microseconds."""
        for key in self._loaded.get(elected.incarnation, ()):
            if elected.key < key and key.us <= ready.us:
                return key.us
        return None

    def within(self, elected: At[ControllerElected], since: int, until: int) -> int | None:
        """Return for how long at least one write of a takeover was awaited, in microseconds; None if its writes
        are not on record or cannot be distinguished."""
        if elected.cause is None or elected.incarnation not in self._recorded:
            return None
        total, covered = 0, since
        for write in self._writes.get((elected.incarnation, elected.cause), ()):
            done = self._done.get((write.incarnation, write.key.seq))
            end = until if done is None else min(done.us, until)
            begin = max(write.us, covered)
            total += max(0, end - begin)
            covered = max(covered, end)
        return total
