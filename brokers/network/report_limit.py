"""How often a broker reports that a peer misbehaves. Without a limit a peer that sends garbage fills the disk."""

from __future__ import annotations

from collections import Counter

from understudy.foundation.eventlog.clock import Clock

PER_ADDRESS = 10
"""Maximum number of reports about the connections of one address in an interval."""

IN_ALL = 100
"""Maximum number of reports about all peers together."""

INTERVAL_MS = 60_000


class ReportLimit:
    """Counts the reports of each interval by address. What it keeps is bounded by `IN_ALL` addresses."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._interval = -1
        self._reports: Counter[str] = Counter()
        self._left_out = 0

    def take(self, peer: str) -> int | None:
        """How many reports were left out since the last one, of whatever peer; None if this one is left out too.

        Args:
            peer: `host:port`; connections from all ports of a host count together.
        """
        interval = int(self._clock.monotonic_ms() // INTERVAL_MS)
        if interval != self._interval:
            self._interval = interval
            self._reports.clear()
        address = host_of(peer)
        if self._reports[address] >= PER_ADDRESS or self._reports.total() >= IN_ALL:
            self._left_out += 1
            return None
        self._reports[address] += 1
        left_out, self._left_out = self._left_out, 0
        return left_out


def host_of(peer: str) -> str:
    return peer.rpartition(":")[0]
