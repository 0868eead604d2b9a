"""`WireHistory` with bytes that a test writes: every version, pieces of frames, sessions, transactions, attempts."""

from __future__ import annotations

import pytest

from tests.understudy.testing.simulated_tests.history.wires import ORDERS, Wires, produce_request
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.down_conversion import down_convert
from understudy.foundation.records.record import Header, Record, encode_records
from understudy.foundation.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from understudy.foundation.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from understudy.testing.simulated_tests.history.wire_records import NO_ANSWER, Client

TOPIC_ID = TopicId("AAAAAAAAAAAAAAAAAAAAEg")
RECORDS = (Record(0, 5, b"k", b"a", (Header("h", b"1"),)), Record(1, 6, None, b"b"))

FIRST_VERSION_WITH_BATCHES = 3
"""First version of Produce with message format 2; Fetch has it from the next version on."""


# ------------------------------------------------------------------ produce


@pytest.mark.parametrize("version", range(12))
def test_records_are_decoded_from_every_version_of_produce(version: int) -> None:
    wires = Wires()
    connection = wires.connect(client_id="shop")
    batch = encode_records(RECORDS, producer_id=7, producer_epoch=2, base_sequence=2**31 - 1)
    data = bytes(down_convert(batch, version // 2, 0)) if version < FIRST_VERSION_WITH_BATCHES else batch
    topic = TopicProduceData(name=ORDERS, partition_data=(PartitionProduceData(index=1, records=data),))
    asked = connection.request(ProduceRequest(acks=1, topic_data=(topic,)), version)
    answer = PartitionProduceResponse(index=1, base_offset=40)
    topics = (TopicProduceResponse(name=ORDERS, partition_responses=(answer,)),)
    connection.answer(asked, ProduceResponse(responses=topics), version)

    first, second = wires.history.sent
    assert first.client == Client("app", 1, "shop")
    assert (first.key, first.value, second.value) == (b"k", b"a", b"b")
    assert (first.topic, first.partition, first.offset, second.offset) == (ORDERS, 1, 40, 41)
    assert (first.error, first.acks, first.sent_ms, first.ended_ms) == ("NONE", 1, 1, 2)
    if version >= FIRST_VERSION_WITH_BATCHES:
        assert first.headers == (Header("h", b"1"),)
        assert [(each.producer_id, each.producer_epoch, each.sequence) for each in (first, second)] == [
            (7, 2, 2**31 - 1),
            (7, 2, 0),
        ]
    else:
        assert (first.producer_id, first.sequence) == (-1, -1)
    assert first.timestamp == (5 if version >= FIRST_VERSION_WITH_BATCHES - 1 else -1)


@pytest.mark.parametrize(
    ("compression", "magic"),
    [(each, magic) for each in Compression for magic in (0, 1, 2) if each is not Compression.ZSTD or magic == 2],
)
def test_records_are_decoded_from_every_codec(compression: Compression, magic: int) -> None:
    batch = encode_records(RECORDS, compression=compression)
    wires = Wires()
    data = batch if magic == 2 else bytes(down_convert(batch, magic, 0))
    topic = TopicProduceData(name=ORDERS, partition_data=(PartitionProduceData(index=0, records=data),))
    wires.connect().request(ProduceRequest(acks=1, topic_data=(topic,)), 3 if magic == 2 else 2)
    assert [each.value for each in wires.history.sent] == [b"a", b"b"]


def test_bytes_in_single_pieces_give_the_same_history() -> None:
    whole, pieces = Wires(), Wires(piece_bytes=1)
    for wires in (whole, pieces):
        connection = wires.connect()
        connection.send(b"a", offset=0)
        connection.send(b"b", b"c", offset=1)
        connection.fetch(0, b"a", b"b", b"c")
    assert len(pieces.history.delivered) == 3
    assert pieces.history.sent == whole.history.sent
    assert pieces.history.delivered == whole.history.delivered


def test_a_question_in_between_changes_nothing() -> None:
    wires = Wires()
    connection = wires.connect()
    first = connection.send(b"a")
    assert [(each.error, each.ended_ms) for each in wires.history.sent] == [(NO_ANSWER, None)]
    connection.acknowledge(first, 0)
    assert [(each.error, each.ended_ms) for each in wires.history.sent] == [("NONE", 2)]


def test_sends_are_the_same_if_nothing_else_is_decoded() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", offset=0)
    connection.fetch(0, b"a")
    connection.send(b"b", error=Errors.NOT_ENOUGH_REPLICAS)
    wires.process_record(0)
    connection.send(b"b", offset=1)
    connection.send(b"c")
    connection.close()
    alone = wires.wire.sends()
    assert [(each.value, each.attempt, each.error) for each in alone] == [
        (b"a", 1, "NONE"),
        (b"b", 1, "NOT_ENOUGH_REPLICAS"),
        (b"b", 2, "NONE"),
        (b"c", 1, NO_ANSWER),
    ]
    assert [each._replace(order=0) for each in alone] == [each._replace(order=0) for each in wires.history.sent]
    assert wires.wire.sends() == wires.history.sent
    assert len(wires.history.delivered) == len(wires.history.marked) == 1


def test_requests_with_acks_0_wait_for_no_answer() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", acks=0)
    connection.close()
    assert [(each.error, each.ended_ms) for each in wires.history.sent] == [(NO_ANSWER, None)]


def test_a_batch_without_a_producer_id_has_no_sequence_number() -> None:
    wires = Wires()
    wires.connect().send(b"a", producer=(-1, -1, 0))
    assert [each.sequence for each in wires.history.sent] == [-1]


# ------------------------------------------------------------------ attempts


def attempts(wires: Wires) -> list[tuple[int, int]]:
    return [(each.send, each.attempt) for each in wires.history.sent]


def test_a_record_is_sent_again_after_an_error_or_the_end_of_its_connection() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    first.send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER)
    first.send(b"a")
    first.close()
    second.send(b"a", offset=0)
    second.send(b"a", offset=1)
    assert attempts(wires) == [(0, 1), (0, 2), (0, 3), (1, 1)]


def test_equal_records_that_are_on_their_way_together_are_two_sends() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a")
    connection.send(b"a")
    assert attempts(wires) == [(0, 1), (1, 1)]


def test_a_record_with_another_timestamp_is_another_send() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER)
    connection.send(b"a", offset=0, timestamp=2)
    assert attempts(wires) == [(0, 1), (1, 1)]


