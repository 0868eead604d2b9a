"""Event logs and lakes in a bucket of each store have the numbers of the same files here, also with a faulty server."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.shares import at_night, only_nightly
from tests.understudy.history.lake.lakes import write_runs
from tests.understudy.history.storage.buckets import Bucket, in_each_store
from understudy.cli.main import main
from understudy.history.lake import delta
from understudy.history.lake.errors import LakeError, NotALake
from understudy.history.lake.ingest import NothingToIngest, find_logs, ingest, remove
from understudy.history.lake.lake import Lake
from understudy.history.lake.runs_table import Runs
from understudy.history.lake.writer import LakeWriter, restore
from understudy.history.reading.listing import LogListing, list_files
from understudy.history.report.replay import Replay, replay_in_python
from understudy.history.storage.paths import StoragePath, storage_path

PAUSES = at_night("clients of other stores than S3 pause for a second or more before each attempt")
LAKES = at_night("`ingest` writes a lake in each kind of store; how it is changed is tested with S3 in each run")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(tmp_path_factory.mktemp("runs"), random=2, records=120)


@pytest.fixture
def stored(bucket: Bucket, runs: Path) -> StoragePath:
    bucket.put_folder(runs, "runs")
    return storage_path(f"{bucket.url}/runs")


def parquet_files(bucket: Bucket) -> set[str]:
    return {key for key in bucket.objects() if key.endswith(".parquet")}


def with_local_names(found: Replay, stored: StoragePath, runs: Path) -> Replay:
    findings = tuple(
        msgspec.structs.replace(each, file=each.file.replace(str(stored), str(runs))) for each in found.findings
    )
    return replace(found, findings=findings)


@in_each_store()
def test_files_are_listed_as_on_this_machine(stored: StoragePath, runs: Path) -> None:
    here, there = list_files([runs]), list_files([stored])
    assert there == LogListing(
        {folder.replace(str(runs), str(stored)): names for folder, names in here.names.items()}, ()
    )
    assert list_files([storage_path(f"{stored}/*")]) == there
    (folder, names), *_ = there.names.items()
    assert list_files([storage_path(folder + names[0])]).names == {folder: names[:1]}


@in_each_store()
def test_a_folder_without_logs_and_a_missing_one_are_findings(bucket: Bucket) -> None:
    bucket.put("others/readme", b"text")
    listing = list_files([storage_path(f"{bucket.url}/{name}") for name in ("others", "none", "none*")])
    assert [(finding.file, finding.what) for finding in listing.findings] == [
        (f"{bucket.url}/others", ""),
        (f"{bucket.url}/none", "no such file or folder"),
        (f"{bucket.url}/none*", ""),
    ]


@in_each_store()
def test_the_numbers_are_those_of_the_same_files_here(bucket: Bucket, stored: StoragePath, runs: Path) -> None:
    assert with_local_names(replay_in_python([stored]), stored, runs) == replay_in_python([runs])


def test_a_busy_server_changes_no_number(bucket: Bucket, stored: StoragePath, runs: Path) -> None:
    bucket.server.fault(busy=2)
    assert with_local_names(replay_in_python([stored]), stored, runs) == replay_in_python([runs])


@in_each_store(gs=None, abfs=[PAUSES])
def test_answers_that_break_off_change_no_number(bucket: Bucket, stored: StoragePath, runs: Path) -> None:
    bucket.server.fault(torn=2)
    assert with_local_names(replay_in_python([stored]), stored, runs) == replay_in_python([runs])


@in_each_store(gs=[LAKES], abfs=[LAKES])
def test_a_lake_in_a_bucket_is_written_read_and_changed(bucket: Bucket, stored: StoragePath, runs: Path) -> None:
    url = storage_path(f"{bucket.url}/lake")
    first = ingest(find_logs([stored]), url)
    assert len(first.added) == 3
    opened = Lake(str(url))
    expected = replay_in_python([stored])
    assert {run.run: run for run in opened.run_metrics(incomplete=True)} == {run.run: run for run in expected.runs}
    assert opened.findings() == tuple(sorted(expected.findings))
    again = ingest(find_logs([stored]), url)
    assert (again.added, again.replaced, sorted(again.unchanged)) == ([], [], sorted(first.added))
    remove([first.added[0]], url)
    assert list(Lake(url).runs) == sorted(first.added[1:])
    assert [change for _, _, change in Runs(url).changes()] == ["runs removed: 1", "runs ingested: 3 added"]
    with pytest.raises(LakeError, match=f"{bucket.url}/lake has no version 99; `understudy lake history"):
        Lake(url, version=99)


@at_night("runs that have grown are replaced in lakes of this machine")
def test_a_run_that_has_grown_is_replaced(bucket: Bucket, runs: Path, tmp_path: Path) -> None:
    url, logs = storage_path(f"{bucket.url}/lake"), storage_path(f"{bucket.url}/logs")
    whole = shutil.copytree(runs / "killed", tmp_path / "killed")
    *_, file = sorted(whole.rglob("*.jsonl"))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-5]))
    bucket.put_folder(whole, "logs")
    ingest(find_logs([logs]), url)
    file.write_bytes(b"".join(lines))
    bucket.put_folder(whole, "logs")
    result = ingest(find_logs([logs]), url)
    assert len(result.replaced) == 1
    (run,) = replay_in_python([logs]).runs
    assert list(Lake(url).run_metrics(incomplete=True)) == [run]


@in_each_store(gs=[LAKES], abfs=[LAKES])
def test_two_writers_at_once_lose_nothing(bucket: Bucket, stored: StoragePath) -> None:
    """The second writer has opened the lake before the first one commits; a conditional PUT tells them apart."""
    url = storage_path(f"{bucket.url}/lake")
    groups = find_logs([stored])
    ingest(groups[:1], url)
    late = Runs(url)
    ingest(groups[1:2], url)
    with pytest.raises(delta.Changed):
        late.changed((), (), late.commit)
    ingest(groups[2:], url)
    assert list(Lake(url).runs) == sorted(group.run for group in groups)


@in_each_store()
@only_nightly("stored-versions")
def test_an_earlier_version_is_read_and_restored(bucket: Bucket, stored: StoragePath) -> None:
    url = storage_path(f"{bucket.url}/lake")
    groups = find_logs([stored])
    before = ingest(groups[:1], url).version
    ingest(groups[1:], url)
    assert list(Lake(url, version=before).runs) == [groups[0].run]
    restore(url, before)
    assert list(Lake(url).runs) == [groups[0].run]
    files = parquet_files(bucket)
    deleted = LakeWriter(url).vacuum(0)
    assert deleted > 0
    assert len(files - parquet_files(bucket)) == deleted


def test_a_busy_server_costs_no_run(bucket: Bucket, stored: StoragePath) -> None:
    url = storage_path(f"{bucket.url}/lake")
    bucket.server.fault(busy=1)
    assert len(ingest(find_logs([stored]), url).added) == 3
    bucket.server.fault()
    assert len(list(Lake(url).run_metrics(incomplete=True))) == 3


def test_other_folders_are_refused_by_their_urls(bucket: Bucket, stored: StoragePath) -> None:
    with pytest.raises(NotALake, match=f"{stored} is not a lake: it holds killed and no table runs"):
        ingest(find_logs([stored]), stored)
    with pytest.raises(NotALake, match=f"{bucket.url}/none is not a lake"):
        Lake(f"{bucket.url}/none")
    with pytest.raises(NothingToIngest, match=f"{bucket.url}/none"):
        find_logs([storage_path(f"{bucket.url}/none")])


@in_each_store(gs=[LAKES], abfs=[LAKES])
def test_commands_take_urls(
    bucket: Bucket, stored: StoragePath, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{bucket.url}/lake"
    assert main(["replay", str(runs), "--engine", "python"]) == 0
    here = capsys.readouterr().out
    assert main(["replay", str(stored), "--engine", "python"]) == 0
    assert capsys.readouterr().out.splitlines()[:20] == here.splitlines()[:20]
    assert main(["ingest", str(stored), "--lake", url]) == 0
    assert f"{url} has version " in capsys.readouterr().out
    assert main(["compare", url, "--by", "session_timeout_ms", "--incomplete"]) == 0
    assert f"understudy replay {url} --run" in capsys.readouterr().out
    assert main(["compare", str(stored), "--by", "session_timeout_ms", "--incomplete"]) == 0
    assert f"understudy replay {stored}/" in capsys.readouterr().out
    assert main(["lake", "history", url]) == 0
    assert "runs ingested: 3 added" in capsys.readouterr().out
    missing = f"{bucket.server.url_of('no-such-bucket')}/runs"
    assert main(["replay", missing]) == (1 if missing.startswith("s3:") else 2)
    error = capsys.readouterr().err
    assert f"understudy replay: {missing}" in error or f"no such file or folder ({missing})" in error
    assert main(["compare", str(stored), "--by", "session_timeout_ms", "--html", "page.html", "--pages"]) == 2
    assert "--pages needs runs in folders of this machine" in capsys.readouterr().err
