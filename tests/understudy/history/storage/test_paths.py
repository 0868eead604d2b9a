"""Paths of stores as `Path` has them: names, joining, comparing; and the URLs that are refused."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from understudy.history.storage.paths import UnknownScheme, UrlPath, spark_url, storage_path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("runs/a", Path("runs/a")),
        ("/data/s3:/a", Path("/data/s3:/a")),
        ("C:/runs", Path("C:/runs")),
        ("file:///data/my%20runs", Path("/data/my runs")),
        ("file:/data", Path("/data")),
        ("file://localhost/data", Path("/data")),
    ],
)
def test_a_path_or_file_url_is_of_this_machine(text: str, path: Path) -> None:
    assert storage_path(text) == path


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket/runs/", "s3://bucket/runs"),
        ("S3A://bucket//runs/./a", "s3a://bucket/runs/a"),
        ("gs://bucket", "gs://bucket"),
        ("abfss://logs@account.dfs.core.windows.net/runs", "abfss://logs@account.dfs.core.windows.net/runs"),
        ("hdfs:///runs", "hdfs:///runs"),
        ("hdfs://name-node:9000/runs", "hdfs://name-node:9000/runs"),
        ("s3://bucket/my runs/a%20b", "s3://bucket/my runs/a%20b"),
    ],
)
def test_a_url_names_a_place_in_a_store(text: str, url: str) -> None:
    found = storage_path(text)
    assert isinstance(found, UrlPath)
    assert str(found) == url
    assert storage_path(url) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ftp://host/runs", r"ftp://host/runs cannot be read through ftp:; expected a path, file:// or one of s3://"),
        ("s3:///runs", r"s3:///runs names no bucket; expected for example s3://BUCKET/FOLDER"),
        ("file://other/runs", r"file://other/runs is not a file of this machine; expected file:///PATH"),
    ],
)
def test_other_urls_are_refused(text: str, why: str) -> None:
    with pytest.raises(UnknownScheme, match=why):
        storage_path(text)


def test_names_and_joining_are_as_for_paths() -> None:
    path = storage_path("s3://bucket/runs")
    below = path / "a" / "events/log.jsonl"
    assert (str(below), below.name, str(below.parent)) == (
        "s3://bucket/runs/a/events/log.jsonl", "log.jsonl", "s3://bucket/runs/a/events",
    )  # fmt: skip
    assert str(path.parent) == "s3://bucket"
    assert path.absolute() == path
    assert sorted([below, path]) == [path, below]
    assert {pickle.loads(pickle.dumps(below)): 1} == {below: 1}
    assert path != Path("s3://bucket/runs")


def test_spark_finds_s3_through_its_connector_s3a() -> None:
    assert spark_url(storage_path("s3://bucket/lake")) == "s3a://bucket/lake"
    assert spark_url(storage_path("gs://bucket/lake")) == "gs://bucket/lake"
    assert spark_url(Path("/data/my lake")) == "file:///data/my%20lake"
