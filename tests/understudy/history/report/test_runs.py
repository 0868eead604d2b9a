"""Runs are found by the first readable line of each file, and whole runs are packed into tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.foundation.eventlog.lines import Logs
from understudy.foundation.eventlog.records import StepReached
from understudy.history.metrics.metrics import measure
from understudy.history.reading.findings import LogFinding
from understudy.history.report.replay import Measured, RunsOfFiles, groups_to_join, without
from understudy.history.report.runs import DIFFERENT_RUNS, RunFiles, find_logs, find_runs, pack


def write(folder: Path, run: str, *nodes: str) -> list[Path]:
    logs = Logs(run)
    for node in nodes:
        logs.at(1.0, node, StepReached(step="begin"))
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{run}-{name}" for name in logs.lines]
    for path, lines in zip(paths, logs.lines.values(), strict=True):
        path.write_bytes(b"".join(lines))
    return paths


def test_files_are_grouped_by_the_run_of_their_first_line(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "run-1", "broker-2", "broker-1"), write(tmp_path / "b", "run-2", "broker-1")
    more = write(tmp_path / "c", "run-1", "broker-3")
    groups = find_runs([*second, *more, *first])
    assert [(group.run, group.files) for group in groups] == [
        ("run-1", tuple(sorted(str(path) for path in (*first, *more)))),
        ("run-2", (str(second[0]),)),
    ]
    assert groups[1].bytes == second[0].stat().st_size


def test_the_run_of_a_file_with_a_damaged_beginning_is_found_further_down(tmp_path: Path) -> None:
    (path,) = write(tmp_path, "run-1", "broker-1")
    path.write_bytes(b"\x00" * 300 + b"\n{}\n" + path.read_bytes())
    assert [group.run for group in find_runs([path])] == ["run-1"]


@pytest.mark.parametrize("step", ["begin", "b" * 5_000])
def test_the_first_line_may_be_long_and_without_its_end(tmp_path: Path, step: str) -> None:
    logs = Logs("run-1")
    logs.at(1.0, "broker-1", StepReached(step=step))
    (lines,) = logs.lines.values()
    path = tmp_path / "a.jsonl"
    for content in (lines[0], lines[0] + b"\n", lines[0].rstrip(), lines[0] * 3):
        path.write_bytes(content)
        assert find_runs([path]) == [RunFiles("run-1", (str(path),), len(content))]


@pytest.mark.parametrize("content", [None, b"", b"no log\n", b"no end", b"{}\n" * 400_000])
def test_a_file_without_a_run_is_a_group_of_its_own(tmp_path: Path, content: bytes | None) -> None:
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in paths:
        if content is not None:
            path.write_bytes(content)
    assert find_runs(paths) == [RunFiles("", (str(path),), len(content or b"")) for path in paths]


def test_different_runs_with_one_id_are_found(tmp_path: Path) -> None:
    (first,), (second,) = write(tmp_path / "a", "run-1", "broker-1"), write(tmp_path / "b", "run-1", "broker-1")
    assert find_logs([tmp_path]).findings == (), "the second is a copy"
    second.write_bytes(first.read_bytes() * 2)
    assert find_logs([tmp_path]).findings == (), "the first is a copy from before"
    second.write_bytes(first.read_bytes().replace(b"begin", b"other"))
    write(tmp_path / "c", "run-2", "broker-1")
    assert find_logs([tmp_path]).findings == tuple(
        LogFinding(str(file), 0, DIFFERENT_RUNS, "run-1") for file in (first, second)
    )


def group(run: str, size: int, *files: str) -> RunFiles:
    return RunFiles(run, files or (f"/{run}.jsonl",), size)


def test_whole_runs_are_packed_into_tasks_with_the_largest_first() -> None:
    groups = [group("a", 10), group("b", 60), group("c", 250), group("d", 40), group("e", 5)]
    tasks = pack(groups, task_bytes=100)
    assert [[groups[number].run for number in task] for task in tasks] == [["c"], ["b", "d"], ["a", "e"]]
    assert pack([group("a", 7), group("b", 9), group("c", 7)], task_bytes=7) == [[1], [0], [2]]
    assert pack([], task_bytes=100) == []


def test_runs_are_made_on_access(tmp_path: Path) -> None:
    write(tmp_path / "a", "run-2", "broker-1")
    write(tmp_path / "b", "run-1", "broker-1", "broker-2")
    (tmp_path / "b" / "empty-0001-0001.jsonl").touch()
    write(tmp_path / "c", "run-1", "broker-3")
    groups = find_logs([tmp_path]).groups
    assert list(groups) == groups[:] == [groups[0], groups[1], groups[-1]]
    assert groups[:2] == find_runs(sorted(tmp_path.glob("[bc]/*")))
    assert groups.bytes == sum(each.bytes for each in groups) > 0


def test_groups_with_records_of_the_same_run_are_joined() -> None:
    def measured(of: RunFiles, *runs: str) -> Measured:
        return Measured(of, tuple(measure(run, ()) for run in runs), (), 1)

    def found(*results: Measured) -> list[RunsOfFiles]:
        return [RunsOfFiles(result.group, tuple(run.run for run in result.runs)) for result in results]

    a, b, c, d = group("a", 1), group("b", 2), group("c", 3), group("d", 4)
    results = [measured(a, "a", "b"), measured(b, "b"), measured(c, "c", "a"), measured(d, "d")]
    joined = RunFiles("a", ("/a.jsonl", "/b.jsonl", "/c.jsonl"), 6)
    assert groups_to_join(found(*results)) == [joined]
    assert without(results, [joined]) == [results[3]]
    assert groups_to_join(found(results[1], results[3])) == []
