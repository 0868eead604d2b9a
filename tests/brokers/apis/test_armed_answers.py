"""Tests of armed answers: which requests get them, and how these are handled, answered and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from tests.brokers.apis.test_produce import request as produce_request
from tests.brokers.harness import BrokerHarness
from tests.brokers.log.parts import batch
from tests.brokers.parts import ME, ORDERS, ORDERS_0, apply_leader_and_isr, leader_and_isr, state
from tests.foundation.wire.kio_oracle import from_kio, kio_class, kio_decode
from tests.foundation.wire.sample_requests import EVERY_VERSION, IDS, sample_request
from understudy.brokers.network.kafka_apis import SERVED_VERSIONS, KafkaApis
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import AnswerInjected, Envelope
from understudy.foundation.wire.armed_answers import CLIENT_APIS, AnswerList, ArmedAnswer
from understudy.foundation.wire.headers import decode_response, encode_request, response_header_version
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from understudy.foundation.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from understudy.foundation.wire.messages.fetch import (
    FetchPartition,
    FetchReplicaState,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from understudy.foundation.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from understudy.foundation.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from understudy.foundation.wire.registry import Api, api_of
from understudy.foundation.wire.schema import Message
from understudy.history.reading.lines import decode_record

R = TypeVar("R", bound=Message)

_RANGES = {each.api_key: range(each.min_version, each.max_version + 1) for each in SERVED_VERSIONS}
SERVED = [
    pytest.param(api, version, id=name)
    for (api, version), name in zip(EVERY_VERSION, IDS, strict=True)
    if version in _RANGES.get(api.key, ())
]
"""Every version of the requests of clients that a broker serves."""


class Armed(BrokerHarness):
    """A broker that leads orders-0 and orders-1, and has armed answers."""

    def __init__(self, *answers: ArmedAnswer) -> None:
        super().__init__()
        states = (state(number, leader_epoch=5, isr=(ME,)) for number in (0, 1))
        apply_leader_and_isr(self.replicas, leader_and_isr(*states))
        self.update_metadata({"orders": {0: 1, 1: 1}})
        assert isinstance(self.services.answers, AnswerList)
        self.answers = self.services.answers
        self.answers.armed += answers
        self._apis = KafkaApis(self.services, self.supervisor)

    async def frame(self, message: Message, version: int, client_id: str = "test") -> bytes | None:
        sent = encode_request(message, version, 7, client_id)[4:]
        return await self._apis.handle(sent, listener="PLAINTEXT", peer="127.0.0.1:50000")

    async def ask(self, message: Message, answer: type[R], version: int = -1, client_id: str = "test") -> R:
        """Return the answer to a request; without a version, in the newest one."""
        api = api_of(message)
        used = api.max_version if version < 0 else version
        frame = await self.frame(message, used, client_id)
        assert frame is not None
        correlation_id, found = decode_response(api, used, frame[4:])
        assert correlation_id == 7
        assert isinstance(found, answer)
        return found

    @property
    def hits(self) -> list[AnswerInjected]:
        return [record.data for record in self.records if isinstance(record.data, AnswerInjected)]

    @property
    def records(self) -> list[Envelope]:
        return [decode_record(line) for line in self.recorder.lines]

    @property
    def end(self) -> int:
        """The log end offset of orders-0."""
        return self.replicas.partitions[ORDERS_0].log.log_end_offset


def answer(
    api: str,
    error: str,
    *,
    times: int = 1,
    topic: str = "",
    partition: int | None = None,
    client_id: str = "",
    is_applied: bool = False,
    throttle_ms: int = 0,
    name: str = "answer-1",
) -> ArmedAnswer:
    return ArmedAnswer(
        name=name,
        api=api,
        error=error,
        times=times,
        topic=topic,
        partition=partition,
        client_id=client_id,
        is_applied=is_applied,
        throttle_ms=throttle_ms,
    )


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def within_seconds() -> None:
        async with asyncio.timeout(5):
            await scenario()

    asyncio.run(within_seconds())


def codes(response: ProduceResponse) -> list[tuple[int, int]]:
    return [(each.index, each.error_code) for topic in response.responses for each in topic.partition_responses]


def test_every_api_of_clients_is_served() -> None:
    assert {api.key for api in CLIENT_APIS} <= {each.api_key for each in SERVED_VERSIONS}


@pytest.mark.parametrize(("api", "version"), SERVED)
def test_a_broker_gives_an_armed_answer_to_every_request_in_every_version(api: Api, version: int) -> None:
    """kio decodes the whole frame's body, so a client in another language would as well."""

    async def scenario() -> None:
        broker = Armed(answer(api.name, "COORDINATOR_LOAD_IN_PROGRESS", throttle_ms=9))
        frame = await broker.frame(sample_request(api, version), version)
        assert frame is not None
        _, ours = decode_response(api, version, frame[4:])
        body = frame[8 + response_header_version(api, version) :]
        assert from_kio(kio_decode(kio_class(api, api.response, version), body), api.response, version) == ours
        assert "error_code=14" in repr(ours)  # or partition_error_code
        (hit,) = broker.hits
        assert (hit.api, hit.api_version, hit.error, hit.throttle_ms) == (
            api.name,
            version,
            "COORDINATOR_LOAD_IN_PROGRESS",
            9,
        )

    run(scenario)


