"""A run in pieces has each line once, and is judged as the whole run is; a run that is not whole is recognised."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.foundation.eventlog.stories import RandomRun, killed_controller, long_line, silent_controllers
from tests.understudy.history.lake.damaged_logs import write, write_damaged
from tests.understudy.history.lake.lakes import content, take
from tests.understudy.history.reading.attested_logs import Cluster, failover
from understudy.foundation.eventlog.records import LogSeen, RequestSent
from understudy.history.lake import ingest as ingesting
from understudy.history.lake.columns import completed, run_table
from understudy.history.lake.ingest import InProcess, find_logs, ingest
from understudy.history.lake.log_rows import FileRange
from understudy.history.lake.parts import new_name
from understudy.history.lake.pieces import NotInPieces, WrittenPiece, divide, evidence_of, join, lines_of, write_piece
from understudy.history.metrics.clock_rows import clock_rows
from understudy.history.metrics.metric_tables import TABLES
from understudy.history.metrics.metrics import measure_records
from understudy.history.metrics.row_tables import ROW_TABLES, rows
from understudy.history.reading.file_marks import mark
from understudy.history.reading.missing import find_missing
from understudy.history.reading.reader import find_files, read_runs
from understudy.history.report.runs import find_runs
from understudy.trials.seeds.seeds import run_seed

INGEST = new_name()


def in_pieces(logs: Path, lake: Path, piece_bytes: int) -> list[WrittenPiece]:
    (group,) = find_runs(find_files([logs]).files)
    pieces = divide(map(mark, group.files), piece_bytes)
    return [write_piece(lake, INGEST, group.run, ranges) for ranges in pieces]


def judged(logs: Path, lake: Path, piece_bytes: int) -> None:
    """Join a run in pieces. Raises NotInPieces."""
    pieces = in_pieces(logs, lake, piece_bytes)
    join(pieces, list(map(mark, map(str, find_files([logs]).files))))


# ------------------------------------------------------------------ lines


def test_each_line_is_in_one_range_wherever_a_file_is_divided(tmp_path: Path) -> None:
    """Also at the first byte of a line, in its middle, and at the end of the file, whose last line has no newline."""
    file, text = tmp_path / "log", b"first\n\nthird line\nlast"
    file.write_bytes(text)
    whole = [(0, b"first\n"), (6, b"\n"), (7, b"third line\n"), (18, b"last")]
    for first in range(len(text) + 1):
        for second in range(first, len(text) + 1):
            ranges = [(0, first), (first, second), (second, len(text))]
            found = [line for begin, end in ranges for line in lines_of(FileRange(str(file), begin, end))]
            assert [(line.offset, line.text) for line in found] == whole


@pytest.mark.parametrize("piece_bytes", [1, 10, 11, 30, 31, 1000])
def test_pieces_are_ranges_of_files_in_order(tmp_path: Path, piece_bytes: int) -> None:
    for number, size in enumerate((10, 0, 20)):
        (tmp_path / str(number)).write_bytes(b"x" * size)
    pieces = divide([mark(str(tmp_path / name)) for name in "201"], piece_bytes)
    sizes = [sum(part.end - part.begin for part in ranges) for ranges in pieces]
    assert sum(sizes) == 30
    assert sizes[:-1] == [piece_bytes] * (len(sizes) - 1)
    covered = [(part.file[-1], byte) for ranges in pieces for part in ranges for byte in range(part.begin, part.end)]
    assert covered == [("0", byte) for byte in range(10)] + [("2", byte) for byte in range(20)]


# ------------------------------------------------------------------ whole runs


def rotated(folder: Path, bytes_of_a_file: int = 2000) -> Path:
    """Divide the first file of each incarnation into numbered files, as a log of much more would be."""
    for file in list(folder.rglob("*-0001.jsonl")):
        texts = [b""]
        for line in file.read_bytes().splitlines(keepends=True):
            if texts[-1] and len(texts[-1]) + len(line) > bytes_of_a_file:
                texts.append(b"")
            texts[-1] += line
        for number, text in enumerate(texts, 1):
            file.with_name(f"{file.name.removesuffix('-0001.jsonl')}-{number:04d}.jsonl").write_bytes(text)
    return folder


@cache
def simulated_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        run_seed(1, 40, own_clocks=False, events=Path(folder))
        return {str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).rglob("*.jsonl")}


def simulated(folder: Path) -> Path:
    for name, text in simulated_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(text)
    return folder


def random_run(folder: Path, seed: int) -> Path:
    return write(RandomRun(seed, records=400).logs, folder)


def simulated_and_cut(folder: Path, node: str, kept: float = 0.7) -> Path:
    """Leave out the end of a broker's last log, and the log of the simulator, which attests the end."""
    for file in simulated(folder).rglob("simulator-*"):
        file.unlink()
    last = max(folder.rglob(f"{node}-*"))
    lines = last.read_bytes().splitlines(keepends=True)
    last.write_bytes(b"".join(lines[: int(len(lines) * kept)]))
    return folder