def test_another_process_or_client_does_not_send_a_record_again() -> None:
    wires = Wires()
    wires.connect().send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER)
    wires.connect("other").send(b"a", offset=0)
    wires.connect(incarnation=2).send(b"a", offset=1)
    wires.connect(client_id="d").send(b"a", offset=2)
    assert attempts(wires) == [(0, 1), (1, 1), (2, 1), (3, 1)]


def test_a_sequence_number_shows_a_record_that_is_sent_again_before_the_answer() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    first.send(b"a", producer=(7, 0, 4))
    second.send(b"a", producer=(7, 0, 4))
    second.send(b"b", producer=(7, 0, 4))
    second.send(b"a", producer=(7, 0, 5))
    assert attempts(wires) == [(0, 1), (0, 2), (1, 1), (2, 1)]


def test_a_record_that_is_sent_again_with_the_next_epoch_is_the_same_record() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", error=Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, producer=(7, 0, 4))
    connection.send(b"a", offset=0, producer=(7, 1, 0))
    assert attempts(wires) == [(0, 1), (0, 2)]


def test_an_equal_record_is_another_send_after_the_first_was_sent_again_and_acknowledged() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.send(b"a", error=Errors.NOT_LEADER_OR_FOLLOWER, producer=(7, 0, 4))
    connection.send(b"a", offset=0, producer=(7, 0, 4))
    connection.send(b"a", offset=1, producer=(7, 0, 5))
    assert attempts(wires) == [(0, 1), (0, 2), (1, 1)]


# ------------------------------------------------------------------ fetch


