"""The asserts of `ClusterHistory`, each with histories that it accepts and histories in which it must fail."""

from __future__ import annotations

import pytest

from tests.understudy.testing.simulated_tests.history.wires import Wires, log_record
from understudy.foundation.cluster.errors import Errors
from understudy.testing.simulated_tests.history.wire_records import FinalLog

ORDERS_0 = "orders", 0


# ------------------------------------------------------------------ nothing lost


def test_acknowledged_records_in_the_log_are_not_lost() -> None:
    wires = Wires()
    wires.connect().send(b"a", b"b", offset=0)
    wires.log(b"a", b"b")
    wires.history.assert_nothing_lost()
    wires.history.assert_nothing_lost("orders")


def test_an_acknowledged_record_that_is_not_in_the_log_is_lost() -> None:
    wires = Wires()
    wires.connect().send(b"a", b"b", offset=0)
    wires.log(b"a")
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_nothing_lost()
    assert str(failure.value) == (
        "acknowledged records are lost (1 in all):\n"
        "  - orders-0, offset 1: the record b'b' is lost: the log ends with offset 0. Attempts: attempt 1 of c in "
        "app/1 to broker-1:9092 with acks=all at 0.001 s: acknowledged at offset 1 at 0.002 s"
    )


def test_an_acknowledged_record_is_lost_if_another_one_has_its_offset() -> None:
    wires = Wires()
    wires.connect().send(b"a", offset=0)
    wires.log(b"x")
    with pytest.raises(AssertionError, match=r"offset 0: the record b'a' is lost: offset 0 has the record b'x'\."):
        wires.history.assert_nothing_lost()


def test_of_two_records_that_were_acknowledged_at_one_offset_one_is_lost() -> None:
    """Two leaders have acknowledged them, with acks=1."""
    wires = Wires()
    connection = wires.connect()
    for value in (b"a", b"b"):
        connection.send(value, offset=0, acks=1)
    for kept, gone in ((b"a", b"b"), (b"b", b"a")):
        wires.log(kept)
        with pytest.raises(AssertionError) as failure:
            wires.history.assert_nothing_lost()
        assert (
            f"(1 in all):\n  - orders-0, offset 0: the record {gone!r} is lost: offset 0 has the record {kept!r}"
            in str(failure.value)
        )


def test_a_record_that_an_earlier_attempt_has_appended_is_not_lost() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    first.send(b"a")
    first.close()
    second.send(b"a", offset=2)
    wires.log(b"a", b"x")
    wires.history.assert_nothing_lost()


def test_a_loss_with_acks_1_is_reported_with_what_acks_1_promises() -> None:
    wires = Wires()
    wires.connect().send(b"a", offset=0, acks=1)
    wires.log()
    with pytest.raises(AssertionError, match=r"the log is empty\..*acks=1 promises that the leader alone"):
        wires.history.assert_nothing_lost()


def test_records_that_nothing_has_acknowledged_are_not_lost() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", acks=0)
    connection.send(b"b")
    connection.send(b"c", error=Errors.NOT_ENOUGH_REPLICAS)
    wires.log()
    wires.history.assert_nothing_lost()


def test_a_record_that_was_acknowledged_as_a_duplicate_has_to_be_in_the_log() -> None:
    wires = Wires()
    wires.connect().send(b"a", error=Errors.DUPLICATE_SEQUENCE_NUMBER, producer=(7, 0, 0))
    wires.logs[ORDERS_0] = FinalLog((log_record(3, b"a", producer=(7, 0, 0)),))
    wires.history.assert_nothing_lost()
    wires.log(b"x")
    with pytest.raises(AssertionError, match="acknowledged by DUPLICATE_SEQUENCE_NUMBER, without an offset"):
        wires.history.assert_nothing_lost()


def test_records_before_the_log_start_offset_and_of_an_unclean_election_are_not_judged() -> None:
    wires = Wires()
    wires.connect().send(b"a", b"b", offset=0)
    wires.log(b"b", start=1)
    wires.logs[ORDERS_0] = wires.logs[ORDERS_0]._replace(start=1)
    wires.history.assert_nothing_lost()
    wires.log(may_have_lost="an unclean election")
    wires.history.assert_nothing_lost()


