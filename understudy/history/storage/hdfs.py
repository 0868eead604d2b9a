"""Reaches HDFS by `hdfs_native`, a client that needs neither Java nor libhdfs.

It finds name services and other settings in the folder `HADOOP_CONF_DIR`, the user in `HADOOP_USER_NAME`, and a ticket
of Kerberos as other programs do.
"""

from __future__ import annotations

import atexit
import errno
import functools
import os
import queue
import re
import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow.fs as pafs

from understudy.extras import require
from understudy.history.storage.paths import READ_BYTES

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus, FileWriter

T = TypeVar("T")

_TIMEOUT_S = 60.0
_CONNECT_S = 20.0
_EXIT_S: Final = 1.0
_RETRIES: Final = {
    "dfs.client.failover.sleep.base.millis": "250",
    "dfs.client.failover.sleep.max.millis": "4000",
    "dfs.client.socket-timeout": "20000",
}
"""Settings with which a client gives up name nodes within some ten seconds, in place of Hadoop's three minutes, and has
asked three data nodes before `_TIMEOUT_S`."""
_NAMES_AT_ONCE: Final = 1000
_REMOTE: Final = re.compile(r'(?:Fatal)?RPCError\("[\w.$]*?(\w+)", "(.*)"\)', re.DOTALL)
_OTHER: Final = re.compile(r'(\w+)\("(.*)"\)', re.DOTALL)
_DATA_NODE: Final = re.compile(r'ip_addr: "([^"]+)".*?xfer_port: (\d+)')
_NUMBER: Final = re.compile(r"(.*) \(os error (\d+)\)", re.DOTALL)
_TRACE: Final = re.compile(r"(\n|\\n)(\t|\\t)at .*", re.DOTALL)
_UNNAMED: Final = re.compile("No NameNode hosts found|No fs.defaultFS setting found")
_SAFE_PATH: Final = re.compile(r"[A-Za-z0-9_./=+,@:~-]*")


def open_name_node(authority: str) -> tuple[NameNode, str]:
    """Return the file system of a name node or a name service, and the path of its root in it.

    Args:
        authority: host and port, or a name service of `HADOOP_CONF_DIR`; empty for the file system that is named there.

    Raises:
        MissingExtra: `hdfs_native` is not installed.
        OSError: it does not answer, or is not known.
    """
    require("hdfs", "hdfs_native")
    from hdfs_native import Client  # noqa: PLC0415  the extra `hdfs`

    # A name service has two name nodes or more, which take turns.
    attempts = {"dfs.client.failover.max.attempts": "4" if ":" in authority else "12"}
    try:
        files = NameNode(Client(f"hdfs://{authority}", {**_RETRIES, **attempts}))
    except RuntimeError as error:
        if not _UNNAMED.search(str(error)):
            raise _as_os_error(error) from None
        expected = "expected hdfs://NAMENODE:PORT/FOLDER, or a name service of the folder HADOOP_CONF_DIR"
        raise OSError(errno.EDESTADDRREQ, expected) from None
    files.check_answers()
    return files, ""


