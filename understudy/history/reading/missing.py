"""Finds out which records of a run are missing, from the records that are there.

A log whose process was killed ends without notice, and is complete. So records are missing only if other records are
evidence of them: a later incarnation or the testbed has seen more of a log, a node received what this node sent, or
other nodes name a node that has no log.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import msgspec

from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.eventlog.records import (
    BrokerRegistered,
    BrokersChanged,
    ControllerElected,
    ControllerReady,
    ElectionLost,
    FaultInjected,
    LogSeen,
    PointReached,
    ProcessExiting,
    ProcessStarted,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    RunDescribed,
    ZkWrite,
    ZkWriteDone,
)
from understudy.foundation.times import micros, moment
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.run_records import At, Key, RunRecords, broker_node, firsts
from understudy.history.writing import counted

TESTBED: Final = "testbed"
SIMULATOR: Final = "simulator"
"""The testbed of a simulated cluster."""

NO_LOG: Final = "no log"
"""The node has no record at all, or only those that `understudy import-kafka` has made of ZooKeeper's log."""
NO_INCARNATION: Final = "no incarnation"
"""The node has records of other incarnations, and none of this one."""
NO_END: Final = "no end"
"""The end of the incarnation's log is missing."""
NO_RECORDS: Final = "no records"
"""Sequence numbers of the incarnation are missing before its last record, or an imported log begins too late."""
NO_ELECTION: Final = "no election"
"""The run has a controller epoch that no node was elected for: the new controller's log is missing, whoever it was."""
NOT_ENDED: Final = "not ended"
"""The testbed has not written its last record: the run has not ended yet, or the end of that log is missing."""

_TESTBEDS: Final = (TESTBED, SIMULATOR)
READING_US: Final = 5_000_000
"""Time at the end of a run that has not ended in which a log may lack what others have: its files are read one after
the other while they grow."""

_BROKER: Final = re.compile(r"broker-(\d+)")
_KILLS: Final = ("kill", "power_loss")
_UNKNOWN: Final = "Unknown"
"""Outcome of a write to ZooKeeper whose answer was lost."""


class MissingRecords(NamedTuple):
    """A stretch of a run in which records of a node are missing; sorts by time.

    Times are microseconds after the run's first record. The stretch begins after `from_us` and ends before `until_us`,
    if these are records of the node.
    """

    from_us: int
    """0 if they may be missing from the beginning."""
    until_us: int
    """The time of the run's last record if they may be missing up to the end."""
    node: str
    """The node; empty if it cannot be said which node it was."""
    incarnation: int
    """The incarnation; 0 if it cannot be said which one, or all of them are missing."""
    kind: str
    """One of the constants of this module, for example `NO_END`."""
    evidence: str
    """The evidence, as a sentence without a full stop, for example `there is an incarnation 6`."""
    witness: str
    """The record that is the evidence, for example `broker-1/3#42`: node, incarnation, sequence number."""

    def __str__(self) -> str:
        node = self.node or "the controller of another epoch"
        which = f" incarnation {self.incarnation}" if self.incarnation else ""
        stretch = f"from {moment(self.from_us / 1000)} to {moment(self.until_us / 1000)}"
        return f"records missing: {node}{which}, {stretch}: {self.evidence} ({self.witness})"


def find_missing(run: RunRecords) -> tuple[MissingRecords, ...]:
    """Return the stretches of a run in which records are missing, sorted by time; none if the run is complete."""
    logs = _Logs(run)
    found = [
        *logs.without_records(),
        *logs.without_log(),
        *logs.without_lines(),
        *logs.without_incarnation(),
        *logs.without_end(),
        *logs.without_testbed(),
        *_without_election(run, logs.settled_us),
    ]
    explained = {missing.node for missing in found}
    found += [missing for missing in logs.without_registration() if missing.node not in explained]
    return tuple(sorted(map(_in_order, found)))


def _in_order(missing: MissingRecords) -> MissingRecords:
    """Return the stretch with its times in order, if clocks that were not aligned have turned them around."""
    if missing.from_us <= missing.until_us:
        return missing
    return missing._replace(from_us=missing.until_us, until_us=missing.from_us)


