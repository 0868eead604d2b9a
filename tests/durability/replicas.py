"""Compares the replicas of partitions batch by batch, in the log directories of stopped brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from understudy.foundation.records.batch import batches, check_crc


class Batch(NamedTuple):
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int


def read_log(folder: Path) -> tuple[Batch, ...]:
    """Return the batches of a partition's folder; all checksums are compared."""
    return tuple(_batches(folder))


def _batches(folder: Path) -> Iterator[Batch]:
    for path in sorted(folder.glob("*.log")):
        for batch in batches(path.read_bytes()):
            check_crc(batch)
            header = batch.header
            yield Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)


def divergent_replicas(directories: Mapping[str, Path], partitions: Sequence[str]) -> list[str]:
    """Return a line for each replica whose batches differ from the first replica's.

    Args:
        directories: the log directory of each broker.
        partitions: the folders to compare, for example `ledger-0`.
    """
    wrong = []
    for partition in partitions:
        logs = {broker: read_log(directory / partition) for broker, directory in directories.items()}
        first, *others = logs
        for other in others:
            if logs[other] != logs[first]:
                at = next((one for one, two in zip(logs[first], logs[other], strict=False) if one != two), "the end")
                wrong.append(f"{partition} on {other} differs from {first} at {at}")
    return wrong
