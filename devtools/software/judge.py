"""Judges a program that copies one topic to another, from what was acknowledged and what arrived."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from devtools.report_cards.judge import longest_pause_ms

_SHOWN = 5


class Arrival(NamedTuple):
    """A record of the second topic: when an independent reader received it, and its number."""

    at_ms: int
    value: int


class Seen(msgspec.Struct, frozen=True):
    """What was seen of one program.

    Attributes:
        version: the versions that ran.
        killed: what each broker was that was killed, in order.
        sent: how many records were sent to the first topic.
        acknowledged: how many of them were acknowledged with acks=all.
        lost: how many of these are missing in the second topic.
        twice: how many of the records are there more than once.
        pause_ms: the longest time without an arrival that ended after the first kill; None if none came after the last.
        reasons: why it failed, in words; empty if it passed.
    """

    version: str
    killed: tuple[str, ...]
    sent: int
    acknowledged: int
    lost: int
    twice: int
    pause_ms: int | None
    reasons: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.reasons


def judge(
    version: str,
    sent: int,
    acknowledged: Collection[int],
    arrivals: Sequence[Arrival],
    killed: Sequence[tuple[str, int]],
    trouble: Sequence[str] = (),
) -> Seen:
    """Judge one run.

    Args:
        acknowledged: the numbers that the first topic has acknowledged.
        arrivals: what was read from the second topic, in order.
        killed: what each broker was that was killed, and when, in ms.
        trouble: what went wrong with the program itself.
    """
    copies = Counter(arrival.value for arrival in arrivals)
    lost = sorted(set(acknowledged) - copies.keys())
    times = [arrival.at_ms for arrival in arrivals]
    pause_ms = longest_pause_ms(times, [at_ms for _, at_ms in killed]) if killed else None
    reasons = [*trouble]
    if not acknowledged:
        reasons.append("nothing was acknowledged")
    if lost:
        numbers = ", ".join(map(str, lost[:_SHOWN])) + (", …" if len(lost) > _SHOWN else "")
        reasons.append(f"{len(lost)} acknowledged records are missing: {numbers}")
    if killed and pause_ms is None:
        reasons.append(f"nothing arrived after the {killed[-1][0]} was killed")
    return Seen(
        version=version,
        killed=tuple(what for what, _ in killed),
        sent=sent,
        acknowledged=len(acknowledged),
        lost=len(lost),
        twice=sum(count > 1 for count in copies.values()),
        pause_ms=pause_ms,
        reasons=tuple(reasons),
    )
