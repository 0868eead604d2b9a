"""`MemoryLog`: an event log in memory, on a clock that a test moves."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, Payload

P = TypeVar("P", bound=Payload)


class HandClock:
    def __init__(self) -> None:
        self.now_ms = 1_000.0

    def monotonic_ms(self) -> float:
        return self.now_ms

    def wall_ms(self) -> float:
        return 1_700_000_000_000.0 + self.now_ms


class MemoryLog(EventLog):
    def __init__(self, clock: HandClock | None = None) -> None:
        self.clock = clock or HandClock()
        self.lines: list[bytes] = []
        super().__init__(run="test", node="broker-1", incarnation=1, clock=self.clock, write=self.lines.append)

    def envelopes(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.lines]

    def of(self, kind: type[P]) -> list[P]:
        """The payloads of one type, in order."""
        return [
            msgspec.convert(envelope["data"], kind)
            for envelope in self.envelopes()
            if PAYLOAD_BY_TYPE[envelope["type"]] is kind
        ]
