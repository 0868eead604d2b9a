"""The rules by which the proxy changes the fate of single requests of Kafka, and single writes to ZooKeeper."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, field


class Effect(enum.Enum):
    """What happens to a request that a rule selects."""

    HOLD = "hold"
    """It waits until the rule is released, and with it what follows on its connection."""
    DELAY = "delay"
    """It waits for `delay_ms`, and with it what follows on its connection."""
    LOSE_ANSWER = "lose-answer"
    """It is forwarded; its connection is reset instead of forwarding the answer."""
    CUT_BEFORE = "cut-before"
    """Its connection is reset; the request is not forwarded."""
    CUT_AFTER = "cut-after"
    """It is forwarded, and its connection is reset at once."""
    DUPLICATE = "duplicate"
    """It is forwarded, and sent again on a second connection, whose answer is ignored."""
    CORRUPT = "corrupt"
    """`count` bytes of its body are inverted."""
    SHORTEN = "shorten"
    """Its last `count` bytes are removed; its size says so."""


NEEDS_WHOLE_FRAME = frozenset({Effect.DUPLICATE, Effect.CORRUPT, Effect.SHORTEN})


@dataclass(slots=True, kw_only=True)
class Rule:
    """A rule for the requests that some nodes send to others.

    Attributes:
        name: under this name it is released and removed.
        sources: the senders; a broker is `broker-1`, all clients are `client`.
        api: the API key of the requests; None for all.
        nth: which matching request is the first that it selects, counted from 1.
        every: it selects every so manieth request after that one; None selects no further one.
        delay_ms: for `Effect.DELAY`.
        count: how many bytes, for `Effect.CORRUPT` and `Effect.SHORTEN`.
    """

    name: str
    sources: Collection[str]
    destinations: Collection[str]
    effect: Effect
    api: int | None = None
    nth: int = 1
    every: int | None = None
    delay_ms: float = 0.0
    count: int = 1
    matched: int = field(default=0, init=False)
    """How many requests had its API."""
    applied: int = field(default=0, init=False)
    """How many requests it has changed."""

    def selects(self, api: int, *, is_whole: bool) -> bool:
        """Count a request, and return whether the rule applies to it.

        Args:
            is_whole: whether the proxy has the whole frame; it has not where the frame is very large.
        """
        if self.api is not None and api != self.api:
            return False
        self.matched += 1
        after = self.matched - self.nth
        if after < 0 or (after > 0 and (self.every is None or after % self.every != 0)):
            return False
        if self.effect in NEEDS_WHOLE_FRAME and not is_whole:
            return False
        self.applied += 1
        return True


@dataclass(slots=True)
class LostWrite:
    """A fault: the connection to ZooKeeper is reset at the next write to a path, so that its outcome is unknown.

    Attributes:
        path: the write must change or check a path, without the chroot, that contains this.
        applied: whether ZooKeeper receives the write before the connection is reset.
    """

    path: str
    applied: bool
