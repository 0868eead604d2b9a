"""The disk of a simulated node: files and folders in memory, the effects of a loss of power, and faults by rule.

The end of a process keeps everything, since the operating system has it. A loss of power may undo:

- Bytes that were added to a file after its last flush: the file is cut at any byte from there on. A truncation, which a
  real disk may also undo, is durable at once.
- Names: each file or folder that was created, renamed or deleted since the last flush of its folder may keep
  this change or lose it. A rename is undone as a whole, and the changes of a name are undone from the last one back, so
  that no file has two names and none loses its only name, as on a file system with a journal. The flush of a file keeps
  no name.
"""

from __future__ import annotations

import errno
import os
import random
from collections import deque
from typing import TypeAlias

from understudy.brokers.world import Volume, check_path
from understudy.clusters.simulated.disk_faults import DiskFaults, ProcessEnded
from understudy.foundation.records.varint import Buffer

VOLUME_BYTES = 2**40
"""Size of a node's disk: more than any simulation fills."""

_MOST_CHANGES = 1_000
"""Number of changes of names that a loss of power may undo; the operating system has written older ones."""


class _File:
    """The bytes of a file, and the number of bytes that every loss of power keeps.

    Attributes:
        is_rest_lost: whether a failed flush has lost the bytes that are not flushed.
    """

    __slots__ = ("data", "flushed", "is_rest_lost")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.flushed = 0
        self.is_rest_lost = False

    def lose_power(self, source: random.Random) -> None:
        if not self.is_rest_lost:
            size = len(self.data)
            self.flushed = source.choice((self.flushed, size, source.randint(self.flushed, size)))
        del self.data[self.flushed :]
        self.is_rest_lost = False


class _Folder:
    """The names in a folder, now and after a loss of power that undoes all possible changes."""

    __slots__ = ("durable", "names")

    def __init__(self) -> None:
        self.names: dict[str, _File | _Folder] = {}
        self.durable: dict[str, _File | _Folder] = {}


_Change: TypeAlias = tuple[tuple[_Folder, str, _File | _Folder | None], ...]
"""Folders, names, and the new file or folder of each name; None if it has none. A rename changes two names at once."""


