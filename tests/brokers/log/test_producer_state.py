"""The state of producers, after the cases of Kafka's `ProducerStateManagerTest`, and against a list of batches."""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.brokers.log.producer_snapshot import ProducerEntry, decode, encode
from understudy.brokers.log.producer_state import AppendedBatch, ProducerStateManager
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import RecordBatch, batches, encode_batch
from understudy.foundation.records.errors import InvalidRecord
from understudy.foundation.records.record import Record, encode_records

PARTITION = TopicPartition("orders", 3)
EXPIRATION_MS = 86_400_000
MAX_SEQUENCE = 2**31 - 1

ABORT, COMMIT = 0, 1


def batch(
    sequence: int,
    *,
    offset: int = 0,
    count: int = 1,
    epoch: int = 0,
    producer: int = 1,
    timestamp: int = 1000,
    transactional: bool = False,
) -> RecordBatch:
    data = encode_batch(
        b"",
        count=count,
        base_offset=offset,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    return next(batches(data))


def marker(
    offset: int,
    *,
    ends_with: int = COMMIT,
    epoch: int = 0,
    producer: int = 1,
    coordinator_epoch: int = 0,
    timestamp: int = 1000,
    key: bytes | None = None,
    value: bytes | None = None,
) -> RecordBatch:
    key = struct.pack(">hh", 0, ends_with) if key is None else key
    value = struct.pack(">hi", 0, coordinator_epoch) if value is None else value
    data = encode_records(
        [Record(offset, timestamp, key, value)],
        producer_id=producer,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
    )
    return next(batches(data))


def state(*given: RecordBatch) -> ProducerStateManager:
    found = ProducerStateManager(partition=PARTITION, expiration_ms=EXPIRATION_MS)
    for one in given:
        found.append(one)
    return found


def reloaded(found: ProducerStateManager) -> ProducerStateManager:
    """The state of a broker that reads a snapshot."""
    entries = decode("a.snapshot", encode(found.entries()))
    return ProducerStateManager(entries, partition=PARTITION, end_offset=found.end_offset, expiration_ms=EXPIRATION_MS)


def refusal(found: ProducerStateManager, sent: RecordBatch) -> Errors | None:
    before = (found.entries(), found.end_offset)
    try:
        found.check(sent.header)
    except ApiError as error:
        return error.error
    finally:
        assert (found.entries(), found.end_offset) == before
    return None


OUT_OF_ORDER = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
OLD_EPOCH = Errors.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("there", "sequence", "epoch", "expected"),
    [
        # A producer that is unknown may begin anywhere.
        ([], 0, 0, None),
        ([], 16, 5, None),
        # The next sequence, the last one again, and gaps.
        ([batch(0), batch(1)], 2, 0, None),
        ([batch(0), batch(1)], 1, 0, OUT_OF_ORDER),
        ([batch(0), batch(1)], 0, 0, OUT_OF_ORDER),
        ([batch(0), batch(1)], 3, 0, OUT_OF_ORDER),
        ([batch(0, count=6)], 6, 0, None),
        ([batch(0, count=6)], 5, 0, OUT_OF_ORDER),
        # Another epoch begins with sequence 0.
        ([batch(0), batch(1)], 0, 1, None),
        ([batch(0), batch(1)], 2, 1, OUT_OF_ORDER),
        ([batch(0), batch(1)], 1, 7, OUT_OF_ORDER),
        ([batch(0, epoch=1)], 0, 0, OLD_EPOCH),
        ([batch(0, epoch=1)], 1, 0, OLD_EPOCH),
        ([batch(3), batch(0, epoch=1)], 4, 1, OUT_OF_ORDER),
        # Sequences wrap behind 2^31 - 1.
        ([batch(MAX_SEQUENCE, epoch=15)], 0, 15, None),
        ([batch(MAX_SEQUENCE, epoch=15)], 1, 15, OUT_OF_ORDER),
        ([batch(MAX_SEQUENCE - 10, count=21, epoch=15)], 10, 15, None),
        ([batch(MAX_SEQUENCE - 10, count=21, epoch=15)], 0, 15, OUT_OF_ORDER),
        ([batch(MAX_SEQUENCE - 1, epoch=15)], 0, 15, OUT_OF_ORDER),
        # A marker without data leaves the epoch; the producer has to begin with 0.
        ([marker(27, epoch=2)], 0, 0, OLD_EPOCH),
        ([marker(27, epoch=2)], 17, 2, OUT_OF_ORDER),
        ([marker(27, epoch=2)], 0, 2, None),
        ([marker(27, epoch=2)], 17, 3, OUT_OF_ORDER),
        # A marker with a higher epoch fences the producer, one with its own epoch does not.
        ([batch(0), batch(1), marker(2, epoch=1, ends_with=ABORT)], 2, 1, OUT_OF_ORDER),
        ([batch(0), batch(1), marker(2, epoch=1, ends_with=ABORT)], 2, 2, OUT_OF_ORDER),
        ([batch(0), batch(1), marker(2, epoch=1, ends_with=ABORT)], 0, 1, None),
        ([batch(0), batch(1), marker(2, epoch=1, ends_with=ABORT)], 2, 0, OLD_EPOCH),
        ([batch(0), batch(1), marker(2)], 2, 0, None),
    ],
)
def test_what_a_leader_answers_to_a_client(
    there: list[RecordBatch], sequence: int, epoch: int, expected: Errors | None
) -> None:
    assert refusal(state(*there), batch(sequence, epoch=epoch)) == expected


