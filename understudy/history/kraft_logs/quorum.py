"""`QuorumLog` is the one log that the logs of several nodes are copies of.

Two batches with the same offset and epoch are equal in all logs (the log matching property of Raft). The log with the
highest last epoch, and of these the longest, has every committed record. What another log has from the first offset on
whose epoch differs was never committed: its tail. Offsets that the first log lacks, for example because a snapshot has
replaced them, are taken from the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from understudy.history.kafka_logs.wrapping import LogError
from understudy.history.kraft_logs.segments import MetadataBatch, NodeLog, Snapshot, Stretch


class Tail(NamedTuple):
    """Records of one node that were never committed: later epochs have others at their offsets.

    Attributes:
        epoch: the epoch of the last one.
        last_ms: the time of the last one, by the wall clock of that epoch's leader.
    """

    log: NodeLog
    first: int
    end: int
    epoch: int
    last_ms: int


class _Span(NamedTuple):
    log: NodeLog
    first: int
    end: int


class QuorumLog:
    """The merged log of some nodes.

    Args:
        logs: at least one.

    Attributes:
        end: the offset after its last record.
        gaps: the offsets that no node has: the first, and the one after the last.
        tails: what was never committed.

    Raises:
        LogError: no log has a record, or they are of several clusters.
    """

    def __init__(self, logs: Sequence[NodeLog]) -> None:
        self._logs = sorted(logs, key=lambda log: log.end, reverse=True)
        if not self._logs[0].stretches:
            raise LogError(f"{self._logs[0].folder}: its log has no record, and no other one was given that has")
        self.end = self._logs[0].end[1]
        self.gaps: list[tuple[int, int]] = []
        self.tails: list[Tail] = []
        self._agreed = {id(stretch): self._agreed_end(log, stretch) for log, stretch in self._stretches()}
        self._parts = list(self._compose())

    @property
    def torn(self) -> tuple[str, ...]:
        """The places at which logs end within a batch."""
        return tuple(log.torn for log in self._logs if log.torn)

    @property
    def noted_leaders(self) -> dict[int, int]:
        """The leaders that nodes have noted beside their logs, by epoch."""
        return dict(log.leader for log in self._logs if log.leader is not None)

    @property
    def first(self) -> int:
        """Its first offset; 0 unless a snapshot has replaced the records before it."""
        part = self._parts[0]
        return part.end_offset if isinstance(part, Snapshot) else part.first

    def items(self) -> Iterator[MetadataBatch | Snapshot]:
        """Yield its batches in order, and a snapshot before those that follow records that are missing.

        Raises:
            LogError: a file is corrupt.
        """
        for part in self._parts:
            if isinstance(part, Snapshot):
                yield part
            else:
                yield from part.log.batches(part.first, part.end)

    def _stretches(self) -> Iterator[tuple[NodeLog, Stretch]]:
        for log in self._logs:
            for stretch in log.stretches:
                yield log, stretch

    def _agreed_end(self, log: NodeLog, stretch: Stretch) -> int:
        """Return the offset up to which a stretch agrees with the logs before its own one in the order of votes."""
        end = min(stretch.end, self.end)
        for other in self._logs[: self._logs.index(log)]:
            for one in other.stretches:
                differs = _first_difference(stretch, one)
                if differs is not None and differs < end:
                    end = differs
                if _contradict(stretch, one):
                    raise LogError(
                        f"{log.folder} and {other.folder} have different batches at the beginning of one epoch: they "
                        "are of several clusters; import each cluster for itself"
                    )
        if end < stretch.end:
            self.tails.append(Tail(log, end, stretch.end, stretch.epochs[-1], stretch.last_ms))
        return end

    def _compose(self) -> Iterator[_Span | Snapshot]:
        position = min(stretch.first for _, stretch in self._stretches())
        epoch, is_whole = -1, position == 0
        while position < self.end:
            if not is_whole and (snapshot := self._snapshot_after(position)) is not None:
                position, is_whole = snapshot.end_offset, True
                yield snapshot
                continue
            found = self._stretch_at(position, epoch)
            if found is None:
                following = min(
                    stretch.first
                    for _, stretch in self._stretches()
                    if stretch.first > position and self._agreed[id(stretch)] > stretch.first
                )
                self.gaps.append((position, following))
                position, is_whole = following, False
                continue
            log, stretch = found
            end = self._agreed[id(stretch)]
            yield _Span(log, position, end)
            position, epoch = end, stretch.epoch_at(end - 1)

    def _stretch_at(self, position: int, epoch: int) -> tuple[NodeLog, Stretch] | None:
        for log, stretch in self._stretches():
            if stretch.first <= position < self._agreed[id(stretch)] and stretch.epoch_at(position) >= epoch:
                return log, stretch
        return None

    def _snapshot_after(self, position: int) -> Snapshot | None:
        """Return the oldest snapshot that has all records below `position`; None without one."""
        snapshots = (snapshot for log in self._logs for snapshot in log.snapshots)
        return min((one for one in snapshots if position <= one.end_offset <= self.end), default=None)


def _first_difference(one: Stretch, other: Stretch) -> int | None:
    """Return the first offset that both have with different epochs; None if there is none."""
    first, end = max(one.first, other.first), min(one.end, other.end)
    bounds = sorted({first, *one.starts, *other.starts})
    return next(
        (offset for offset in bounds if first <= offset < end and one.epoch_at(offset) != other.epoch_at(offset)), None
    )


def _contradict(one: Stretch, other: Stretch) -> bool:
    """Return whether two logs begin an epoch at the same offset with different batches, which no quorum does."""
    theirs = dict(zip(zip(other.starts, other.epochs, strict=True), other.checksums, strict=True))
    ours = zip(zip(one.starts, one.epochs, strict=True), one.checksums, strict=True)
    return any(theirs.get(place, checksum) != checksum for place, checksum in ours)
