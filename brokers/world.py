"""The `World`: everything a broker may ask of its surroundings.

Two places build one: `brokers.machine.real_world` for a process, `understudy.simulator` for a simulated node.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from brokers.config.logger_levels import LoggerLevels
from foundation.eventlog.clock import Clock
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog
from foundation.eventlog.points import Points
from foundation.wire.network import Network
from foundation.zk.client import ZooKeeper

T = TypeVar("T")


class Volume(NamedTuple):
    """What a directory lies on."""

    total_bytes: int
    usable_bytes: int


class DirectoryLocked(Exception):
    """Two processes would write the same files. The message names the directory, and what to do."""


class Storage(Protocol):
    """Small files that survive a crash of the process, by path relative to the node's directory."""

    @property
    def directory(self) -> str:
        """The node's directory, as an absolute path."""

    def lock(self) -> None:
        """Keep the directory to this process, for as long as it lives.

        Raises:
            DirectoryLocked: another process keeps it.
        """

    def volume(self) -> Volume:
        """Raises OSError where the disk cannot be asked."""

    def read(self, path: str) -> bytes | None:
        """The file's bytes, or None where there is no such file."""

    def write(self, path: str, data: bytes) -> None:
        """Replace the file as a whole: after a crash it holds the old bytes or the new ones."""

    def delete(self, path: str) -> None:
        """Remove the file; harmless where there is none."""


class Offload(Protocol):
    async def __call__(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises; it takes long and touches nothing that others may touch meanwhile."""


async def at_once(work: Callable[[], T]) -> T:
    """Nothing else goes on meanwhile, as in the simulator, where work takes no time."""
    return work()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """
    Attributes:
        offload: does work of more than some milliseconds without holding up everything else that a broker does.
    """

    zookeeper: ZooKeeper
    network: Network
    clock: Clock
    random: random.Random
    storage: Storage
    events: EventLog
    fences: Fences
    points: Points
    loggers: LoggerLevels = field(default_factory=LoggerLevels)
    offload: Offload = at_once
