"""Lakes for tests: what they hold, and whether that is what the logs hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.foundation.eventlog.stories import RandomRun, killed_controller
from tests.understudy.history.lake.damaged_logs import write
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.lake.ingest import Ingested, find_logs, ingest
from understudy.history.lake.lake import Lake
from understudy.history.reading import reader
from understudy.history.report.replay import replay_in_python
from understudy.history.storage.paths import StoragePath


def write_runs(folder: Path, random: int, records: int) -> Path:
    """Write the run of a killed controller, and some random runs, each into a folder of its own; return `folder`."""
    write(killed_controller(), folder / "killed")
    for seed in range(random):
        write(RandomRun(seed, records=records).logs, folder / f"random-{seed}")
    return folder


def take(lake: Path, *paths: Path) -> Ingested:
    return ingest(find_logs(paths), lake)


def content(lake: Path) -> dict[str, list[dict[str, Any]]]:
    """Return all rows by table, sorted by run but otherwise in their order. Tables without rows are left out."""
    opened = Lake(lake)
    return {
        name: sorted(rows, key=lambda row: str(row["run"]))
        for name in (*opened.tables, *opened.record_types)
        if (rows := opened.read(name, incomplete=True).to_pylist())
    }


def files_below(lake: Path) -> set[Path]:
    return set(lake.absolute().rglob("*.parquet"))


def rows_below(lake: Path) -> set[Path]:
    """Return the files of rows, without the files of the table `runs`."""
    return {path for path in files_below(lake) if path.parent.name != "runs"}


def assert_holds(lake: Path, *paths: Path) -> None:
    """Check metrics, records and findings against the logs, and that there is no file that does not count."""
    opened = Lake(lake)
    expected = replay_in_python(paths)
    assert {metrics.run: metrics for metrics in opened.run_metrics(incomplete=True)} == {
        run.run: run for run in expected.runs
    }
    assert list(opened.runs) == [run.run for run in expected.runs]
    absolute = {(str(Path(found.file).absolute()), found.line, found.kind) for found in expected.findings}
    assert {(found.file, found.line, found.kind) for found in opened.findings()} == absolute
    assert opened.lines == expected.lines
    records = reader.read(paths).records
    for name in PAYLOAD_BY_TYPE:
        keys = sorted((r.run, r.node, r.incarnation, r.seq) for r in records if r.type == name)
        rows = opened.read(name, incomplete=True).select(["run", "node", "incarnation", "seq"]).to_pylist()
        assert sorted(tuple(row.values()) for row in rows) == keys, name
    assert sum(entry.records for entry in opened.runs.values()) == len(records)
    assert counted_files(opened) <= files_below(lake)


def assert_counts_once(lake: Path) -> None:
    """Check that other programs, which read the newest version of each table, get the rows that count and no others."""
    opened = Lake(lake)
    whole = {(run, entry.ingest) for run, entry in opened.runs.items()}
    for kind in ("tables", "records"):
        for folder in sorted((lake / kind).iterdir()):
            files = [urlparse(uri).path for uri in DeltaTable(str(folder)).file_uris()]
            rows = [row for file in files for row in pq.ParquetFile(file).read(["run", "ingest"]).to_pylist()]
            assert {(row["run"], row["ingest"]) for row in rows} <= whole
            assert len(rows) == opened.read(folder.name, incomplete=True).num_rows


def counted_files(lake: Lake) -> set[StoragePath]:
    return {path for kind in ("tables", "records") for name in names(lake, kind) for path in lake.files(kind, name)}


def names(lake: Lake, kind: str) -> tuple[str, ...]:
    return lake.tables if kind == "tables" else lake.record_types
