"""`Bucket` is a bucket or container of a server on this machine, for tests of each kind of store."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow.fs as pafs
import pytest

from tests.understudy.history.storage.azure_server import AzureServer
from tests.understudy.history.storage.faulty_server import FaultyServer
from tests.understudy.history.storage.google_server import GoogleServer
from tests.understudy.history.storage.s3_server import S3Server
from understudy.history.storage.filesystems import store_of
from understudy.history.storage.paths import UrlPath, storage_path

SERVERS: Final[dict[str, type[FaultyServer]]] = {"s3": S3Server, "gs": GoogleServer, "abfs": AzureServer}
_names = itertools.count(1)

Marks: TypeAlias = Sequence[pytest.MarkDecorator]


def in_each_store(gs: Marks | None = (), abfs: Marks | None = ()) -> pytest.MarkDecorator:
    """Run a test in a bucket of each kind of store. `make interop` runs it with Azure, whose emulator needs Node.

    Args:
        gs: marks of the test with Google's store; None for no such test.
        abfs: marks of the test with Azure's; None for no such test.
    """
    stores = [pytest.param("s3")]
    if gs is not None:
        stores.append(pytest.param("gs", marks=gs))
    if abfs is not None:
        stores.append(pytest.param("abfs", marks=(pytest.mark.interop, pytest.mark.timeout(900), *abfs)))
    return pytest.mark.parametrize("bucket", stores, indirect=True)


class Bucket:
    """A bucket of a server.

    Attributes:
        url: its URL.
    """

    def __init__(self, server: FaultyServer) -> None:
        self.server = server
        self.name = f"bucket-{next(_names)}"
        self.url = server.url_of(self.name)
        server.make(self.name)

    def put(self, key: str, content: bytes) -> None:
        path = storage_path(f"{self.url}/{key}")
        assert isinstance(path, UrlPath)
        path.write_bytes(content)

    def put_folder(self, folder: Path, key: str) -> None:
        """Put all files at or below a folder."""
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{key}/{file.relative_to(folder)}", file.read_bytes())

    def objects(self) -> list[str]:
        """Return the keys of all objects, sorted."""
        found = store_of(self.url).files.get_file_info(pafs.FileSelector(self.name, recursive=True))
        return sorted(each.path for each in found if each.type == pafs.FileType.File)


@pytest.fixture(scope="session")
def servers() -> Iterator[Callable[[str], FaultyServer]]:
    """Starts a server by the scheme of its URLs, once."""
    started: dict[str, FaultyServer] = {}
    with contextlib.ExitStack() as stack:

        def server(scheme: str) -> FaultyServer:
            if scheme not in started:
                started[scheme] = stack.enter_context(SERVERS[scheme]())
            return started[scheme]

        yield server


@pytest.fixture
def bucket(
    request: pytest.FixtureRequest, servers: Callable[[str], FaultyServer], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    """A new bucket, which this process and its children find: of S3, or of the store that the test names.

    The server has no faults before and after.
    """
    server = servers(getattr(request, "param", "s3"))
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    store_of.cache_clear()
    yield Bucket(server)
    server.fault()
    store_of.cache_clear()
