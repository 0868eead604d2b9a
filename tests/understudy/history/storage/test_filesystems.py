"""Files of a store, against an S3 server: reading, writing, listing, and the faults that such a server has."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.shares import at_night
from tests.understudy.history.storage.azure_server import AzureServer
from tests.understudy.history.storage.buckets import Bucket, in_each_store
from tests.understudy.history.storage.faulty_server import FaultyServer
from tests.understudy.history.storage.google_server import GoogleServer
from tests.understudy.history.storage.s3_server import S3Server
from understudy.history.storage.filesystems import side_by_side, store_of
from understudy.history.storage.paths import AT_ONCE, READ_BYTES, StoreFailed, UrlPath, storage_path

PAUSES = at_night("clients of other stores than S3 pause for a second or more before each attempt")
LINES = b"".join(b"%d\n" % number for number in range(200_000))


def at(bucket: Bucket, path: str = "") -> UrlPath:
    found = storage_path(f"{bucket.url}/{path}")
    assert isinstance(found, UrlPath)
    return found


@in_each_store()
def test_a_file_is_read_by_lines_from_any_position(bucket: Bucket) -> None:
    bucket.put("log", LINES)
    with at(bucket, "log").open() as stream:
        assert stream.readline() == b"0\n"
        assert stream.seek(0, 2) == len(LINES)
        stream.seek(len(LINES) // 2)
        rest = stream.read()
    assert rest == LINES[len(LINES) // 2 :]
    assert at(bucket, "log").read_bytes() == LINES
    assert at(bucket, "log").stat().st_size == len(LINES)
    assert at(bucket, "log").size_and_beginning(4) == (len(LINES), b"0\n1\n")


@in_each_store()
def test_a_file_that_is_written_is_there_once_it_is_closed(bucket: Bucket) -> None:
    path = at(bucket, "lake/part")
    path.parent.mkdir(parents=True)
    with path.open("xb") as stream:
        stream.write(b"abc")
        assert not path.exists()
    assert path.read_text() == "abc"
    path.unlink()
    assert not path.exists()


@in_each_store()
def test_what_is_missing_is_named(bucket: Bucket) -> None:
    path = at(bucket, "none")
    assert not path.exists()
    assert not path.is_dir()
    assert not path.is_file()
    for wrong in (path.open, path.stat, lambda: list(path.iterdir()), lambda: list(path.walk())):
        with pytest.raises(FileNotFoundError) as raised:
            wrong()
        assert (raised.value.filename, raised.value.strerror) == (str(path), "No such file or directory")


def test_a_bucket_that_does_not_exist_is_named(bucket: Bucket) -> None:
    path = storage_path("s3://no-such-bucket/runs")
    with pytest.raises(StoreFailed, match="The specified bucket does not exist") as raised:
        list(path.iterdir())
    assert raised.value.filename == "s3://no-such-bucket/runs"
    assert "Request ID" not in str(raised.value)


@in_each_store()
def test_a_file_of_a_bucket_that_does_not_exist_is_not_written(bucket: Bucket) -> None:
    path = storage_path(f"{bucket.server.url_of('no-such-bucket')}/log")
    with pytest.raises(OSError, match=r"bucket does not exist|container does not exist|No such file") as raised:
        path.write_bytes(b"abc")
    assert raised.value.filename == str(path)


@in_each_store()
def test_a_folder_is_deleted_with_all_that_is_in_it(bucket: Bucket) -> None:
    for key in ("lake/a/part", "lake/b", "lakes", "other"):
        bucket.put(key, b"x")
    at(bucket, "lake").remove_folder()
    assert bucket.objects() == [f"{bucket.name}/lakes", f"{bucket.name}/other"]
    assert not at(bucket, "lake").exists()
    with pytest.raises(FileNotFoundError):
        at(bucket, "lake").remove_folder()


@in_each_store()
def test_a_file_is_no_folder(bucket: Bucket) -> None:
    bucket.put("log", b"x")
    with pytest.raises((NotADirectoryError, FileNotFoundError)) as raised:
        list(at(bucket, "log").iterdir())
    assert raised.value.filename == f"{bucket.url}/log"


def test_folders_are_walked_by_pages(bucket: Bucket) -> None:
    """The server hands out a thousand names at a time."""
    expected = {}
    for run, files in enumerate((520, 5)):
        for node in range(2):
            names = [f"log-{number:04}" for number in range(files)]
            expected[f"{bucket.url}/runs/{run}/{node}/events"] = names
            for name in names:
                bucket.put(f"runs/{run}/{node}/events/{name}", b"")
    bucket.put("runs/readme", b"")
    before = bucket.server.requests()
    found = [(str(folder), names) for folder, names in at(bucket, "runs").walk()]
    assert dict(found[1:]) == expected
    assert found[0] == (f"{bucket.url}/runs", ["readme"])
    assert bucket.server.requests() - before < 10, "one listing of a run has all its folders"


@in_each_store()
def test_patterns_match_within_a_folder(bucket: Bucket) -> None:
    for key in ("runs/a1/x.json", "runs/a2/x.json", "runs/b/x.json", "runs/b/c/x.json"):
        bucket.put(key, b"")
    root = f"{bucket.url}/runs"
    for pattern, expected in {
        "runs/a*": ["a1", "a2"],
        "runs/*/x.json": ["a1/x.json", "a2/x.json", "b/x.json"],
        "runs/[ab]/x.json": ["b/x.json"],
        "runs/b": ["b"],
        "runs/none*": [],
        "none/*": [],
    }.items():
        assert [str(path) for path in at(bucket, pattern).matching()] == [f"{root}/{name}" for name in expected]


@in_each_store()
def test_a_name_with_the_signs_of_a_pattern_is_itself(bucket: Bucket) -> None:
    bucket.put("runs/[a]", b"")
    assert at(bucket, "runs/[a]").matching() == [at(bucket, "runs/[a]")]


# ------------------------------------------------------------------ faults


@in_each_store(gs=[PAUSES], abfs=[PAUSES])
def test_a_busy_server_is_asked_again(bucket: Bucket) -> None:
    bucket.put("runs/a/log", LINES)
    # A file takes several requests in Google's store, each of which is refused here.
    bucket.server.fault(busy=1 if bucket.url.startswith("gs:") else 2)
    assert at(bucket, "runs/a/log").read_bytes() == LINES
    assert [names for _, names in at(bucket, "runs").walk()] == [["log"]]
    at(bucket, "runs/b").write_bytes(b"new")
    assert at(bucket, "runs/b").read_bytes() == b"new"


@in_each_store(gs=[PAUSES])
def test_an_answer_that_breaks_off_is_asked_for_again(bucket: Bucket) -> None:
    content = LINES * 8
    assert len(content) > 2 * READ_BYTES, "several requests"
    bucket.put("log", content)
    bucket.server.fault(torn=2)
    assert at(bucket, "log").read_bytes() == content
    assert at(bucket, "log").size_and_beginning(4096) == (len(content), content[:4096])


def test_a_slow_server_is_waited_for(bucket: Bucket) -> None:
    bucket.put("log", LINES)
    bucket.server.fault(delay_s=0.3)
    assert at(bucket, "log").read_bytes() == LINES


@in_each_store(gs=[PAUSES], abfs=[PAUSES])
def test_a_server_that_stays_busy_is_an_error_with_the_url(bucket: Bucket) -> None:
    bucket.put("log", LINES)
    bucket.server.fault(busy=3)
    with pytest.raises(StoreFailed, match=r"503|UNAVAILABLE: busy") as raised:
        at(bucket, "log").read_bytes()
    assert raised.value.filename == f"{bucket.url}/log"


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (S3Server, "AWS Error NETWORK_CONNECTION"),
        pytest.param(GoogleServer, "UNAVAILABLE: .*connect", marks=PAUSES),
        pytest.param(AzureServer, "Fail to get a new connection", marks=PAUSES),
    ],
)
def test_a_server_that_is_not_there_is_an_error_with_the_url(
    server: type[FaultyServer], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and it does not listen
        for name, value in server.environment_at(f"http://127.0.0.1:{silent.getsockname()[1]}").items():
            monkeypatch.setenv(name, value)
        store_of.cache_clear()
        url = server.url_of("no-such-server")
        with pytest.raises(StoreFailed, match=reason) as raised:
            storage_path(f"{url}/log").exists()
    assert raised.value.filename.startswith(url)
    assert raised.value.errno == errno.EIO


# ------------------------------------------------------------------ side by side


def test_work_is_done_side_by_side_in_order() -> None:
    together = threading.Barrier(AT_ONCE)

    def work(number: int) -> int:
        together.wait(timeout=60)
        return number * 2

    assert list(side_by_side(work, range(2 * AT_ONCE))) == [number * 2 for number in range(2 * AT_ONCE)]


def test_no_more_items_are_taken_than_are_under_way() -> None:
    taken = []

    def items() -> Iterator[int]:
        for number in range(1000):
            taken.append(number)
            yield number

    results = side_by_side(lambda number: number, items())
    assert next(results) == 0
    assert len(taken) <= AT_ONCE + 1
    results.close()
    assert len(taken) <= AT_ONCE + 1


def test_an_error_of_the_work_comes_in_its_place() -> None:
    def work(number: int) -> float:
        return 1 / (number - 3)

    results = side_by_side(work, range(10))
    assert [next(results) for _ in range(3)] == [1 / -3, 1 / -2, -1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)