_Evidence: TypeAlias = tuple[str, Key]
"""The evidence in words, and the record that it is."""

_Channel: TypeAlias = tuple[int, int, int]
"""The id of a broker, and the controller epoch and broker epoch of the requests that a controller sends it."""


class _Logs:
    """The logs of a run, and the records that are evidence of more of them."""

    def __init__(self, run: RunRecords) -> None:
        self._run = run
        self._signs = run.signs
        self._numbers = {node: sorted(numbers) for node, numbers in grouped(run.signs.incarnations).items()}
        self._started = {at.incarnation: at for at in run.of(ProcessStarted)}
        self._exited = {at.incarnation: at.key.seq for at in run.of(ProcessExiting)}
        self._seen = {(at.data.node, at.data.incarnation): at for at in run.of(LogSeen)}
        self._not_ended = self._testbeds_without_end()
        self.settled_us = self._signs.last_us - (READING_US if self._not_ended else 0)
        """The end of the time whose records have all been read, however late in the reading a log was read."""

    # ------------------------------------------------------------------ sequence numbers

    def without_records(self) -> Iterator[MissingRecords]:
        """Yield the gaps in the sequence numbers."""
        for (node, number), from_us, until_us, first, last in self._run.gaps:
            which = f"{first}" if first == last else f"{first} to {last}"
            yield MissingRecords(
                from_us=self._ended_before(node, number) if first == 1 else from_us,
                until_us=until_us,
                node=node,
                incarnation=number,
                kind=NO_RECORDS,
                evidence=f"its log has record {last + 1}, but not {which}",
                witness=f"{node}/{number}#{last + 1}",
            )

    # ------------------------------------------------------------------ nodes

    def without_log(self) -> Iterator[MissingRecords]:
        """Yield the nodes that have no record, though others name them or count them."""
        registered = {broker_node(at.data.broker_id) for at in self._run.of(BrokerRegistered)}
        known = {*self._numbers, *registered, *_nodes_without_log(self._run)}
        named = {node: found for node, found in _named(self._run, known).items() if found[1].us <= self.settled_us}
        for node, (evidence, key) in named.items():
            yield MissingRecords(0, self._signs.last_us, node, 0, NO_LOG, evidence, _name(key))
        for at in self._run.of(RunDescribed):
            for node in at.data.lost_logs:
                evidence = "import-kafka was given no log of it, only ZooKeeper's"
                yield MissingRecords(0, self._signs.last_us, node, 0, NO_LOG, evidence, _name(at.key))
        if self._seen:
            return  # the testbed has named each node that has a log
        brokers = sum(_broker_id(node) is not None for node in (*known, *named))
        for at in self._run.of(RunDescribed):
            if at.data.brokers is not None and at.data.brokers > brokers:
                evidence = f"the run has {at.data.brokers} brokers, and its records name {brokers}"
                yield MissingRecords(0, self._signs.last_us, "", 0, NO_LOG, evidence, _name(at.key))
                return

    def without_lines(self) -> Iterator[MissingRecords]:
        """Yield the stretches that the logs of an import lack."""
        for at in self._run.of(RunDescribed):
            for node, from_ms, until_ms, evidence in map(msgspec.structs.astuple, at.data.lost_stretches):
                from_us, until_us = (micros(ms) - self._run.start_us if ms else None for ms in (from_ms, until_ms))
                yield MissingRecords(
                    from_us=0 if from_us is None else from_us,
                    until_us=self._signs.last_us if until_us is None else until_us,
                    node=node,
                    incarnation=0,
                    kind=NO_END if until_us is None else NO_RECORDS,
                    evidence=evidence,
                    witness=_name(at.key),
                )

    # ------------------------------------------------------------------ incarnations

    def without_incarnation(self) -> Iterator[MissingRecords]:
        """Yield the gaps in the numbers of each node's incarnations."""
        for node, numbers in self._numbers.items():
            for before, after in pairwise((0, *numbers)):
                last = after - 1
                started = self._started.get((node, after))
                if started is not None and started.data.boot and not started.data.after_seq:
                    # The incarnation before has no record of this run; those before the first are of an older run.
                    last = after - 2 if before else 0
                if last > before:
                    evidence = f"there is an incarnation {after}"
                    witness = self._first_record((node, after)) if started is None else started.key
                    yield self._incarnations(node, before, last, self._signs.first_of((node, after)), evidence, witness)
            for at in self._run.of(LogSeen):
                newest = at.data.incarnation if at.data.seq else at.data.incarnation - 1
                if at.data.node == node and newest > numbers[-1]:
                    evidence = f"{at.node} saw the log of incarnation {at.data.incarnation}"
                    yield self._incarnations(node, numbers[-1], newest, self._signs.last_us, evidence, at.key)
                    break

    def _incarnations(
        self, node: str, before: int, last: int, until_us: int, evidence: str, witness: Key
    ) -> MissingRecords:
        is_one = last == before + 1
        return MissingRecords(
            from_us=self._ended_before(node, last + 1),
            until_us=until_us,
            node=node,
            incarnation=last if is_one else 0,
            kind=NO_INCARNATION,
            evidence=evidence if is_one else f"{evidence}, but none of {before + 1} to {last}",
            witness=_name(witness),
        )

    def _first_record(self, incarnation: Incarnation) -> Key:
        """Return the place of the first record of an incarnation that begins with another record than its start."""
        first = next((gap.last + 1 for gap in self._run.gaps if gap.incarnation == incarnation and gap.first == 1), 1)
        return Key(self._signs.first_of(incarnation), *incarnation, first)

    def _ended_before(self, node: str, number: int) -> int:
        """Return the time of a node's last record before an incarnation; 0 if there is none."""
        earlier = [other for other in self._numbers.get(node, ()) if other < number]
        return self._signs.end_of((node, earlier[-1])) if earlier else 0

    # ------------------------------------------------------------------ ends

    def without_end(self) -> Iterator[MissingRecords]:
        """Yield the incarnations whose log ends too early."""
        for node, numbers in self._numbers.items():
            followers: Iterable[int | None] = (*numbers[1:], None)
            for number, after in zip(numbers, followers, strict=True):
                until_us = self._signs.last_us if after is None else self._signs.first_of((node, after))
                if (found := self._beyond_end(node, number, until_us, is_last=after is None)) is not None:
                    evidence, key = found
                    from_us = self._signs.end_of((node, number))
                    yield MissingRecords(from_us, until_us, node, number, NO_END, evidence, _name(key))

    def _beyond_end(self, node: str, number: int, until_us: int, *, is_last: bool) -> _Evidence | None:
        """Return the evidence of records behind the last one of an incarnation; None without any.

        Args:
            until_us: the first record of the next incarnation, or the last one of the run.
        """
        last = self._run.last_seq((node, number))
        seen, follower = self._seen.get((node, number)), self._started.get((node, number + 1))
        if seen is not None and seen.data.seq > last:
            return f"{seen.node} saw {counted(seen.data.seq, 'record')} of it, and there are {last:,}", seen.key
        if follower is not None and follower.data.after_seq > last:
            found = counted(follower.data.after_seq, "record")
            return f"incarnation {number + 1} found {found} of it, and there are {last:,}", follower.key
        if self._is_attested((node, number)):
            return None
        return self._lacking.get((node, number)) or self._stopped(node, number, until_us, is_last=is_last)

    def _is_attested(self, incarnation: Incarnation) -> bool:
        """Whether the last record of an incarnation is known to be its last one.

        A process may write on after the testbed has seen its log, and for a moment after its `ProcessExiting`.
        """
        node, number = incarnation
        last = self._run.last_seq(incarnation)
        seen, follower = self._seen.get(incarnation), self._started.get((node, number + 1))
        return (
            (follower is not None and follower.data.after_seq > 0)
            or (seen is not None and seen.data.seq == last)
            or self._exited.get(incarnation) == last
        )

    def _stopped(self, node: str, number: int, until_us: int, *, is_last: bool) -> _Evidence | None:
        """Return the evidence that an incarnation was stopped in order, so that it has written `ProcessExiting`."""
        if (node, number) in self._exited:
            return None
        if any(at.incarnation == (node, number) and at.data.action == "crash" for at in self._run.of(PointReached)):
            return None
        begun_us = self._signs.first_of((node, number))
        faults = [at for at in self._faults.get(node, ()) if begun_us <= at.us <= until_us]
        stop = next((at for at in faults if at.data.fault == "stop"), None)
        if stop is None or any(at.data.fault in _KILLS for at in faults):
            return None
        has_ended = not is_last or any(at.us > stop.us and at.data.fault == "start" for at in faults)
        return (f"{stop.node} stopped it, and it has no ProcessExiting", stop.key) if has_ended else None

    @cached_property
    def _lacking(self) -> Mapping[Incarnation, _Evidence]:
        """The control requests that only one of two logs has, by the incarnation that lacks them.

        A controller numbers its requests to a registered broker, and sends one when the one before is answered. So the
        numbers show without any clock which of the two logs ends first.
        """
        found: dict[Incarnation, _Evidence] = {}
        sent, answered = self._channels
        received = {_channel(at): at for at in self._run.received}
        for channel, (number, evidence, key) in answered.items():
            known = received.get(channel)
            lacking = (
                self._registered.get((broker_node(channel[0]), channel[2])) if known is None else known.incarnation
            )
            if lacking is None or key.us > self.settled_us:
                continue
            if known is None or known.data.correlation_id < number:
                found.setdefault(lacking, (evidence, key))
        elected = {at.data.epoch: at.incarnation for at in self._run.of(ControllerElected)}
        for channel, at in received.items():
            # An imported log, whose requests have no version, lacks requests by its nature.
            sender = elected.get(at.data.controller_epoch)
            if sender is None or at.data.api_version < 0 or at.us > self.settled_us:
                continue
            if sent.get(channel, -1) < at.data.correlation_id:
                found.setdefault(sender, (f"{at.node} received its {at.data.api} #{at.data.correlation_id}", at.key))
        return found

    def without_registration(self) -> Iterator[MissingRecords]:
        """Yield the nodes that have answered as a registered broker, and whose log lacks this registration."""
        if all(
            (seen := self._seen.get((node, numbers[-1]))) is not None
            and seen.data.seq == self._run.last_seq((node, numbers[-1]))
            for node, numbers in self._numbers.items()
            if _broker_id(node) is not None
        ):
            return
        received = {_channel(at) for at in self._run.received}
        for channel, (_, evidence, key) in self._channels[1].items():
            node, epoch = broker_node(channel[0]), channel[2]
            is_known = channel in received or (node, epoch) in self._registered
            if is_known or node not in self._numbers or key.us > self.settled_us:
                continue
            earlier = [own for (name, other), own in self._registered.items() if name == node and other < epoch]
            later = [own for (name, other), own in self._registered.items() if name == node and other > epoch]
            from_us = max(map(self._signs.end_of, earlier), default=0)
            until_us = min(map(self._signs.first_of, later), default=self._signs.last_us)
            yield MissingRecords(from_us, until_us, node, 0, NO_INCARNATION, evidence, _name(key))

    @cached_property
    def _registered(self) -> Mapping[tuple[str, int], Incarnation]:
        """The incarnations by node and broker epoch."""
        return {(at.node, at.data.broker_epoch): at.incarnation for at in self._run.of(BrokerRegistered)}

    @cached_property
    def _channels(self) -> tuple[Mapping[_Channel, int], Mapping[_Channel, tuple[int, str, Key]]]:
        """The number of the last request over each channel, and of the last one that was answered, with the answer."""
        answers = {(at.key.node, at.key.incarnation, at.cause): at for at in self._run.of(ResponseReceived)}
        sent: dict[_Channel, int] = {}
        answered: dict[_Channel, tuple[At[RequestSent], At[ResponseReceived]]] = {}
        for at in reversed(self._run.of(RequestSent)):
            request = at.data
            channel = (request.to, request.controller_epoch, request.broker_epoch)
            if channel in answered:
                continue
            sent.setdefault(channel, request.correlation_id)
            answer = answers.get((at.key.node, at.key.incarnation, at.key.seq))
            if answer is not None and request.api_version >= 0 and request.broker_epoch >= 0:
                answered[channel] = at, answer
        return sent, {
            channel: (
                at.data.correlation_id,
                f"{answer.node} received its answer to {at.data.api} #{at.data.correlation_id}",
                answer.key,
            )
            for channel, (at, answer) in answered.items()
        }

    # ------------------------------------------------------------------ the testbed

    def without_testbed(self) -> Iterator[MissingRecords]:
        """Yield that the log of the testbed is missing, or that it has not been ended."""
        for incarnation in self._not_ended:
            yield MissingRecords(
                from_us=self._signs.end_of(incarnation),
                until_us=self._signs.last_us,
                node=incarnation[0],
                incarnation=incarnation[1],
                kind=NOT_ENDED,
                evidence="it has no ProcessExiting: the run has not ended, or the end of this log is missing",
                witness=f"{incarnation[0]}/{incarnation[1]}#{self._run.last_seq(incarnation)}",
            )
        if any(node in self._numbers for node in _TESTBEDS):
            return
        for at in self._run.of(ProcessStarted):
            if at.data.has_testbed:
                node = TESTBED if at.data.pid else SIMULATOR
                evidence = f"{at.node} was started beside a testbed"
                yield MissingRecords(0, self._signs.last_us, node, 0, NO_LOG, evidence, _name(at.key))
                return

    def _testbeds_without_end(self) -> list[Incarnation]:
        """Return the testbeds whose last incarnation has no `ProcessExiting`."""
        newest = [(node, self._numbers[node][-1]) for node in _TESTBEDS if node in self._numbers]
        return [
            incarnation for incarnation in newest if incarnation in self._started and incarnation not in self._exited
        ]

    # ------------------------------------------------------------------ records by what they name

    @cached_property
    def _faults(self) -> Mapping[str, Sequence[At[FaultInjected]]]:
        if _has_containers(self._run):
            return {}
        return grouped((at.data.target, at) for at in self._run.of(FaultInjected))


