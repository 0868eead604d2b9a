"""What clients of a partition have seen: each thing that may not happen is noticed, and memory stays small."""

from __future__ import annotations

import random

import pytest

from understudy.checks.partition_clients import MOST_UNREAD, Numbers, PartitionClients


def clients(session: int = 1, next_offset: int = 0) -> PartitionClients:
    return PartitionClients("soak-0", session, next_offset, 0.0)


def sent(fold: PartitionClients, offset: int, count: int = 2) -> list[bytes]:
    """Send a batch that is acknowledged at `offset`; return its values."""
    values = fold.send(count)
    fold.acknowledge(offset, 0.0)
    return values


def read(fold: PartitionClients, offset: int, *values: bytes) -> None:
    for place, value in enumerate(values):
        fold.read(offset + place, value, 0.0)


def test_what_is_sent_acknowledged_and_read_is_counted() -> None:
    fold = clients(next_offset=10)
    read(fold, 10, *sent(fold, 10), *sent(fold, 12, 3))
    assert fold.violation is None
    assert (fold.counts.acknowledged, fold.counts.read, fold.unread, fold.counts.lost) == (5, 5, 0, 0)
    assert (fold.acknowledged_end, fold.next_offset) == (15, 15)


def test_a_record_may_be_read_before_its_acknowledgement_arrives() -> None:
    fold = clients()
    read(fold, 0, *fold.send(2))
    fold.acknowledge(0, 0.0)
    assert fold.violation is None
    assert fold.unread == 0


def test_a_record_with_an_unknown_outcome_may_be_read_or_not() -> None:
    fold = clients()
    first = fold.send(2)
    fold.give_up()
    fold.send(2)
    fold.give_up()
    third = fold.send(1)
    fold.acknowledge(2, 0.0)
    read(fold, 0, *first, *third)
    assert fold.violation is None
    assert fold.counts.unknown == 4


def broken(fold: PartitionClients) -> str:
    assert fold.violation is not None
    return fold.violation.check


def test_an_acknowledged_record_that_is_not_at_its_offset_is_lost() -> None:
    fold = clients()
    sent(fold, 0)
    unknown = fold.send(1)
    fold.give_up()
    read(fold, 0, *unknown)
    assert (broken(fold), fold.counts.lost) == ("H1", 1)


def test_an_acknowledgement_at_an_offset_that_was_read_with_another_record_is_a_loss() -> None:
    fold = clients()
    unknown = fold.send(1)
    fold.give_up()
    read(fold, 0, *unknown)
    sent(fold, 0, 1)
    assert (broken(fold), fold.counts.lost) == ("H1", 1)


def test_a_record_that_is_skipped_is_lost() -> None:
    fold = clients()
    values = sent(fold, 0, 3)
    read(fold, 1, *values[1:])
    assert (broken(fold), fold.counts.lost) == ("H5", 1)


def test_a_record_that_is_read_twice_is_repeated() -> None:
    fold = clients()
    values = sent(fold, 0)
    read(fold, 0, *values, values[0])
    assert (broken(fold), fold.counts.repeated) == ("H3", 1)


@pytest.mark.parametrize("value", [b"1:7", b"2:0", b"0:0", b"hello", b"1:x"])
def test_what_was_never_sent_may_not_be_read(value: bytes) -> None:
    fold = clients()
    read(fold, 0, value)
    assert broken(fold) == "H4"


@pytest.mark.parametrize("is_read_first", [True, False])
def test_what_was_refused_may_not_be_read(is_read_first: bool) -> None:
    fold = clients()
    values = fold.send(1)
    if not is_read_first:
        fold.refuse()
    read(fold, 0, *values)
    if is_read_first:
        fold.refuse()
    assert broken(fold) == "H4"


def test_acknowledged_offsets_increase() -> None:
    fold = clients()
    sent(fold, 5)
    sent(fold, 4)
    assert broken(fold) == "H6"


def test_a_record_of_an_earlier_session_may_still_arrive() -> None:
    fold = clients(session=3)
    read(fold, 0, b"2:17", b"1:17")
    assert fold.violation is None


def test_the_second_reading_has_to_find_the_same() -> None:
    fold = clients()
    values = sent(fold, 0, 3)
    for place, value in enumerate(values):
        fold.read(place, value, 1_000.0 * place)
    assert fold.due_again(0.0) is None
    assert fold.due_again(500.0) == 0
    fold.read_again(0, values[0])
    assert fold.due_again(1_500.0) == 1
    fold.read_again(0, values[0])  # a batch is fetched whole, also if its first records were read again already
    assert fold.violation is None
    fold.read_again(1, b"1:99")
    assert (broken(fold), fold.counts.lost) == ("H2", 1)


def test_the_producer_waits_where_nothing_is_read() -> None:
    fold = clients()
    assert not fold.must_wait
    sent(fold, 0, MOST_UNREAD)
    assert fold.must_wait


def test_numbers_are_kept_as_ranges() -> None:
    numbers, source = Numbers(), random.Random(1)
    added = list(range(500))
    source.shuffle(added)
    for number in added:
        assert number not in numbers
        numbers.add(number)
        numbers.add(number)
    assert (numbers.ranges, len(numbers)) == (1, 500)
    numbers.add(600)
    assert (numbers.ranges, 599 in numbers, 600 in numbers, 601 in numbers) == (2, False, True, False)
