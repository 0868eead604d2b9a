"""What a soak counts, minute by minute and in all, and the lines that it prints. The values are also those on disk."""

from __future__ import annotations

from typing import Final

import msgspec

from understudy.checks.partition_clients import ClientCounts
from understudy.history.writing import counted

STATE_VERSION: Final = 1


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One verb that a soak has done: a line of `soak/faults.jsonl`, written before it is done.

    Attributes:
        number: of its fault, from 1.
        session: how often the soak had been started, from 1.
        minute: from 1.
        at_ms: after the beginning of its minute.
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
    """What the soak and the cluster take. Sizes are bytes."""

    memory: int = 0
    broker_memory: int = 0
    """The resident memory of all brokers together."""
    event_logs: int = 0
    records: int = 0
    """How many records of event logs were read."""
    transactions: int = 0


class MinuteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One minute: a line of `soak/minutes.jsonl`."""

    minute: int
    session: int
    lasted_ms: float
    faults: dict[str, int]
    clients: ClientCounts = msgspec.field(name="felt")
    controller_changes: int
    leader_elections: int
    measures: Measures


class ClusterShape(msgspec.Struct, frozen=True, kw_only=True):
    """What an experiment needs to know of the cluster of a soak, and of its topic."""

    brokers: int
    racks: tuple[str, ...]
    session_ms: int
    topic: str
    partitions: int
    replicas: int
    min_insync: int


class SoakTotals(msgspec.Struct, kw_only=True):
    """`soak/state.json`: what a soak goes on with when the same command is run again.

    Attributes:
        sessions: how often it was started.
        minutes: how many minutes have ended; the last one of a session may be shorter.
        elapsed_ms: how long they lasted together.
        faults: how many of each kind were injected.
        missed: how many verbs were refused, such as deposing a controller that was none any more.
        checked_ms: up to which time (milliseconds since 1970) the event logs were judged.
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
        f"longest gap {clients.gap_ms:,.0f} ms",
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
        f"longest gap {clients.gap_ms:,.0f} ms",
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