# ------------------------------------------------------------------ counting and matching


def test_so_many_requests_are_answered_and_the_next_is_handled() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Produce", "NOT_LEADER_OR_FOLLOWER", times=2))
        found = [codes(await broker.ask(produce_request(batch(b"a")), ProduceResponse)) for _ in range(3)]
        assert found == [[(0, 6)], [(0, 6)], [(0, 0)]]
        assert broker.end == 1
        assert [(each.hit, each.times, each.partitions) for each in broker.hits] == [
            (1, 2, (("orders", 0),)),
            (2, 2, (("orders", 0),)),
        ]
        assert broker.answers.given == {"answer-1": 2}

    run(scenario)


def test_armed_answers_are_given_in_the_order_in_which_they_were_armed() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Heartbeat", "REBALANCE_IN_PROGRESS"), answer("Heartbeat", "NOT_COORDINATOR", name="b"))
        asked = HeartbeatRequest(group_id="g", member_id="m")
        found = [(await broker.ask(asked, HeartbeatResponse)).error_code for _ in range(2)]
        assert found == [Errors.REBALANCE_IN_PROGRESS, Errors.NOT_COORDINATOR]

    run(scenario)


def test_requests_of_other_kinds_clients_and_topics_are_handled() -> None:
    async def scenario() -> None:
        broker = Armed(
            answer("Fetch", "OFFSET_OUT_OF_RANGE", name="a"),
            answer("Produce", "NOT_ENOUGH_REPLICAS", client_id="another", name="b"),
            answer("Produce", "NOT_ENOUGH_REPLICAS", topic="letters", name="c"),
            answer("Produce", "NOT_ENOUGH_REPLICAS", topic="orders", partition=1, name="d"),
        )
        asked = produce_request(batch(b"a"))
        assert codes(await broker.ask(asked, ProduceResponse)) == [(0, 0)]
        assert broker.hits == []
        assert codes(await broker.ask(asked, ProduceResponse, client_id="another")) == [(0, 19)]
        assert [each.client_id for each in broker.hits] == ["another"]

    run(scenario)


def test_a_produce_without_an_answer_is_handled() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Produce", "NOT_LEADER_OR_FOLLOWER"))
        assert await broker.frame(produce_request(batch(b"a"), acks=0), 11) is None
        assert (broker.end, broker.hits) == (1, [])

    run(scenario)


# ------------------------------------------------------------------ applied or not


def test_only_the_partition_of_an_armed_answer_is_refused() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=1))
        data = tuple(PartitionProduceData(index=number, records=batch(b"a")) for number in (1, 0))
        topics = (TopicProduceData(name="orders", partition_data=data),)
        response = await broker.ask(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=topics), ProduceResponse)
        assert sorted(codes(response)) == [(0, 0), (1, 6)]
        assert len(response.responses) == 1
        assert (broker.end, broker.replicas.partitions[TopicPartition("orders", 1)].log.log_end_offset) == (1, 0)
        assert broker.hits[0].partitions == (("orders", 1),)

    run(scenario)