def test_compaction_may_remove_records_with_a_later_one_of_their_key() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"1", keys=[b"k"], offset=0)
    connection.send(b"2", keys=[b"k"], error=Errors.NOT_LEADER_OR_FOLLOWER)
    wires.logs[ORDERS_0] = FinalLog((log_record(1, b"2", key=b"k"),), is_compacted=True)
    wires.history.assert_nothing_lost()
    wires.logs[ORDERS_0] = FinalLog((log_record(1, b"2", key=b"other"),), is_compacted=True)
    with pytest.raises(AssertionError, match="offset 0: the record b'1' with key b'k' is lost"):
        wires.history.assert_nothing_lost()
    wires.logs[ORDERS_0] = FinalLog((log_record(1, b"of no client here", key=b"k"),), is_compacted=True)
    wires.history.assert_nothing_lost()


def test_a_topic_or_group_that_no_client_has_is_refused() -> None:
    wires = Wires()
    wires.connect().send(b"a", offset=0)
    wires.log(b"a")
    with pytest.raises(ValueError, match="topic 'ordres': no client of the run has it; expected one of orders"):
        wires.history.assert_nothing_lost("ordres")
    with pytest.raises(ValueError, match="group 'billing': no client of the run has it; expected one of none"):
        wires.history.assert_once(group="billing")


def test_a_message_lists_five_findings_and_the_number_of_all() -> None:
    wires = Wires()
    wires.connect().send(*(b"%d" % number for number in range(8)), offset=0)
    wires.log(b"0")
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_nothing_lost()
    lines = str(failure.value).splitlines()
    assert lines[0] == "acknowledged records are lost (7 in all):"
    assert len(lines) == 7
    assert lines[-1] == "  … and 2 more"


# ------------------------------------------------------------------ nothing lost, with a group


def read_by_billing(*given: bytes, at: int = 0) -> Wires:
    """Three records, and a member of the group that is given some of them."""
    wires = Wires()
    wires.connect().send(b"a", b"b", b"c", offset=0)
    wires.log(b"a", b"b", b"c")
    member = wires.connect("billing", client_id="b")
    member.join("m", 1, 0)
    member.fetch(at, *given)
    return wires


def test_records_that_a_member_was_given_have_reached_its_group() -> None:
    read_by_billing(b"a", b"b", b"c").history.assert_nothing_lost(group="billing")


def test_an_acknowledged_record_that_no_member_was_given_is_lost_to_the_group() -> None:
    wires = read_by_billing(b"a", b"b")
    wires.history.assert_nothing_lost()
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_nothing_lost(group="billing")
    assert str(failure.value).startswith(
        "acknowledged records have not reached the group billing (1 in all):\n  - orders-0, offset 2: the record b'c' "
        "was never delivered to a member of billing, which was given offset 1 as the last one, at 0.008 s. Attempts: "
    )


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ((0,), "although b in billing/1, member m, was assigned it in generation 1 at 0.006 s. Attempts"),
        ((1,), "no member was assigned it. Attempts"),
    ],
)
def test_a_group_that_was_given_nothing_of_a_partition_has_its_last_assignment_in_the_message(
    partitions: tuple[int, ...], text: str
) -> None:
    wires = Wires()
    wires.connect().send(b"a", offset=0)
    wires.log(b"a")
    wires.connect("billing", client_id="b").join("m", 1, *partitions)
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_nothing_lost(group="billing")
    assert text in str(failure.value)


def test_a_group_is_not_expected_to_read_from_before_its_first_position() -> None:
    read_by_billing(b"c", at=2).history.assert_nothing_lost(group="billing")


def test_a_record_that_was_given_and_not_processed_is_lost_if_the_service_marks_records() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    wires.process_record(0, process="billing")
    wires.process_record(2, process="billing")
    wires.connect("billing", client_id="b").commit(3, "m", 1)
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_nothing_lost("orders", "billing")
    assert "(1 in all)" in str(failure.value)
    assert (
        "offset 1: the record b'b' was delivered to b in billing/1, member m in generation 1 of billing at 0.008 s, "
        "and was never marked as processed; offset 3 was committed for billing by b in billing/1, member m at 0.011 s "
        "(acknowledged at 0.012 s). Attempts: "
    ) in str(failure.value)


def test_a_group_is_not_expected_to_read_aborted_transactions() -> None:
    wires = read_by_billing(b"a", b"b")
    found = wires.logs[ORDERS_0].records
    wires.logs[ORDERS_0] = FinalLog((*found[:2], found[2]._replace(is_aborted=True)))
    wires.history.assert_nothing_lost(group="billing")


