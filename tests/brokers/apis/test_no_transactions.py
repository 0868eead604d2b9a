"""Tests of the requests of transactions: the answers of brokers that coordinate none, and write no markers."""

from __future__ import annotations

import asyncio

import pytest

from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import NOW_MS, batch, open_log
from tests.brokers.parts import ME, OTHER, apply_leader_and_isr, leader_and_isr, state
from understudy.brokers.apis import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    list_transactions,
    write_txn_markers,
)
from understudy.brokers.apis.serving import CloseConnection
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from understudy.foundation.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from understudy.foundation.wire.messages.describe_transactions import DescribeTransactionsRequest
from understudy.foundation.wire.messages.end_txn import EndTxnRequest
from understudy.foundation.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from understudy.foundation.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from understudy.foundation.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

LEADERS = {"orders": {0: ME, 1: OTHER}}


def topics(*partitions: tuple[str, int]) -> tuple[AddPartitionsToTxnTopic, ...]:
    return tuple(AddPartitionsToTxnTopic(name=name, partitions=(index,)) for name, index in partitions)


def errors_of(results: tuple[AddPartitionsToTxnTopicResult, ...]) -> list[tuple[str, int, str]]:
    return [
        (topic.name, each.partition_index, Errors(each.partition_error_code).name)
        for topic in results
        for each in topic.results_by_partition
    ]


def add_partitions(request: AddPartitionsToTxnRequest, version: int) -> list[tuple[str, int, str]]:
    async def scenario() -> list[tuple[str, int, str]]:
        harness = BrokerHarness()
        harness.update_metadata(LEADERS)
        answer = await add_partitions_to_txn.handle(harness.services, request, harness.context(version))
        by_transaction = [each for result in answer.results_by_transaction for each in errors_of(result.topic_results)]
        return [*errors_of(answer.results_by_topic_v3_and_below), *by_transaction]

    return asyncio.run(scenario())


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("transactional_id", "partitions", "expected"),
    [
        ("t", [("orders", 0), ("orders", 1)], ["NOT_COORDINATOR", "NOT_COORDINATOR"]),
        ("", [("orders", 0)], ["INVALID_REQUEST"]),
        ("t", [("orders", 0), ("nope", 0)], ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]),
        ("t", [], []),
    ],
)
def test_partitions_cannot_join_a_transaction(
    version: int, transactional_id: str, partitions: list[tuple[str, int]], expected: list[str]
) -> None:
    if version < 4:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id, v3_and_below_topics=topics(*partitions)
        )
    else:
        transaction = AddPartitionsToTxnTransaction(transactional_id=transactional_id, topics=topics(*partitions))
        request = AddPartitionsToTxnRequest(transactions=(transaction,))
    found = add_partitions(request, version)
    assert found == [(name, index, error) for (name, index), error in zip(partitions, expected, strict=True)]


@pytest.mark.parametrize(("transactional_id", "error"), [("t", Errors.NOT_COORDINATOR), ("", Errors.INVALID_REQUEST)])
def test_no_transactional_id_has_its_coordinator_here(transactional_id: str, error: Errors) -> None:
    async def scenario() -> list[int]:
        harness = BrokerHarness()
        services, context = harness.services, harness.context(0)
        added = await add_offsets_to_txn.handle(
            services, AddOffsetsToTxnRequest(transactional_id=transactional_id), context
        )
        ended = await end_txn.handle(services, EndTxnRequest(transactional_id=transactional_id), context)
        asked = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
        [described] = (await describe_transactions.handle(services, asked, context)).transaction_states
        assert described.transactional_id == transactional_id
        return [added.error_code, ended.error_code, described.error_code]

    assert asyncio.run(scenario()) == [error] * 3


def test_no_transactions_are_listed() -> None:
    async def scenario() -> ListTransactionsResponse:
        harness = BrokerHarness()
        request = ListTransactionsRequest(state_filters=("Ongoing", "nope", "Dead", "nope", "empty"))
        return await list_transactions.handle(harness.services, request, harness.context(1))

    assert asyncio.run(scenario()) == ListTransactionsResponse(unknown_state_filters=("nope", "empty"))


def test_offsets_are_not_committed_in_a_transaction() -> None:
    partition = TxnOffsetCommitRequestPartition(committed_offset=5)
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="my-group",
        topics=tuple(TxnOffsetCommitRequestTopic(name=name, partitions=(partition,)) for name in ("orders", "nope")),
    )
    with SimulatedCluster(seed=5, brokers=2) as cluster:
        cluster.start()
        cluster.create_topic("orders", assignment={0: [1, 2]})
        cluster.create_topic("__consumer_offsets", assignment={index: [2] for index in range(50)})
        for broker, error in ((2, Errors.INVALID_PRODUCER_ID_MAPPING), (1, Errors.NOT_COORDINATOR)):
            answer = cluster.ask(cluster.admin.ask(f"broker-{broker}", PORT, request, version=4))
            assert isinstance(answer, TxnOffsetCommitResponse)
            assert [(topic.name, each.error_code) for topic in answer.topics for each in topic.partitions] == [
                ("orders", error),
                ("nope", Errors.UNKNOWN_TOPIC_OR_PARTITION),
            ]


# ------------------------------------------------------------------ markers


def write_marker(partition: int, *, producer_id: int = 4, topic: str = "orders") -> Errors:
    """The error of a broker that leads `orders-0`, with an open transaction of producer 4, and follows `orders-1`."""

    async def scenario() -> int:
        opened = open_log()
        open_transaction = batch(
            b"a", offset=0, producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        opened.append_as_follower(open_transaction, now_ms=NOW_MS)
        harness = BrokerHarness(log=opened)
        states = (state(0, leader_epoch=5), state(1, leader=OTHER, leader_epoch=5))
        apply_leader_and_isr(harness.replicas, leader_and_isr(*states))
        harness.update_metadata({"orders": {0: ME, 1: OTHER, 2: OTHER}})
        of_topic = WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,))
        marker = WritableTxnMarker(producer_id=producer_id, topics=(of_topic,))
        request = WriteTxnMarkersRequest(markers=(marker,))
        answer = await write_txn_markers.handle(harness.services, request, harness.context(1))
        [result] = answer.markers
        [of_result] = result.topics
        assert (result.producer_id, of_result.name) == (producer_id, topic)
        [error] = [each.error_code for each in of_result.partitions if each.partition_index == partition]
        return error

    return Errors(asyncio.run(scenario()))


def test_a_partition_without_a_transaction_of_the_producer_gets_no_marker() -> None:
    assert write_marker(0, producer_id=9) is Errors.UNSUPPORTED_VERSION


@pytest.mark.parametrize("partition", [1, 2])
def test_a_marker_belongs_to_the_leader(partition: int) -> None:
    assert write_marker(partition) is Errors.NOT_LEADER_OR_FOLLOWER


def test_a_marker_for_an_unknown_partition_is_refused() -> None:
    assert write_marker(7) is write_marker(0, topic="nope") is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_marker_that_would_end_an_open_transaction_closes_the_connection_so_that_it_is_sent_again() -> None:
    with pytest.raises(CloseConnection, match="a transaction of producer 4 is open in orders-0"):
        write_marker(0)
