"""Collecting copies what the folder lacks, and nothing else, whatever the sources have and an earlier copy has left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.foundation.eventlog.lines import Logs
from tests.foundation.eventlog.stories import killed_controller
from understudy.history.collecting.collect import Collection, NotOneRun, copy_files, plan
from understudy.history.collecting.sources import ByteRange, LocalSource, NoEventLogs, SourceFailed

NAME = "broker-1-0001-0001.jsonl"


def machine(folder: Path, node: str, logs: Logs | None = None) -> Path:
    """Write the event logs of a node into the `events` folder of its log directory; return the log directory."""
    events = folder / "data" / "events"
    events.mkdir(parents=True, exist_ok=True)
    for name, lines in (logs or killed_controller()).lines.items():
        if name.startswith(f"{node}-"):
            (events / name).write_bytes(b"".join(lines))
    return folder / "data"


@pytest.fixture
def machines(tmp_path: Path) -> list[Path]:
    nodes = sorted({name.rsplit("-", 2)[0] for name in killed_controller().lines})
    return [machine(tmp_path / f"host-{node}", node) for node in nodes]


def collected(paths: Sequence[Path], folder: Path, run: str | None = None) -> Collection:
    found = plan([LocalSource(path) for path in paths], folder, run)
    copy_files(found)
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_logs_of_each_machine_come_into_the_folders_of_their_nodes(machines: list[Path], tmp_path: Path) -> None:
    before = [contents(path) for path in machines]
    found = collected(machines, tmp_path / "run")
    lines = killed_controller().lines
    assert contents(tmp_path / "run") == {
        f"{name.rsplit('-', 2)[0]}/events/{name}": b"".join(lines[name]) for name in sorted(lines)
    }
    assert [contents(path) for path in machines] == before
    assert found.run == "run-1"
    assert sum(copy.new for copy in found.copies) == sum(map(len, contents(tmp_path / "run").values()))


def test_a_second_collection_reads_only_what_is_new(machines: list[Path], tmp_path: Path) -> None:
    log = machines[0] / "events" / NAME
    whole = log.read_bytes()
    log.write_bytes(whole[:500])
    collected(machines, tmp_path / "run")
    log.write_bytes(whole)
    source = Counting(machines[0])
    found = plan([source], tmp_path / "run")
    assert [copy.new for copy in found.copies if copy.new] == [len(whole) - 500]
    source.bytes = 0
    copy_files(found)
    assert source.bytes == len(whole) - 500
    assert (tmp_path / "run" / "broker-1" / "events" / NAME).read_bytes() == whole
    assert not any(copy.new for copy in collected(machines, tmp_path / "run").copies)


class Counting(LocalSource):
    """Counts the bytes that are read, and fails after a number of them."""

    def __init__(self, path: Path, most: int | None = None) -> None:
        super().__init__(path)
        self.bytes = 0
        self._most = most

    def read(self, ranges: Sequence[ByteRange]) -> Iterator[bytes]:
        for piece in super().read(ranges):
            for place in range(0, len(piece), 100):
                if self._most is not None and self.bytes >= self._most:
                    raise SourceFailed("the connection broke")
                self.bytes += len(piece[place : place + 100])
                yield piece[place : place + 100]


@pytest.mark.parametrize("known", [0, 300])
def test_an_interrupted_copy_is_finished(known: int, machines: list[Path], tmp_path: Path) -> None:
    log = machines[0] / "events" / NAME
    target = tmp_path / "run" / "broker-1" / "events" / NAME
    if known:
        target.parent.mkdir(parents=True)
        target.write_bytes(log.read_bytes()[:known])
    found = plan([Counting(log, most=800 + 2 * known)], tmp_path / "run")
    with pytest.raises(SourceFailed):
        copy_files(found)
    assert (target.read_bytes() if target.exists() else b"") == log.read_bytes()[:known], "the file has its name whole"
    (part,) = target.parent.glob(".*.part")
    begun = part.stat().st_size
    assert begun > known
    source = Counting(log)
    again = plan([source], tmp_path / "run")
    source.bytes = 0
    copy_files(again)
    assert contents(target.parent) == {NAME: log.read_bytes()}
    assert source.bytes == len(log.read_bytes()) - begun + 2 * min(begun, 1024), "and the ends of the part"


def test_a_part_of_another_file_is_not_continued(machines: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "run" / "broker-1" / "events" / NAME
    target.parent.mkdir(parents=True)
    target.with_name(f".{NAME}.part").write_bytes(b"x" * 50)
    collected(machines, tmp_path / "run")
    assert contents(target.parent) == contents(machines[0] / "events")


def test_copies_of_one_file_may_end_earlier_and_the_longest_is_taken(machines: list[Path], tmp_path: Path) -> None:
    log = machines[0] / "events" / NAME
    backup = tmp_path / "backup"
    backup.mkdir()
    (backup / NAME).write_bytes(log.read_bytes()[:-7])
    for order in ([backup, *machines], [*machines, backup]):
        found = collected(order, tmp_path / "run")
        assert contents(tmp_path / "run")[f"broker-1/events/{NAME}"] == log.read_bytes()
        assert len(found.copies) == len(killed_controller().lines)
    log.unlink()
    assert not any(copy.new for copy in collected([backup], tmp_path / "run").copies), "the folder has more"


def test_files_with_one_name_that_differ_are_refused_and_nothing_is_copied(
    machines: list[Path], tmp_path: Path
) -> None:
    other = tmp_path / "other" / NAME
    other.parent.mkdir()
    whole = (machines[0] / "events" / NAME).read_bytes()
    other.write_bytes(whole.replace(b'"pid":', b'"pad":', 1))
    with pytest.raises(
        NotOneRun, match=r"differ, so they are not of one run; give each run its own understudy\.run\.id"
    ):
        collected([*machines, other], tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_file_of_the_folder_that_is_no_beginning_of_the_source_is_not_replaced(
    machines: list[Path], tmp_path: Path
) -> None:
    collected(machines, tmp_path / "run")
    target = tmp_path / "run" / "broker-1" / "events" / NAME
    target.write_bytes(target.read_bytes()[:-30] + b" \n")
    before = contents(tmp_path / "run")
    with pytest.raises(NotOneRun, match="differ"):
        collected(machines, tmp_path / "run")
    assert contents(tmp_path / "run") == before


def test_one_of_several_runs_is_chosen(machines: list[Path], tmp_path: Path) -> None:
    """A broker that has another run id after a restart continues to number its incarnations in the same folder."""
    later = killed_controller("run-2").lines[NAME]
    (machines[0] / "events" / "broker-1-0009-0001.jsonl").write_bytes(b"".join(later))
    (machines[0] / "events" / "broker-1-0010-0001.jsonl").touch()
    with pytest.raises(
        NotOneRun, match=r"the sources have 2 runs; choose one by --run: 'run-1' \(\d files\), 'run-2' \("
    ):
        collected(machines, tmp_path / "run")
    with pytest.raises(NotOneRun, match="--run run-3: the sources have no such run; they have 'run-1'"):
        collected(machines, tmp_path / "run", "run-3")
    found = collected(machines, tmp_path / "run", "run-2")
    assert list(contents(tmp_path / "run")) == [
        "broker-1/events/broker-1-0009-0001.jsonl",
        "broker-1/events/broker-1-0010-0001.jsonl",
    ], "an empty file has the run of the file before it"
    assert found.left_out == {"run-1": len(killed_controller().lines)}
    with pytest.raises(NotOneRun, match=r"has run 'run-2', such as .*; give run 'run-1' a new folder"):
        collected(machines, tmp_path / "run", "run-1")


def test_an_empty_log_is_of_the_only_run(machines: list[Path], tmp_path: Path) -> None:
    (tmp_path / "broker-7-0001-0001.jsonl").touch()
    collected([*machines, tmp_path / "broker-7-0001-0001.jsonl"], tmp_path / "run")
    assert contents(tmp_path / "run")["broker-7/events/broker-7-0001-0001.jsonl"] == b""


def test_files_stay_at_the_paths_that_the_folder_has(machines: list[Path], tmp_path: Path) -> None:
    """`understudy up` writes the testbed's log to `testbed/events`, and older folders have all files in one."""
    log = machines[0] / "events" / NAME
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / NAME).write_bytes(log.read_bytes()[:200])
    collected([log], tmp_path / "run")
    assert contents(tmp_path / "run") == {NAME: log.read_bytes()}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing", "no such file or folder"),
        ("notes.jsonl", "is not named like an event log"),
        ("empty", "no event-log files"),
    ],
)
def test_a_source_without_event_logs_is_refused(name: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("{}\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoEventLogs, match=message):
        collected([tmp_path / name], tmp_path / "run")


def test_a_node_that_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "..-0001-0001.jsonl").write_bytes(b"".join(killed_controller().lines[NAME]))
    with pytest.raises(NotOneRun, match=r"'\.\.' cannot be the folder of a node"):
        collected([tmp_path / "..-0001-0001.jsonl"], tmp_path / "run")


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(machines: list[Path], tmp_path: Path) -> None:
    found = plan([LocalSource(machines[0])], tmp_path / "run")
    (machines[0] / "events" / NAME).write_bytes(b"")
    with pytest.raises(SourceFailed, match="has become shorter"):
        copy_files(found)
