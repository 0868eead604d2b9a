"""The counts of a soak, for each minute and in all, and the lines that it prints. Its files have the same values."""

from __future__ import annotations

from typing import Final

import msgspec

from understudy.checks.partition_clients import ClientCounts
from understudy.foundation.times import duration
from understudy.history.writing import counted

STATE_VERSION: Final = 1


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One verb that a soak has done: a line of `soak/faults.jsonl`, written before it is done.

    Attributes:
        number: the number of its fault, from 1.
        session: the number of the session, from 1.
        minute: the number of the minute, from 1.
        at_ms: milliseconds after the beginning of the minute.
    """

    number: int
    kind: str
    session: int
    minute: int
    at_ms: float
    verb: str
    target: str
    role: str
    lasts_ms: float | None


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """The memory and the logs of the soak and the cluster. Sizes are bytes."""

    memory: int = 0
    broker_memory: int = 0
    """The resident memory of all brokers together."""
    event_logs: int = 0
    records: int = 0
    """Number of records of event logs that were read."""
    transactions: int = 0


class MinuteRecord(msgspec.Struct, kw_only=True):
    """One minute: a line of `soak/minutes.jsonl`."""

    minute: int
    session: int
    lasted_ms: float = 0.0
    faults: dict[str, int] = {}
    clients: ClientCounts = msgspec.field(name="felt", default_factory=ClientCounts)
    controller_changes: int = 0
    leader_elections: int = 0
    measures: Measures = Measures()


class ClusterShape(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of the cluster and the topic of a soak that an experiment needs."""

    brokers: int
    racks: tuple[str, ...]
    session_ms: int
    topic: str
    partitions: int
    replicas: int
    min_insync: int


class SoakTotals(msgspec.Struct, kw_only=True):
    """`soak/state.json`: the state with which a soak continues when the same command is run again.

    Attributes:
        sessions: number of times that the soak was started.
        minutes: number of minutes that have ended; the last one of a session may be shorter.
        elapsed_ms: the time that they lasted together.
        faults: number of faults of each kind that were injected.
        missed: number of verbs that were refused, such as deposing a broker that was no longer controller.
        checked_ms: the time (milliseconds since 1970) up to which the event logs were judged.
        ends: the offset after the last acknowledged record of each partition of the soak's topic.
        violation: why it has stopped; empty if it has not.
    """

    version: int = STATE_VERSION
    seed: int
    profile: str
    sessions: int = 0
    minutes: int = 0
    elapsed_ms: float = 0.0
    fault_number: int = 0
    faults: dict[str, int] = {}
    missed: int = 0
    clients: ClientCounts = msgspec.field(name="felt", default_factory=ClientCounts)
    controller_changes: int = 0
    leader_elections: int = 0
    checked_ms: float = 0.0
    ends: dict[str, int] = {}
    violation: str = ""
    shape: ClusterShape | None = None


def minute_line(minute: MinuteRecord) -> str:
    """Return the line about a minute."""
    clients = minute.clients
    parts = [
        _faults(minute.faults),
        f"{clients.acknowledged:,} acknowledged",
        _errors(clients),
        f"longest gap {duration(clients.gap_ms)}",
        counted(minute.controller_changes, "controller change"),
        counted(minute.leader_elections, "leader election"),
    ]
    return f"minute {minute.minute}: {'; '.join(parts)}"


def total_lines(totals: SoakTotals) -> list[str]:
    """Return the lines about a whole soak."""
    clients = totals.clients
    return [
        f"{counted(totals.minutes, 'minute')} in {counted(totals.sessions, 'session')}: {_faults(totals.faults)}",
        f"clients: {clients.acknowledged:,} acknowledged, {clients.lost:,} lost, {clients.repeated:,} twice, "
        f"{clients.unknown:,} unknown, {clients.refused:,} refused, {clients.read:,} read; {_errors(clients)}; "
        f"longest gap {duration(clients.gap_ms)}",
        f"cluster: {counted(totals.controller_changes, 'controller change')}, "
        f"{counted(totals.leader_elections, 'leader election')}",
    ]


def _faults(faults: dict[str, int]) -> str:
    if not faults:
        return "no fault"
    kinds = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in sorted(faults.items()))
    return f"{counted(sum(faults.values()), 'fault')} ({kinds})"


def _errors(clients: ClientCounts) -> str:
    count = sum(clients.errors.values())
    if not count:
        return "no errors"
    most = max(clients.errors, key=lambda name: (clients.errors[name], name))
    return f"{counted(count, 'error')} (most {most})"
