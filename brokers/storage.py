"""Real files behind the `Storage` port: replaced as a whole, and never outside the node's directory."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from brokers.world import Volume

TEMPORARY = ".tmp"


class FileStorage:
    """The files below one directory, which is made when it is missing.

    Every method raises ValueError for a path that leaves the directory, and OSError where the disk refuses.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()

    @property
    def directory(self) -> str:
        return str(self._root)

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
        target = self._inside(path)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def list(self, path: str) -> tuple[str, ...]:
        try:
            folder = self._root if path in ("", ".") else self._inside(path)
            return tuple(sorted(entry.name for entry in folder.iterdir() if not entry.name.endswith(TEMPORARY)))
        except FileNotFoundError:
            return ()

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