def test_messages_name_the_producer_and_where_it_wrote() -> None:
    found = state(batch(0, epoch=4), batch(1, epoch=4, offset=1))
    with pytest.raises(ApiError) as old:
        found.check(batch(2, epoch=3).header)
    assert old.value.message == (
        "Epoch of producer 1 at offset 2 in orders-3 is 3, which is smaller than the last seen epoch 4"
    )
    with pytest.raises(ApiError) as gap:
        found.check(batch(7, epoch=4).header)
    assert gap.value.message == (
        "Out of order sequence number for producer 1 at offset 2 in partition orders-3: 7 (incoming seq. number), "
        "1 (current end sequence number)"
    )
    with pytest.raises(ApiError) as bumped:
        found.check(batch(2, epoch=5).header)
    assert bumped.value.message == (
        "Invalid sequence number for new epoch of producer 1 at offset 2 in partition orders-3: 5 (request epoch), "
        "2 (seq. number), 4 (current producer epoch)"
    )


def test_producers_are_apart_and_batches_without_a_producer_id_are_not_checked() -> None:
    found = state(batch(5))
    assert refusal(found, batch(9, producer=2)) is None
    plain = batch(-1, producer=-1, epoch=-1, offset=1, count=3)
    found.append(plain)
    assert refusal(found, plain) is None
    assert found.duplicate_of(plain.header) is None
    assert (found.end_offset, found.producer_count) == (4, 1)


# ------------------------------------------------------------------ retries


def test_a_retry_of_the_last_five_batches_is_recognized() -> None:
    found = state(*(batch(3 * n, count=3, offset=100 + 3 * n, timestamp=500 + n) for n in range(6)))
    assert found.duplicate_of(batch(0, count=3).header) is None
    for n in range(1, 6):
        there = found.duplicate_of(batch(3 * n, count=3).header)
        assert there == AppendedBatch(3 * n + 2, 102 + 3 * n, 2, 500 + n)
        assert (there.first_sequence, there.first_offset) == (3 * n, 100 + 3 * n)


def test_another_range_or_epoch_is_no_retry() -> None:
    found = state(batch(0, count=3), batch(3, count=3, offset=3))
    for other in (batch(0, count=6), batch(3, count=2), batch(4, count=2), batch(3, count=3, epoch=1), batch(6)):
        assert found.duplicate_of(other.header) is None
    assert found.duplicate_of(batch(3, count=3, producer=2).header) is None


def test_a_retry_across_the_wrap_is_recognized() -> None:
    found = state(batch(MAX_SEQUENCE - 10, count=21, offset=2000))
    there = found.duplicate_of(batch(MAX_SEQUENCE - 10, count=21).header)
    assert there is not None
    assert (there.first_sequence, there.last_sequence) == (MAX_SEQUENCE - 10, 9)
    assert (there.first_offset, there.last_offset) == (2000, 2020)


def test_an_epoch_ends_the_retries_of_the_one_before() -> None:
    found = state(batch(0), batch(0, epoch=1, offset=1))
    assert found.duplicate_of(batch(0).header) is None
    assert found.duplicate_of(batch(0, epoch=1).header) == AppendedBatch(0, 1, 0, 1000)


def test_a_snapshot_keeps_the_last_batch_alone() -> None:
    found = reloaded(state(batch(0), batch(1, offset=1, timestamp=77)))
    assert found.end_offset == 2
    assert found.duplicate_of(batch(0).header) is None
    assert found.duplicate_of(batch(1).header) == AppendedBatch(1, 1, 0, 77)
    assert refusal(found, batch(0)) is OUT_OF_ORDER
    assert refusal(found, batch(2)) is None


