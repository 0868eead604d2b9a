"""The `World`: everything that a broker uses of the machine it runs on.

Two places build one: `understudy.brokers.machine.real_world` for a process, `understudy.clusters.simulated` for a
simulated node.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from understudy.brokers.config.logger_levels import LoggerLevels
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.points import Points
from understudy.foundation.records.varint import Buffer
from understudy.foundation.wire.armed_answers import AnswerList, ArmedAnswers
from understudy.foundation.wire.network import Network
from understudy.foundation.zk.client import ZooKeeper

T = TypeVar("T")


class Volume(NamedTuple):
    """The size of the file system that a directory is on, and the space left there."""

    total_bytes: int
    usable_bytes: int


class DirectoryLocked(Exception):
    """Another process uses the directory. The message names the directory, and says what to do."""


def check_path(path: str) -> str:
    """Return `path`, which must lead to a file or folder inside a node's directory, in the one form that it has.

    Raises:
        ValueError: it is empty, absolute, has an empty part, `.` or `..`, or a NUL.
    """
    if "\0" in path or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ValueError(f"path {path!r} does not lead to a file inside the node's directory, or not in its plain form")
    return path


class Disk(Protocol):
    """The files of one node, by path relative to the node's directory.

    What a call has done survives the end of the process. A loss of power may undo it until the file is flushed, which
    keeps its bytes, and its folder is flushed, which keeps the names in it.

    Every method that takes a path raises ValueError for one that leads outside the directory or is not in its plain
    form (`check_path`), and OSError if the disk fails. A file whose `flush` has failed may have lost bytes that a
    second call would not miss: it must not be flushed again, the broker has to stop. `flush` may run on another thread.
    """

    @property
    def directory(self) -> str:
        """The node's directory, as an absolute path."""

    def lock(self) -> None:
        """Keep other processes out of the directory until this process ends.

        Raises:
            DirectoryLocked: another process uses it.
        """

    def volume(self) -> Volume:
        """The file system that the directory is on."""

    def read(self, path: str) -> bytes | None:
        """The file's bytes, or None if there is no such file."""

    def read_at(self, path: str, position: int, size: int) -> bytes:
        """Up to `size` bytes of the file from `position` on; fewer if the file ends before.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def size(self, path: str) -> int | None:
        """The file's size in bytes, or None if there is no such file."""

    def list_folder(self, folder: str) -> tuple[str, ...]:
        """The sorted names of the files and folders in `folder`; "" is the node's directory. Empty if it is missing.

        Names that end with `.tmp` are left out: `write` uses them.
        """

    def is_folder(self, path: str) -> bool:
        """Whether there is a folder at `path`."""

    def make_folder(self, folder: str) -> None:
        """Create the folder; harmless if it exists. Its parent exists."""

    def write(self, path: str, data: bytes, *, flush: bool = True) -> None:
        """Replace the file as a whole, or create it: after a crash it holds the old bytes or the new ones.

        Its folder exists. If the disk fails or is full, the old bytes stay.

        Args:
            flush: whether the bytes and the name are durable when it returns. Without it a loss of power may leave the
                old file, the new one, or one that is cut off.
        """

    def append(self, path: str, data: Buffer) -> None:
        """Add `data` to the end of the file; create it if it is missing. Its folder exists.

        Raises:
            OSError: the disk fails or is full; a part of `data` may have been added.
        """

    def truncate(self, path: str, size: int) -> None:
        """Cut the file off after `size` bytes; a shorter file stays as it is.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def flush(self, path: str) -> None:
        """Make durable what was appended to the file, and truncated.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def flush_directory(self, folder: str) -> None:
        """Make durable which files and folders are in `folder`, and by which names; "" is the node's directory."""

    def rename(self, path: str, to: str) -> None:
        """Give a file or folder another path, in one step. A file replaces a file that is there.

        Raises:
            FileNotFoundError: there is nothing at `path`, or no folder for `to`.
            OSError: a folder is at `to`, or a file where a folder is to be.
        """

    def delete(self, path: str) -> None:
        """Remove the file; harmless if there is none."""

    def delete_folder(self, folder: str) -> None:
        """Remove the folder with everything in it; harmless if there is none."""


class Offload(Protocol):
    async def __call__(self, work: Callable[[], T]) -> T:
        """Run `work`, which takes long and uses nothing that changes meanwhile; return or raise what it does."""


async def at_once(work: Callable[[], T]) -> T:
    """Run `work` on the event loop itself, as in the simulator, where work takes no time."""
    return work()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The surroundings of one broker.

    Attributes:
        host_name: returns the name by which other machines reach this one; it may ask the DNS.
        on_identified: called with the broker's id once it is configured, stored or generated.
        answers: the answers that an experiment or a test has armed.
        offload: runs work of more than some milliseconds without stopping the event loop.
    """

    zookeeper: ZooKeeper
    network: Network
    clock: Clock
    random: random.Random
    disk: Disk
    events: EventLog
    fences: Fences
    points: Points
    answers: ArmedAnswers = field(default_factory=AnswerList)
    loggers: LoggerLevels = field(default_factory=LoggerLevels)
    offload: Offload = at_once
    host_name: Callable[[], str] = lambda: "localhost"
    on_identified: Callable[[int], None] = lambda broker_id: None
