"""Faults of this machine's disk and clock that a JSON file names, for experiments on processes.

The file is written by the one who runs the experiment, and read again when it has changed:

    {"disk": [{"name": "slow", "operations": ["flush"], "delay_ms": 300}],
     "clock": {"offset_ms": -5000, "rate": 1.0, "since_ms": 0}}

A file that is missing, or cannot be read because it is being written, has no faults. The name of a fault that has
taken effect is appended to a second file, `….applied`, once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from understudy.brokers.machine.disk import FileDisk
from understudy.brokers.world import Disk, Volume
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.records.varint import Buffer

T = TypeVar("T")

APPLIED = ".applied"


class InjectedDiskFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of some operations of the disk.

    Attributes:
        name: the name written to `….applied`; another one for each fault.
        operations: methods of `Disk`.
        error: the errno that they fail with; 0 for none. An append that fails adds half of its data first.
        delay_ms: how much longer they take; the calling thread waits.
        kills: whether this process is killed (SIGKILL) in the middle of the operation, as soon as half is added.
    """

    name: str
    operations: tuple[str, ...]
    error: int = 0
    delay_ms: float = 0.0
    kills: bool = False


class ClockFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of the wall clock.

    Attributes:
        offset_ms: by how much it is ahead.
        rate: how fast it runs, 1.0 being right and 0.0 standing still.
        since_ms: on the monotonic clock, since when it has run at `rate`.
    """

    offset_ms: float = 0.0
    rate: float = 1.0
    since_ms: float = 0.0

    def shift(self, monotonic_ms: float) -> float:
        """By how many milliseconds the wall clock is wrong now."""
        return self.offset_ms + (self.rate - 1.0) * max(0.0, monotonic_ms - self.since_ms)


class MachineFaults(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    disk: tuple[InjectedDiskFault, ...] = ()
    clock: ClockFault = ClockFault()


_NONE = MachineFaults()


class FaultsFile:
    """The file of faults; may be read on any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._applied_path = path.with_name(path.name + APPLIED)
        self._read: tuple[tuple[int, int, int], MachineFaults] | None = None
        self._applied = self._applied_before()
        self._before = frozenset(self._applied)

    def _applied_before(self) -> set[str]:
        try:
            return set(self._applied_path.read_text(encoding="utf-8").split())
        except FileNotFoundError:
            return set()

    def is_over(self, fault: InjectedDiskFault) -> bool:
        """Whether it has killed an earlier process, which it does once."""
        return fault.kills and fault.name in self._before

    def current(self) -> MachineFaults:
        """The faults that the file names now."""
        try:
            status = self._path.stat()
            version = (status.st_mtime_ns, status.st_ino, status.st_size)
            if self._read is None or self._read[0] != version:
                self._read = version, msgspec.json.decode(self._path.read_bytes(), type=MachineFaults)
        except (OSError, msgspec.DecodeError):
            return _NONE
        return self._read[1]

    def applied(self, name: str) -> None:
        """Note that a fault has taken effect."""
        if name not in self._applied:
            self._applied.add(name)
            with self._applied_path.open("a", encoding="utf-8") as file:
                file.write(f"{name}\n")


class FaultyClock:
    """A clock whose wall time may be wrong; implements `Clock`."""

    def __init__(self, clock: Clock, faults: FaultsFile) -> None:
        self._clock = clock
        self._faults = faults

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()

    def wall_ms(self) -> float:
        return self._clock.wall_ms() + self._faults.current().clock.shift(self._clock.monotonic_ms())


class FaultyDisk:
    """A disk whose operations may fail, or take longer; implements `Disk`."""

    def __init__(self, disk: FileDisk, faults: FaultsFile) -> None:
        self._disk = disk
        self._faults = faults

    def _run(self, operation: str, work: Callable[[], T], half: Callable[[], object] | None = None) -> T:
        """Do an operation, unless a fault prevents it.

        Args:
            half: does the first half of it, after which it fails.
        """
        for fault in self._faults.current().disk:
            if operation not in fault.operations or self._faults.is_over(fault):
                continue
            self._faults.applied(fault.name)
            if fault.delay_ms:
                time.sleep(fault.delay_ms / 1000)
            if (fault.error or fault.kills) and half is not None:
                half()
            if fault.kills:
                os.kill(os.getpid(), signal.SIGKILL)
            if fault.error:
                raise OSError(fault.error, os.strerror(fault.error), self._disk.directory)
        return work()

    @property
    def directory(self) -> str:
        return self._disk.directory

    def lock(self) -> None:
        self._disk.lock()

    def volume(self) -> Volume:
        return self._run("volume", self._disk.volume)

    def read(self, path: str) -> bytes | None:
        return self._run("read", lambda: self._disk.read(path))

    def read_at(self, path: str, position: int, size: int) -> bytes:
        return self._run("read_at", lambda: self._disk.read_at(path, position, size))

    def size(self, path: str) -> int | None:
        return self._disk.size(path)

    def list_folder(self, folder: str) -> tuple[str, ...]:
        return self._run("list_folder", lambda: self._disk.list_folder(folder))

    def is_folder(self, path: str) -> bool:
        return self._disk.is_folder(path)

    def make_folder(self, folder: str) -> None:
        self._run("make_folder", lambda: self._disk.make_folder(folder))

    def write(self, path: str, data: bytes, *, flush: bool = True) -> None:
        self._run("write", lambda: self._disk.write(path, data, flush=flush))

    def append(self, path: str, data: Buffer) -> None:
        half = len(data) // 2
        self._run(
            "append", lambda: self._disk.append(path, data), lambda: self._disk.append(path, memoryview(data)[:half])
        )

    def truncate(self, path: str, size: int) -> None:
        self._run("truncate", lambda: self._disk.truncate(path, size))

    def flush(self, path: str) -> None:
        self._run("flush", lambda: self._disk.flush(path))

    def flush_directory(self, folder: str) -> None:
        self._run("flush_directory", lambda: self._disk.flush_directory(folder))

    def rename(self, path: str, to: str) -> None:
        self._run("rename", lambda: self._disk.rename(path, to))

    def delete(self, path: str) -> None:
        self._run("delete", lambda: self._disk.delete(path))

    def delete_folder(self, folder: str) -> None:
        self._run("delete_folder", lambda: self._disk.delete_folder(folder))


def _as_disk(disk: FaultyDisk) -> Disk:
    """Let mypy check that a disk with faults implements `Disk`."""
    return disk