def described(producers: ProducerStateManager) -> list[tuple[int, int, int, int, int, int]]:
    """What DescribeProducers shows of each producer."""
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.timestamp,
            each.coordinator_epoch,
            each.transaction_start_offset,
        )
        for each in producers.entries()
    ]


# ------------------------------------------------------------------ followers


def test_a_follower_takes_gaps_and_lower_epochs_as_its_leader_has_them() -> None:
    found = state(batch(0), batch(3, offset=1))
    assert described(found) == [(1, 0, 3, 1000, -1, -1)]
    found.append(batch(16, epoch=5, offset=2))
    found.append(batch(9, epoch=4, offset=3, timestamp=7))
    assert described(found) == [(1, 4, 9, 7, -1, -1)]


def test_a_coordinators_batch_has_no_sequence() -> None:
    """The group coordinator writes offsets of a transaction into __consumer_offsets like that."""
    found = state(batch(-1, transactional=True), batch(-1, offset=1, count=2, transactional=True))
    assert described(found) == [(1, 0, -1, 1000, -1, 0)]
    assert found.entries() == [ProducerEntry(1, 0, -1, 2, 1, 1000, -1, 0)]


# ------------------------------------------------------------------ transactions


def test_a_transaction_is_unstable_until_its_marker_is_below_the_high_watermark() -> None:
    found = state(batch(0, epoch=5, offset=99, transactional=True))
    assert found.first_unstable_offset == 99
    found.append(batch(0, epoch=5, offset=105, producer=2, transactional=True))
    assert (found.first_unstable_offset, found.entries()[0].transaction_start_offset) == (99, 99)
    found.append(marker(109, epoch=5))
    assert (found.first_unstable_offset, found.entries()[0].transaction_start_offset) == (99, -1)
    for high_watermark, first in ((100, 99), (109, 99), (110, 105)):
        found.on_high_watermark(high_watermark)
        assert found.first_unstable_offset == first
    found.append(marker(112, epoch=5, producer=2, ends_with=ABORT))
    assert found.first_unstable_offset == 105
    found.on_high_watermark(113)
    assert found.first_unstable_offset is None


def test_the_oldest_of_several_transactions_counts_in_whatever_order_they_end() -> None:
    found = state(*(batch(0, producer=n, offset=10 * n, transactional=True) for n in (1, 2, 3)))
    found.append(marker(40, producer=2))
    assert found.first_unstable_offset == 10
    found.append(marker(41, producer=1))
    assert found.first_unstable_offset == 10
    found.on_high_watermark(42)
    assert found.first_unstable_offset == 30
    found.append(batch(1, producer=1, offset=42, transactional=True))
    found.append(marker(43, producer=3))
    assert found.first_unstable_offset == 30
    found.on_high_watermark(44)
    assert found.first_unstable_offset == 42


def test_a_transaction_begins_with_its_first_batch_and_an_empty_one_changes_nothing() -> None:
    found = state(batch(0, offset=9), batch(1, count=5, offset=16, transactional=True))
    found.append(batch(6, count=5, offset=26, transactional=True))
    assert found.entries() == [ProducerEntry(1, 0, 10, 30, 4, 1000, -1, 16)]
    found.append(marker(40, coordinator_epoch=15, timestamp=2000))
    assert found.entries() == [ProducerEntry(1, 0, 10, 30, 4, 2000, 15, -1)]
    found.on_high_watermark(41)
    found.append(marker(41, coordinator_epoch=15))
    assert found.first_unstable_offset is None
    assert found.end_offset == 42


def test_plain_records_are_refused_while_a_transaction_is_open() -> None:
    found = state(batch(0, transactional=True))
    assert refusal(found, batch(1)) is Errors.INVALID_TXN_STATE
    assert refusal(found, batch(1, transactional=True)) is None
    found.append(marker(1))
    assert refusal(found, batch(1)) is None


def test_a_marker_takes_its_epoch_and_its_coordinators() -> None:
    found = state(batch(0, transactional=True), marker(1, epoch=1, ends_with=ABORT, coordinator_epoch=2, timestamp=5))
    assert found.entries() == [ProducerEntry(1, 1, -1, -1, 0, 5, 2, -1)]
    # An older coordinator's marker that a leader has appended is followed.
    found.append(marker(2, epoch=1, coordinator_epoch=1))
    assert found.entries()[0].coordinator_epoch == 1


