"""`Link`: one direction between two nodes of the simulated network."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Link:
    """One direction between two nodes: its latency, and the packets that it holds while it is cut."""

    latency_ms: float
    delay_ms: float = 0.0
    """Milliseconds that an injected fault adds to the latency."""
    cut: bool = False
    is_refusing: bool = False
    """Whether connections that the source opens are refused."""
    bytes_per_s: float = 0.0
    """Number of bytes that arrive in a second on each connection; 0 for no limit."""
    piece_bytes: int = 0
    """Size of the pieces in which it carries bytes; 0 for no splitting."""
    held: deque[Callable[[], None]] = field(default_factory=deque)

    def heal(self) -> None:
        """Send the held packets, and let new ones pass. Harmless if the link is not cut."""
        if self.cut:
            self.cut = False
            held, self.held = self.held, deque()
            for send in held:
                send()
