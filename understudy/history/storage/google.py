"""Reaches buckets of Google Cloud Storage, and of its emulators."""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

if TYPE_CHECKING:
    from deltalake.fs import DeltaStorageHandler

_RETRY_S: Final = 15
"""Time after which a request is not made again, by Arrow's client."""
_RETRIES: Final = {"max_retries": "6", "retry_timeout": f"{_RETRY_S}s"}
"""The same for deltalake's client, when it lists a folder."""
_NO_BUCKET: Final = "404 Not Found"
"""Part of the error of deltalake's client: a folder that is missing is none, so it is the bucket."""


def open_bucket(bucket: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a bucket, and the path of its root in it."""
    from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415  Spark's workers may lack it, with other stores

    emulator = _emulator()
    server = emulator or os.environ.get("GOOGLE_BASE_URL")
    options: dict[str, Any] = {"anonymous": emulator is not None}
    if server:
        url = urlsplit(server)
        options |= {"scheme": url.scheme, "endpoint_override": url.netloc}
    files = pafs.GcsFileSystem(retry_time_limit=timedelta(seconds=_RETRY_S), **options)
    lists = DeltaStorageHandler(f"gs://{bucket}", {**(table_options() or {}), **_RETRIES})
    return pafs.PyFileSystem(_Handler(files, lists, bucket)), bucket


def table_options() -> dict[str, str] | None:
    """Return what deltalake needs for an emulator; it reads Google's variables by itself."""
    emulator = _emulator()
    if emulator is None:
        return None
    names = ("client_email", "private_key", "private_key_id")
    key = dict.fromkeys(names, "") | {"gcs_base_url": emulator, "disable_oauth": True}
    return {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(key)}


def _emulator() -> str | None:
    """Return the URL of an emulator, which takes no credentials; Google's clients name it by one of two variables."""
    found = os.environ.get("CLOUD_STORAGE_EMULATOR_ENDPOINT") or os.environ.get("STORAGE_EMULATOR_HOST")
    if not found:
        return None
    return (found if "://" in found else f"http://{found}").rstrip("/")


class _Handler(pafs.FileSystemHandler):  # type: ignore[misc]  # pyarrow has no types
    """Arrow's file system of Google, with four differences (Arrow 26).

    It lists a folder only if there is an object in its place, which most tools do not make: deltalake's client lists
    the folders of a folder instead. It raises no error of its own for a folder that is missing, or a file in its place.
    It deletes a folder, and fails then if there was no such object. A file that is opened is asked for as a whole with
    the first read at a position: reads one after the other are therefore made from this one answer.
    """

    def __init__(self, files: pafs.FileSystem, lists: DeltaStorageHandler, bucket: str) -> None:
        self._files = files
        self._lists = lists
        self._bucket = bucket

    def get_type_name(self) -> str:
        return "gcs"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and self._bucket == other._bucket and self._files.equals(other._files)

    def __hash__(self) -> int:
        return hash(self._bucket)

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> list[pafs.FileInfo]:
        return list(self._files.get_file_info(list(paths)))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        found = self._below(selector.base_dir) if selector.recursive else self._inside(selector.base_dir)
        if not found and not selector.allow_not_found:
            self._check_folder(selector.base_dir)
        return found

    def _below(self, folder: str) -> list[pafs.FileInfo]:
        return list(self._files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)))

    def _inside(self, folder: str) -> list[pafs.FileInfo]:
        within = folder.removeprefix(self._bucket).lstrip("/")
        try:
            found = self._lists.get_file_info_selector(pafs.FileSelector(within))
        except OSError as error:
            if _NO_BUCKET in str(error):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._bucket) from None
            raise
        return [
            pafs.FileInfo(f"{self._bucket}/{each.path}", each.type, size=each.size)
            for each in found
            if each.path.strip("/") != within  # the object in the place of the folder
        ]

    def _check_folder(self, folder: str) -> None:
        found = self._files.get_file_info(folder)
        if found.type == pafs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        if found.type == pafs.FileType.File:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(_Object(self._files.open_input_file(path)), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self._files.open_input_stream(path, compression=None)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.NativeFile:
        return self._files.open_output_stream(path, compression=None)

    def delete_file(self, path: str) -> None:
        self._files.delete_file(path)

    def delete_dir(self, path: str) -> None:
        self._check_folder(path)
        self._files.delete_dir_contents(path, missing_dir_ok=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self._files.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: folders are parts of names."""

    def delete_root_dir_contents(self) -> NoReturn:
        raise NotImplementedError

    def move(self, src: str, dest: str) -> NoReturn:
        raise NotImplementedError

    def copy_file(self, src: str, dest: str) -> NoReturn:
        raise NotImplementedError

    def open_append_stream(self, path: str, metadata: Mapping[str, str] | None) -> NoReturn:
        raise NotImplementedError


class _Object:
    """An object that is read from any position, as `pyarrow.PythonFile` needs it."""

    mode = "rb"

    def __init__(self, opened: pa.NativeFile) -> None:
        self._opened = opened
        self._size: int = opened.size()
        self._position = 0
        self._given = 0
        self._is_asked = False
        self.closed = False

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int) -> bytes:
        most = min(size, self._size - self._position)
        if most <= 0:
            return b""
        self._is_asked = True
        if self._position == self._given:
            found = bytes(self._opened.read(most))
            self._given += len(found)
        else:
            found = bytes(self._opened.read_at(most, self._position))
        self._position += len(found)
        return found

    def close(self) -> None:
        if self._is_asked:  # or it would be asked for now
            self._opened.close()
        self.closed = True