def lacks_an_end(logs: Cluster) -> Cluster:
    logs.lines["broker-2-0001-0001.jsonl"] = logs.lines["broker-2-0001-0001.jsonl"][:-2]
    return logs


def lacks_a_broker(logs: Cluster) -> Cluster:
    del logs.lines["broker-2-0001-0001.jsonl"]
    return logs


def names_brokers_without_logs(logs: Cluster) -> Cluster:
    for ms in (9001, 9002):
        logs.write(
            ms, "broker-2", RequestSent(to=4, api="LeaderAndIsr", api_version=7, client_id="2", correlation_id=0)
        )
    logs.write(9500, "testbed", LogSeen(node="broker-5", incarnation=1, seq=1))
    return logs


RUNS: dict[str, Callable[[Path], Path]] = {
    "killed controller": lambda folder: write(killed_controller(), folder),
    "silent controllers": lambda folder: write(silent_controllers(), folder),
    "long line": lambda folder: write(long_line(), folder),
    "failover": lambda folder: write(failover(), folder),
    "no boot": lambda folder: write(failover(boot="", has_testbed=False), folder),
    "no end": lambda folder: write(lacks_an_end(failover()), folder),
    "no broker": lambda folder: write(lacks_a_broker(failover(has_testbed=False)), folder),
    "other brokers": lambda folder: write(names_brokers_without_logs(failover()), folder),
    "simulated": simulated,
    "rotated": lambda folder: rotated(simulated(folder), 20_000),
    **{f"{node}, cut": partial(simulated_and_cut, node=node) for node in ("broker-1", "broker-3")},
    **{f"random {seed}": partial(random_run, seed=seed) for seed in range(4)},
}


@pytest.mark.parametrize("name", RUNS)
def test_the_evidence_of_pieces_is_the_evidence_of_the_run(tmp_path: Path, name: str) -> None:
    """The gaps of a run that is not whole are found from the few records that the pieces keep."""
    logs = RUNS[name](tmp_path / "logs")
    (whole,) = read_runs(find_files([logs]).files).runs.values()
    size = sum(file.stat().st_size for file in find_files([logs]).files)
    missing = find_missing(whole)
    for parts in (1, 6):
        pieces = in_pieces(logs, tmp_path / f"lake-{parts}", size // parts + 1)
        found = evidence_of(pieces)
        assert find_missing(found) == missing
        assert clock_rows(found) == clock_rows(whole)
        assert (found.started_ms, sum(piece.records for piece in pieces)) == (whole.started_ms, whole.signs.count)
        kept = sum(len(piece.evidence) for piece in pieces)
        assert kept <= whole.signs.count
    if missing:
        with pytest.raises(NotInPieces, match="records are missing: "):
            judged(logs, tmp_path / "lake", size)


def test_evidence_is_a_small_part_of_a_run(tmp_path: Path) -> None:
    logs = simulated(tmp_path / "logs")
    (piece,) = in_pieces(logs, tmp_path / "lake", 2**40)
    assert len(piece.evidence) < piece.records / 10


@pytest.mark.parametrize("name", ["killed controller", "rotated"])
def test_pieces_write_the_records_of_the_run(tmp_path: Path, name: str) -> None:
    logs = RUNS[name](tmp_path / "logs")
    take(tmp_path / "lake", logs)
    expected = {name: rows for name, rows in content(tmp_path / "lake").items() if name[0].isupper()}
    pieces = in_pieces(logs, tmp_path / "pieces", sum(file.stat().st_size for file in logs.rglob("*.jsonl")) // 3)
    assert len(pieces) > 1
    found: dict[str, list[dict[str, Any]]] = {}
    for piece in pieces:
        for folder, files in piece.part.files.items():
            for file in files:
                table = pq.read_table(tmp_path / "pieces" / folder / file.name)
                assert set(table["ingest"].to_pylist()) == {INGEST}
                found.setdefault(folder.partition("/")[2], []).extend(table.drop(["ingest"]).to_pylist())
    assert {name: sorted(rows, key=repr) for name, rows in found.items()} == {
        name: sorted(rows, key=repr) for name, rows in expected.items()
    }


# ------------------------------------------------------------------ runs that are not for pieces


def changed(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], object]:
    def apply(folder: Path) -> None:
        file = folder / "broker-2-0001-0001.jsonl"
        file.write_bytes(b"".join(change(file.read_bytes().splitlines(keepends=True))))

    return apply


def other_run(line: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(line) | {"run": "other"}) + b"\n"


def later(folder: Path, node: str, ms: float) -> None:
    """Move all clocks of a node."""
    for file in folder.glob(f"{node}-*.jsonl"):
        lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
        moved = [line | {"mono_ms": line["mono_ms"] + ms} for line in lines]
        file.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in moved))


