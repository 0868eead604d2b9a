"""The faults of disks as steps of experiments name them: which operations fail, or take longer. For all engines."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class DiskFaultKind(NamedTuple):
    """What an action does to a running broker's disk.

    Attributes:
        operations: methods of `understudy.brokers.world.Disk`.
        error: the errno that they fail with; 0 if they take longer instead.
    """

    operations: tuple[str, ...]
    error: int = 0

    @property
    def may_end_broker(self) -> bool:
        """Whether a broker ends at it, as Kafka's does when its only log directory fails."""
        return self.error != 0


_WRITES: Final = ("write", "append", "flush", "truncate")

DISK_FAULTS: Final[Mapping[str, DiskFaultKind]] = MappingProxyType(
    {
        "fill-disk": DiskFaultKind(_WRITES, errno.ENOSPC),
        "fail-disk": DiskFaultKind(_WRITES, errno.EIO),
        "fail-flush": DiskFaultKind(("flush", "flush_directory"), errno.EIO),
        "fail-reads": DiskFaultKind(("read", "read_at"), errno.EIO),
        "slow-disk": DiskFaultKind(("write", "append", "flush", "truncate", "read", "read_at")),
        "slow-flush": DiskFaultKind(("flush", "flush_directory")),
    }
)
"""By action."""