@pytest.mark.parametrize("version", range(18))
def test_records_are_decoded_from_every_version_of_fetch(version: int) -> None:
    wires = Wires()
    connection = wires.connect(client_id="b")
    has_ids = version >= 13
    if has_ids:
        asked = connection.request(MetadataRequest(), 10)
        connection.answer(asked, MetadataResponse(topics=(MetadataResponseTopic(name=ORDERS, topic_id=TOPIC_ID),)), 10)
    topic = {"topic": "" if has_ids else ORDERS, "topic_id": TOPIC_ID if has_ids else NO_TOPIC_ID}
    partitions = (FetchPartition(partition=1, fetch_offset=41),)
    request = connection.request(FetchRequest(topics=(FetchTopic(**topic, partitions=partitions),)), version)  # type: ignore[arg-type]  # by name
    batch = encode_records([each._replace(offset=40 + each.offset) for each in RECORDS])
    data = batch if version > FIRST_VERSION_WITH_BATCHES else bytes(down_convert(batch, version // 2, 40))
    answered = PartitionData(partition_index=1, records=data)
    responses = (FetchableTopicResponse(**topic, partitions=(answered,)),)  # type: ignore[arg-type]  # by name
    connection.answer(request, FetchResponse(responses=responses), version)

    assert wires.history.unreadable == []
    (given,) = wires.history.delivered
    assert (given.topic, given.partition, given.offset, given.value) == (ORDERS, 1, 41, b"b")
    assert (given.client, given.group, given.fetch_offset) == (Client("app", 1, "b"), None, 41)
    assert (given.received_ms - given.sent_ms, given.order - given.sent_order) == (1, 1)


def test_a_compressed_message_set_has_the_offset_of_its_last_message() -> None:
    wires = Wires()
    connection = wires.connect()
    asked = connection.request(FetchRequest(topics=(partition(0, 40),)), 3)
    records = [each._replace(offset=40 + each.offset) for each in RECORDS]
    data = PartitionData(records=bytes(down_convert(encode_records(records, compression=Compression.GZIP), 1, 40)))
    responses = (FetchableTopicResponse(topic=ORDERS, partitions=(data,)),)
    connection.answer(asked, FetchResponse(responses=responses), 3)
    assert [(each.offset, each.value) for each in wires.history.delivered] == [(40, b"a"), (41, b"b")]


def fetch_in_session(*topics: FetchTopic, epoch: int, forgotten: tuple[ForgottenTopic, ...] = ()) -> FetchRequest:
    return FetchRequest(session_id=9, session_epoch=epoch, topics=topics, forgotten_topics_data=forgotten)


def partition(number: int, offset: int) -> FetchTopic:
    return FetchTopic(topic=ORDERS, partitions=(FetchPartition(partition=number, fetch_offset=offset),))


def given_from(number: int, offset: int) -> FetchResponse:
    records = encode_records([Record(each, 1, None, b"%d" % each) for each in range(10, 13)])
    data = PartitionData(partition_index=number, records=records)
    return FetchResponse(session_id=9, responses=(FetchableTopicResponse(topic=ORDERS, partitions=(data,)),))


def test_a_fetch_session_keeps_the_offsets_that_a_request_does_not_name() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.request(fetch_in_session(partition(0, 11), partition(1, 12), epoch=0), 7)
    connection.answer(connection.request(fetch_in_session(epoch=1), 7), given_from(1, 12), 7)
    connection.answer(connection.request(fetch_in_session(partition(1, 13), epoch=2), 7), given_from(0, 11), 7)
    forgotten = (ForgottenTopic(topic=ORDERS, partitions=(0,)),)
    asked = connection.request(fetch_in_session(epoch=3, forgotten=forgotten), 7)
    connection.answer(asked, given_from(0, 11), 7)
    connection.answer(connection.request(fetch_in_session(partition(1, 10), epoch=0), 7), given_from(1, 10), 7)
    assert [(each.partition, each.offset, each.fetch_offset) for each in wires.history.delivered] == [
        (1, 12, 12),
        (0, 11, 11),
        (0, 12, 11),
        (1, 10, 10),
        (1, 11, 10),
        (1, 12, 10),
    ]


@pytest.mark.parametrize(("isolation", "values"), [(0, [b"a", b"b"]), (1, [b"b"])])
def test_records_of_aborted_transactions_are_given_to_read_uncommitted_only(
    isolation: int, values: list[bytes]
) -> None:
    marker = Record(1, 1, b"\0\0\0\0", b"\0\0\0\0\0\0")
    log = b"".join(
        (
            encode_records([Record(0, 1, None, b"a")], producer_id=7, is_transactional=True),
            encode_records([marker], producer_id=7, is_transactional=True, is_control=True),
            encode_records([Record(2, 1, None, b"b")], producer_id=7, is_transactional=True),
        )
    )
    wires = Wires()
    connection = wires.connect()
    asked = connection.request(FetchRequest(isolation_level=isolation, topics=(partition(0, 0),)), 4)
    data = PartitionData(aborted_transactions=(AbortedTransaction(producer_id=7, first_offset=0),), records=log)
    responses = (FetchableTopicResponse(topic=ORDERS, partitions=(data,)),)
    connection.answer(asked, FetchResponse(responses=responses), 4)
    assert [each.value for each in wires.history.delivered] == values


# ------------------------------------------------------------------ groups


@pytest.mark.parametrize("version", range(10))
def test_offsets_are_decoded_from_every_version_of_offset_commit(version: int) -> None:
    wires = Wires()
    connection = wires.connect()
    offset = OffsetCommitRequestPartition(partition_index=1, committed_offset=7, committed_metadata="x")
    topics = (OffsetCommitRequestTopic(name=ORDERS, partitions=(offset,)),)
    request = OffsetCommitRequest(group_id="billing", member_id="m", generation_id_or_member_epoch=3, topics=topics)
    asked = connection.request(request, version)
    error = OffsetCommitResponsePartition(partition_index=1, error_code=Errors.UNKNOWN_MEMBER_ID)
    connection.answer(
        asked, OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name=ORDERS, partitions=(error,)),)), version
    )
    (commit,) = wires.history.commits
    assert commit[2:6] == ("billing", "m" if version else "", 3 if version else -1, None)
    assert commit[6:] == (ORDERS, 1, 7, "x", "UNKNOWN_MEMBER_ID", 1, 2, 1)
    assert wires.history.committed == []