def test_a_group_is_not_expected_to_read_records_that_compaction_may_remove() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    records = tuple(log_record(offset, b"%d" % offset, key=b"k") for offset in (3, 4))
    wires.connect().send(b"3", b"4", keys=[b"k", b"k"], offset=3)
    wires.connect("billing", client_id="b").fetch(4, b"4")
    wires.logs[ORDERS_0] = FinalLog((*wires.logs[ORDERS_0].records, *records), is_compacted=True)
    wires.history.assert_nothing_lost(group="billing")
    wires.logs[ORDERS_0] = wires.logs[ORDERS_0]._replace(is_compacted=False)
    with pytest.raises(AssertionError, match="offset 3: the record b'3' with key b'k' was never delivered"):
        wires.history.assert_nothing_lost(group="billing")


def test_the_first_position_of_a_group_is_the_first_one_that_was_answered() -> None:
    wires = Wires()
    wires.connect().send(b"a", b"b", b"c", offset=0)
    wires.log(b"a", b"b", b"c")
    member = wires.connect("billing", client_id="b")
    member.join("m", 1, 0)
    member.fetch_in_vain(3, Errors.OFFSET_OUT_OF_RANGE)
    member.fetch(1, b"b")
    member.fetch(0)
    with pytest.raises(AssertionError, match=r"\(1 in all\)(?s:.*)offset 2: the record b'c' was never delivered"):
        wires.history.assert_nothing_lost(group="billing")


def test_marks_of_one_group_say_nothing_about_another_one() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    other = wires.connect("mail", client_id="mail")
    other.join("n", 1, 0, group="mail")
    other.fetch(0, b"a", b"b", b"c")
    wires.process_record(0, process="billing")
    wires.history.assert_nothing_lost(group="mail")
    with pytest.raises(AssertionError, match="never marked as processed"):
        wires.history.assert_nothing_lost(group="billing")


# ------------------------------------------------------------------ once


def test_a_record_that_was_sent_again_and_appended_once_is_once() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect(broker=2)
    first.send(b"a")
    first.close()
    second.send(b"a", offset=0)
    wires.log(b"a")
    wires.history.assert_once()
    assert [(each.send, each.attempt) for each in wires.history.sent] == [(0, 1), (0, 2)]
    assert [each.attempt for each in wires.history.acknowledged] == [2]


def test_a_record_that_was_sent_again_and_appended_twice_is_not_once() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect(broker=2)
    first.send(b"a")
    first.close()
    second.send(b"a", offset=1)
    wires.log(b"a", b"a")
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_once("orders")
    assert (
        "orders-0: the record b'a' is in the log 2 times, at the offsets 0, 1. Attempts: attempt 1 of c in app/1 to "
        "broker-1:9092 with acks=all at 0.001 s: its connection ended at 0.002 s, without an answer; attempt 2 of c in "
        "app/1 to broker-2:9092 with acks=all at 0.003 s: acknowledged at offset 1 at 0.004 s. A producer that is not "
        "idempotent"
    ) in str(failure.value)


def test_equal_records_of_two_sends_may_both_be_in_the_log() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", offset=0)
    connection.send(b"a", offset=1)
    wires.log(b"a", b"a")
    wires.history.assert_once()


def test_an_idempotent_record_with_its_sequence_number_at_two_offsets_is_not_once() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER, producer=(7, 0, 4))
    connection.send(b"a", offset=1, producer=(7, 0, 4))
    wires.logs[ORDERS_0] = FinalLog(tuple(log_record(offset, b"a", producer=(7, 0, 4)) for offset in (0, 1)))
    with pytest.raises(AssertionError, match=r"at the offsets 0, 1.*sequence number 4: answered with NOT_LEADER"):
        wires.history.assert_once()


def two_members(*, commits_first: bool) -> Wires:
    """Two members that are given the same record; the second commits after it, the first one if it is asked to."""
    wires = Wires()
    first = wires.connect("one", client_id="b")
    first.join("m1", 1, 0)
    first.fetch(0, b"a")
    if commits_first:
        first.commit(1, "m1", 1, error=Errors.ILLEGAL_GENERATION)
    second = wires.connect("two", client_id="b")
    second.join("m2", 2, 0)
    second.fetch(0, b"a")
    second.commit(1, "m2", 2)
    wires.log(b"a")
    return wires


def test_a_record_that_one_of_two_members_has_committed_is_processed_once() -> None:
    two_members(commits_first=False).history.assert_once(group="billing")


def test_a_record_after_which_two_members_have_committed_is_processed_twice() -> None:
    with pytest.raises(AssertionError) as failure:
        two_members(commits_first=True).history.assert_once("orders", "billing")
    assert (
        "orders-0, offset 0: the record b'a' was processed 2 times: by b in one/1, member m1 in generation 1 of "
        "billing, which was given it at 0.006 s and has sent the commit of offset 1 at 0.007 s (answered with "
        "ILLEGAL_GENERATION at 0.008 s); by b in two/1, member m2 in generation 2 of billing"
    ) in str(failure.value)