def test_an_applied_request_is_handled_and_its_codes_are_replaced() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", is_applied=True))
        response = await broker.ask(produce_request(batch(b"a")), ProduceResponse)
        (result,) = response.responses[0].partition_responses
        assert (result.error_code, result.base_offset, broker.end) == (20, 0, 1)
        assert broker.hits[0].is_applied

    run(scenario)


def test_a_throttled_answer_is_that_of_the_handler_with_a_throttle_time() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Produce", "NONE", is_applied=True, throttle_ms=250))
        response = await broker.ask(produce_request(batch(b"a")), ProduceResponse)
        assert (codes(response), response.throttle_time_ms, broker.end) == ([(0, 0)], 250, 1)
        assert (await broker.ask(produce_request(batch(b"a")), ProduceResponse)).throttle_time_ms == 0

    run(scenario)


def test_an_answer_without_a_throttle_time_in_its_version_is_not_throttled() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Heartbeat", "NONE", is_applied=True, throttle_ms=250))
        await broker.ask(HeartbeatRequest(group_id="g", member_id="m"), HeartbeatResponse, version=0)
        assert broker.hits == []

    run(scenario)


def test_a_recorded_request_has_the_armed_error_in_its_records() -> None:
    """The hit is caused by the request, and no topic is created: there is no ZooKeeper here."""

    async def scenario() -> None:
        broker = Armed(answer("CreateTopics", "NOT_CONTROLLER"))
        topic = CreatableTopic(name="letters", num_partitions=1, replication_factor=1)
        response = await broker.ask(CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
        (result,) = response.topics
        assert (result.name, result.error_code) == ("letters", Errors.NOT_CONTROLLER)
        assert "armed" in (result.error_message or "")
        types = [record.type for record in broker.records]
        assert types[-3:] == ["RequestReceived", "AnswerInjected", "ResponseSent"]
        assert broker.records[-2].cause == broker.records[-3].seq

    run(scenario)


# ------------------------------------------------------------------ answers with more than the request names


def test_metadata_with_an_error_still_names_the_brokers_and_other_topics() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Metadata", "LEADER_NOT_AVAILABLE", topic="orders", times=2))
        broker.update_metadata({"orders": {0: 1, 1: 1}, "letters": {0: 1}})
        everything = await broker.ask(MetadataRequest(topics=None), MetadataResponse)
        assert [each.node_id for each in everything.brokers] == [1, 2, 3]
        assert {each.name: (each.error_code, len(each.partitions)) for each in everything.topics} == {
            "letters": (0, 1),
            "orders": (5, 0),
        }
        other = await broker.ask(MetadataRequest(topics=(MetadataRequestTopic(name="letters"),)), MetadataResponse)
        assert [each.error_code for each in other.topics] == [0]
        named = await broker.ask(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), MetadataResponse)
        assert [each.error_code for each in named.topics] == [5]
        assert len(broker.hits) == 2

    run(scenario)


def test_metadata_may_have_the_error_of_one_partition() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Metadata", "LEADER_NOT_AVAILABLE", topic="orders", partition=1))
        found = await broker.ask(MetadataRequest(topics=(MetadataRequestTopic(name="orders"),)), MetadataResponse)
        assert [each.error_code for each in found.topics[0].partitions] == [0, 5]

    run(scenario)


def test_a_refused_metadata_request_creates_no_topic() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"))
        asked = MetadataRequest(topics=(MetadataRequestTopic(name="new"),), allow_auto_topic_creation=True)
        found = await broker.ask(asked, MetadataResponse)
        assert [(each.name, each.error_code) for each in found.topics] == [("new", 3)]
        assert broker.services.topics_being_created == set()

    run(scenario)


