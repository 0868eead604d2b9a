"""The `Storage` port over real files, none of them outside the node's directory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from pathlib import Path

from brokers.world import DirectoryLocked, Volume

LOCK = ".lock"
"""Kafka's lock file, locked as Kafka locks it: a broker of Kafka's and one of ours exclude each other."""

TEMPORARY = ".tmp"


class FileStorage:
    """The files below one directory, which is created when it is missing.

    Every call opens the file anew. Renames and deletions are durable once the folder is flushed, which each does.
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
                f"Failed to acquire lock on file {LOCK} in {self._root}. A Kafka instance in another process is using "
                "this directory; stop it, or give this broker another log.dirs"
            ) from error
        # Never closed: the operating system releases the lock when the process ends, however it ends.
        self._lock = descriptor

    def volume(self) -> Volume:
        total, _, free = shutil.disk_usage(self._root)
        return Volume(total, free)

    def read(self, path: str) -> bytes | None:
        try:
            return self._inside(path).read_bytes()
        except FileNotFoundError:
            return None

    def read_range(self, path: str, position: int, size: int) -> bytes:
        with self._inside(path).open("rb") as file:
            file.seek(position)
            return file.read(size)

    def size(self, path: str) -> int | None:
        target = self._inside(path)
        return target.stat().st_size if target.is_file() else None

    def list_folder(self, folder: str) -> tuple[str, ...]:
        target = self._inside(folder) if folder else self._root
        if not target.is_dir():
            return ()
        names = sorted(entry.name for entry in target.iterdir())
        return tuple(name for name in names if not name.endswith(TEMPORARY) and (folder or name != LOCK))

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

    def append(self, path: str, data: bytes) -> None:
        target = self._inside(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write(data)

    def truncate(self, path: str, size: int) -> None:
        target = self._inside(path)
        if size < target.stat().st_size:
            os.truncate(target, size)

    def flush(self, path: str) -> None:
        target = self._inside(path)
        with target.open("rb") as file:
            os.fsync(file.fileno())
        _flush_directory(target.parent)

    def rename(self, path: str, to: str) -> None:
        source, target = self._inside(path), self._inside(to)
        if not source.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        if target.is_dir() or (source.is_dir() and target.exists()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        _flush_directory(target.parent)
        if target.parent != source.parent:
            self._remove_empty_folders(source.parent)

    def delete(self, path: str) -> None:
        target = self._inside(path)
        target.unlink(missing_ok=True)
        self._remove_empty_folders(target.parent)

    def _remove_empty_folders(self, folder: Path) -> None:
        """Remove `folder` and those above it while they are empty; flush the first that stays."""
        while folder != self._root and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            folder = folder.parent
        if folder.is_dir():
            _flush_directory(folder)

    def _inside(self, path: str) -> Path:
        """`path` below the root, with the symbolic links in it resolved.

        Raises:
            ValueError: it leads outside the root, or to a symbolic link.
        """
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
    """Make a rename in `directory` survive a loss of power, where the file system can do that."""
    descriptor = os.open(directory, os.O_RDONLY)
    with contextlib.suppress(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