FLAWS: dict[str, tuple[Callable[[Path], object], str]] = {
    "torn": (changed(lambda lines: [*lines[:-1], lines[-1][:-20]]), "has damaged lines"),
    "no line": (changed(lambda lines: [*lines[:3], b"\n", *lines[3:]]), "has damaged lines"),
    "version": (
        changed(lambda lines: [*lines[:-1], lines[-1].replace(b'"version":1', b'"version":2')]),
        "has damaged lines",
    ),
    "payload": (
        changed(lambda lines: [*lines[:-1], lines[-1].replace(b'"data":{', b'"data":7,"more":{')]),
        "a record has a flaw in its payload",
    ),
    "type": (
        changed(lambda lines: [*lines[:-1], lines[-1].replace(b'"type":"', b'"type":"Newer')]),
        "a record has a flaw in its payload",
    ),
    "gap": (changed(lambda lines: [*lines[:3], *lines[4:]]), "broker-2 incarnation 1 is not in sequence"),
    "no beginning": (changed(lambda lines: lines[1:]), "broker-2 incarnation 1 is not in sequence"),
    "repeat": (changed(lambda lines: [*lines, lines[-1]]), "broker-2 incarnation 1 is not in sequence"),
    "order": (changed(lambda lines: [lines[1], lines[0], *lines[2:]]), "broker-2 incarnation 1 is not in sequence"),
    "other run": (changed(lambda lines: [*lines, other_run(lines[-1])]), "has records of other runs"),
    "clocks": (lambda folder: later(folder, "broker-3", 50_000), "its machines may have several clocks"),
    "empty": (lambda folder: (folder / "broker-2-0001-0002.jsonl").touch(), "is empty"),
}


@pytest.mark.parametrize("piece_bytes", [300, 1000, 10**6])
@pytest.mark.parametrize("name", FLAWS)
def test_a_run_with_a_flaw_is_not_for_pieces(tmp_path: Path, name: str, piece_bytes: int) -> None:
    logs = write(killed_controller(), tmp_path / "logs")
    judged(logs, tmp_path / "lake", piece_bytes)
    change, why = FLAWS[name]
    change(logs)
    (group, *_) = find_runs(find_files([logs]).files)[::-1]
    marks = list(map(mark, map(str, find_files([logs]).files)))
    pieces = [write_piece(tmp_path / "lake", INGEST, group.run, ranges) for ranges in divide(marks, piece_bytes)]
    with pytest.raises(NotInPieces, match=why):
        join(pieces, marks)


def test_a_file_that_grows_is_not_for_pieces(tmp_path: Path) -> None:
    logs = write(killed_controller(), tmp_path / "logs")
    marks = list(map(mark, map(str, find_files([logs]).files)))
    pieces = in_pieces(logs, tmp_path / "lake", 1000)
    with (logs / "broker-2-0001-0001.jsonl").open("ab") as log:
        log.write(b" ")
    with pytest.raises(NotInPieces, match=r"broker-2-0001-0001\.jsonl is growing"):
        join(pieces, marks)
    (logs / "broker-2-0001-0001.jsonl").unlink()
    with pytest.raises(NotInPieces, match=r"broker-2-0001-0001\.jsonl cannot be read: No such file"):
        join(pieces, marks)
    (flawed, *_) = in_pieces_of(logs / "broker-2-0001-0001.jsonl", tmp_path / "lake")
    assert flawed.flaw.endswith("cannot be read: No such file or directory")


def in_pieces_of(file: Path, lake: Path) -> list[WrittenPiece]:
    return [write_piece(lake, INGEST, "run-1", [FileRange(str(file), 0, 10)])]


def test_a_large_run_that_is_not_for_pieces_is_written_in_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = tmp_path / "logs"
    write_damaged(logs / "damaged")
    write(killed_controller("whole"), logs / "whole")
    take(tmp_path / "expected", logs)
    monkeypatch.setattr(ingesting, "LARGE_RUN_BYTES", 0)
    steps: list[str] = []
    ingest(find_logs([logs]), tmp_path / "lake", lambda _: InProcess(), steps.append)
    assert [step for step in steps if "in one task" in step] == [
        f"writing run {run} in one task, which needs memory for all its records: only Spark divides a run"
        for run in ("run-1", "whole")
    ]
    assert content(tmp_path / "lake") == content(tmp_path / "expected")


# ------------------------------------------------------------------ rows of SQL


def test_rows_of_a_complete_run_get_the_columns_that_sql_leaves_out(tmp_path: Path) -> None:
    (run,) = read_runs(find_files([simulated(tmp_path / "logs")]).files).runs.values()
    metrics = measure_records("seed", run)
    given: dict[str, tuple[Any, ...]] = {name: getattr(metrics, name) for name in TABLES if name != "clocks"}
    given |= {name: tuple(rows(name, run)) for name in ROW_TABLES}
    assert sum(map(bool, given.values())) > 10
    for name, found in given.items():
        own = found if isinstance(found, tuple) else (found,)
        expected = run_table(name, [("seed", row) for row in own], {"seed": metrics.totals.started_ms})
        left_out = [each for each in expected.column_names if each.endswith(("_within_ms", "_at", "doubt", "complete"))]
        assert completed(name, expected.drop(left_out), metrics.totals.started_ms) == expected, name
    empty = pa.table({field: pa.array([], pa.int64()) for field in ("run", "api", "error", "requests", "partitions")})
    assert completed("refusals", empty, 0.0).num_rows == 0