# ------------------------------------------------------------------ nodes that others name


def _has_containers(run: RunRecords) -> bool:
    """Whether faults have the names of services, which may differ from the names of nodes."""
    return any(at.data.world == "containers" for at in run.of(RunDescribed))


def _channel(at: At[RequestReceived]) -> _Channel:
    broker = _broker_id(at.node)
    return -1 if broker is None else broker, at.data.controller_epoch, at.data.broker_epoch


def _nodes_without_log(run: RunRecords) -> set[str]:
    return {node for at in run.of(RunDescribed) for node in at.data.without_log}


def _named(run: RunRecords, known: Set[str]) -> dict[str, _Evidence]:
    """Return the nodes that are not in `known` and that a record names, each with the first such record."""
    found: dict[str, _Evidence] = {}
    for node, key, evidence in _names(run, {broker for node in known if (broker := _broker_id(node)) is not None}):
        if node not in known and (node not in found or key < found[node][1]):
            found[node] = (evidence, key)
    return found


def _names(run: RunRecords, known: set[int]) -> Iterator[tuple[str, Key, str]]:
    """Yield the nodes that records name, with the record and the evidence; brokers only if they are not in `known`."""
    for seen in run.of(LogSeen):
        if seen.data.seq:
            yield seen.data.node, seen.key, f"{seen.node} saw its log"
    for ready in run.of(ControllerReady):
        for broker in {*ready.data.brokers} - known:
            yield broker_node(broker), ready.key, f"it was live when {ready.node} became controller"
    for changed in run.of(BrokersChanged):
        for broker in {*changed.data.new, *changed.data.dead, *changed.data.bounced, *changed.data.live} - known:
            yield broker_node(broker), changed.key, f"{changed.node} saw its registration"
    for lost in run.of(ElectionLost):
        if lost.data.winner >= 0:
            yield broker_node(lost.data.winner), lost.key, f"it won the election that {lost.node} lost"
    if unknown := {sent.data.to for sent in run.of(RequestSent)} - known:
        for sent in run.of(RequestSent):
            if sent.data.to in unknown:
                yield broker_node(sent.data.to), sent.key, f"{sent.node} sent it a request"
    if _has_containers(run):
        return
    for fault in run.of(FaultInjected):
        if _broker_id(fault.data.target) is not None:
            yield fault.data.target, fault.key, f"{fault.node} recorded a fault of it: {fault.data.fault}"


