"""Real files behind the `Storage` port: replaced as a whole, and never outside the node's directory."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

from brokers.world import DirectoryLocked, Volume

LOCK = ".lock"
"""Kafka's name for it, and its kind of lock: a broker of Kafka and one of ours keep each other out, too."""

TEMPORARY = ".tmp"


class FileStorage:
    """The files below one directory, which is made when it is missing.

    Every method raises ValueError for a path that leaves the directory, and OSError where the disk refuses.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()
        self._lock: int | None = None

    @property
    def directory(self) -> str:
        return str(self._root)

    def lock(self) -> None:
        descriptor = os.open(self._root / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if not isinstance(error, BlockingIOError | PermissionError):
                raise
            raise DirectoryLocked(
                f"Failed to acquire lock on file {LOCK} in {self._root}. A Kafka instance in another process is using this "
                "directory; stop it, or give this broker another log.dirs"
            ) from error
        # Never closed: the lock goes with the process, however that ends.
        self._lock = descriptor

    def volume(self) -> Volume:
        total, _, free = shutil.disk_usage(self._root)
        return Volume(total, free)

    def read(self, path: str) -> bytes | None:
        try:
            return self._inside(path).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, path: str, data: bytes) -> None:
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + TEMPORARY)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        _flush_directory(target.parent)

    def delete(self, path: str) -> None:
        self._inside(path).unlink(missing_ok=True)

    def _inside(self, path: str) -> Path:
        """`path` below the root, with every symbolic link on its way resolved, so that none leads outside."""
        if "\0" in path:
            raise ValueError(f"path {path!r} contains a NUL")
        target = self._root / path
        resolved = target.parent.resolve() / target.name
        if target.name == ".." or resolved == self._root or not resolved.is_relative_to(self._root):
            raise ValueError(f"path {path!r} does not lead to a file inside {self._root}")
        if resolved.is_symlink():
            raise ValueError(f"path {path!r} is a symbolic link; expected a file or folder of this broker's own")
        return resolved


def _flush_directory(directory: Path) -> None:
    """Make a rename survive a loss of power; some file systems cannot, and then it is as safe as they are."""
    descriptor = os.open(directory, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
