"""What a soak counts, minute by minute and in all, and the lines that it prints. The values are also those on disk."""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from understudy.history.writing import counted

STATE_VERSION: Final = 1


class Felt(msgspec.Struct, kw_only=True):
    """What clients have felt. Counts are records.

    Attributes:
        errors: how many attempts to send had each error, by Kafka's name of its code or that of the exception.
        gap_ms: the longest time without an acknowledgement in a partition.
    """

    acknowledged: int = 0
    refused: int = 0
    unknown: int = 0
    read: int = 0
    repeated: int = 0
    lost: int = 0
    errors: dict[str, int] = {}
    gap_ms: float = 0.0

    def add(self, other: Felt) -> None:
        """Add what was felt in another time."""
        self.acknowledged += other.acknowledged
        self.refused += other.refused
        self.unknown += other.unknown
        self.read += other.read
        self.repeated += other.repeated
        self.lost += other.lost
        self.errors = dict(Counter(self.errors) + Counter(other.errors))
        self.gap_ms = max(self.gap_ms, other.gap_ms)


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
    felt: Felt
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


class Totals(msgspec.Struct, kw_only=True):
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
    felt: Felt = msgspec.field(default_factory=Felt)
    controller_changes: int = 0
    leader_elections: int = 0
    checked_ms: float = 0.0
    ends: dict[str, int] = {}
    violation: str = ""
    shape: ClusterShape | None = None


def minute_line(minute: MinuteRecord) -> str:
    """Return the line about a minute."""
    felt = minute.felt
    parts = [
        _faults(minute.faults),
        f"{felt.acknowledged:,} acknowledged",
        _errors(felt),
        f"longest gap {felt.gap_ms:,.0f} ms",
        counted(minute.controller_changes, "controller change"),
        counted(minute.leader_elections, "leader election"),
    ]
    return f"minute {minute.minute}: {'; '.join(parts)}"


def total_lines(totals: Totals) -> list[str]:
    """Return the lines about a whole soak."""
    felt = totals.felt
    return [
        f"{counted(totals.minutes, 'minute')} in {counted(totals.sessions, 'session')}: {_faults(totals.faults)}",
        f"clients: {felt.acknowledged:,} acknowledged, {felt.lost:,} lost, {felt.repeated:,} twice, "
        f"{felt.unknown:,} unknown, {felt.refused:,} refused, {felt.read:,} read; {_errors(felt)}; "
        f"longest gap {felt.gap_ms:,.0f} ms",
        f"cluster: {counted(totals.controller_changes, 'controller change')}, "
        f"{counted(totals.leader_elections, 'leader election')}",
    ]


def _faults(faults: dict[str, int]) -> str:
    if not faults:
        return "no fault"
    kinds = ", ".join(f"{kind} {count}" if count > 1 else kind for kind, count in sorted(faults.items()))
    return f"{counted(sum(faults.values()), 'fault')} ({kinds})"


def _errors(felt: Felt) -> str:
    count = sum(felt.errors.values())
    if not count:
        return "no errors"
    most = max(felt.errors, key=lambda name: (felt.errors[name], name))
    return f"{counted(count, 'error')} (most {most})"
