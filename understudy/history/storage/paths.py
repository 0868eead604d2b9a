"""`UrlPath` is a file or folder of an object store or of HDFS, with the methods of `Path` that logs and lakes need.

`storage_path` makes a `Path` or a `UrlPath` of a text. The stores are reached by `pyarrow.fs`, so credentials, regions
and endpoints are found as its file systems find them: for S3 in `AWS_*`, in ~/.aws and by the role of the machine.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import total_ordering
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import unquote

from understudy.extras import require

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from understudy.history.storage.filesystems import Store

T = TypeVar("T")
R = TypeVar("R")

SCHEMES: Final = ("s3", "s3a", "gs", "abfs", "abfss", "hdfs")
"""Schemes of URLs that are read and written, besides `file`."""

AT_ONCE: Final = 32
"""Number of requests that are under way at a time: each is answered after some ten milliseconds."""
READ_BYTES: Final = 4 * 1024 * 1024
"""Size of one request when a file is read from its beginning to its end."""

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?://([^/]*))?(/.*)?", re.DOTALL)
_PATTERN: Final = re.compile(r"[*?\[]")


class UnknownScheme(ValueError):
    """A URL has a scheme that is not read, or names no place. The message names the URL and the expected form."""


class StoreFailed(OSError):
    """A store cannot be reached, or refuses a request. It has the URL as its `filename`, and the reason."""


class FileStatus(NamedTuple):
    """Size and kind of a file, as in `os.stat_result`."""

    st_size: int
    st_mode: int


@total_ordering
class UrlPath:
    """A file or folder by its URL, which has no `/` at its end. Sorts and compares by it.

    Args:
        scheme: one of `SCHEMES`.
        authority: the bucket; for `abfs` the container and the account, for `hdfs` the name node.
        path: the path without `/` at its ends; empty for the root.
    """

    __slots__ = ("_authority", "_path", "_scheme")

    def __init__(self, scheme: str, authority: str, path: str) -> None:
        self._scheme = scheme
        self._authority = authority
        self._path = path

    # ------------------------------------------------------------------ names

    def __str__(self) -> str:
        return f"{self._root}/{self._path}" if self._path else self._root

    def __repr__(self) -> str:
        return f"UrlPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UrlPath) and str(self) == str(other)

    def __lt__(self, other: UrlPath) -> bool:
        return str(self) < str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[type[UrlPath], tuple[str, str, str]]:
        return UrlPath, (self._scheme, self._authority, self._path)

    def __truediv__(self, name: str) -> UrlPath:
        return UrlPath(self._scheme, self._authority, f"{self._path}/{name.strip('/')}".strip("/"))

    @property
    def _root(self) -> str:
        return f"{self._scheme}://{self._authority}"

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self._path.rpartition("/")[2]

    @property
    def parent(self) -> UrlPath:
        return UrlPath(self._scheme, self._authority, self._path.rpartition("/")[0])

    @property
    def store(self) -> Store:
        """The file system.

        Raises:
            MissingExtra: pyarrow is not installed.
            StoreFailed: it cannot be reached.
        """
        require("spark", "pyarrow")
        from understudy.history.storage.filesystems import store_of  # noqa: PLC0415  the extra `spark`

        return store_of(self._root)

    def absolute(self) -> UrlPath:
        """Return this path: URLs are absolute."""
        return self

    def as_spark_url(self) -> str:
        """Return the URL by which Hadoop's connectors have it: `s3a` for S3."""
        return str(UrlPath("s3a", self._authority, self._path)) if self._scheme == "s3" else str(self)

    # ------------------------------------------------------------------ files

    def stat(self) -> FileStatus:
        """Return size and kind.

        Raises:
            FileNotFoundError: there is no such file or folder.
            StoreFailed: the store cannot be reached, or refuses.
        """
        found = self.store.info(self._path, self)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self))
        return FileStatus(found.size, stat.S_IFDIR if found.is_folder else stat.S_IFREG)

    def exists(self) -> bool:
        return self.store.info(self._path, self) is not None

    def is_dir(self) -> bool:
        found = self.store.info(self._path, self)
        return found is not None and found.is_folder

    def is_file(self) -> bool:
        found = self.store.info(self._path, self)
        return found is not None and not found.is_folder

    def open(self, mode: str = "rb", buffering: int = READ_BYTES) -> BinaryIO:
        """Open the file: `rb`, or `wb` and `xb` to write it as a whole. A file that is written is there once closed.

        Args:
            buffering: the size of one request in bytes.

        Raises:
            FileNotFoundError: there is none.
            StoreFailed: the store cannot be reached, or refuses.
        """
        if mode != "rb":
            return cast("BinaryIO", self.store.create(self._path, self))
        return cast("BinaryIO", io.BufferedReader(self.store.open(self._path, self), buffering))

    def size_and_beginning(self, most: int) -> tuple[int, bytes]:
        """Return the size of the file and its first bytes. Raises as `open`."""
        with self.store.open(self._path, self) as stream:
            return stream.size, stream.read(most) or b""

    def read_bytes(self) -> bytes:
        with self.open() as stream:
            return stream.read()

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        with self.open("wb") as stream:
            stream.write(data)

    def unlink(self) -> None:
        """Delete the file. Raises as `open`."""
        self.store.delete(self._path, self)

    # ------------------------------------------------------------------ folders

    def remove_folder(self) -> None:
        """Delete the folder with all that is in it. Raises as `iterdir`."""
        self.store.delete_folder(self._path, self)

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Make the folder if the store has folders that have to be made: object stores have none."""
        self.store.make_folder(self._path, self)

    def iterdir(self) -> Iterator[UrlPath]:
        """Yield what the folder holds, sorted by name.

        Raises:
            FileNotFoundError: there is no such folder.
            NotADirectoryError: it is a file.
        """
        for found in self.store.inside(self._path, self):
            yield self / found.name

    def walk(self) -> Iterator[tuple[UrlPath, list[str]]]:
        """Yield each folder with files at or below this one, and their names, sorted.

        Raises: as `iterdir`.
        """
        for folder, names in self.store.walk(self._path, self):
            yield UrlPath(self._scheme, self._authority, folder), names

    def glob(self, pattern: str) -> Iterator[UrlPath]:
        """Yield the files and folders that match a pattern, in which no `*` matches a `/`, sorted."""
        first, _, rest = pattern.partition("/")
        if not _PATTERN.search(first):
            found: Iterable[UrlPath] = [self / first] if rest or (self / first).exists() else []
        else:
            try:
                found = [each for each in self.iterdir() if fnmatchcase(each.name, first)]
            except (FileNotFoundError, NotADirectoryError):
                found = []
        for each in found:
            yield from each.glob(rest) if rest else (each,)

    def matching(self) -> list[UrlPath]:
        """Return the files and folders that this path matches as a pattern; itself if it exists or is no pattern."""
        if not _PATTERN.search(self._path) or self.exists():
            return [self]
        return list(UrlPath(self._scheme, self._authority, "").glob(self._path))


StoragePath: TypeAlias = Path | UrlPath


def is_url(path: str) -> bool:
    """Return whether the text of a path is a URL's: the path of a file on this machine never has `//` in it."""
    return "://" in path