def test_a_commit_after_another_member_had_the_partition_says_nothing_about_what_was_given_before() -> None:
    wires = Wires()
    first, second = wires.connect("one", client_id="b"), wires.connect("two", client_id="b")
    first.join("m1", 1, 0)
    first.fetch(0, b"a")
    first.join("m1", 2)
    second.join("m2", 2, 0)
    second.fetch(0, b"a", b"b")
    second.commit(2, "m2", 2)
    first.join("m1", 3, 0)
    first.fetch(2, b"c")
    first.commit(3, "m1", 3)
    wires.log(b"a", b"b", b"c")
    wires.history.assert_once(group="billing")


def test_a_record_that_a_member_was_given_twice_before_it_commits_is_processed_once() -> None:
    wires = Wires()
    member = wires.connect("one", client_id="b")
    member.join("m", 1, 0)
    for _ in range(2):
        member.fetch(0, b"a")
    member.commit(1, "m", 1)
    wires.log(b"a")
    wires.history.assert_once(group="billing")
    member.fetch(0, b"a")
    member.commit(1, "m", 1)
    with pytest.raises(AssertionError, match="processed 2 times"):
        wires.history.assert_once(group="billing")


def test_two_answers_to_fetches_at_the_same_time_are_one_processing() -> None:
    wires = Wires()
    old, new = wires.connect(client_id="b"), wires.connect(client_id="b", broker=2)
    old.join("m", 1, 0)
    slow = old.ask_for(0)
    new.fetch(0, b"a")
    new.commit(1, "m", 1)
    old.give(slow, 0, b"a")
    new.fetch(1, b"b")
    new.commit(2, "m", 1)
    wires.log(b"a", b"b")
    wires.history.assert_once(group="billing")


def test_records_that_are_marked_twice_are_processed_twice() -> None:
    wires = two_members(commits_first=True)
    wires.process_record(0, process="two")
    wires.history.assert_once(group="billing")
    wires.process_record(0, process="one")
    with pytest.raises(AssertionError, match=r"processed 2 times: by two/1 at 0\.017 s; by one/1 at 0\.018 s"):
        wires.history.assert_once(group="billing")


# ------------------------------------------------------------------ in order


def test_records_in_the_order_of_sends_are_in_order() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", offset=0)
    connection.send(b"b", b"c", offset=1)
    wires.log(b"a", b"b", b"c")
    wires.history.assert_in_order()


def test_a_record_that_overtakes_an_earlier_one_of_its_producer_is_out_of_order() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER)
    connection.send(b"b", offset=0)
    connection.send(b"a", offset=1)
    wires.log(b"b", b"a")
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_in_order("orders")
    assert (
        "orders-0: the record b'b' is in the log at offset 0, before the record b'a' at offset 1, which was sent "
        "first. Attempts of the first: attempt 1 of c in app/1"
    ) in str(failure.value)


def test_the_first_appearance_of_a_repeated_record_counts() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    first.send(b"a")
    first.close()
    second.send(b"b", offset=1)
    second.send(b"a", offset=2)
    wires.log(b"a", b"b", b"a")
    wires.history.assert_in_order()


def test_a_record_that_was_sent_again_over_another_connection_is_out_of_order() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect(broker=2)
    first.send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER)
    second.send(b"b", offset=0)
    second.send(b"a", offset=1)
    wires.log(b"b", b"a")
    with pytest.raises(AssertionError, match="record b'a' at offset 1, which was sent first"):
        wires.history.assert_in_order()


def test_a_record_that_overtakes_one_on_its_way_over_the_same_connection_is_out_of_order() -> None:
    wires = Wires()
    connection = wires.connect()
    first = connection.send(b"a")
    second = connection.send(b"b")
    connection.acknowledge(first, -1, Errors.NOT_LEADER_OR_FOLLOWER)
    connection.acknowledge(second, 0)
    connection.send(b"a", offset=1)
    wires.log(b"b", b"a")
    with pytest.raises(AssertionError, match="record b'a' at offset 1, which was sent first"):
        wires.history.assert_in_order()
    wires.logs[ORDERS_0] = wires.logs[ORDERS_0]._replace(start=0, is_compacted=True)
    wires.history.assert_in_order()


def test_records_of_two_producers_with_one_client_id_that_are_on_their_way_together_have_no_order() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    slow = first.send(b"a")
    second.send(b"b", offset=0)
    first.acknowledge(slow, 1)
    wires.log(b"b", b"a")
    wires.history.assert_in_order()


