"""The epochs of a log, after the cases of Kafka's `LeaderEpochFileCacheTest`, and against a plain list of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.brokers.log.checkpoint_file import EpochEntry
from understudy.brokers.log.leader_epoch_cache import UNDEFINED, EpochEnd, LeaderEpochCache

THREE = [EpochEntry(2, 6), EpochEntry(3, 8), EpochEntry(7, 11)]


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def test_an_epoch_is_noted_once_with_its_first_offset() -> None:
    empty = cache()
    assert (empty.latest, empty.latest_epoch) == (None, -1)
    assert empty.assign(2, 10)
    assert not empty.assign(2, 11)
    assert empty.entries == (EpochEntry(2, 10),)
    with pytest.raises(ValueError, match=r"invalid partition leader epoch entry \(-1, 0\)"):
        empty.assign(-1, 0)
    with pytest.raises(ValueError, match=r"invalid partition leader epoch entry \(1, -1\)"):
        empty.assign(1, -1)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ((8, 20), [*THREE, (8, 20)]),
        ((8, 11), [(2, 6), (3, 8), (8, 11)]),
        ((8, 9), [(2, 6), (3, 8), (8, 9)]),
        ((3, 12), [(2, 6), (3, 12)]),
        ((2, 6), [(2, 6)]),
        ((1, 7), [(1, 7)]),
        ((7, 10), [(2, 6), (3, 8), (7, 10)]),
    ],
)
def test_what_contradicts_a_new_entry_is_removed(entry: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    found = LeaderEpochCache(THREE)
    found.assign(*entry)
    assert found.entries == tuple(expected)


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (-1, UNDEFINED),
        (0, EpochEnd(0, 6)),
        (2, EpochEnd(2, 8)),
        (3, EpochEnd(3, 11)),
        (5, EpochEnd(3, 11)),
        (7, EpochEnd(7, 20)),
        (8, UNDEFINED),
    ],
)
def test_where_an_epoch_ended(epoch: int, end: EpochEnd) -> None:
    assert LeaderEpochCache(THREE).end_offset_for(epoch, 20) == end
    assert cache().end_offset_for(epoch, 20) == UNDEFINED


def test_epochs_before_and_of_an_offset() -> None:
    found = LeaderEpochCache(THREE)
    assert [found.epoch_of(offset) for offset in (5, 6, 7, 8, 10, 11, 99)] == [None, 2, 2, 3, 3, 7, 7]
    assert [found.previous_epoch(epoch) for epoch in (2, 3, 5, 7, 9)] == [None, 2, 3, 3, 7]


@pytest.mark.parametrize(("end", "left"), [(-1, 3), (99, 3), (12, 3), (11, 2), (9, 2), (8, 1), (7, 1), (6, 0), (0, 0)])
def test_truncation_from_the_end(end: int, left: int) -> None:
    found = LeaderEpochCache(THREE)
    assert found.truncate_from_end(end) == (left < 3)
    assert found.entries == tuple(THREE[:left])


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (-1, THREE),
        (5, THREE),
        (6, THREE),
        (7, [(2, 7), (3, 8), (7, 11)]),
        (8, [(3, 8), (7, 11)]),
        (9, [(3, 9), (7, 11)]),
        (30, [(7, 30)]),
    ],
)
def test_truncation_from_the_start(start: int, expected: list[tuple[int, int]]) -> None:
    found = LeaderEpochCache(THREE)
    assert found.truncate_from_start(start) == (expected != THREE)
    assert found.entries == tuple(expected)


actions = st.lists(
    st.tuples(st.sampled_from(["append", "append", "append", "cut", "trim"]), st.integers(0, 3), st.integers(0, 12)),
    max_size=30,
)


@given(actions)
def test_the_epoch_of_every_offset_is_that_of_its_record(steps: list[tuple[str, int, int]]) -> None:
    """The model is the log itself: the epoch of each record, by offset."""
    found, log, start, epoch = LeaderEpochCache(), dict[int, int](), 0, 0
    for what, grows, number in steps:
        end = max(log, default=start - 1) + 1
        if what == "append":
            epoch += grows
            found.assign(epoch, end)
            log |= dict.fromkeys(range(end, end + 1 + number % 3), epoch)
        elif what == "cut":
            bound = max(end - number, start)
            found.truncate_from_end(bound)
            log = {offset: own for offset, own in log.items() if offset < bound}
        elif log:
            start = min(start + number, end - 1)
            found.truncate_from_start(start)
            log = {offset: own for offset, own in log.items() if offset >= start}
        assert {offset: found.epoch_of(offset) for offset in log} == log
        end = max(log, default=start - 1) + 1
        for known in set(log.values()):
            assert found.end_offset_for(known, end) == EpochEnd(
                known, max(offset for offset, own in log.items() if own == known) + 1
            )