def storage_path(text: str | Path | UrlPath) -> StoragePath:
    """Return the path that a text names: of this machine, or a `file:` URL; or of a store, by its URL.

    Raises:
        UnknownScheme: the URL has another scheme, or no place.
    """
    if not isinstance(text, str):
        return text
    if ":/" not in text:
        return Path(text)
    match = _URL.fullmatch(text)
    if match is None or (match[2] is None and match[1].lower() != "file"):
        return Path(text)
    scheme, authority, path = match[1].lower(), match[2] or "", match[3] or ""
    if scheme == "file":
        if authority not in ("", "localhost") or not path:
            raise UnknownScheme(f"{text} is not a file of this machine; expected file:///PATH")
        return Path(unquote(path))
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise UnknownScheme(f"{text} cannot be read through {scheme}:; expected a path, file:// or one of {known}")
    if not authority and scheme != "hdfs":
        raise UnknownScheme(f"{text} names no bucket; expected for example {scheme}://BUCKET/FOLDER")
    return UrlPath(scheme, authority, "/".join(part for part in path.split("/") if part not in ("", ".")))


def results_of(work: Callable[[T], R], items: Iterable[T], *, is_stored: bool, at_once: int = AT_ONCE) -> Iterator[R]:
    """Yield the results of work on files, in the order of the items: one after the other on this machine.

    Args:
        is_stored: the files are in a store, which takes its time for each request, so that they are worked on side by
            side, in threads.
        at_once: the number of items that are worked on at a time.
    """
    if not is_stored:
        return map(work, items)
    from understudy.history.storage.filesystems import side_by_side  # noqa: PLC0415  the extra `spark`

    return side_by_side(work, items, at_once)


def parquet_file(path: StoragePath) -> pq.ParquetFile:
    """Open a Parquet file.

    Raises:
        FileNotFoundError: there is none.
        StoreFailed: its store cannot be reached, or refuses.
    """
    from pyarrow import parquet as pq  # noqa: PLC0415  the extra `spark`

    return pq.ParquetFile(path if isinstance(path, Path) else path.open())


def spark_url(path: StoragePath) -> str:
    """Return the URL by which Spark's own readers find a file."""
    return path.as_spark_url() if isinstance(path, UrlPath) else path.absolute().as_uri()