def test_an_empty_control_batch_leaves_a_producer_without_an_epoch() -> None:
    empty = encode_batch(b"", count=0, base_offset=15, last_offset_delta=0, producer_id=7, is_control=True)
    found = state(next(batches(empty)))
    assert described(found) == [(7, -1, -1, -1, -1, -1)]
    assert found.end_offset == 16
    assert refusal(found, batch(9, producer=7, epoch=3)) is None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (marker(5, key=b"\0\0\0"), "end control record key. Must have at least 4 bytes, but found only 3"),
        (marker(5, key=b""), "found only 0"),
        (marker(5, key=b"\xff\xff\0\1"), "Invalid version found for control record: -1"),
        (marker(5, ends_with=2), "Invalid control record type for end transaction marker: 2"),
        (marker(5, value=b"\0" * 5), "end transaction marker. Must have at least 6 bytes, but found only 5"),
        (marker(5, value=b"\xff\xfe" + b"\0" * 4), "Invalid version found for end transaction marker: -2"),
    ],
)
def test_a_control_batch_that_ends_no_transaction_is_refused_and_changes_nothing(
    broken: RecordBatch, message: str
) -> None:
    found = state(batch(0, transactional=True))
    with pytest.raises(InvalidRecord, match=message):
        found.append(broken)
    assert (found.entries(), found.end_offset) == (state(batch(0, transactional=True)).entries(), 1)
    assert found.first_unstable_offset == 0


def test_a_marker_of_a_later_version_is_read_as_far_as_it_is_known() -> None:
    found = state(marker(0, key=b"\0\1\0\1", value=struct.pack(">hi", 3, 8) + b"more"))
    assert found.entries()[0].coordinator_epoch == 8


def test_open_transactions_come_back_from_a_snapshot_in_the_order_of_the_log() -> None:
    found = reloaded(state(*(batch(0, producer=9 - n, offset=10 * n, transactional=True) for n in (1, 2, 3))))
    for producer, high_watermark, first in ((8, 41, 20), (7, 42, 30), (6, 43, None)):
        found.append(marker(high_watermark - 1, producer=producer))
        found.on_high_watermark(high_watermark)
        assert found.first_unstable_offset == first


def test_transactions_that_ended_before_the_log_begins_are_forgotten() -> None:
    found = state(batch(0, transactional=True), marker(1), batch(0, offset=2, producer=2, transactional=True))
    found.on_log_start_offset(1)
    assert (found.first_unstable_offset, found.end_offset) == (0, 3)
    found.on_log_start_offset(20)
    assert (found.first_unstable_offset, found.end_offset, found.producer_count) == (2, 20, 2)


# ------------------------------------------------------------------ expiry and size


def test_idle_producers_expire_and_may_begin_anywhere_again() -> None:
    found = state(batch(0, timestamp=1000), batch(0, offset=1, producer=2, timestamp=1001))
    found.remove_expired(1000 + EXPIRATION_MS - 1)
    assert found.producer_count == 2
    found.remove_expired(1000 + EXPIRATION_MS)
    assert [producer.producer_id for producer in found.entries()] == [2]
    assert refusal(found, batch(17)) is None
    found.append(batch(17, offset=2))
    assert (found.end_offset, found.entries()[0].last_sequence) == (3, 17)
    found.remove_expired(1001 + EXPIRATION_MS)
    assert (found.is_empty, found.producer_count, found.entries()) == (True, 0, [])


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    found = state(batch(0, transactional=True))
    found.remove_expired(10 * EXPIRATION_MS)
    assert (found.producer_count, found.first_unstable_offset) == (1, 0)
    found.append(marker(1, timestamp=10 * EXPIRATION_MS))
    found.remove_expired(11 * EXPIRATION_MS)
    assert found.producer_count == 0
    assert not found.is_empty  # its transaction is not replicated
    found.on_high_watermark(2)
    assert found.is_empty


def test_an_idle_partition_has_no_dictionaries() -> None:
    idle = state()
    assert not hasattr(idle, "__dict__")
    assert sys.getsizeof(idle) <= 112
    used = state(batch(0, transactional=True), marker(1))
    used.on_high_watermark(2)
    used.remove_expired(10 * EXPIRATION_MS)
    for name in ("_producers", "_ongoing", "_unreplicated"):
        assert getattr(idle, name) is None
        assert getattr(used, name) is None


# ------------------------------------------------------------------ against a model


class Sent(NamedTuple):
    """A batch that a client sends, and what becomes of the broker before."""

    producer: int
    epoch: int
    sequence: int
    size: int
    before: str


SENT = st.builds(
    Sent,
    st.integers(1, 2),
    st.integers(0, 2),
    st.one_of(st.integers(0, 6), st.integers(MAX_SEQUENCE - 3, MAX_SEQUENCE)),
    st.integers(1, 3),
    st.sampled_from(["", "", "", "", "restart", "expire"]),
)