@pytest.mark.parametrize(("version", "codes_found"), [(2, (0, [56])), (4, (56, []))])
def test_a_log_directory_has_the_error_if_the_version_has_none_for_the_whole(
    version: int, codes_found: tuple[int, list[int]]
) -> None:
    async def scenario() -> None:
        broker = Armed(answer("DescribeLogDirs", "KAFKA_STORAGE_ERROR"))
        found = await broker.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, version)
        assert (found.error_code, [each.error_code for each in found.results]) == codes_found

    run(scenario)


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0() -> None:
    async def scenario() -> None:
        broker = Armed(answer("ApiVersions", "UNSUPPORTED_VERSION"))
        asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        found = await broker.ask(asked, ApiVersionsResponse)
        assert (found.error_code, [each.api_key for each in found.api_keys]) == (35, [18])
        assert (await broker.ask(asked, ApiVersionsResponse)).error_code == 0

    run(scenario)


# ------------------------------------------------------------------ Fetch


def fetch(
    session: tuple[int, int] = (0, -1), partitions: tuple[int, ...] = (0, 1), *, replica: int = -1, max_wait_ms: int = 0
) -> FetchRequest:
    wanted = tuple(FetchPartition(partition=number, partition_max_bytes=1_000) for number in partitions)
    return FetchRequest(
        replica_state=FetchReplicaState(replica_id=replica),
        session_id=session[0],
        session_epoch=session[1],
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        topics=(FetchTopic(topic_id=ORDERS, partitions=wanted),) if wanted else (),
    )


def errors_of(response: FetchResponse) -> dict[int, int]:
    return {each.partition_index: each.error_code for topic in response.responses for each in topic.partitions}


def test_a_fetch_in_a_session_has_the_error_although_it_names_no_partition() -> None:
    async def scenario() -> None:
        broker = Armed()
        opened = await broker.ask(fetch((0, 0)), FetchResponse)
        assert errors_of(opened) == {0: 0, 1: 0}
        broker.answers.armed.append(answer("Fetch", "OFFSET_OUT_OF_RANGE", topic="orders", partition=1))
        refused = await broker.ask(fetch((opened.session_id, 1), (), max_wait_ms=60_000), FetchResponse)
        assert errors_of(refused) == {1: 1}
        assert (refused.error_code, refused.session_id) == (0, opened.session_id)
        assert broker.hits[0].partitions == (("orders", 1),)
        after = await broker.ask(fetch((opened.session_id, 2), (0,)), FetchResponse)
        assert after.error_code == 0

    run(scenario)


def test_an_error_of_the_session_is_that_of_the_whole_fetch() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Fetch", "FETCH_SESSION_ID_NOT_FOUND", throttle_ms=3))
        refused = await broker.ask(fetch((5, 1)), FetchResponse)
        assert (refused.error_code, refused.responses, refused.throttle_time_ms) == (70, (), 3)

    run(scenario)


def test_a_follower_is_answered_so_only_by_its_client_id() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Fetch", "NOT_LEADER_OR_FOLLOWER"), answer("ListOffsets", "NOT_LEADER_OR_FOLLOWER"))
        asked = fetch((0, -1), replica=2)
        await broker.ask(produce_request(batch(b"a")), ProduceResponse)
        assert errors_of(await broker.ask(asked, FetchResponse, client_id="broker-2-fetcher-0")) == {0: 0, 1: 0}
        offsets = (ListOffsetsTopic(name="orders", partitions=(ListOffsetsPartition(timestamp=-1),)),)
        listed = await broker.ask(ListOffsetsRequest(replica_id=2, topics=offsets), ListOffsetsResponse)
        assert listed.topics[0].partitions[0].error_code == 0
        broker.answers.armed.append(answer("Fetch", "FENCED_LEADER_EPOCH", client_id="broker-2-fetcher-0", name="b"))
        assert errors_of(await broker.ask(asked, FetchResponse, client_id="broker-2-fetcher-0")) == {0: 74, 1: 74}

    run(scenario)


def test_a_throttled_fetch_has_its_records() -> None:
    async def scenario() -> None:
        broker = Armed(answer("Fetch", "NONE", is_applied=True, throttle_ms=40))
        await broker.ask(produce_request(batch(b"a")), ProduceResponse)
        found = await broker.ask(fetch(), FetchResponse)
        assert found.throttle_time_ms == 40
        assert errors_of(found) == {0: 0, 1: 0}
        assert found.responses[0].partitions[0].records

    run(scenario)