def test_a_consumer_that_goes_back_within_an_assignment_is_given_records_out_of_order() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    wires.connect("billing", client_id="b").fetch(1, b"b")
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_in_order("orders")
    assert (
        "orders-0: b in billing/1, member m in generation 1 of billing was given offset 1, the record b'b', at 0.010 "
        "s, after offset 2 at 0.008 s: it has fetched again from offset 1 on at 0.009 s"
    ) in str(failure.value)
    wires.history.assert_in_order(seeks=True)


def test_a_new_assignment_may_go_back() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    member = wires.connect("billing", client_id="b")
    member.join("m", 2, 0)
    member.fetch(1, b"b")
    wires.history.assert_in_order()


def test_two_fetches_at_the_same_time_may_bring_the_same_records() -> None:
    wires = Wires()
    old, new = wires.connect(client_id="b"), wires.connect(client_id="b", broker=2)
    old.join("m", 1, 0)
    slow = old.ask_for(0)
    new.fetch(0, b"a")
    old.give(slow, 0, b"a")
    wires.log(b"a")
    wires.history.assert_in_order()


def test_marks_are_judged_instead_of_what_the_process_was_given() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    wires.connect("billing", client_id="b").fetch(0, b"a")
    for offset in (0, 1):
        wires.process_record(offset, process="billing")
    wires.history.assert_in_order()
    wires.process_record(0, process="billing")
    with pytest.raises(AssertionError, match=r"billing/1 has processed offset 0 at 0\.013 s, after offset 1 at 0\.012"):
        wires.history.assert_in_order()


# ------------------------------------------------------------------ committed is processed


def test_a_commit_of_what_was_given_is_not_ahead() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    wires.connect("billing", client_id="b").commit(3, "m", 1)
    wires.history.assert_committed_is_processed()
    wires.history.assert_committed_is_processed("billing")


@pytest.mark.parametrize("error", [Errors.NONE, None])
def test_a_commit_ahead_of_what_was_given_fails(error: Errors | None) -> None:
    wires = read_by_billing(b"a")
    member = wires.connect("billing", client_id="b")
    member.commit(3, "m", 1, error=error)
    member.fetch(1, b"b", b"c")
    with pytest.raises(AssertionError) as failure:
        wires.history.assert_committed_is_processed()
    assert "commits are ahead of what was processed (1 in all):\n  - orders-0: offset 3 was committed" in str(
        failure.value
    )
    assert (
        "before offset 1, the record b'b', was delivered to a member, and 1 more up to offset 2: it was delivered to "
        "b in billing/1, member m in generation 1 of billing at "
    ) in str(failure.value)


def test_a_commit_that_was_refused_is_not_ahead() -> None:
    wires = read_by_billing(b"a")
    wires.connect("billing", client_id="b").commit(3, "m", 1, error=Errors.ILLEGAL_GENERATION)
    wires.history.assert_committed_is_processed()


def test_a_commit_before_the_processing_fails_if_the_service_marks_records() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    wires.process_record(0, process="billing")
    wires.connect("billing", client_id="b").commit(2, "m", 1)
    wires.process_record(1, process="billing")
    with pytest.raises(AssertionError, match=r"b'b', was processed: billing/1 has processed it at 0\.012 s"):
        wires.history.assert_committed_is_processed("billing")


def test_an_unclean_election_and_aborted_transactions_excuse_a_commit() -> None:
    wires = read_by_billing(b"a")
    wires.connect("billing", client_id="b").commit(3, "m", 1)
    log = wires.logs[ORDERS_0]
    wires.logs[ORDERS_0] = log._replace(may_have_lost="an unclean election")
    wires.history.assert_committed_is_processed()
    aborted = tuple(each._replace(is_aborted=True) for each in log.records[1:])
    wires.logs[ORDERS_0] = log._replace(records=(log.records[0], *aborted))
    wires.history.assert_committed_is_processed()


def test_a_commit_beyond_the_end_of_the_log_fails() -> None:
    wires = read_by_billing(b"a", b"b", b"c")
    wires.connect("billing", client_id="b").commit(5, "m", 1)
    wires.history.assert_committed_is_processed()
    wires.logs[ORDERS_0] = wires.logs[ORDERS_0]._replace(end=4)
    with pytest.raises(AssertionError, match="and the log ends before offset 4"):
        wires.history.assert_committed_is_processed()


def test_records_before_the_first_position_of_a_group_may_be_committed() -> None:
    wires = read_by_billing(b"c", at=2)
    wires.connect("billing", client_id="b").commit(3, "m", 1)
    wires.history.assert_committed_is_processed()