class Model:
    """The batches of each producer in its current epoch, as plain lists of sequences."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.appended: dict[int, list[tuple[list[int], int]]] = {}

    def answer(self, sent: Sent, offset: int) -> int | Errors:
        """The offset of the first record, whether it is appended or was there, or the error."""
        sequences = [(sent.sequence + n) % (MAX_SEQUENCE + 1) for n in range(sent.size)]
        last_epoch = self.epochs.get(sent.producer)
        there = self.appended.setdefault(sent.producer, [])
        if last_epoch == sent.epoch:
            for known, known_offset in there[-5:]:
                if known == sequences:
                    return known_offset
            if sent.sequence != (there[-1][0][-1] + 1) % (MAX_SEQUENCE + 1):
                return OUT_OF_ORDER
        elif last_epoch is not None:
            if sent.epoch < last_epoch:
                return OLD_EPOCH
            if sent.sequence != 0:
                return OUT_OF_ORDER
            there.clear()
        self.epochs[sent.producer] = sent.epoch
        there.append((sequences, offset))
        return offset

    def restart(self) -> None:
        for there in self.appended.values():
            del there[:-1]

    def expire(self) -> None:
        self.epochs.clear()
        self.appended.clear()


@settings(max_examples=300)
@given(steps=st.lists(SENT, max_size=40), data=st.data())
def test_clients_are_answered_as_by_a_list_of_their_batches(steps: list[Sent], data: st.DataObject) -> None:
    """Some steps of each run are in sequence, or are sent again; the others are drawn at random."""
    found, model, log = state(), Model(), list[RecordBatch]()
    accepted = list[Sent]()
    for drawn in steps:
        sent = drawn
        if accepted and data.draw(st.integers(0, 3)) > 0:
            sent = accepted[-1 - data.draw(st.integers(0, 7)) % len(accepted)]
            if data.draw(st.booleans()):
                following = (sent.sequence + sent.size) % (MAX_SEQUENCE + 1)
                sent = sent._replace(sequence=following, size=drawn.size)
        if drawn.before == "restart":
            found = reloaded(found)
            model.restart()
            log.clear()
        elif drawn.before == "expire":
            found.remove_expired(1000 + EXPIRATION_MS)
            model.expire()
            log.clear()
        one = batch(sent.sequence, count=sent.size, epoch=sent.epoch, producer=sent.producer, offset=found.end_offset)
        expected = model.answer(sent, found.end_offset)
        there = found.duplicate_of(one.header)
        answer = refusal(found, one) if there is None else there.first_offset
        if answer is None:
            answer = found.end_offset
            found.append(one)
            log.append(one)
            accepted.append(sent)
        assert answer == expected
    if not any(step.before for step in steps):
        # A follower of the same log has the same.
        follower = state(*log)
        assert (follower.entries(), follower.end_offset) == (found.entries(), found.end_offset)


@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["data", "transaction", "marker"])), max_size=30), st.data()
)
def test_a_snapshot_and_the_rest_of_the_log_are_as_good_as_the_whole_log(
    steps: list[tuple[int, str]], data: st.DataObject
) -> None:
    log, sequences = list[RecordBatch](), dict[int, int]()
    open_transactions = set[int]()
    for offset, (producer, kind) in enumerate(steps):
        if kind == "marker":
            log.append(marker(offset, producer=producer, coordinator_epoch=offset))
            open_transactions.discard(producer)
            continue
        if kind == "transaction":
            open_transactions.add(producer)
        sequence = sequences.get(producer, -1) + 1
        sequences[producer] = sequence
        is_transactional = producer in open_transactions
        log.append(batch(sequence, producer=producer, offset=offset, transactional=is_transactional))
    whole = state(*log)
    at = data.draw(st.integers(0, len(log)))
    again = reloaded(state(*log[:at]))
    for one in log[at:]:
        again.append(one)
    assert (again.entries(), again.end_offset) == (whole.entries(), whole.end_offset)
    whole.on_high_watermark(len(log))
    again.on_high_watermark(len(log))
    assert again.first_unstable_offset == whole.first_unstable_offset
    # A log that was read as a whole says which transactions are open.
    starts = [entry.transaction_start_offset for entry in whole.entries() if entry.transaction_start_offset >= 0]
    assert whole.first_unstable_offset == min(starts, default=None)
    assert {entry.producer_id for entry in whole.entries() if entry.transaction_start_offset >= 0} == open_transactions
