"""Reaches object stores and HDFS by the file systems of `pyarrow.fs`, with errors that name the URL.

A request that fails because the store is busy or a connection breaks is made again, some times.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from understudy.history.storage import azure, google, hdfs, s3
from understudy.history.storage.paths import AT_ONCE, READ_BYTES, StoragePath, StoreFailed, UrlPath
from understudy.history.storage.reasons import reason_of

T = TypeVar("T")
R = TypeVar("R")

_ATTEMPTS: Final = 5
_FIRST_DELAY_S: Final = 0.2
_BROKEN_OFF: Final = (
    "Failed to flush response stream",
    "Connection closed before getting full response",
    "end of file before message length reached",
)
"""Errors of answers that no client asks for again: S3's if they are longer than expected, and parts of others'."""


_OPENED_BY: Final[Mapping[str, Callable[[str], tuple[Any, str]]]] = {
    "s3": s3.open_bucket,
    "s3a": s3.open_bucket,
    "gs": google.open_bucket,
    "abfs": azure.open_container,
    "abfss": azure.open_container,
    "hdfs": hdfs.open_name_node,
}


class StoredFile(NamedTuple):
    """A file or folder of a store."""

    path: str
    size: int
    is_folder: bool

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]


class ReadFile(io.RawIOBase):
    """A file of a store. Each read is a request; it needs a buffer around it.

    A busy store answers with an error of some hundred bytes. If fewer were asked for, Arrow 26 cannot hold the answer,
    and fails without another attempt, which is therefore made here.
    """

    def __init__(self, opened: Any, shown: object) -> None:
        self._opened = opened
        self._shown = shown
        self._position = 0
        self.size: int = opened.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(start + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        found = self._read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._read(READ_BYTES), b""))

    def close(self) -> None:
        self._opened.close()
        super().close()

    def _read(self, most: int) -> bytes:
        """Return the next bytes; none at the end."""
        size = min(most, max(self.size - self._position, 0))
        with _errors(self._shown):
            found = self._request(size) if size else b""
        self._position += len(found)
        return found

    def _request(self, size: int) -> bytes:
        return bytes(_repeated(lambda: self._opened.read_at(size, self._position), _is_broken_off))


class WrittenFile(io.BytesIO):
    """A new file of a store, which is kept in memory until it is closed, and then sent as a whole."""

    def __init__(self, put: Callable[[bytes], None]) -> None:
        super().__init__()
        self._put = put

    def close(self) -> None:
        """Send the file. Raises `StoreFailed`."""
        if not self.closed:
            try:
                self._put(self.getvalue())  # no view, which would forbid to close it while an error has it
            finally:
                super().close()

    def discard(self) -> None:
        """Close the file without sending it."""
        super().close()


class Store:
    """A bucket, a container or a name node. Paths are relative to its root; `shown` is the path in errors.

    All methods raise `StoreFailed` if it cannot be reached or refuses.

    Args:
        files: a file system of pyarrow, or an object with the methods of one that are called here.
        root: the path of the root in it.
    """

    def __init__(self, files: pafs.FileSystem, root: str) -> None:
        self.files = files
        self._root = root.rstrip("/")

    def place(self, path: str) -> str:
        """Return the path in the file system of pyarrow."""
        return f"{self._root}/{path}".rstrip("/") or "/"

    def info(self, path: str, shown: object) -> StoredFile | None:
        """Return a file or folder; None if there is none."""
        with _errors(shown):
            found = _repeated(lambda: self.files.get_file_info(self.place(path)), _is_broken_off)
        return None if found.type == pafs.FileType.NotFound else _stored(found)

    def open(self, path: str, shown: object) -> ReadFile:
        with _errors(shown):
            return ReadFile(self.files.open_input_file(self.place(path)), shown)

    def create(self, path: str, shown: object) -> WrittenFile:
        return WrittenFile(lambda content: self._put(path, shown, content))

    def _put(self, path: str, shown: object, content: bytes) -> None:
        def put() -> None:
            with self.files.open_output_stream(self.place(path)) as stream:
                stream.write(content)

        with _errors(shown):
            _repeated(put, lambda error: not isinstance(error, FileNotFoundError | PermissionError))

    def delete(self, path: str, shown: object) -> None:
        with _errors(shown):
            self.files.delete_file(self.place(path))

    def delete_folder(self, path: str, shown: object) -> None:
        with _errors(shown):
            self.files.delete_dir(self.place(path))

    def make_folder(self, path: str, shown: object) -> None:
        if self.files.type_name in ("s3", "gcs", "abfs"):
            return
        with _errors(shown):
            self.files.create_dir(self.place(path), recursive=True)

    def inside(self, path: str, shown: object) -> list[StoredFile]:
        """Return what a folder holds, sorted by name."""
        return sorted(map(_stored, self._listed(pafs.FileSelector(self.place(path)), shown)))

    def _listed(self, folder: pafs.FileSelector, shown: object) -> list[pafs.FileInfo]:
        with _errors(shown):
            return list(_repeated(lambda: self.files.get_file_info(folder), _is_broken_off))

    def walk(self, path: str, shown: object) -> Iterator[tuple[str, list[str]]]:
        """Yield each folder with files, by its path from the root, and their names, sorted.

        The folders of the first level are listed side by side, each with all that is below it: a store answers with a
        thousand names at a time, from however many folders. So no more than the names below some of them are in memory.
        """
        first = self.inside(path, shown)
        if names := [found.name for found in first if not found.is_folder]:
            yield path, names

        def below(folder: StoredFile) -> list[tuple[str, list[str]]]:
            found = self._listed(pafs.FileSelector(folder.path, recursive=True), shown)
            names: dict[str, list[str]] = {}
            for each in found:
                if each.type == pafs.FileType.File:
                    parent, _, name = each.path.rpartition("/")
                    names.setdefault(parent, []).append(name)
            return [(parent, sorted(own)) for parent, own in sorted(names.items())]

        for found in side_by_side(below, (each for each in first if each.is_folder)):
            for folder, names in found:
                yield folder.removeprefix(self._root).lstrip("/"), names


def _repeated(work: Callable[[], R], can_be_repeated: Callable[[OSError], bool]) -> R:
    for attempt in range(_ATTEMPTS - 1):
        try:
            return work()
        except OSError as error:
            if not can_be_repeated(error):
                raise
        time.sleep(_FIRST_DELAY_S * 2**attempt)
    return work()


def _is_broken_off(error: OSError) -> bool:
    return any(reason in str(error) for reason in _BROKEN_OFF)


@cache
def store_of(root: str) -> Store:
    """Return the store of a URL without a path, for example `s3://bucket`.

    Raises:
        StoreFailed: it cannot be reached.
    """
    scheme, _, bucket = root.partition("://")
    with _errors(root):
        return Store(*_OPENED_BY[scheme](bucket))


def table_options(path: StoragePath) -> dict[str, str] | None:
    """Return the options that deltalake needs for the store of a table, besides the variables that it reads."""
    scheme = str(path).partition("://")[0] if isinstance(path, UrlPath) else ""
    if scheme == "hdfs":
        hdfs.check_table_path(str(path))
    found = {"s3": s3, "s3a": s3, "gs": google, "abfs": azure, "abfss": azure}.get(scheme)
    return found.table_options() if found else None


def side_by_side(work: Callable[[T], R], items: Iterable[T], at_once: int = AT_ONCE) -> Generator[R]:
    """Yield the results of work that waits for a store, in the order of the items; `at_once` of them are under way."""
    left = iter(items)
    with ThreadPoolExecutor(at_once, thread_name_prefix="understudy-storage") as threads:
        under_way: deque[Future[R]] = deque(threads.submit(work, item) for item in islice(left, at_once))
        try:
            while under_way:
                yield under_way.popleft().result()
                under_way.extend(threads.submit(work, item) for item in islice(left, 1))
        finally:
            for future in under_way:
                future.cancel()


def _stored(found: pafs.FileInfo) -> StoredFile:
    is_folder = found.type == pafs.FileType.Directory
    return StoredFile(found.path, 0 if is_folder else found.size, is_folder)


@contextlib.contextmanager
def _errors(shown: object) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        number = error.errno or errno.ENOENT
        raise type(error)(number, os.strerror(number), str(shown)) from None
    except OSError as error:
        raise StoreFailed(error.errno or errno.EIO, reason_of(error.strerror or str(error)), str(shown)) from None
    except pa.ArrowException as error:  # Azure's and Google's clients have errors that are none of the system's
        raise StoreFailed(errno.EIO, reason_of(str(error)), str(shown)) from None
