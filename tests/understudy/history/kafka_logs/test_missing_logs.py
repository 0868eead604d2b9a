"""An import says which brokers' logs it lacks, and nothing is missing of an import of all logs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.understudy.history.kafka_logs.cluster_logs import BROKERS, SAMPLES, unpacked
from understudy.history.kafka_logs.importer import LogInputs, import_logs
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.reading.missing import NO_ELECTION, NO_END, NO_LOG, NO_RECORDS, MissingRecords, find_missing
from understudy.history.reading.reader import find_files, read_runs


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for name in (*(f"broker-{broker}" for broker in BROKERS), "version-2"):
        unpacked(SAMPLES / name, folder / name)
    return folder


def missing(
    logs: Path, folder: Path, brokers: Iterable[int], *, has_zookeeper: bool = False, kinds: str = "*"
) -> tuple[MissingRecords, ...]:
    """Import the logs of some brokers, with ZooKeeper's or without, and return the records that are missing."""
    files = [(broker, file) for broker in brokers for file in sorted((logs / f"broker-{broker}").glob(kinds))]
    zookeeper_log = logs / "version-2" if has_zookeeper else None
    report = import_logs(LogInputs(files=files, pattern=LinePattern(), zookeeper_log=zookeeper_log), folder)
    (run,) = read_runs(find_files([folder])[0]).runs.values()
    found = find_missing(run)
    assert report.missing == found
    return found


@pytest.mark.parametrize(
    ("brokers", "has_zookeeper", "kinds"),
    [
        (BROKERS, False, "*"),
        (BROKERS, True, "*"),
        ((), True, "*"),
        (BROKERS, False, "[cs]*er.log"),
        (BROKERS, False, "[!s]*.log"),
    ],
    ids=["all", "with ZooKeeper's", "only ZooKeeper's", "without state-change.log", "only controller.log"],
)
def test_no_record_is_missing_of_an_import_of_all_brokers(
    brokers: tuple[int, ...], has_zookeeper: bool, kinds: str, logs: Path, tmp_path: Path
) -> None:
    assert missing(logs, tmp_path, brokers, has_zookeeper=has_zookeeper, kinds=kinds) == ()


@pytest.mark.parametrize("lost", BROKERS)
def test_a_broker_that_the_logs_of_others_name_has_a_log(lost: int, logs: Path, tmp_path: Path) -> None:
    found = missing(logs, tmp_path, {*BROKERS} - {lost})
    assert {(row.kind, row.node) for row in found} == {(NO_LOG, f"broker-{lost}"), (NO_ELECTION, "")}, (
        "each of them was the controller once"
    )


def test_a_broker_that_only_zookeepers_log_has_records_of_lacks_its_log(logs: Path, tmp_path: Path) -> None:
    (found,) = missing(logs, tmp_path, (2, 3), has_zookeeper=True)
    assert (found.kind, found.node, found.witness) == (NO_LOG, "broker-1", "broker-1/1#1")
    assert found.evidence == "import-kafka was given no log of it, only ZooKeeper's"


def test_epochs_whose_controllers_have_no_controller_log_lack_their_elections(logs: Path, tmp_path: Path) -> None:
    (found,) = missing(logs, tmp_path, BROKERS, kinds="s*.log")
    assert (found.kind, found.from_us) == (NO_ELECTION, 0)


def with_lines(logs: Path, folder: Path, broker: int, seconds: range) -> Path:
    """Copy the logs; keep only the lines of one broker in some seconds of their minute."""
    shutil.copytree(logs, folder)
    for file in (folder / f"broker-{broker}").iterdir():
        kept, is_kept = [], True
        for line in file.read_text().splitlines(keepends=True):
            if (found := _SECOND.match(line)) is not None:
                is_kept = int(found[1]) in seconds
            if is_kept:
                kept.append(line)
        file.write_text("".join(kept))
    return folder


_SECOND = re.compile(r"\[2026-11-22 10:46:(\d\d),")


@pytest.mark.parametrize("has_zookeeper", [False, True], ids=["brokers", "with ZooKeeper's"])
@pytest.mark.parametrize("broker", [2, 3])
def test_a_log_that_begins_after_others_saw_its_broker_act_has_lost_its_beginning(
    broker: int, has_zookeeper: bool, logs: Path, tmp_path: Path
) -> None:
    cut = with_lines(logs, tmp_path / "cut", broker, range(50, 60))
    (found,) = (
        row
        for row in missing(cut, tmp_path / "events", BROKERS, has_zookeeper=has_zookeeper)
        if row.kind != NO_ELECTION
    )
    assert (found.node, found.kind, found.from_us) == (f"broker-{broker}", NO_RECORDS, 0)
    assert 30_000_000 < found.until_us < 40_000_000
    assert " logged that it " in found.evidence
    assert found.evidence.endswith("log begins")


@pytest.mark.parametrize("has_zookeeper", [False, True], ids=["brokers", "with ZooKeeper's"])
@pytest.mark.parametrize(("broker", "last"), [(1, 47), (2, 39), (3, 30)])
def test_a_log_that_ends_before_others_saw_its_broker_act_has_lost_its_end(
    broker: int, last: int, has_zookeeper: bool, logs: Path, tmp_path: Path
) -> None:
    cut = with_lines(logs, tmp_path / "cut", broker, range(last))
    (found,) = (
        row
        for row in missing(cut, tmp_path / "events", BROKERS, has_zookeeper=has_zookeeper)
        if row.kind != NO_ELECTION
    )
    assert (found.node, found.kind) == (f"broker-{broker}", NO_END)
    assert (last - 23) * 1_000_000 < found.from_us < (last - 18) * 1_000_000 < found.until_us
    assert re.search(r" logged that it .* after its \S+ ends$", found.evidence)
