"""The parts of the tools that ask no broker, and the client's choice of versions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from tests.brokers.peers import ScriptedPeer
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import partitions, strings
from understudy.foundation.wire.errors import UnencodableValue
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from understudy.foundation.wire.schema import Message
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.configs import configs_to_add
from understudy.kafka_tools.errors import ToolError, error_of, executed
from understudy.kafka_tools.get_offsets import by_rules
from understudy.kafka_tools.group_reset import as_csv, parse_datetime, parse_duration, parse_plan
from understudy.kafka_tools.options import Flag, Options, parse
from understudy.kafka_tools.reassignment_plan import moves, throttled_replicas

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_flags_take_their_value_as_the_next_word_or_after_an_equals_sign() -> None:
    flags = [Flag("topic", "", "TOPIC"), Flag("list", ""), Flag("state", "", "STATES", is_optional=True)]
    options = parse(flags, ["--topic", "--list", "--topic=b=c", "ignored", "--state", "--list"])
    assert options.values("topic") == ["--list", "b=c"]
    assert options.names == ("topic", "topic", "state", "list")
    assert options.value("state") == ""
    assert parse(flags, ["--state", "Empty"]).value("state") == "Empty"


def test_hash_maps_iterate_by_bucket_and_grow_with_their_size() -> None:
    # As Kafka's tools list these topics, and as the letters' codes 97, 98 and 113 fall into 2, 4 and 16 buckets.
    assert strings(["alone", "elected"], 2) == ["elected", "alone"]
    assert strings(["b", "a"], 1) == ["a", "b"]
    assert strings(["q", "a"]) == ["q", "a"]
    assert strings(["b", "q", "a"]) == ["q", "a", "b"]
    assert strings(["q", "a", "b", *"cdefghijklm"]) == [*"abcdefghijklm", "q"]
    # 31 * (31 + partition) + 97: 1058 is in bucket 2, 1089 in bucket 1.
    assert partitions([A0, A1]) == [A1, A0]


def test_an_error_prints_as_javas_stack_trace_without_the_stack() -> None:
    error = executed(error_of(3, ""))
    unknown = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: "
    assert error.trace == f"java.util.concurrent.ExecutionException: {unknown}\nCaused by: {unknown}\n"
    assert error_of(3).message == "This server does not host this topic-partition."
    assert error_of(999).kind == "org.apache.kafka.common.errors.UnknownServerException"


def test_values_in_brackets_may_have_commas_and_equals_signs() -> None:
    added = configs_to_add(Options([("add-config", "a=1, b=[c,d=e],f=")]))
    assert added == {"a": "1", "b": "c,d=e", "f": ""}
    with pytest.raises(ToolError, match='must be in the format "key=val"'):
        configs_to_add(Options([("add-config", "a")]))


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [("a:0", [A0]), ("a:1-", [A1]), ("a:-1", [A0]), (":0", [A0]), ("b,a", [A0, A1]), ("b:0", [])],
)
def test_rules_choose_topics_and_ranges_of_partitions(rules: str, chosen: list[TopicPartition]) -> None:
    assert [each for each in (A0, A1) if by_rules(rules)(each)] == chosen


@pytest.mark.parametrize(
    "text", ["2024-01-31T12:00:00.250", "2024-01-31T12:00:00.250Z", "2024-01-31T14:00:00.250+02:00"]
)
def test_a_time_is_in_utc_unless_it_has_an_offset(text: str) -> None:
    assert parse_datetime(text) == datetime(2024, 1, 31, 12, 0, 0, 250_000, UTC).timestamp() * 1000


@pytest.mark.parametrize("text", ["2024-01-31", "noon", "2024-13-31T12:00:00.000"])
def test_another_form_of_a_time_is_refused(text: str) -> None:
    with pytest.raises(ToolError, match=r"Unparseable date|does not contain a 'T'"):
        parse_datetime(text)


def test_durations_are_those_of_iso_8601() -> None:
    assert parse_duration("P1DT2H3M4.5S") == (((24 + 2) * 60 + 3) * 60 + 4.5) * 1000
    assert parse_duration("-PT1H") == parse_duration("PT-1H") == -3_600_000
    for wrong in ("P", "PT", "1H", "P1Y"):
        with pytest.raises(ToolError, match="cannot be parsed"):
            parse_duration(wrong)


def test_an_exported_plan_can_be_read_again() -> None:
    long = TopicPartition("a-topic-with-a-rather-long-name", 3)
    plan = {"readers": {A0: 7, long: 1}}
    assert as_csv(plan, with_group=False) == 'a,0,7\n"a-topic-with-a-rather-long-name",3,1\n'
    assert parse_plan(as_csv(plan, with_group=False), ["readers"]) == plan
    assert parse_plan(as_csv(plan, with_group=True), ["readers", "writers"]) == plan
    with pytest.raises(ToolError, match="'a,0' is no line of a reset plan"):
        parse_plan("a,0\n", ["readers"])


def test_a_throttle_covers_the_sources_of_leaders_and_the_new_replicas() -> None:
    ongoing = {A1: OngoingPartitionReassignment(replicas=(3, 1), adding_replicas=(3,), removing_replicas=(1,))}
    moving = moves(ongoing, {A0: [2, 3], A1: [2]}, {A0: [1, 2], A1: [3, 1]})
    assert throttled_replicas(moving) == {"a": ("0:1,0:2,1:1", "0:3,1:2")}


def old_broker(header: RequestHeader, request: Message) -> Message:
    """Answer as a broker that knows Metadata to version 9 only, and no reassignments."""
    match request:
        case ApiVersionsRequest():
            return ApiVersionsResponse(api_keys=(ApiVersion(api_key=3, min_version=0, max_version=9),))
        case MetadataRequest():
            assert header.api_version == 9
            return MetadataResponse(brokers=(MetadataResponseBroker(node_id=1, host="h1", port=9092),), controller_id=1)
    raise AssertionError(f"not expected: {request}")


def test_the_newest_version_that_both_know_is_sent_and_an_unknown_request_is_refused() -> None:
    async def ask() -> None:
        cluster = KafkaCluster(
            ScriptedPeer(old_broker), ["h1:9092"], client_id="test", request_timeout_ms=5_000, api_timeout_ms=5_000
        )
        async with cluster:
            assert (await cluster.metadata()).controller_id == 1
            request = ListPartitionReassignmentsRequest(topics=None)
            await cluster.ask_controller(request, ListPartitionReassignmentsResponse)

    with pytest.raises(ToolError) as raised:
        asyncio.run(ask())
    assert raised.value.is_a("UnsupportedVersionException")


@pytest.mark.parametrize("answers_after_s", [0.0, 60.0])
def test_a_broker_that_does_not_answer_api_versions_leaves_no_connection_open(
    answers_after_s: float,
) -> None:
    peer = ScriptedPeer(lambda *_: None, delay_s=answers_after_s)
    cluster = KafkaCluster(peer, ["h1:9092"], client_id="test", request_timeout_ms=50, api_timeout_ms=400)
    with pytest.raises(ToolError, match="Timed out waiting for a node assignment"):
        new_loop().run_until_complete(cluster.metadata())
    assert peer.connections > 1
    assert peer.open_connections == 0


def test_a_client_id_that_cannot_be_sent_leaves_no_connection_open() -> None:
    peer = ScriptedPeer(old_broker)
    too_long = "x" * 40_000
    cluster = KafkaCluster(peer, ["h1:9092"], client_id=too_long, request_timeout_ms=5_000, api_timeout_ms=5_000)
    with pytest.raises(UnencodableValue):
        asyncio.run(cluster.metadata())
    assert (peer.connections, peer.open_connections) == (1, 0)
