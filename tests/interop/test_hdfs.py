"""Event logs and lakes in a real HDFS have the numbers of the same files on this machine, also across faults."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devtools.hadoop_mini import HadoopMini
from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from tests.shares import at_night
from tests.understudy.history.lake.lakes import write_runs
from tests.understudy.history.lake.test_crashes import KILL_AT
from tests.understudy.history.storage.test_runs_in_stores import with_local_names
from understudy.cli.main import main
from understudy.clusters.java import choose_java
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.history.lake import delta
from understudy.history.lake.ingest import find_logs, ingest, remove
from understudy.history.lake.lake import Lake
from understudy.history.lake.runs_table import Runs
from understudy.history.lake.writer import LakeWriter
from understudy.history.reading.listing import LogListing, list_files
from understudy.history.report.replay import replay_in_python
from understudy.history.storage.filesystems import side_by_side, store_of
from understudy.history.storage.paths import READ_BYTES, StoragePath, StoreFailed, UrlPath, storage_path

REPEATED = at_night(
    "lakes of this machine and in a bucket are changed in the same ways; HDFS is read, written and lost"
)
pytestmark = [pytest.mark.interop, pytest.mark.timeout(TIMEOUT_S)]

COMMAND_S = 300
LOST = "Connection refused|connection closed|odes failed|disconnected|reset|Broken pipe"
"""Reasons of clients that have lost a node."""
_numbers = itertools.count(1)

NAME_SERVICE = """\
<configuration>
  <property><name>dfs.nameservices</name><value>logs</value></property>
  <property><name>dfs.ha.namenodes.logs</name><value>gone,here</value></property>
  <property><name>dfs.namenode.rpc-address.logs.gone</name><value>127.0.0.1:1</value></property>
  <property><name>dfs.namenode.rpc-address.logs.here</name><value>{}</value></property>
</configuration>
"""

SPARK_PROGRAM = """
import sys
from understudy.spark import ingest, read_lake, replay, spark_session, tables

url = sys.argv[1]
with spark_session() as spark:
    with replay(spark, f"{url}/runs/*") as found:
        print("failovers", found["failovers"].count())
    print("added", ingest(spark, f"{url}/runs", lake=f"{url}/lake").count())
    print("read", read_lake(spark, f"{url}/lake", "failovers", incomplete=True).count())
    print("computed", tables(spark, f"{url}/lake", incomplete=True)["failovers"].count())
"""


@pytest.fixture(scope="module")
def hadoop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HadoopMini]:
    try:
        with HadoopMini(tmp_path_factory.mktemp("hadoop"), choose_java(), with_yarn=False) as running:
            yield running
    except NotFetched as why:
        skip_or_fail(why)


@pytest.fixture
def folder(hadoop: HadoopMini) -> Iterator[UrlPath]:
    """A new folder."""
    store_of.cache_clear()
    yield url_path(f"{hadoop.filesystem}/folder-{next(_numbers)}")
    store_of.cache_clear()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs on this machine."""
    return write_runs(tmp_path_factory.mktemp("runs"), random=2, records=120)


@pytest.fixture(scope="module")
def stored(hadoop: HadoopMini, runs: Path) -> UrlPath:
    """The same runs in HDFS; they are only read."""
    return put_folder(runs, url_path(f"{hadoop.filesystem}/runs"))


def url_path(url: str) -> UrlPath:
    found = storage_path(url)
    assert isinstance(found, UrlPath)
    return found


def put_folder(here: Path, there: UrlPath) -> UrlPath:
    """Copy all files at or below a folder; return `there`."""

    def put(file: Path) -> None:
        path = there / file.relative_to(here).as_posix()
        path.parent.mkdir(parents=True)
        path.write_bytes(file.read_bytes())

    list(side_by_side(put, [file for file in here.rglob("*") if file.is_file()]))
    return there


def rows_of(lake: StoragePath) -> dict[str, Any]:
    return {run.run: run for run in Lake(lake).run_metrics(incomplete=True)}


def rows_of_logs(*paths: StoragePath) -> dict[str, Any]:
    return {run.run: run for run in replay_in_python(list(paths)).runs}