# ------------------------------------------------------------------ elections


def _without_election(run: RunRecords, settled_us: int) -> Iterator[MissingRecords]:
    """Yield the controller epochs that no node was elected for, those between two elections together.

    A broker that is killed between its election and its record leaves an epoch that no other node receives.
    """
    if _nodes_without_log(run):
        return  # one of them may have been the controller
    if any(at.data.is_kraft for at in run.of(RunDescribed)):
        return  # an election without a winner has an epoch too, and the quorum's log has those with one
    elections = {at.data.epoch: at for at in reversed(run.of(ControllerElected))}
    seen = firsts((at.epoch, at.key) for at in run.epochs)
    received = [epoch for epoch, key in seen.items() if epoch not in elections and key.us <= settled_us]
    epochs = sorted(elections)
    for before, after in pairwise((None, *epochs, None)):
        inside = sorted(
            epoch for epoch in received if (before is None or epoch > before) and (after is None or epoch < after)
        )
        from_us = 0 if before is None else elections[before].us
        until_us = run.signs.last_us if after is None else elections[after].us
        if inside:
            first, key = inside[0], seen[inside[0]]
            evidence = f"{key.node} received epoch {first} from a controller, and no record has its election"
            yield MissingRecords(from_us, until_us, "", 0, NO_ELECTION, evidence, _name(key))
        elif before and after and 0 < after - before - 1 > _unrecorded(run, from_us, until_us):
            first = before + 1
            which = f"epoch {first}" if after == first + 1 else f"epochs {first} to {after - 1}"
            evidence = (
                f"{elections[after].node} was elected for epoch {after}, and no record has the election of {which}"
            )
            key = elections[after].key
            yield MissingRecords(from_us, until_us, "", 0, NO_ELECTION, evidence, _name(key))


