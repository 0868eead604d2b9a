"""The log of one node is read from its files, and a file that cannot be read is named with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.understudy.history.kraft_logs.metadata_logs import MetadataLog, three_brokers, write_snapshot
from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.segments import PARTITION, NodeLog

FIRST = f"{0:020}.log"


def refused(folder: Path) -> str:
    with pytest.raises(LogError) as error:
        NodeLog(folder)
    return str(error.value)


def test_segments_are_one_stretch(tmp_path: Path) -> None:
    log = three_brokers()
    whole = NodeLog(log.write(tmp_path / "whole"))
    segmented = NodeLog(log.write(tmp_path / "segments", segments=(4, 8)))
    assert [(each.first, each.end, each.epochs) for each in segmented.stretches] == [(0, log.offset, [1])]
    assert [batch.base_offset for batch in segmented.batches(0, log.offset)] == [offset for offset, _ in log.batches]
    assert whole.end == segmented.end == (1, log.offset)


def test_batches_of_some_offsets(tmp_path: Path) -> None:
    log = NodeLog(three_brokers().write(tmp_path, segments=(4, 8)))
    assert [batch.base_offset for batch in log.batches(3, 8)] == [3, 4, 5, 6, 7]


def test_the_folder_may_be_the_partition_or_its_log_directory(tmp_path: Path) -> None:
    three_brokers().write(tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=3001\ncluster.id=abc\n")
    assert NodeLog(tmp_path).name == NodeLog(tmp_path / PARTITION).name == "node 3001"
    assert NodeLog(tmp_path, "controller-a").name == "controller-a"


def test_a_folder_without_the_log_names_what_is_expected(tmp_path: Path) -> None:
    assert refused(tmp_path) == (
        f"{tmp_path} holds no log of {PARTITION}; expected a node's folder {PARTITION} with files such as {FIRST}, or "
        "the log directory that contains it (metadata.log.dir, or else the first of log.dirs)"
    )
    assert refused(tmp_path / "none").startswith(f"{tmp_path / 'none'} is no folder; expected a node's folder")


def test_the_end_of_a_killed_node_is_left_out_and_named(tmp_path: Path) -> None:
    log = three_brokers()
    path = log.write(tmp_path) / PARTITION / FIRST
    data = path.read_bytes()
    last_offset, last = log.batches[-1]
    path.write_bytes(data[:-5])
    cut = NodeLog(tmp_path)
    assert cut.end == (1, last_offset)
    assert cut.torn == f"{path}, position {len(data) - len(last):,}"
    # A file system that lost its power may leave zeros.
    path.write_bytes(data + bytes(100))
    assert NodeLog(tmp_path).end == (1, log.offset)
    assert NodeLog(tmp_path).torn == f"{path}, position {len(data):,}"


def test_a_corrupt_batch_is_named_with_its_place(tmp_path: Path) -> None:
    log = three_brokers()
    path = log.write(tmp_path) / PARTITION / FIRST
    data = bytearray(path.read_bytes())
    position = len(data) - len(log.batches[-1][1])
    data[-3] ^= 0xFF
    path.write_bytes(data)
    message = refused(tmp_path)
    assert message.startswith(f"{path}, position {position:,}: Record is corrupt (stored crc = ")
    assert message.endswith(f"copy the folder {PARTITION} again, or leave this one out and give another node's")


def test_only_the_last_segment_may_be_cut_off(tmp_path: Path) -> None:
    path = three_brokers().write(tmp_path, segments=(4,)) / PARTITION / FIRST
    path.write_bytes(path.read_bytes()[:-5])
    assert "it ends within a batch, and is not the last segment; copy the folder" in refused(tmp_path)


def test_offsets_that_are_missing_begin_another_stretch(tmp_path: Path) -> None:
    log = three_brokers()
    (log.write(tmp_path, segments=(4, 8)) / PARTITION / f"{4:020}.log").unlink()
    assert [(each.first, each.end) for each in NodeLog(tmp_path).stretches] == [(0, 4), (8, log.offset)]


def test_offsets_and_epochs_only_increase(tmp_path: Path) -> None:
    log = three_brokers()
    path = log.write(tmp_path / "twice") / PARTITION / FIRST
    path.write_bytes(path.read_bytes() * 2)
    assert f"offset 0 follows offset {log.offset - 1}; copy the folder" in refused(tmp_path / "twice")
    older = MetadataLog()
    older.lead(0, leader=1, epoch=5)
    older.epoch = 4
    older.add(10)
    assert "epoch 4 follows epoch 5" in refused(older.write(tmp_path / "older"))


def test_snapshots_are_found(tmp_path: Path) -> None:
    three_brokers().write(tmp_path, first=4)
    write_snapshot(tmp_path, 4, 1, 50)
    (tmp_path / PARTITION / f"{9:020}-{1:010}.checkpoint.part").write_bytes(b"unfinished")
    (snapshot,) = NodeLog(tmp_path).snapshots
    assert (snapshot.end_offset, snapshot.epoch) == (4, 1)
    snapshot.path.write_bytes(snapshot.path.read_bytes()[:-3])
    with pytest.raises(LogError, match="the snapshot ends within a batch"):
        list(snapshot.batches())
