"""Writes the event logs of a run and its page, with an event log for each of the user's processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec

from understudy.clusters.simulated.clocks import EPOCH_MS, SHARED_BOOT
from understudy.clusters.virtual.process_loop import ProcessLoop
from understudy.clusters.virtual.world import VirtualWorld
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import (
    ClientLogged,
    ClientRequestBegan,
    ClientRequestEnded,
    MemberTransition,
    Payload,
    ProcessExiting,
    ProcessStarted,
)
from understudy.testing.simulated_tests.history.wire_history import WireHistory
from understudy.testing.simulated_tests.history.wire_records import Assigned, Commit, Delivered, Sent
from understudy.testing.simulated_tests.outcome import Problem
from understudy.testing.simulated_tests.report.evidence import MOST_TEXT, line_about, process_of

PAGE: Final = "run.html"

_Moment: TypeAlias = tuple[float, Payload]
_T = TypeVar("_T", Sent, Delivered)


class NoPage(Exception):
    """The page of a run is not written. The message says why."""


class _Clock(msgspec.Struct):
    """A clock that is set to the time of each record. It is the clock of all nodes of the simulation."""

    now_ms: float = 0.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> float:
        return EPOCH_MS + self.now_ms


class ClientLog(msgspec.Struct, frozen=True):
    """The event log of one process of the user."""

    node: str
    incarnation: int
    lines: tuple[bytes, ...]


def client_logs(world: VirtualWorld, wire: WireHistory, problems: Iterable[Problem]) -> tuple[ClientLog, ...]:
    """Return the event logs of the user's processes, made of what they have logged, sent and received so far.

    Args:
        problems: the problems of the run; each in a process is a line in its log.
    """
    moments: defaultdict[tuple[str, int], list[_Moment]] = defaultdict(list)
    for line in world.lines:
        logged = ClientLogged(level=line.level, logger=line.logger, text=line.text[:MOST_TEXT])
        moments[line.process, _incarnation(world, line.process, line.at_ms)].append((line.at_ms, logged))
    for process, incarnation, moment in _of_wire(wire):
        moments[process, incarnation].append(moment)
    for problem in problems:
        if process := process_of(problem):
            incarnation = _incarnation(world, process, problem.at_ms)
            moments[process, incarnation].append((problem.at_ms, line_about(problem)))
    found: list[ClientLog] = []
    for loop in world.loops:
        before = [log for log in found if log.node == loop.process.name]
        after_seq = len(before[-1].lines) if before else 0
        of_process = moments[loop.process.name, loop.process.incarnation]
        found.append(_log_of(world, loop, of_process, after_seq))
    return tuple(found)


def _incarnation(world: VirtualWorld, process: str, at_ms: float) -> int:
    """Return the incarnation that a process had at a time."""
    started = (loop.process for loop in world.loops if loop.process.name == process and loop.started_ms <= at_ms)
    return max((each.incarnation for each in started), default=1)


def _log_of(world: VirtualWorld, loop: ProcessLoop, moments: Iterable[_Moment], after_seq: int) -> ClientLog:
    process = loop.process
    clock, lines = _Clock(loop.started_ms), list[bytes]()
    log = EventLog(
        run=world.cluster.run_id,
        node=process.name,
        incarnation=process.incarnation,
        clock=clock,
        write=lines.append,
    )
    log.append(
        ProcessStarted(
            role="client",
            software="understudy",
            machine=process.name,
            boot=SHARED_BOOT.text,
            after_seq=after_seq,
            has_testbed=True,
        )
    )
    for at_ms, payload in sorted(moments, key=lambda moment: moment[0]):
        clock.now_ms = max(at_ms, loop.started_ms)
        log.append(payload)
    if process.alive:
        clock.now_ms = world.cluster.now_ms
        log.append(ProcessExiting(reason="the run has ended"))
    return ClientLog(process.name, process.incarnation, tuple(lines))


def _of_wire(wire: WireHistory) -> Iterator[tuple[str, int, _Moment]]:
    decoder = wire.decoded()
    attempts = {(sent.send, sent.attempt) for sent in decoder.sent}
    for batch in _by_request(decoder.sent):
        sent = batch[0]
        is_sent_again = (sent.send, sent.attempt + 1) in attempts
        yield _process_of(sent, (sent.sent_ms, _begun(batch)))
        yield _process_of(sent, (_ended_ms(sent), _ended(batch, is_sent_again=is_sent_again)))
    for assigned in decoder.assigned:
        yield _process_of(assigned, (assigned.at_ms, _stable(assigned)))
    for answer in _by_request(decoder.delivered):
        first = answer[0]
        payload = ClientRequestEnded(
            api="Fetch",
            client_id=first.client.client_id,
            broker=_node(first.broker),
            topic=first.topic,
            partition=first.partition,
            error="NONE",
            offset=first.offset,
            records=len(answer),
            group=first.group or "",
            took_ms=round(first.received_ms - first.sent_ms, 3),
            next_offset=answer[-1].offset + 1,
        )
        yield _process_of(first, (first.received_ms, payload))
    for commit in decoder.commits:
        payload = ClientRequestEnded(
            api="OffsetCommit",
            client_id=commit.client.client_id,
            broker=_node(commit.broker),
            topic=commit.topic,
            partition=commit.partition,
            error=commit.error,
            offset=commit.offset,
            group=commit.group,
            took_ms=_took_ms(commit),
        )
        yield _process_of(commit, (_ended_ms(commit), payload))


def _begun(batch: Sequence[Sent]) -> ClientRequestBegan:
    first = batch[0]
    return ClientRequestBegan(
        api="Produce",
        client_id=first.client.client_id,
        broker=_node(first.broker),
        topic=first.topic,
        partition=first.partition,
        records=len(batch),
        attempt=first.attempt,
    )


def _stable(assigned: Assigned) -> MemberTransition:
    return MemberTransition(
        client_id=assigned.client.client_id,
        group=assigned.group,
        member_id=assigned.member,
        target="STABLE",
        generation=assigned.generation,
        coordinator=-1,
        partitions=assigned.partitions,
    )


def _ended(batch: Sequence[Sent], *, is_sent_again: bool) -> ClientRequestEnded:
    first = batch[0]
    return ClientRequestEnded(
        api="Produce",
        client_id=first.client.client_id,
        broker=_node(first.broker),
        topic=first.topic,
        partition=first.partition,
        error=first.error,
        offset=first.offset,
        records=len(batch),
        attempt=first.attempt,
        took_ms=_took_ms(first),
        is_sent_again=is_sent_again,
    )


def _by_request(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Yield the records of one partition in one request, or in one answer."""
    for _, group in groupby(items, key=lambda each: (each.client, each.order, each.topic, each.partition)):
        yield list(group)