def _unrecorded(run: RunRecords, from_us: int, until_us: int) -> int:
    """Return how many elections may have been won between two that are recorded, and were not recorded.

    A broker may have been killed before it received the answer to its write, or before it recorded the election.
    """
    if any(at.data.fault == "write" and at.data.target.startswith("/controller_epoch") for at in run.of(FaultInjected)):
        return sys.maxsize
    outcomes = {(at.incarnation, at.cause): at.data.outcome for at in run.of(ZkWriteDone)}
    elected = grouped((at.incarnation, at.key.seq) for at in run.of(ControllerElected))
    unrecorded = 0
    attempts = grouped((at.incarnation, at) for at in run.of(ZkWrite) if at.data.purpose == "election")
    for incarnation, own in attempts.items():
        for attempt, following in pairwise((*own, None)):
            if attempt is None or not from_us <= attempt.us <= until_us:
                continue
            ends = attempt.key.seq, math.inf if following is None else following.key.seq
            is_recorded = any(ends[0] < seq < ends[1] for seq in elected.get(incarnation, ()))
            outcome = outcomes.get((incarnation, attempt.key.seq), _UNKNOWN)
            unrecorded += not is_recorded and outcome in ("Ok", _UNKNOWN)
    return unrecorded


# ------------------------------------------------------------------ names and times


def _broker_id(node: str) -> int | None:
    match = _BROKER.fullmatch(node)
    return None if match is None else int(match[1])


def _name(record: Key) -> str:
    return f"{record.node}/{record.incarnation}#{record.seq}"
