"""The rules by which single requests between nodes are held, lost, repeated or damaged, and single writes to ZooKeeper.

The proxy of the testbed applies them to the bytes of sockets, the simulator to the bytes of its simulated connections.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass, field
from struct import Struct
from typing import Final, Literal, TypeAlias

Direction: TypeAlias = Literal["both", "sent", "received"]
"""Directions of a broker's traffic to which a cut applies."""

KAFKA_REQUEST: Final = Struct(">ihhi")
"""Beginning of a Kafka request: size, API key, API version, correlation id."""
KAFKA_ANSWER: Final = Struct(">ii")
"""Beginning of an answer: size, correlation id."""
_SIZE: Final = Struct(">i")


class Effect(enum.Enum):
    """The effect of a rule on the requests that it selects."""

    HOLD = "hold"
    """It waits until the rule is released, as does all that follows on its connection."""
    DELAY = "delay"
    """It waits for `delay_ms`, as does all that follows on its connection."""
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
    """Its last `count` bytes are removed, and its size is set accordingly."""


NEEDS_WHOLE_FRAME = frozenset({Effect.DUPLICATE, Effect.CORRUPT, Effect.SHORTEN})


@dataclass(slots=True, kw_only=True)
class RequestRule:
    """A rule for the requests that some nodes send to others.

    Attributes:
        name: the name by which it is released and removed.
        sources: the senders; a broker is `broker-1`, all clients are `client`.
        api: the API key of the requests; None for all.
        nth: the number of the first matching request that it selects, counted from 1.
        every: the interval at which it selects further requests: 2 for every second one; None for no further one.
        delay_ms: the delay, for `Effect.DELAY`.
        count: the number of bytes, for `Effect.CORRUPT` and `Effect.SHORTEN`.
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
    """Number of requests that had its API."""
    applied: int = field(default=0, init=False)
    """Number of requests to which it was applied."""

    @property
    def missed(self) -> str:
        """The message about a rule that has changed no request."""
        senders, receivers = ", ".join(self.sources), ", ".join(self.destinations)
        return f"{self.effect.value}: {senders} sent no such request to {receivers}"

    def selects(self, api: int, *, is_whole: bool) -> bool:
        """Count a request, and return whether the rule applies to it.

        Args:
            is_whole: whether the proxy has the whole frame; it does not if the frame is very large.
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


def corrupted(frame: bytes, count: int) -> bytes:
    """Return a request with up to `count` bytes of its body inverted, evenly spread; its header stays."""
    changed = bytearray(frame)
    body = range(KAFKA_REQUEST.size, len(frame))
    count = min(count, len(body))
    for number in range(count):
        changed[body[number * len(body) // count]] ^= 0xFF
    return bytes(changed)


def shortened(frame: bytes, count: int) -> bytes:
    """Return a request without its last `count` bytes, its size set accordingly; its header stays."""
    kept = max(KAFKA_REQUEST.size, len(frame) - count)
    return _SIZE.pack(kept - _SIZE.size) + frame[_SIZE.size : kept]
