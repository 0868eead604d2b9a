"""`read_final_log` and `senders` with batches and attempts that a test writes."""

from __future__ import annotations

from tests.understudy.testing.simulated_tests.history.wires import Wires, log_record
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.records.batch import batches, set_max_timestamp
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Record, encode_records
from understudy.testing.simulated_tests.history.final_logs import read_final_log, senders
from understudy.testing.simulated_tests.history.wire_records import FinalLog, LogRecord


def batch(offset: int, *values: bytes, compression: Compression = Compression.NONE) -> bytes:
    records = [Record(offset + place, 1, None, value) for place, value in enumerate(values)]
    return encode_records(records, compression=compression)


def transactional(offset: int, value: bytes, producer_id: int) -> bytes:
    return encode_records(
        [Record(offset, 1, None, value)], producer_id=producer_id, base_sequence=0, is_transactional=True
    )


def marker(offset: int, producer_id: int, *, commits: bool) -> bytes:
    record = Record(offset, 1, b"\0\0\0\1" if commits else b"\0\0\0\0", b"\0\0\0\0\0\0")
    return encode_records([record], producer_id=producer_id, is_transactional=True, is_control=True)


def values(log: FinalLog) -> list[tuple[int, bytes | None]]:
    return [(each.offset, each.value) for each in log.records]


def test_records_between_the_log_start_offset_and_the_high_watermark_are_read() -> None:
    data = batch(3, b"3", b"4", compression=Compression.GZIP) + batch(5, b"5") + batch(6, b"6", b"7")
    log = read_final_log(data, start=4, end=7, is_compacted=True, may_have_lost="a loss of power")
    assert values(log) == [(4, b"4"), (5, b"5"), (6, b"6")]
    assert log[1:] == (4, True, "a loss of power", 7)


def test_records_of_transactions_that_were_aborted_or_have_no_end_are_aborted() -> None:
    data = b"".join(
        (
            transactional(0, b"aborted", 7),
            transactional(1, b"committed", 8),
            batch(2, b"plain"),
            marker(3, 7, commits=False),
            marker(4, 8, commits=True),
            transactional(5, b"open", 7),
        )
    )
    log = read_final_log(data, end=6)
    assert {each.value: each.is_aborted for each in log.records} == {
        b"aborted": True,
        b"committed": False,
        b"plain": False,
        b"open": True,
    }


def test_a_batch_with_log_append_time_says_so() -> None:
    data = bytearray(batch(0, b"a"))
    set_max_timestamp(data, 0, 99, is_log_append_time=True)
    assert [each.header.has_log_append_time for each in batches(data)] == [True]
    (record,) = read_final_log(data, end=1).records
    assert (record.timestamp, record.has_log_append_time) == (99, True)


def attempts_of(wires: Wires, *records: LogRecord) -> list[int | None]:
    """Return the number of the attempt that has appended each record, counted from 0 in the order of requests."""
    found = senders(FinalLog(records), wires.history.sent)
    return [None if each is None else list(wires.history.sent).index(each) for each in found]


def test_a_record_that_no_client_of_the_run_has_sent_has_no_sender() -> None:
    wires = Wires()
    wires.connect().send(b"a", offset=1)
    other = log_record(0, b"a")
    assert attempts_of(wires, other, log_record(1, b"a")) == [None, 0]
    assert attempts_of(wires, log_record(1, b"x")) == [None]


def test_a_record_without_an_acknowledgement_is_found_by_its_content_and_timestamp() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a")
    connection.send(b"a", timestamp=2)
    assert attempts_of(wires, log_record(0, b"a", timestamp=2), log_record(1, b"a")) == [1, 0]
    assert attempts_of(wires, log_record(0, b"a"), log_record(1, b"a")) == [0, None]
    assert attempts_of(wires, log_record(0, b"a", timestamp=3)) == [None]
    assert attempts_of(wires, log_record(0, b"a", timestamp=3, has_log_append_time=True)) == [0]


def test_an_attempt_that_was_definitely_refused_has_appended_nothing() -> None:
    wires = Wires()
    wires.connect().send(b"a", error=Errors.NOT_ENOUGH_REPLICAS)
    wires.connect().send(b"b", error=Errors.NOT_LEADER_OR_FOLLOWER)
    assert attempts_of(wires, log_record(0, b"a"), log_record(1, b"b")) == [None, 1]


def test_a_sequence_number_and_the_content_name_the_sender() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", b"b", producer=(7, 0, 4))
    assert attempts_of(wires, log_record(9, b"b", producer=(7, 0, 5)), log_record(10, b"a", producer=(7, 0, 5))) == [
        1,
        None,
    ]