def test_offsets_that_a_transaction_commits_are_commits() -> None:
    wires = Wires()
    connection = wires.connect()
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = (TxnOffsetCommitRequestTopic(name=ORDERS, partitions=(offset,)),)
    request = TxnOffsetCommitRequest(transactional_id="t", group_id="billing", generation_id=4, topics=topics)
    asked = connection.request(request, 3)
    answer = (TxnOffsetCommitResponseTopic(name=ORDERS, partitions=(TxnOffsetCommitResponsePartition(),)),)
    connection.answer(asked, TxnOffsetCommitResponse(topics=answer), 3)
    (commit,) = wires.history.committed
    assert (commit.transactional_id, commit.group, commit.generation, commit.offset) == ("t", "billing", 4, 7)


def readers(wires: Wires) -> list[tuple[str | None, str, int]]:
    return [(each.group, each.member, each.generation) for each in wires.history.delivered]


def test_what_a_member_fetches_is_for_its_group_while_it_is_assigned_the_partition() -> None:
    wires = Wires()
    connection = wires.connect()
    connection.fetch(0, b"a")
    connection.join("m", 1, 0)
    connection.fetch(0, b"a")
    connection.join("m", 2, 1)
    connection.fetch(0, b"a")
    connection.join("n", 3, 0)
    connection.fetch(0, b"a")
    connection.request(LeaveGroupRequest(group_id="billing", member_id="n"), 1)
    connection.fetch(0, b"a")
    assert readers(wires) == [(None, "", -1), ("billing", "m", 1), (None, "", -1), ("billing", "n", 3), (None, "", -1)]


