"""The logs of several nodes are merged into the one that was committed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.history.kraft_logs.metadata_logs import MetadataLog, three_brokers, write_snapshot
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.quorum import QuorumLog
from understudy.history.kraft_logs.segments import PARTITION, MetadataBatch, NodeLog


def merged(*folders: Path) -> QuorumLog:
    return QuorumLog([NodeLog(folder) for folder in folders])


def offsets(log: QuorumLog) -> list[tuple[int, int]]:
    """The offset and epoch of each batch."""
    return [(item.base_offset, item.epoch) for item in log.items() if isinstance(item, MetadataBatch)]


def test_a_node_that_is_behind_adds_nothing(tmp_path: Path) -> None:
    ahead = three_brokers()
    behind = ahead.copy()
    ahead.add(500)
    log = merged(behind.write(tmp_path / "behind"), ahead.write(tmp_path / "ahead"))
    assert offsets(log) == [(offset, 1) for offset, _ in ahead.batches]
    assert not log.tails
    assert not log.gaps


@pytest.mark.parametrize("longer", [1, 30])
def test_the_tail_of_a_deposed_leader_was_never_committed(tmp_path: Path, longer: int) -> None:
    """The highest epoch wins, however long the other log is."""
    deposed = three_brokers()
    common = deposed.offset
    elected = deposed.copy()
    for number in range(longer):
        deposed.add(1_000 + 500 * number)
    elected.lead(3_000, leader=2, epoch=3)
    elected.add(3_500)
    log = merged(deposed.write(tmp_path / "deposed"), elected.write(tmp_path / "elected"))
    assert offsets(log) == [*((offset, 1) for offset, _ in elected.batches[:-2]), (common, 3), (common + 1, 3)]
    (tail,) = log.tails
    assert (tail.first, tail.end, tail.epoch) == (common, deposed.offset, 1)
    assert tail.last_ms == deposed_last_ms(longer)


def deposed_last_ms(longer: int) -> int:
    return 1_790_000_000_000 + 1_000 + 500 * (longer - 1)


def test_records_that_one_node_has_removed_are_taken_from_another(tmp_path: Path) -> None:
    log = three_brokers()
    shorter = log.write(tmp_path / "shorter", first=8)
    write_snapshot(shorter, 8, 1, 50)
    older = MetadataLog(10, 1, [batch for batch in log.batches if batch[0] < 10])
    assert merged(shorter, older.write(tmp_path / "cut", first=4)).first == 8
    whole = merged(shorter, older.write(tmp_path / "whole"))
    assert whole.first == 0
    assert offsets(whole) == [(offset, 1) for offset, _ in log.batches]


def test_a_log_begins_with_the_oldest_snapshot_that_it_needs(tmp_path: Path) -> None:
    log = three_brokers()
    folder = log.write(tmp_path, first=4)
    for end in (2, 6, 9):
        write_snapshot(folder, end, 1, 50)
    found = merged(folder)
    assert found.first == 6
    assert [batch for batch, _ in offsets(found)] == [offset for offset, _ in log.batches if offset >= 6]


def test_offsets_that_no_node_has_are_a_gap(tmp_path: Path) -> None:
    log = three_brokers()
    folder = log.write(tmp_path, segments=(4, 8))
    (folder / PARTITION / f"{4:020}.log").unlink()
    found = merged(folder)
    assert found.gaps == [(4, 8)]
    assert [batch for batch, _ in offsets(found)][:5] == [0, 1, 2, 3, 8]


def test_logs_of_two_clusters_are_refused(tmp_path: Path) -> None:
    other = MetadataLog()
    other.lead(7, leader=1, epoch=1)
    one, two = three_brokers().write(tmp_path / "one"), other.write(tmp_path / "two")
    with pytest.raises(LogError, match="they are of several clusters; import each cluster for itself"):
        merged(one, two)


def test_an_empty_log_is_refused_unless_another_has_records(tmp_path: Path) -> None:
    empty = MetadataLog().write(tmp_path / "empty")
    (empty / PARTITION / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(LogError, match="its log has no record, and no other one was given that has"):
        merged(empty)
    assert merged(empty, three_brokers().write(tmp_path / "whole")).end == three_brokers().offset
