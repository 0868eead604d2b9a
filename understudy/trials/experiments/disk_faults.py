"""The faults of clocks and disks that all engines inject, and the operations that each fault of a disk affects."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from understudy.brokers.world import Disk


class Operations(NamedTuple):
    """The operations of a running broker on its disk that a fault affects.

    Attributes:
        names: methods of `understudy.brokers.world.Disk`.
        error: the errno that they fail with; 0 if they take longer instead.
    """

    names: tuple[str, ...]
    error: int = 0

    @property
    def may_end_broker(self) -> bool:
        """Whether a broker ends at the fault, as Kafka's does when its only log directory fails."""
        return self.error != 0


_WRITES: Final = ("write", "append", "flush", "truncate")
DISK_FAULTS: Final[Mapping[str, Operations]] = MappingProxyType(
    {
        "fill-disk": Operations(_WRITES, errno.ENOSPC),
        "fail-disk": Operations(_WRITES, errno.EIO),
        "fail-flush": Operations(("flush", "flush_directory"), errno.EIO),
        "fail-reads": Operations(("read", "read_at"), errno.EIO),
        "slow-disk": Operations((*_WRITES, "read", "read_at")),
        "slow-flush": Operations(("flush", "flush_directory")),
    }
)
"""Operations that a fault of a disk affects, by action."""


class MachineFaultsOfBrokers(Protocol):
    """Injects faults of the clocks and disks of one kind of cluster. The caller records them."""

    def step_clock(self, broker_id: int, by_ms: float) -> None: ...

    def run_clock_at(self, broker_id: int, rate: float) -> None: ...

    def correct_clock(self, broker_id: int) -> None: ...

    def disk_of(self, broker_id: int) -> Disk: ...

    def break_disk(self, broker_id: int, name: str, operations: Operations, delay_ms: float) -> None:
        """Let operations fail or take longer, until `mend_disk` with the same name."""

    def tear_append(self, broker_id: int, name: str) -> None:
        """Kill the broker in the middle of its next append."""

    def mend_disk(self, broker_id: int, name: str) -> None: ...
