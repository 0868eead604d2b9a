"""The files of a soak, and its lock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.checks.partition_clients import ClientCounts
from understudy.clusters.cluster import ClusterError
from understudy.trials.soak.live.files import BadState, SoakFiles
from understudy.trials.soak.totals import ClusterShape, FaultRecord, SoakTotals


def fault(number: int) -> FaultRecord:
    return FaultRecord(
        number=number, kind="kill", session=1, minute=1, at_ms=2.5, verb="kill", target="1", role="", lasts_ms=None
    )


@pytest.fixture
def files(tmp_path: Path) -> Iterator[SoakFiles]:
    found = SoakFiles(tmp_path)
    found.lock.acquire()
    yield found
    found.lock.release()


def test_a_second_soak_is_refused_until_the_first_ends(files: SoakFiles, tmp_path: Path) -> None:
    other = SoakFiles(tmp_path)
    with pytest.raises(ClusterError, match="in use by another soak, process"):
        other.lock.acquire()
    files.lock.release()
    other.lock.acquire()
    other.lock.release()
    other.lock.release()


def test_the_state_is_what_was_written(files: SoakFiles) -> None:
    assert files.read_totals() is None
    shape = ClusterShape(brokers=3, racks=(), session_ms=1, topic="soak", partitions=3, replicas=3, min_insync=2)
    totals = SoakTotals(
        seed=5, profile="evil", clients=ClientCounts(lost=1, errors={"NoLeader": 2}), ends={"soak-0": 3}, shape=shape
    )
    files.write_totals(totals)
    totals.minutes = 4
    files.write_totals(totals)
    assert files.read_totals() == totals


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"seed": 1}', "cannot be read"),
        ("x", "cannot be read"),
        ('{"version":9,"seed":1,"profile":"evil"}', "version 9"),
    ],
)
def test_a_state_that_cannot_be_used_is_refused_with_what_to_do(files: SoakFiles, content: str, why: str) -> None:
    (files.folder / "state.json").write_text(content)
    with pytest.raises(BadState, match=f"{why}.*to begin anew"):
        files.read_totals()


def test_faults_are_read_also_after_a_line_that_was_not_finished(files: SoakFiles) -> None:
    assert list(files.read(FaultRecord)) == []
    files.add(fault(1))
    with (files.folder / "faults.jsonl").open("ab") as file:
        file.write(b'{"number": 2, "ki')
    files.add(fault(3))
    assert [each.number for each in files.read(FaultRecord)] == [1, 3]


def test_an_experiment_has_the_number_of_its_minute(files: SoakFiles) -> None:
    path = files.write_experiment(7, "text\n")
    assert (path.name, path.read_text()) == ("minute-007.yaml", "text\n")
