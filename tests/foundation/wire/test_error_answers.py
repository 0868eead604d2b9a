"""Answers that carry an error: every code, in the answer to every request of a client, in every version.

kio decodes them; tests/interop/test_error_answers.py compares them with the answers that Kafka's request classes make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.foundation.wire.kio_oracle import from_kio, kio_class, kio_decode
from tests.foundation.wire.sample_requests import EVERY_VERSION, IDS, sample_request, sample_topic_id
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.error_answers import (
    ALL,
    CODES,
    ErrorAnswer,
    Named,
    Only,
    error_answer,
    has_throttle_time,
    joined,
    levels_of,
    with_error,
    with_throttle_time,
)
from understudy.foundation.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest
from understudy.foundation.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest
from understudy.foundation.wire.messages.list_offsets import ListOffsetsRequest
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.messages.offset_fetch import OffsetFetchRequest
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from understudy.foundation.wire.registry import Api, api_of
from understudy.foundation.wire.schema import Message, int16

PRODUCE = api_of(ProduceRequest)
METADATA = api_of(MetadataRequest)
BY_PARTITION = [
    pytest.param(api, version, id=name)
    for (api, version), name in zip(EVERY_VERSION, IDS, strict=True)
    if levels_of(api.response, version).partitions and api.name not in ("Metadata", "Fetch")
]
"""APIs whose requests name partitions. A Fetch may name them in its session, and has a handler that knows it."""
SOME_ERRORS = (Errors.NOT_CONTROLLER, Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_MEMBER_ID, Errors.NONE)


def made(api: Api, version: int, request: Message, error: Errors, only: Only = ALL) -> ErrorAnswer:
    answer = error_answer(api, version, request, error, "armed", only)
    assert answer is not None, f"the answer of {api.name} v{version} has no place for {error.name}"
    return answer


def codes_in(value: Any) -> Iterator[ErrorCode]:
    """The error codes of an entity of kio's, but no codes of a topic's config."""
    if isinstance(value, tuple):
        for each in value:
            yield from codes_in(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            found = getattr(value, field.name)
            if isinstance(found, ErrorCode) and field.name in CODES:
                yield found
            yield from codes_in(found)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=IDS)
def test_kio_reads_the_answer_with_any_error_in_every_version(api: Api, version: int) -> None:
    request = sample_request(api, version)
    for error in Errors if version == api.max_version else SOME_ERRORS:
        answer = with_throttle_time(made(api, version, request, error).answer, version, 7)
        raw = encode(answer, version)
        read = kio_decode(kio_class(api, api.response, version), raw)
        assert from_kio(read, api.response, version) == decode(api.response, version, raw) == answer
        assert ErrorCode(error.value) in set(codes_in(read))
        assert getattr(answer, "throttle_time_ms", 0) == (7 if has_throttle_time(api.response, version) else 0)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=IDS)
def test_an_answer_to_a_whole_request_leaves_nothing_to_handle(api: Api, version: int) -> None:
    answer = made(api, version, sample_request(api, version), Errors.UNKNOWN_TOPIC_OR_PARTITION)
    assert answer.rest is None


@pytest.mark.parametrize(("api", "version"), BY_PARTITION)
def test_every_partition_of_the_request_has_the_error(api: Api, version: int) -> None:
    answer = made(api, version, sample_request(api, version), Errors.NOT_LEADER_OR_FOLLOWER)
    numbers = [each.partition for each in answer.named]
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) in (4, 8), "two of two topics, perhaps for two groups"


@pytest.mark.parametrize(("api", "version"), BY_PARTITION)
def test_an_error_for_one_partition_leaves_the_others_to_the_handler(api: Api, version: int) -> None:
    request = sample_request(api, version)
    whole = made(api, version, request, Errors.NOT_LEADER_OR_FOLLOWER)
    first = whole.named[0]
    only = Only(first.topic or "of-the-id", sample_topic_id(0), first.partition)
    answer = made(api, version, request, Errors.NOT_LEADER_OR_FOLLOWER, only)
    assert answer.named == (first,)
    assert answer.rest is not None
    rest = made(api, version, answer.rest, Errors.NOT_LEADER_OR_FOLLOWER)
    assert rest.named == whole.named[1:]
    again = joined(api, version, rest.answer, answer.answer)
    assert sorted(map(repr, flat(again))) == sorted(map(repr, flat(whole.answer)))
    encode(answer.rest, version)


def flat(answer: Message) -> Iterator[Message]:
    """The structs without arrays inside an answer."""
    arrays = [
        value for value in (getattr(answer, name) for name in answer.__struct_fields__) if isinstance(value, tuple)
    ]
    inner = [each for array in arrays for each in array if isinstance(each, Message)]
    if not inner:
        yield answer
    for each in inner:
        yield from flat(each)


@pytest.mark.parametrize(
    ("request_type", "version", "error", "level"),
    [
        (HeartbeatRequest, 4, Errors.REBALANCE_IN_PROGRESS, 0),
        (FindCoordinatorRequest, 3, Errors.COORDINATOR_NOT_AVAILABLE, 0),
        (FindCoordinatorRequest, 4, Errors.COORDINATOR_NOT_AVAILABLE, 1),
        (OffsetFetchRequest, 1, Errors.COORDINATOR_LOAD_IN_PROGRESS, 2),
        (OffsetFetchRequest, 7, Errors.COORDINATOR_LOAD_IN_PROGRESS, 0),
        (OffsetFetchRequest, 7, Errors.UNSTABLE_OFFSET_COMMIT, 2),
        (OffsetFetchRequest, 8, Errors.COORDINATOR_LOAD_IN_PROGRESS, 1),
        (OffsetFetchRequest, 8, Errors.UNSTABLE_OFFSET_COMMIT, 3),
        (LeaveGroupRequest, 2, Errors.UNKNOWN_MEMBER_ID, 0),
        (LeaveGroupRequest, 3, Errors.UNKNOWN_MEMBER_ID, 1),
        (LeaveGroupRequest, 3, Errors.NOT_COORDINATOR, 0),
        (MetadataRequest, 12, Errors.LEADER_NOT_AVAILABLE, 1),
        (ElectLeadersRequest, 2, Errors.NOT_CONTROLLER, 2),
        (ElectLeadersRequest, 2, Errors.CLUSTER_AUTHORIZATION_FAILED, 0),
    ],
)
def test_the_error_is_at_the_level_that_clients_read(
    request_type: type[Message], version: int, error: Errors, level: int
) -> None:
    api = api_of(request_type)
    assert levels_of(api.response, version).level_of(api, error, ALL) == level


def test_an_error_for_a_topic_is_found_by_its_name_or_its_id() -> None:
    api = api_of(DeleteTopicsRequest)
    request = decode(DeleteTopicsRequest, 6, encode(sample_request(api, 6), 6))
    by_name = made(api, 6, request, Errors.TOPIC_AUTHORIZATION_FAILED, Only("name-1"))
    assert [getattr(each, "name", "") for each in getattr(by_name.answer, "responses")] == ["name-1"]  # noqa: B009
    only_ids = DeleteTopicsRequest(topics=tuple(type(each)(topic_id=each.topic_id) for each in request.topics))
    by_id = made(api, 6, only_ids, Errors.UNKNOWN_TOPIC_ID, Only("orders", sample_topic_id(1)))
    expected = DeletableTopicResult(topic_id=sample_topic_id(1), error_code=100, error_message="armed", name=None)
    assert getattr(by_id.answer, "responses") == (expected,)  # noqa: B009


def test_a_request_that_does_not_name_the_topic_has_no_such_answer() -> None:
    for api, version in EVERY_VERSION:
        request = sample_request(api, version)
        assert error_answer(api, version, request, Errors.NOT_CONTROLLER, "", Only("letters", "", 0)) is None
    assert error_answer(PRODUCE, 9, ProduceRequest(), Errors.NOT_LEADER_OR_FOLLOWER, "") is None


def test_an_election_for_all_partitions_has_the_error_for_the_whole() -> None:
    answer = made(api_of(ElectLeadersRequest), 2, ElectLeadersRequest(topic_partitions=None), Errors.NOT_CONTROLLER)
    assert answer.answer == ElectLeadersResponse(error_code=Errors.NOT_CONTROLLER)


def test_the_codes_of_an_answer_are_replaced_beside_its_other_values() -> None:
    """Kafka answers REQUEST_TIMED_OUT with the offset that the records have."""
    answer = ProduceResponse(
        responses=(
            TopicProduceResponse(
                name="orders",
                partition_responses=tuple(PartitionProduceResponse(index=number, base_offset=5) for number in (0, 1)),
            ),
        )
    )
    replaced = with_error(PRODUCE, 9, answer, Errors.REQUEST_TIMED_OUT, "armed", Only("orders", "", 1))
    assert replaced.responses[0].partition_responses == (
        PartitionProduceResponse(index=0, base_offset=5),
        PartitionProduceResponse(index=1, base_offset=5, error_code=Errors.REQUEST_TIMED_OUT, error_message="armed"),
    )
    assert with_error(PRODUCE, 9, answer, Errors.REQUEST_TIMED_OUT, "", Only("letters")) == answer
    assert with_error(
        api_of(HeartbeatRequest), 4, HeartbeatResponse(), Errors.REBALANCE_IN_PROGRESS, ""
    ) == HeartbeatResponse(error_code=Errors.REBALANCE_IN_PROGRESS)


def test_a_topic_of_a_metadata_answer_with_an_error_has_no_partitions() -> None:
    brokers = (MetadataResponseBroker(node_id=1, host="localhost", port=9092),)
    partitions = tuple(MetadataResponsePartition(partition_index=number, leader_id=1) for number in (0, 1))
    topic = MetadataResponseTopic(name="orders", partitions=partitions)
    answer = MetadataResponse(brokers=brokers, topics=(topic, MetadataResponseTopic(name="letters")))
    whole = with_error(METADATA, 12, answer, Errors.LEADER_NOT_AVAILABLE, "", Only("orders"))
    assert whole.brokers == brokers
    assert whole.topics == (MetadataResponseTopic(name="orders", error_code=5), MetadataResponseTopic(name="letters"))
    one = with_error(METADATA, 12, answer, Errors.LEADER_NOT_AVAILABLE, "", Only("orders", "", 1))
    assert [each.error_code for each in one.topics[0].partitions] == [0, 5]


def test_partitions_of_one_topic_are_joined() -> None:
    data = (TopicProduceData(name="a", partition_data=tuple(PartitionProduceData(index=i) for i in (0, 1))),)
    refused = made(PRODUCE, 11, ProduceRequest(topic_data=data), Errors.NOT_LEADER_OR_FOLLOWER, Only("a", "", 0))
    assert refused.named == (Named("a", 0),)
    accepted = PartitionProduceResponse(index=1, base_offset=3)
    rest = ProduceResponse(responses=(TopicProduceResponse(name="a", partition_responses=(accepted,)),))
    (topic,) = joined(PRODUCE, 11, rest, refused.answer).responses
    assert [(each.index, each.error_code) for each in topic.partition_responses] == [(1, 0), (0, 6)]


def test_values_beside_the_error_are_those_of_kafka() -> None:
    version_1 = made(
        api_of(ListOffsetsRequest), 1, sample_request(api_of(ListOffsetsRequest), 1), Errors.NOT_CONTROLLER
    )
    assert [each.offset for each in flat(version_1.answer)] == [-1] * 4  # type: ignore[attr-defined]  # partitions
    produce = made(PRODUCE, 11, sample_request(PRODUCE, 11), Errors.NOT_CONTROLLER)
    assert [each.base_offset for each in flat(produce.answer)] == [-1] * 4  # type: ignore[attr-defined]  # partitions


class Entity(Message, frozen=True, kw_only=True):
    entity_type: str = ""
    entity_name: str | None = None


class Quotas(Message, frozen=True, kw_only=True):
    entity: tuple[Entity, ...] = ()
    quota: str = ""


class QuotasResult(Message, frozen=True, kw_only=True):
    error_code: int16 = 0
    entity: tuple[Entity, ...] = ()


class OneRequest(Message, frozen=True, kw_only=True):
    entries: tuple[Quotas, ...] = ()
    more_entries: tuple[Quotas, ...] = ()


class OneResponse(Message, frozen=True, kw_only=True):
    results: tuple[QuotasResult, ...] = ()


def test_an_answer_about_entities_has_each_of_them_once() -> None:
    """As AlterClientQuotas has them, and AlterUserScramCredentials names users in two arrays."""
    api = Api(999, "One", OneRequest, OneResponse, max_version=0, flexible_from=0)
    one, other = ((Entity(entity_type="user", entity_name=name),) for name in ("a", "b"))
    request = OneRequest(entries=(Quotas(entity=one), Quotas(entity=other)), more_entries=(Quotas(entity=one),))
    answer = made(api, 0, request, Errors.INVALID_REQUEST).answer
    assert answer == OneResponse(results=tuple(QuotasResult(error_code=42, entity=each) for each in (one, other)))