def _process_of(each: Sent | Delivered | Commit | Assigned, moment: _Moment) -> tuple[str, int, _Moment]:
    return each.client.process, each.client.incarnation, moment


def _ended_ms(each: Sent | Commit) -> float:
    return each.sent_ms if each.ended_ms is None else each.ended_ms


def _took_ms(each: Sent | Commit) -> float:
    return round(_ended_ms(each) - each.sent_ms, 3)


def _node(address: str) -> str:
    return address.partition(":")[0]


def write_run(world: VirtualWorld, logs: Sequence[ClientLog], folder: Path) -> Path:
    """Write the event logs of a run that has ended, and its page; return the page.

    Args:
        logs: of the user's processes.
        folder: gets a folder for each node; the page is `run.html`.

    Raises:
        NoPage: a file cannot be written, or the page is too large for one.
    """
    from understudy.page.export import TooLarge, page_of  # noqa: PLC0415  each first test of a session would wait for it

    page = folder / PAGE
    try:
        world.cluster.dump(folder)
        for log in logs:
            events = folder / log.node / "events"
            events.mkdir(parents=True, exist_ok=True)
            (events / f"{log.node}-{log.incarnation:04d}-0001.jsonl").write_bytes(b"".join(log.lines))
        page.write_text(page_of([folder]), encoding="utf-8")
    except (OSError, TooLarge) as error:
        raise NoPage(f"the page of the run is not written: {error}") from None
    return page