class SimulatedDisk:
    """The files of a node, in memory; implements `Disk`. They outlive the node's processes.

    Attributes:
        volume_bytes: the number of bytes that all files together may have; an append beyond it adds the bytes that
            fit, and raises ENOSPC.
    """

    directory = "/data"

    def __init__(self, *, volume_bytes: int = VOLUME_BYTES) -> None:
        self.volume_bytes = volume_bytes
        self._used_bytes = 0
        self._root = _Folder()
        self._changes: deque[_Change] = deque()
        """The changes of names that a loss of power may undo, oldest first."""
        self.faults = DiskFaults()
        self._failed_flushes: set[_File | _Folder] = set()
        """Files and folders that this process has failed to flush."""

    # ------------------------------------------------------------------ the port

    def lock(self) -> None:
        """Do nothing: no other process uses these files."""

    def volume(self) -> Volume:
        self.faults.apply("volume", "")
        return Volume(self.volume_bytes, max(0, self.volume_bytes - self._used_bytes))

    def read(self, path: str) -> bytes | None:
        self.faults.apply("read", path)
        node = self._node(path)
        if isinstance(node, _Folder):
            raise _error(errno.EISDIR, check_path(path))
        return None if node is None else bytes(node.data)

    def read_at(self, path: str, position: int, size: int) -> bytes:
        file = self._file(path)
        self.faults.apply("read_at", path)
        if position < 0:
            raise _error(errno.EINVAL, path)
        return bytes(file.data[position : position + size])

    def size(self, path: str) -> int | None:
        node = self._node(path)
        if not isinstance(node, _File):
            check_path(path)
            return None
        return len(node.data)

    def list_folder(self, folder: str) -> tuple[str, ...]:
        self.faults.apply("list_folder", folder)
        node = self._node(folder)
        if not isinstance(node, _Folder):
            return ()
        return tuple(sorted(name for name in node.names if not name.endswith(".tmp")))

    def is_folder(self, path: str) -> bool:
        return isinstance(self._node(path), _Folder)

    def make_folder(self, folder: str) -> None:
        self.faults.apply("make_folder", folder)
        node = self._node(folder)
        if isinstance(node, _Folder):
            return
        if node is not None:
            raise _error(errno.EEXIST, folder)
        above, name = self._place(folder)
        self._change(((above, name, _Folder()),))

    def write(self, path: str, data: bytes, *, flush: bool = True) -> None:
        folder, name = self._place_of_file(path)
        self.faults.apply("write", path)
        if self._used_bytes + len(data) > self.volume_bytes:
            raise _error(errno.ENOSPC, path)
        self._used_bytes += len(data) - (self.size(path) or 0)
        file = _File(data)
        self._change(((folder, name, file),))
        if flush:
            file.flushed = len(data)
            self._flush_names(folder, path.rpartition("/")[0])

    def append(self, path: str, data: Buffer) -> None:
        file = self._node(path)
        if not isinstance(file, _File):
            folder, name = self._place_of_file(path)
            file = _File()
            self._change(((folder, name, file),))
        size = len(data)
        try:
            self.faults.apply("append", path)
        except (OSError, ProcessEnded):
            self._add(file, data[: size // 2])
            raise
        room = self.volume_bytes - self._used_bytes
        if size > room:
            self._add(file, data[: max(0, room)])
            raise _error(errno.ENOSPC, path)
        self._add(file, data)

    def truncate(self, path: str, size: int) -> None:
        file = self._file(path)
        self.faults.apply("truncate", path)
        self._used_bytes -= max(0, len(file.data) - size)
        del file.data[size:]
        if len(file.data) <= file.flushed:
            file.flushed = len(file.data)
            file.is_rest_lost = False

    def flush(self, path: str) -> None:
        file = self._file(path)
        self._refuse_second_flush(file, path)
        try:
            is_skipped = self.faults.apply("flush", path)
        except OSError:
            self._failed_flushes.add(file)
            file.is_rest_lost = file.flushed < len(file.data)
            raise
        if not file.is_rest_lost and not is_skipped:
            file.flushed = len(file.data)

    def flush_directory(self, folder: str) -> None:
        found = self._node(folder)
        if not isinstance(found, _Folder):
            raise self._missing(folder)
        self._refuse_second_flush(found, folder)
        try:
            is_skipped = self.faults.apply("flush_directory", folder)
        except OSError:
            self._failed_flushes.add(found)
            raise
        if not is_skipped:
            self._flush_names(found, folder)

    def rename(self, path: str, to: str) -> None:
        check_path(path)
        check_path(to)
        self.faults.apply("rename", path)
        node, replaced = self._node(path), self._node(to)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(replaced, _Folder) or (isinstance(node, _Folder) and replaced is not None):
            raise _error(errno.EEXIST, to)
        (folder, name), (target, new_name) = self._place(path), self._place(to)
        if isinstance(node, _Folder) and to.startswith(f"{path}/"):
            raise _error(errno.EINVAL, to)
        if path == to:
            return
        self._used_bytes -= 0 if replaced is None else len(replaced.data)
        if isinstance(node, _Folder) and folder is not target:
            while self._changes:  # otherwise a loss of power could leave two folders inside each other
                _make_durable(self._changes.popleft())
        self._change(((folder, name, None), (target, new_name, node)))

    def delete(self, path: str) -> None:
        check_path(path)
        self.faults.apply("delete", path)
        node = self._node(path)
        if isinstance(node, _Folder):
            raise _error(errno.EISDIR, path)
        if node is not None:
            self._remove(*self._place(path))

    def delete_folder(self, folder: str) -> None:
        check_path(folder)
        self.faults.apply("delete_folder", folder)
        node = self._node(folder)
        if isinstance(node, _File):
            raise _error(errno.ENOTDIR, folder)
        if node is not None:
            self._remove(*self._place(folder))

    # ------------------------------------------------------------------ faults

    def end_process(self) -> None:
        """Forget failed flushes: the next process cannot detect them, and may flush these files. No file changes."""
        self._failed_flushes.clear()

    def lose_power(self, source: random.Random) -> None:
        """Undo changes that were not flushed, as `source` draws them (module docstring), and end the process."""
        probability = source.choice((0.0, 0.5, 1.0))
        undone: set[tuple[_Folder, str]] = set()
        for change in self._changes:
            names = {(folder, name) for folder, name, _ in change}
            if not undone.isdisjoint(names) or source.random() < probability:
                undone |= names
            else:
                _make_durable(change)
        self._changes.clear()
        self.end_process()
        self._used_bytes = 0
        self._lose_unflushed_bytes(self._root, source)

    def _lose_unflushed_bytes(self, folder: _Folder, source: random.Random) -> None:
        folder.names = {name: folder.durable[name] for name in sorted(folder.durable)}
        for node in folder.names.values():
            if isinstance(node, _File):
                node.lose_power(source)
                self._used_bytes += len(node.data)
            else:
                self._lose_unflushed_bytes(node, source)

    def _refuse_second_flush(self, node: _File | _Folder, path: str) -> None:
        if node in self._failed_flushes:
            raise AssertionError(
                f"{path or self.directory} is flushed again after a flush of it has failed: what it held may be lost"
            )

    # ------------------------------------------------------------------ bytes

    def _file(self, path: str) -> _File:
        file = self._node(path)
        if not isinstance(file, _File):
            raise self._missing(check_path(path))
        return file

    def _add(self, file: _File, data: Buffer) -> None:
        file.data += data
        self._used_bytes += len(data)

    # ------------------------------------------------------------------ names

    def _node(self, path: str) -> _File | _Folder | None:
        """The file or folder of a path, which is the disk itself if it is empty; None if there is none."""
        node: _File | _Folder | None = self._root
        for name in path.split("/") if path else ():
            node = node.names.get(name) if isinstance(node, _Folder) else None
        if node is None:
            check_path(path)
        return node

    def _place(self, path: str) -> tuple[_Folder, str]:
        """The folder of `path`, and the name in it.

        Raises:
            OSError: its folder is missing or a file.
        """
        above, _, name = check_path(path).rpartition("/")
        folder = self._node(above)
        if not isinstance(folder, _Folder):
            raise self._missing(path)
        return folder, name

    def _place_of_file(self, path: str) -> tuple[_Folder, str]:
        """As `_place`. Also raises OSError if `path` is a folder."""
        if self.is_folder(path):
            raise _error(errno.EISDIR, check_path(path))
        return self._place(path)

    def _missing(self, path: str) -> OSError:
        """The error for a path without a file; it depends on whether there is a folder, or a file above it."""
        if self.is_folder(path):
            return _error(errno.EISDIR, path)
        folder = path
        while folder:
            if isinstance(self._node(folder), _File):
                return _error(errno.ENOTDIR, path)
            folder = folder.rpartition("/")[0]
        return _error(errno.ENOENT, path)

    def _change(self, change: _Change) -> None:
        for folder, name, node in change:
            if node is None:
                del folder.names[name]
            else:
                folder.names[name] = node
        self._changes.append(change)
        if len(self._changes) > _MOST_CHANGES:
            _make_durable(self._changes.popleft())

    def _flush_names(self, folder: _Folder, path: str) -> None:
        """Make the changes in `folder` durable, and earlier ones of the same names in other folders."""
        self._refuse_second_flush(folder, path)
        flushed: list[_Change] = []
        kept: deque[_Change] = deque()
        needed: set[tuple[_Folder, str]] = set()
        for change in reversed(self._changes):
            for changed, name, _ in change:
                if changed is folder or (needed and (changed, name) in needed):
                    needed.update((changed, name) for changed, name, _ in change)
                    flushed.append(change)
                    break
            else:
                kept.appendleft(change)
        self._changes = kept
        for change in reversed(flushed):
            _make_durable(change)

    def _remove(self, folder: _Folder, name: str) -> None:
        """Remove a file, or a folder and all below it."""
        node = folder.names[name]
        if isinstance(node, _File):
            self._used_bytes -= len(node.data)
        else:
            for below in sorted(node.names):
                self._remove(node, below)
        self._change(((folder, name, None),))


def _make_durable(change: _Change) -> None:
    for folder, name, node in change:
        if node is None:
            folder.durable.pop(name, None)
        else:
            folder.durable[name] = node


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