class NameNode:
    """A name node, with the methods of `pyarrow.fs.FileSystem` that `filesystems.Store` calls.

    They raise OSError: `FileNotFoundError`, `NotADirectoryError` and `PermissionError` as for files of this machine,
    and `TimeoutError` if there is no answer within a minute.
    """

    type_name = "hdfs"

    def __init__(self, client: Client) -> None:
        self._client = client

    def check_answers(self) -> None:
        _answer(lambda: self._client.get_file_info("/"), _CONNECT_S)

    def get_file_info(self, place: str | pafs.FileSelector) -> Any:
        """Return the status of a path, or a list of all that a selector finds."""
        if isinstance(place, pafs.FileSelector):
            return self._listed(place.base_dir, recursive=place.recursive)
        try:
            return _info(_answer(lambda: self._client.get_file_info(place)))
        except FileNotFoundError:
            return pafs.FileInfo(place, pafs.FileType.NotFound)

    def _listed(self, place: str, *, recursive: bool) -> list[pafs.FileInfo]:
        found = self._client.list_status(place, recursive)
        listed: list[FileStatus] = []
        while names := _answer(lambda: list(islice(found, _NAMES_AT_ONCE))):
            listed += names
        if len(listed) == 1 and listed[0].path == place and not listed[0].isdir:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return list(map(_info, listed))

    def open_input_file(self, place: str) -> Reader:
        return Reader(_answer(lambda: self._client.read(place)))

    def open_output_stream(self, place: str) -> Writer:
        """Open a file to be written anew."""
        from hdfs_native import WriteOptions  # noqa: PLC0415  the extra `hdfs`

        return Writer(_answer(lambda: self._client.create(place, WriteOptions(overwrite=True))))

    def create_dir(self, place: str, *, recursive: bool) -> None:
        _answer(lambda: self._client.mkdirs(place, create_parent=recursive))

    def delete_file(self, place: str) -> None:
        self._delete(place, recursive=False)

    def delete_dir(self, place: str) -> None:
        self._delete(place, recursive=True)

    def _delete(self, place: str, *, recursive: bool) -> None:
        if not _answer(lambda: self._client.delete(place, recursive)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


def check_table_path(url: str) -> None:
    """Check that deltalake and `NameNode` take the URL for the same folder: deltalake turns other signs into `%20` etc.

    Raises:
        OSError: the path has other signs.
    """
    _, _, path = url.partition("://")[2].partition("/")
    if not _SAFE_PATH.fullmatch(path):
        allowed = "the path of a lake in HDFS may have letters from A to Z, digits and -_./=+,@:~"
        raise OSError(errno.EINVAL, allowed, url)


class Reader:
    """An open file."""

    def __init__(self, opened: FileReader) -> None:
        self._opened = opened

    def size(self) -> int:
        return len(self._opened)

    def read_at(self, size: int, offset: int) -> bytes:
        """Return bytes from an offset on. Raises OSError if no data node that has them answers."""
        return _answer(lambda: self._opened.read_range(offset, size))

    def close(self) -> None:
        """Do nothing: no connection is kept for a file."""


class Writer:
    """A file that is written; it is whole once it is closed."""

    def __init__(self, opened: FileWriter) -> None:
        self._opened = opened

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        if failure is None:
            _answer(self._opened.close)

    def write(self, content: bytes) -> None:
        for start in range(0, len(content), READ_BYTES):
            _answer(functools.partial(self._opened.write, content[start : start + READ_BYTES]))


def _info(status: FileStatus) -> pafs.FileInfo:
    if status.isdir:
        return pafs.FileInfo(status.path, pafs.FileType.Directory)
    return pafs.FileInfo(status.path, pafs.FileType.File, size=status.length)


# ------------------------------------------------------------------ waiting


class _Caller(threading.Thread):
    """Makes calls one after the other, so that those who wait for them can stop waiting."""

    def __init__(self) -> None:
        super().__init__(name="understudy-hdfs", daemon=True)
        self.calls: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self.start()

    def run(self) -> None:
        for call in iter(self.calls.get, None):
            try:
                self.results.put((call(), None))
            except BaseException as error:  # noqa: BLE001  it is raised by the thread that waits
                self.results.put((None, error))


_idle: list[_Caller] = []
_left: list[_Caller] = []
"""Callers whose results nobody waits for any more."""


@atexit.register
def _wait_for_left() -> None:
    """Wait a moment for calls that are about to end: Python up to 3.13 aborts if one does while Python itself ends."""
    until = time.monotonic() + _EXIT_S
    for caller in _left:
        caller.join(max(until - time.monotonic(), 0))


def _answer(call: Callable[[], T], timeout_s: float | None = None) -> T:
    """Make a call of the client, which itself waits without limit for a name node that is silent, and for no Ctrl-C.

    Raises:
        OSError: as `NameNode` says.
    """
    limit = timeout_s or _TIMEOUT_S
    try:
        caller = _idle.pop()
    except IndexError:
        caller = _Caller()
    caller.calls.put(call)
    try:
        result, error = caller.results.get(timeout=limit)
    except BaseException as why:
        caller.calls.put(None)
        _left.append(caller)
        if isinstance(why, queue.Empty):
            raise TimeoutError(errno.ETIMEDOUT, f"there was no answer within {limit:g} s") from None
        raise
    _idle.append(caller)
    if isinstance(error, OSError | RuntimeError):
        raise _as_os_error(error) from None
    if error is not None:
        raise error
    answer: T = result
    return answer


# ------------------------------------------------------------------ errors


def _as_os_error(error: OSError | RuntimeError) -> OSError:
    """Return an error of the client as an OSError with a number, and one line as its reason."""
    text = str(error)
    remote = _REMOTE.fullmatch(text) or _OTHER.fullmatch(text)
    exception, text = (remote[1], remote[2].replace('\\"', '"')) if remote else ("", text)
    reason = _TRACE.sub("", text).partition("\n")[0].partition("\\n")[0].strip()
    if nodes := ", ".join(f"{host}:{port}" for host, port in _DATA_NODE.findall(reason)):
        reason = f"{reason.partition(': [')[0]}: {nodes}"
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, reason)
    if exception == "ParentNotDirectoryException" or reason.endswith("(is not a directory)"):
        return NotADirectoryError(errno.ENOTDIR, reason)
    if exception == "AccessControlException":
        return PermissionError(errno.EACCES, reason)
    if numbered := _NUMBER.fullmatch(reason):
        return OSError(int(numbered[2]), numbered[1])
    return OSError(errno.EIO, f"{exception}: {reason}" if exception else reason)
