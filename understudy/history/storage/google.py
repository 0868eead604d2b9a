"""Reaches buckets of Google Cloud Storage, and of its emulators."""

from __future__ import annotations

import errno
import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
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


def open_bucket(bucket: str) -> tuple[Bucket, str]:
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
    return Bucket(files, lists, bucket), bucket


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


class Bucket:
    """A bucket, with the methods of `pyarrow.fs.FileSystem` that `filesystems.Store` calls.

    It differs from Arrow's file system of Google in four ways (Arrow 26). That one lists a folder only if there is an
    object in its place, which most tools do not make: deltalake's client lists the folders of a folder instead. It
    raises no error of its own for a folder that is missing, or a file in its place. It deletes a folder, and fails then
    if there was no such object. A file that is opened is asked for as a whole with the first read at a position: reads
    one after the other are therefore made from this one answer.
    """

    type_name = "gcs"

    def __init__(self, files: pafs.FileSystem, lists: DeltaStorageHandler, name: str) -> None:
        self._files = files
        self._lists = lists
        self._name = name

    def get_file_info(self, place: str | pafs.FileSelector) -> Any:
        """Return the status of a path, or the list of all that a selector finds."""
        if not isinstance(place, pafs.FileSelector):
            return self._files.get_file_info(place)
        found = self._below(place.base_dir) if place.recursive else self._inside(place.base_dir)
        if not found:
            self._check_folder(place.base_dir)
        return found

    def _below(self, folder: str) -> list[pafs.FileInfo]:
        return list(self._files.get_file_info(pafs.FileSelector(folder, recursive=True, allow_not_found=True)))

    def _inside(self, folder: str) -> list[pafs.FileInfo]:
        within = folder.removeprefix(self._name).lstrip("/")
        try:
            found = self._lists.get_file_info_selector(pafs.FileSelector(within))
        except OSError as error:
            if _NO_BUCKET in str(error):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._name) from None
            raise
        return [
            pafs.FileInfo(f"{self._name}/{each.path}", each.type, size=each.size)
            for each in found
            if each.path.strip("/") != within  # the object in the place of the folder
        ]

    def _check_folder(self, folder: str) -> None:
        found = self._files.get_file_info(folder)
        if found.type == pafs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        if found.type == pafs.FileType.File:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)

    def open_input_file(self, place: str) -> Reader:
        return Reader(self._files.open_input_file(place))

    def open_output_stream(self, place: str) -> pa.NativeFile:
        return self._files.open_output_stream(place, compression=None)

    def delete_file(self, place: str) -> None:
        self._files.delete_file(place)

    def delete_dir(self, place: str) -> None:
        self._check_folder(place)
        self._files.delete_dir_contents(place, missing_dir_ok=True)


class Reader:
    """An open object."""

    def __init__(self, opened: pa.NativeFile) -> None:
        self._opened = opened
        self._size: int = opened.size()
        self._given = 0
        self._is_asked = False

    def size(self) -> int:
        return self._size

    def read_at(self, size: int, offset: int) -> bytes:
        """Return bytes from an offset on; none behind the end."""
        most = min(size, self._size - offset)
        if most <= 0:
            return b""
        self._is_asked = True
        if offset != self._given:
            return bytes(self._opened.read_at(most, offset))
        found = bytes(self._opened.read(most))
        self._given += len(found)
        return found

    def close(self) -> None:
        if self._is_asked:  # or it would be asked for now
            self._opened.close()
