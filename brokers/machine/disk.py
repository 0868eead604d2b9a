"""The `Disk` port over real files, none of them outside the node's directory."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from understudy.brokers.world import DirectoryLocked, Volume, check_path
from understudy.foundation.records.varint import Buffer

LOCK = ".lock"
"""Kafka's lock file, locked as Kafka locks it: a broker of Kafka's and one of ours exclude each other."""

TEMPORARY = ".tmp"

MOST_OPEN_FILES = 500
"""Maximum number of files that stay open. Each partition has at least one; 10,000 of them exceed what a process may
open."""


class FileDisk:
    """The files below one directory, which is created when it is missing.

    `append` and `read_at` keep the files open that they used last. Every other call works by path. Each call may be
    made on any thread; two threads do not change the same file.

    Args:
        open_files: how many files stay open; a quarter of what the process may open, at most `MOST_OPEN_FILES`, if it
            is not given.
    """

    def __init__(self, root: Path, *, open_files: int | None = None) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()
        self._lock: int | None = None
        self._files = _OpenFiles(_open_files_limit() if open_files is None else open_files, self._open)

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
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_at(self, path: str, position: int, size: int) -> bytes:
        file = self._files.use(path)
        try:
            data = os.pread(file.descriptor, size, position)
            if len(data) == size:
                return data
            parts = [data]
            while data:  # until the end of the file: a call reads at most 2 GB
                position += len(data)
                size -= len(data)
                data = os.pread(file.descriptor, size, position)
                parts.append(data)
            return b"".join(parts)
        finally:
            self._files.release(file)

    def size(self, path: str) -> int | None:
        try:
            status = self._inside(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_size if stat.S_ISREG(status.st_mode) else None

    def list_folder(self, folder: str) -> tuple[str, ...]:
        target = self._folder(folder)
        if not target.is_dir():
            return ()
        names = sorted(entry.name for entry in target.iterdir())
        return tuple(name for name in names if not name.endswith(TEMPORARY) and (folder or name != LOCK))

    def is_folder(self, path: str) -> bool:
        return self._folder(path).is_dir()

    def make_folder(self, folder: str) -> None:
        self._folder(folder).mkdir(exist_ok=True)

    def write(self, path: str, data: bytes, *, flush: bool = True) -> None:
        target, temporary = self._inside(path), self._inside(path + TEMPORARY)
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                if flush:
                    os.fsync(file.fileno())
            temporary.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)  # it would take space that a full disk lacks
            raise
        finally:
            self._files.drop(path)
        if flush:
            _flush_directory(target.parent)

    def append(self, path: str, data: Buffer) -> None:
        file = self._files.use(path, create=True)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(file.descriptor, rest) :]
        finally:
            self._files.release(file)

    def truncate(self, path: str, size: int) -> None:
        target = self._inside(path)
        if size < target.stat().st_size:
            os.truncate(target, size)

    def flush(self, path: str) -> None:
        # A descriptor of its own: this may take long, and the file may be renamed or deleted meanwhile.
        descriptor = os.open(self._inside(path), os.O_RDWR | os.O_NOFOLLOW)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def flush_directory(self, folder: str) -> None:
        _flush_directory(self._folder(folder))

    def rename(self, path: str, to: str) -> None:
        source, target = self._inside(path), self._inside(to)
        if not source.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        if target.is_dir() or (source.is_dir() and target.exists()):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
        source.replace(target)
        self._files.drop(path, to)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._inside(path).unlink()
        self._files.drop(path)

    def delete_folder(self, folder: str) -> None:
        target = self._inside(folder)
        if not target.exists():
            return
        try:
            shutil.rmtree(target)
        finally:
            self._files.drop(folder)

    def _open(self, path: str, create: bool) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
        return os.open(self._inside(path), flags | os.O_CREAT if create else flags, 0o644)

    def _folder(self, folder: str) -> Path:
        return self._inside(folder) if folder else self._root

    def _inside(self, path: str) -> Path:
        """`path` below the root.

        Raises:
            ValueError: it leads outside the root, or a part of it is a symbolic link: with one, two paths could lead
                to one file, and a descriptor outlast the rename of its file.
        """
        target = self._root
        for name in check_path(path).split("/"):
            target /= name
            if target.is_symlink():
                raise ValueError(f"path {path!r} has a symbolic link in it; expected this broker's own files")
        return target


class _OpenFile:
    """A descriptor, and the number of calls that use it now."""

    __slots__ = ("descriptor", "is_dropped", "users")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 0
        self.is_dropped = False


class _OpenFiles:
    """The descriptors of the files that were used last, by path. One that is dropped is closed after its last use.

    A file is opened under the lock. A rename or deletion happens first and drops the descriptors then, so that one
    that another thread opened in between is dropped too.
    """

    def __init__(self, limit: int, open_file: Callable[[str, bool], int]) -> None:
        self._limit = limit
        self._open_file = open_file
        self._lock = threading.Lock()
        self._by_path: OrderedDict[str, _OpenFile] = OrderedDict()

    def use(self, path: str, *, create: bool = False) -> _OpenFile:
        """Return the open file, which is not closed before `release`. Raises the errors of opening it."""
        with self._lock:
            file = self._by_path.get(path)
            if file is not None:
                self._by_path.move_to_end(path)
            else:
                while len(self._by_path) >= self._limit:
                    self._drop(next(iter(self._by_path)))
                file = _OpenFile(self._open_file(path, create))
                self._by_path[path] = file
            file.users += 1
            return file

    def release(self, file: _OpenFile) -> None:
        with self._lock:
            file.users -= 1
            if file.is_dropped and file.users == 0:
                os.close(file.descriptor)

    def drop(self, *paths: str) -> None:
        """Forget the descriptors of these files, and of the files below these folders."""
        below = tuple(f"{path}/" for path in paths)
        with self._lock:
            for path in [path for path in self._by_path if path in paths or path.startswith(below)]:
                self._drop(path)

    def _drop(self, path: str) -> None:
        file = self._by_path.pop(path)
        file.is_dropped = True
        if file.users == 0:
            os.close(file.descriptor)


def _open_files_limit() -> int:
    """A quarter of what the process may open: sockets and other files need the rest."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN_FILES if allowed == resource.RLIM_INFINITY else max(1, min(MOST_OPEN_FILES, allowed // 4))


def _flush_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems cannot flush a directory
            raise
    finally:
        os.close(descriptor)
