"""Tests of `AlterPartitionManager`: how ISR changes are sent to the controller, as encoded requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.brokers.parts import ORDERS
from tests.brokers.peers import ScriptedPeer
from tests.operators_log import operators_log
from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.brokers.replication.alter_partition_manager import (
    AlterPartitionManager,
    IsrChange,
    alter_partition_request,
    highest_usable_version,
)
from understudy.brokers.replication.partition import IsrProposal
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.wire.schema import Message


def change(partition: int, topic_id: TopicId = ORDERS, topic: str = "orders") -> IsrChange:
    proposal = IsrProposal(isr=(1, 2, 3), joining=(3,), leaving=(), leader_epoch=4, partition_epoch=9)
    return IsrChange(TopicPartition(topic, partition), topic_id, proposal)


@pytest.mark.spec("IS-4")
@pytest.mark.parametrize(
    ("ids", "protocol", "version"),
    [
        ((ORDERS, ORDERS), "3.9", 3),
        ((ORDERS, NO_TOPIC_ID), "3.9", 1),
        ((ORDERS, ORDERS), "2.8-IV0", 3),
        ((ORDERS, ORDERS), "2.7", 1),
    ],
)
def test_changes_are_sent_by_topic_id_if_all_topics_have_one(
    ids: tuple[TopicId, ...], protocol: str, version: int
) -> None:
    changes = tuple(change(index, topic_id, f"t{topic_id[-1]}") for index, topic_id in enumerate(ids))
    assert highest_usable_version(changes, MetadataVersion.parse(protocol).alter_partition_version) == version


@pytest.mark.parametrize("version", range(4))
def test_request_lists_the_isr_with_broker_epochs_from_version_3_on(version: int) -> None:
    request = alter_partition_request((change(0),), version, broker_id=1, broker_epoch=7)
    sent = decode(AlterPartitionRequest, version, encode(request, version))
    (partition,) = sent.topics[0].partitions
    assert (partition.leader_epoch, partition.partition_epoch, partition.leader_recovery_state) == (4, 9, 0)
    with_epochs = [(member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs]
    assert (partition.new_isr, with_epochs) == (((), [(1, -1), (2, -1), (3, -1)]) if version == 3 else ((1, 2, 3), []))
    by_id = version >= 2
    assert (sent.topics[0].topic_id, sent.topics[0].topic_name) == ((ORDERS, "") if by_id else (NO_TOPIC_ID, "orders"))


def success(
    request: AlterPartitionRequest, error: Errors = Errors.NONE, *, only: int | None = None
) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=tuple(
            AlterPartitionResponseTopicData(
                topic_id=topic.topic_id,
                topic_name=topic.topic_name,
                partitions=tuple(
                    AlterPartitionResponsePartitionData(partition_index=asked.partition_index, error_code=error)
                    for asked in topic.partitions
                    if only is None or asked.partition_index == only
                ),
            )
            for topic in request.topics
        )
    )


class ManagerHarness:
    """An AlterPartition manager and a scripted controller.

    `script` has the responses to AlterPartition requests, in order.

    Attributes:
        served: the lowest and highest version of AlterPartition that the controller serves; None for an older broker.
    """

    def __init__(
        self, *script: Callable[[AlterPartitionRequest], Message | None], served: tuple[int, int] | None = (0, 3)
    ) -> None:
        self._script = list(script)
        self.served = served
        self.handshakes = 0
        self.peer = ScriptedPeer(self._answer)
        self.controller: str | None = "controller-1"
        self.settled: list[tuple[int, str]] = []
        self.on_settled: Callable[[IsrChange, Errors], None] = lambda change, error: None
        self.channel = ControllerChannel(
            client_id="broker-1-alter-partition",
            network=self.peer,
            controller=self._endpoint,
            timeout_ms=1_000,
        )
        self.manager = AlterPartitionManager(
            1, channel=self.channel, broker_epoch=lambda: 7, on_answer=lambda each, error, _: self._settled(each, error)
        )

    @property
    def versions(self) -> list[int]:
        """The version of each AlterPartition that the controller has received."""
        return [
            header.api_version
            for _, header, message in self.peer.received
            if isinstance(message, AlterPartitionRequest)
        ]

    @property
    def requests(self) -> list[tuple[str, list[int]]]:
        """Address and partitions of each AlterPartition that the controller has received."""
        return [
            (address, [asked.partition_index for topic in message.topics for asked in topic.partitions])
            for address, _, message in self.peer.received
            if isinstance(message, AlterPartitionRequest)
        ]

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.manager.run())
            await scenario
            task.cancel()

        asyncio.run(run())

    def _endpoint(self) -> UpdateMetadataEndpoint | None:
        return None if self.controller is None else UpdateMetadataEndpoint(host=self.controller, port=9092)

    def _answer(self, header: RequestHeader, message: Message) -> Message | None:
        if isinstance(message, ApiVersionsRequest):
            self.handshakes += 1
            if self.served is None:
                return ApiVersionsResponse()
            lowest, highest = self.served
            return ApiVersionsResponse(api_keys=(ApiVersion(api_key=56, min_version=lowest, max_version=highest),))
        assert isinstance(message, AlterPartitionRequest)
        return self._script.pop(0)(message)

    def _settled(self, each: IsrChange, error: Errors) -> None:
        self.settled.append((each.topic_partition.partition, error.name))
        self.on_settled(each, error)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.spec("IS-4", "IS-5")
def test_queued_changes_go_in_one_request_after_a_handshake() -> None:
    harness = ManagerHarness(success)

    async def scenario() -> None:
        assert harness.manager.submit(change(0))
        assert harness.manager.submit(change(1))
        assert not harness.manager.submit(change(1)), "one change per partition"
        await until(lambda: len(harness.settled) == 2)
        assert harness.manager.submit(change(1)), "the first one is answered"

    harness.run(scenario())
    assert isinstance(harness.peer.received[0][2], ApiVersionsRequest)
    assert harness.requests[0] == ("controller-1:9092", [0, 1])
    assert harness.settled == [(0, "NONE"), (1, "NONE")]


@pytest.mark.spec("IS-4")
def test_change_without_a_result_in_the_response_is_sent_again() -> None:
    harness = ManagerHarness(
        lambda request: success(request, only=0), lambda request: success(request, Errors.INELIGIBLE_REPLICA)
    )

    async def scenario() -> None:
        harness.manager.submit(change(0))
        harness.manager.submit(change(1))
        await until(lambda: len(harness.settled) == 2)

    harness.run(scenario())
    assert [partitions for _, partitions in harness.requests] == [[0, 1], [1]]
    assert harness.settled == [(0, "NONE"), (1, "INELIGIBLE_REPLICA")]


@pytest.mark.spec("IS-4")
@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            lambda _: AlterPartitionResponse(error_code=Errors.STALE_BROKER_EPOCH), id="an error for the whole"
        ),
        pytest.param(lambda _: None, id="a broken connection"),
    ],
)
def test_request_is_sent_again_until_there_is_a_response(
    failure: Callable[[AlterPartitionRequest], Message | None],
) -> None:
    harness = ManagerHarness(failure, failure, success)

    async def scenario() -> None:
        harness.manager.submit(change(0))
        await until(lambda: bool(harness.settled))

    harness.run(scenario())
    assert harness.settled == [(0, "NONE")]
    assert len(harness.requests) == 3


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(lambda _: AlterPartitionResponse(error_code=Errors.NOT_CONTROLLER), id="for the whole"),
        pytest.param(lambda request: success(request, Errors.NOT_CONTROLLER), id="for a partition"),
    ],
)
def test_controller_is_looked_up_again_after_not_controller(
    refusal: Callable[[AlterPartitionRequest], Message | None],
) -> None:
    harness = ManagerHarness(success, refusal, success)

    async def scenario() -> None:
        harness.manager.submit(change(0))
        await until(lambda: len(harness.settled) == 1)
        harness.controller = "controller-2"
        harness.manager.submit(change(1))
        await until(lambda: len(harness.settled) == 2)

    harness.run(scenario())
    addresses = [address for address, _ in harness.requests]
    assert addresses == ["controller-1:9092", "controller-1:9092", "controller-2:9092"], (
        "looked up again after NOT_CONTROLLER only"
    )


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize(("named", "looked_up_again"), [("controller-1", False), ("controller-2", True), (None, False)])
def test_connection_is_closed_where_the_metadata_cache_names_another_controller(
    named: str | None, looked_up_again: bool
) -> None:
    harness = ManagerHarness(success, success)

    async def scenario() -> None:
        harness.manager.submit(change(0))
        await until(lambda: len(harness.settled) == 1)
        harness.controller = named
        harness.channel.forget_former_controller()
        harness.manager.submit(change(1))
        await until(lambda: len(harness.settled) == 2)

    harness.run(scenario())
    assert harness.peer.connections == (2 if looked_up_again else 1)
    assert harness.requests[1][0] == ("controller-2:9092" if looked_up_again else "controller-1:9092")


@pytest.mark.spec("IS-4")
@pytest.mark.parametrize(
    ("served", "topic_id", "version"),
    [
        ((0, 3), ORDERS, 3),
        ((0, 2), ORDERS, 2),  # 3.3 and 3.4
        ((0, 1), ORDERS, 1),  # 3.2
        ((0, 0), ORDERS, 0),  # 2.7 to 3.1
        ((0, 9), ORDERS, 3),
        ((0, 3), NO_TOPIC_ID, 1),
        ((0, 0), NO_TOPIC_ID, 0),
    ],
)
def test_request_has_the_highest_version_that_the_controller_serves(
    served: tuple[int, int], topic_id: TopicId, version: int
) -> None:
    harness = ManagerHarness(success, served=served)

    async def scenario() -> None:
        harness.manager.submit(change(0, topic_id))
        await until(lambda: bool(harness.settled))

    harness.run(scenario())
    assert (harness.versions, harness.settled) == ([version], [(0, "NONE")])


@pytest.mark.spec("IS-4", "IS-5")
@pytest.mark.parametrize("served", [None, (4, 5)])
def test_controller_without_a_common_version_is_looked_up_again_until_there_is_one(
    served: tuple[int, int] | None,
) -> None:
    harness = ManagerHarness(success, served=served)

    async def scenario() -> None:
        harness.manager.submit(change(0))
        await until(lambda: harness.handshakes == 3)
        harness.served, harness.controller = (0, 2), "controller-2"
        await until(lambda: bool(harness.settled))

    with operators_log() as lines:
        harness.run(scenario())
    (line,) = [line for line in lines if line.logger == "kafka.server.NodeToControllerRequestThread"]
    assert (line.level, line.fields) == (
        "warning",
        {"api": "AlterPartition", "address": "controller-1:9092", "versions": [0, 3]},
    )
    assert harness.requests == [("controller-2:9092", [0])]
    assert harness.versions == [2]


@pytest.mark.spec("IS-4")
def test_change_that_is_submitted_while_its_response_is_handled_is_sent_next() -> None:
    """A leader submits again after an unexpected error; once, in the next request with the other queued changes."""
    again: list[IsrChange] = []
    harness = ManagerHarness(lambda request: success(request, Errors.UNKNOWN_SERVER_ERROR, only=0), success)

    def submit_again(each: IsrChange, error: Errors) -> None:
        if error is not Errors.NONE:
            assert harness.manager.submit(each), "its partition has no change in flight any more"
            assert not harness.manager.submit(each)
            again.append(each)

    harness.on_settled = submit_again

    async def scenario() -> None:
        harness.manager.submit(change(0))
        harness.manager.submit(change(1))
        await until(lambda: len(harness.settled) == 3)
        await asyncio.sleep(0.1)

    harness.run(scenario())
    assert again == [change(0)]
    assert [sorted(partitions) for _, partitions in harness.requests] == [[0, 1], [0, 1]]
    assert harness.settled[0] == (0, "UNKNOWN_SERVER_ERROR")
    assert sorted(harness.settled[1:]) == [(0, "NONE"), (1, "NONE")]