@pytest.mark.parametrize("version", [1, 8])
def test_what_a_client_without_a_member_fetches_is_for_the_group_whose_offsets_it_looks_up(version: int) -> None:
    wires = Wires()
    connection = wires.connect()
    group = OffsetFetchRequestGroup(
        group_id="billing", topics=(OffsetFetchRequestTopics(name=ORDERS, partition_indexes=(0,)),)
    )
    old = OffsetFetchRequest(group_id="billing", topics=(OffsetFetchRequestTopic(name=ORDERS, partition_indexes=(0,)),))
    connection.request(OffsetFetchRequest(groups=(group,)) if version == 8 else old, version)
    connection.fetch(0, b"a")
    connection.fetch(0, b"a", partition=1)
    assert readers(wires) == [("billing", "", -1), (None, "", -1)]


def test_consumers_of_two_groups_with_one_client_id_are_told_apart_by_their_connections() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    first.join("m", 1, 0, group="billing")
    second.join("n", 1, 0, group="mail")
    for _ in range(2):
        first.fetch(0, b"a")
        second.fetch(0, b"a")
    assert [group for group, _, _ in readers(wires)] == ["billing", "mail"] * 2


def test_a_connection_takes_the_place_of_one_that_has_ended() -> None:
    wires = Wires()
    first, second = wires.connect(), wires.connect()
    first.join("m", 1, 0, group="billing")
    second.join("n", 1, 0, group="mail")
    first.fetch(0, b"a")
    second.fetch(0, b"a")
    second.close()
    wires.connect().fetch(0, b"a")
    assert [group for group, _, _ in readers(wires)] == ["billing", "mail", "mail"]


def test_the_last_member_that_was_assigned_a_partition_fetches_it() -> None:
    wires = Wires()
    connection = wires.connect()
    for generation, member in enumerate(("m", "n", "m")):
        connection.join(member, generation, 0)
        connection.fetch(0, b"a")
    assert readers(wires) == [("billing", "m", 0), ("billing", "n", 1), ("billing", "m", 2)]


def test_an_assignment_that_is_no_consumers_has_no_partitions() -> None:
    wires = Wires()
    wires.connect().join("m", 1, 0, kind="connect")
    assert [each.partitions for each in wires.history.assigned] == [()]
    assert wires.history.unreadable == []


# ------------------------------------------------------------------ what cannot be decoded


def test_what_cannot_be_decoded_is_named_and_the_rest_is_decoded() -> None:
    wires = Wires()
    connection = wires.connect()
    wires.wire.sent(connection.number, b"\0\0\0\x04abcd", 0)
    broken = ProduceRequest(
        acks=1,
        topic_data=(TopicProduceData(name=ORDERS, partition_data=(PartitionProduceData(records=b"x" * 80),)),),
    )
    connection.request(broken, 9)
    connection.send(b"a", offset=0)
    assert [each.value for each in wires.history.sent] == [b"a"]
    first, second = wires.history.unreadable
    assert first.startswith("connection 1 of app/1 to broker-1:9092: a request at 0.000 s cannot be decoded: ")
    assert "a request at 0.001 s cannot be decoded" in second


def test_nothing_is_decoded_after_a_frame_of_an_impossible_size() -> None:
    wires = Wires()
    connection = wires.connect()
    wires.wire.sent(connection.number, b"\xff" * 8, 0)
    connection.send(b"a", offset=0)
    assert wires.history.sent == []
    assert "its bytes cannot be decoded: frame announces -1 bytes" in wires.history.unreadable[0]
    assert len(wires.history.unreadable) == 1


def test_a_connection_that_has_ended_has_no_more_bytes() -> None:
    wires = Wires()
    connection = wires.connect()
    asked = connection.request(produce_request(b"a"), 9)
    connection.close()
    connection.close()
    connection.acknowledge(asked, 0)
    assert [(each.error, each.ended_ms) for each in wires.history.sent] == [(NO_ANSWER, 2)]