def started(*words: str, **variables: str) -> subprocess.Popen[str]:
    """Start the `understudy` command."""
    return subprocess.Popen(
        [sys.executable, "-m", "understudy.cli.main", *words],
        env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(*words: str, **variables: str) -> tuple[int, str, str]:
    """Run the `understudy` command; return its exit status and what it has printed."""
    process = started(*words, **variables)
    out, err = process.communicate(timeout=COMMAND_S)
    return process.returncode, out, err


# ------------------------------------------------------------------ files


def test_files_have_the_errors_of_files_on_this_machine(folder: UrlPath) -> None:
    file = folder / "a b%20ü" / "file"
    for wrong in (file.open, file.stat, file.unlink, lambda: list(folder.iterdir()), lambda: list(folder.walk())):
        with pytest.raises(FileNotFoundError) as missing:
            wrong()
        assert missing.value.filename in (str(file), str(folder))
        assert missing.value.strerror == "No such file or directory"
    file.parent.mkdir(parents=True)
    file.parent.mkdir(parents=True)
    content = os.urandom(READ_BYTES + 1000)
    with file.open("xb") as stream:
        stream.write(content)
        assert not file.exists()
    assert file.read_bytes() == content
    assert file.size_and_beginning(10) == (len(content), content[:10])
    with file.open() as read:
        read.seek(-500, 2)
        assert read.read() == content[-500:]
    assert [path.is_dir() for path in (folder, file.parent, file)] == [True, True, False]
    assert not (file / "below").exists()
    for wrong in (lambda: list(file.iterdir()), lambda: list((file / "below").iterdir()), (file / "below").mkdir):
        with pytest.raises(NotADirectoryError):
            wrong()
    file.write_bytes(b"")
    assert file.read_bytes() == b""
    assert [str(path) for path in (folder / "a*" / "f*").matching()] == [str(file)]
    file.unlink()
    assert list(file.parent.iterdir()) == []
    folder.remove_folder()
    with pytest.raises(FileNotFoundError):
        folder.remove_folder()


def test_files_are_listed_as_on_this_machine(stored: UrlPath, runs: Path) -> None:
    here, there = list_files([runs]), list_files([stored])
    names = {name.replace(str(runs), str(stored)): files for name, files in here.names.items()}
    assert there == LogListing(names, ())
    assert list_files([storage_path(f"{stored}/*")]) == there
    (first, files), *_ = there.names.items()
    assert list_files([storage_path(first + files[0])]).names == {first: files[:1]}


def test_a_folder_without_logs_and_a_missing_one_are_findings(folder: UrlPath) -> None:
    (folder / "others").mkdir(parents=True)
    (folder / "others" / "readme").write_bytes(b"text")
    listing = list_files([folder / "others", folder / "none", folder / "none*"])
    assert [(finding.file, finding.what) for finding in listing.findings] == [
        (f"{folder}/others", ""), (f"{folder}/none", "no such file or folder"), (f"{folder}/none*", ""),
    ]  # fmt: skip


def test_the_numbers_are_those_of_the_same_files_here(stored: UrlPath, runs: Path) -> None:
    assert with_local_names(replay_in_python([stored]), stored, runs) == replay_in_python([runs])


@REPEATED
def test_name_services_are_found_by_their_configuration(
    hadoop: HadoopMini, stored: UrlPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two name nodes does not answer. A URL without a host is of the file system that is named there."""
    address = hadoop.filesystem.removeprefix("hdfs://")
    (tmp_path / "hdfs-site.xml").write_text(NAME_SERVICE.format(address))
    (tmp_path / "core-site.xml").write_text((hadoop.configuration / "core-site.xml").read_text())
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    store_of.cache_clear()
    for root in ("hdfs://logs", "hdfs://"):
        lake = storage_path(f"{root}/lake-of-{len(root)}")
        assert len(ingest(find_logs([storage_path(f"{root}/runs/killed")]), lake).added) == 1
        assert rows_of(lake) == rows_of_logs(stored / "killed")


# ------------------------------------------------------------------ lakes


def test_a_lake_is_written_read_and_changed(folder: UrlPath, stored: UrlPath) -> None:
    lake = folder / "lake"
    first = ingest(find_logs([stored]), lake)
    assert len(first.added) == 3
    expected = replay_in_python([stored])
    assert rows_of(lake) == {run.run: run for run in expected.runs}
    assert Lake(str(lake)).findings() == tuple(sorted(expected.findings))
    again = ingest(find_logs([stored]), lake)
    assert (again.added, again.replaced, sorted(again.unchanged)) == ([], [], sorted(first.added))
    remove([first.added[0]], lake)
    assert list(Lake(lake).runs) == sorted(first.added[1:])
    assert [change for _, _, change in Runs(lake).changes()] == ["runs removed: 1", "runs ingested: 3 added"]


@REPEATED
def test_commands_take_urls(folder: UrlPath, stored: UrlPath, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = f"{folder}/lake"
    assert main(["replay", str(runs), "--engine", "python"]) == 0
    here = capsys.readouterr().out
    assert main(["replay", str(stored), "--engine", "python"]) == 0
    assert capsys.readouterr().out.splitlines()[:20] == here.splitlines()[:20]
    assert main(["ingest", f"{stored}/killed", "--lake", lake]) == 0
    version = Lake(lake).version
    assert f"{lake} has version {version}" in capsys.readouterr().out
    assert main(["ingest", f"{stored}/*", "--lake", lake]) == 0
    assert main(["compare", lake, "--by", "session_timeout_ms", "--incomplete"]) == 0
    assert f"understudy replay {lake} --run" in capsys.readouterr().out
    assert main(["lake", "history", lake]) == 0
    assert "runs ingested: 2 added" in capsys.readouterr().out
    assert main(["lake", "restore", lake, str(version)]) == 0
    assert rows_of(storage_path(lake)) == rows_of_logs(stored / "killed")
    assert main(["lake", "vacuum", lake, "--keep", "0"]) == 0
    assert "deleted" in capsys.readouterr().out
    assert main(["replay", f"{folder}/none", "--engine", "python"]) == 2
    assert f"{folder}/none" in capsys.readouterr().err


@REPEATED
def test_a_late_writer_finds_that_the_lake_has_changed(folder: UrlPath, stored: UrlPath) -> None:
    """The commit of a writer that has opened the lake before another one's commit is refused."""
    lake, groups = folder / "lake", find_logs([stored])
    ingest(groups[:1], lake)
    late = Runs(lake)
    ingest(groups[1:2], lake)
    with pytest.raises(delta.Changed):
        late.changed((), (), late.commit)
    ingest(groups[2:], lake)
    assert rows_of(lake) == rows_of_logs(stored)


@REPEATED
def test_processes_that_ingest_at_once_lose_nothing(folder: UrlPath, stored: UrlPath) -> None:
    lake, names = f"{folder}/lake", ("killed", "random-0", "random-1")
    processes = [started("ingest", f"{stored}/{name}", "--lake", lake) for name in names]
    for process in processes:
        _, err = process.communicate(timeout=COMMAND_S)
        assert process.returncode == 0, err
    assert rows_of(storage_path(lake)) == rows_of_logs(stored)
    assert not Runs(storage_path(lake)).uncounted


@REPEATED
@pytest.mark.parametrize("moment", ["create_table 20 before", "overwrite 2 after"])
def test_an_ingest_that_is_killed_can_be_repeated(folder: UrlPath, stored: UrlPath, moment: str) -> None:
    """One ends before its runs count, one afterwards."""
    lake = folder / "lake"
    command = [sys.executable, "-c", KILL_AT, str(stored), str(lake), *moment.split()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)
    assert done.returncode == -signal.SIGKILL, f"it was not killed at {moment!r}: {done.stderr}"
    ingest(find_logs([stored]), lake)
    assert rows_of(lake) == rows_of_logs(stored)
    LakeWriter(lake)
    assert not Runs(lake).uncounted


# ------------------------------------------------------------------ Spark


@at_night("workers of Spark read and write a bucket in each run")
def test_workers_of_spark_read_and_write_and_spark_reads_the_lake(folder: UrlPath, runs: Path) -> None:
    """Workers use the client of this package. Spark's own reader is part of Spark."""
    put_folder(runs, folder / "runs")
    done = subprocess.run(
        [sys.executable, "-c", SPARK_PROGRAM, str(folder)],
        capture_output=True, text=True, timeout=COMMAND_S, check=False,
    )  # fmt: skip
    failovers = sum(len(run.failovers) for run in replay_in_python([runs]).runs)
    assert done.stdout.splitlines() == [
        f"failovers {failovers}", "added 3", f"read {failovers}", f"computed {failovers}",
    ], done.stderr  # fmt: skip
    assert rows_of(folder / "lake") == rows_of_logs(runs)


# ------------------------------------------------------------------ faults


@REPEATED
def test_a_user_without_permission_is_told_which_file(folder: UrlPath, stored: UrlPath, runs: Path) -> None:
    put_folder(runs / "killed", folder / "open")
    lake = f"{folder}/lake"
    ingest(find_logs([folder / "open"]), storage_path(lake))
    for words, refused in {
        ("ingest", str(stored), "--lake", f"{folder}/new"): f"{folder}/new",
        ("ingest", str(stored), "--lake", lake): f"{lake}/records",
    }.items():
        status, _, err = run(*words, HADOOP_USER_NAME="stranger")
        assert status == 1
        assert refused in err
        assert "Permission denied: user=stranger, access=WRITE" in err
        assert "Traceback" not in err
        assert "at org.apache.hadoop" not in err
    assert rows_of(storage_path(lake)) == rows_of_logs(folder / "open")


def test_a_data_node_that_stops_while_a_file_is_read(hadoop: HadoopMini, folder: UrlPath) -> None:
    content = os.urandom(2 * READ_BYTES)
    folder.mkdir(parents=True)
    (folder / "log").write_bytes(content)
    with (folder / "log").open() as stream:
        assert stream.read(READ_BYTES) == content[:READ_BYTES]
        with hadoop.without("datanode"), pytest.raises(StoreFailed, match=r"All DataNodes failed: 127\.0") as raised:
            stream.read()
        assert raised.value.filename == f"{folder}/log"
        stream.seek(READ_BYTES)
        assert stream.read() == content[READ_BYTES:]


@REPEATED
@pytest.mark.parametrize("step", ["create_table", "commit_files"])
@pytest.mark.parametrize("node", ["namenode", "datanode"])
def test_an_ingest_that_loses_a_node_names_the_lake_and_is_continued(
    hadoop: HadoopMini,
    folder: UrlPath,
    stored: UrlPath,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    step: str,
    node: str,
) -> None:
    """The node is stopped before a commit to a table of the lake, by the thread that is first."""
    lake = f"{folder}/lake"
    command = ["ingest", str(stored), "--lake", lake]
    if step == "commit_files":
        ingest(find_logs([stored / "killed"]), storage_path(lake))
    with contextlib.ExitStack() as stack, monkeypatch.context() as patched:
        stops = iter([lambda: stack.enter_context(hadoop.without(node))])
        patched.setattr(delta, step, preceded(getattr(delta, step), stops))
        assert main(command) == 1
        *_, error = capsys.readouterr().err.splitlines()
        assert re.match(f"understudy ingest: .*{lake}/.*({LOST})", error), error
        assert not list(stops), "the node was stopped"
    assert main(command) == 0
    assert rows_of(storage_path(lake)) == rows_of_logs(stored)
    assert not Runs(storage_path(lake)).uncounted


def preceded(function: Callable[..., Any], once: Iterator[Callable[[], object]]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        for work in once:
            work()
        return function(*arguments, **named)

    return call


@REPEATED
def test_a_replay_without_a_name_node_ends_with_the_url(hadoop: HadoopMini, stored: UrlPath) -> None:
    with hadoop.without("namenode"):
        status, _, err = run("replay", str(stored), "--engine", "python")
    assert status == 1
    assert err.startswith(f"understudy replay: {hadoop.filesystem}")
    assert "Connection refused" in err
    assert "Traceback" not in err
    status, out, err = run("replay", str(stored), "--engine", "python")
    assert (status, "run-1" in out) == (0, True), err
