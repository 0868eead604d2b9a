"""How ISR changes travel to the controller, over real bytes (specification 13.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from brokers.membership.controller_channel import ControllerChannel
from brokers.replication.alter_partition_manager import AlterPartitionManager, IsrChange, alter_partition_request
from brokers.replication.partition import IsrProposal
from foundation.cluster.errors import Errors
from foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from foundation.cluster.metadata_version import MetadataVersion
from foundation.wire.codec import decode, encode
from foundation.wire.headers import RequestHeader
from foundation.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from foundation.wire.schema import Message
from tests.brokers.peers import ScriptedPeer
from tests.brokers.stage import ORDERS


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
def test_by_topic_id_if_all_topics_have_one(ids: tuple[TopicId, ...], protocol: str, version: int) -> None:
    changes = tuple(change(index, topic_id, f"t{topic_id[-1]}") for index, topic_id in enumerate(ids))
    highest = MetadataVersion.parse(protocol).alter_partition_version
    request, spoken = alter_partition_request(changes, broker_id=1, broker_epoch=7, highest_version=highest)
    assert spoken == version
    sent = decode(AlterPartitionRequest, version, encode(request, version))
    partition = sent.topics[0].partitions[0]
    assert (partition.leader_epoch, partition.partition_epoch) == (4, 9)
    if version == 3:
        assert [(member.broker_id, member.broker_epoch) for member in partition.new_isr_with_epochs] == [
            (1, -1),
            (2, -1),
            (3, -1),
        ]
    else:
        assert partition.new_isr == (1, 2, 3)


def success(
    request: AlterPartitionRequest, error: Errors = Errors.NONE, *, only: int | None = None
) -> AlterPartitionResponse:
    return AlterPartitionResponse(
        topics=tuple(
            AlterPartitionResponseTopicData(
                topic_id=topic.topic_id,
                partitions=tuple(
                    AlterPartitionResponsePartitionData(partition_index=asked.partition_index, error_code=error)
                    for asked in topic.partitions
                    if only is None or asked.partition_index == only
                ),
            )
            for topic in request.topics
        )
    )


class Scene:
    """A manager and a scripted controller; `script` answers AlterPartition requests one after the other."""

    def __init__(self, *script: Callable[[AlterPartitionRequest], Message | None]) -> None:
        self._script = list(script)
        self.peer = ScriptedPeer(self._answer)
        self.controller: str | None = "controller-1"
        self.settled: list[tuple[int, str]] = []
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
    def requests(self) -> list[tuple[str, list[int]]]:
        """Address and partitions of each AlterPartition the controller has heard."""
        return [
            (address, [asked.partition_index for topic in message.topics for asked in topic.partitions])
            for address, _, message in self.peer.heard
            if isinstance(message, AlterPartitionRequest)
        ]

    def play(self, act: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            task = asyncio.create_task(self.manager.run())
            await act
            task.cancel()

        asyncio.run(run())

    def _endpoint(self) -> UpdateMetadataEndpoint | None:
        return None if self.controller is None else UpdateMetadataEndpoint(host=self.controller, port=9092)

    def _answer(self, header: RequestHeader, message: Message) -> Message | None:
        if isinstance(message, ApiVersionsRequest):
            return ApiVersionsResponse(api_keys=(ApiVersion(api_key=56, min_version=0, max_version=3),))
        assert isinstance(message, AlterPartitionRequest)
        return self._script.pop(0)(message)

    def _settled(self, each: IsrChange, error: Errors) -> None:
        self.settled.append((each.topic_partition.partition, error.name))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.spec("IS-4", "IS-5")
def test_what_waits_goes_in_one_request_after_a_handshake() -> None:
    scene = Scene(success)

    async def act() -> None:
        assert scene.manager.submit(change(0))
        assert scene.manager.submit(change(1))
        assert not scene.manager.submit(change(1)), "one change per partition"
        await until(lambda: len(scene.settled) == 2)
        assert scene.manager.submit(change(1)), "answered, so the next one is welcome"

    scene.play(act())
    assert isinstance(scene.peer.heard[0][2], ApiVersionsRequest)
    assert scene.requests[0] == ("controller-1:9092", [0, 1])
    assert scene.settled == [(0, "NONE"), (1, "NONE")]


@pytest.mark.spec("IS-4")
def test_what_has_no_answer_is_sent_again_and_what_has_one_is_not() -> None:
    scene = Scene(lambda request: success(request, only=0), lambda request: success(request, Errors.INELIGIBLE_REPLICA))

    async def act() -> None:
        scene.manager.submit(change(0))
        scene.manager.submit(change(1))
        await until(lambda: len(scene.settled) == 2)

    scene.play(act())
    assert [partitions for _, partitions in scene.requests] == [[0, 1], [1]]
    assert scene.settled == [(0, "NONE"), (1, "INELIGIBLE_REPLICA")]


@pytest.mark.spec("IS-4")
@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(
            lambda _: AlterPartitionResponse(error_code=Errors.STALE_BROKER_EPOCH), id="an error for the whole"
        ),
        pytest.param(lambda _: None, id="a broken connection"),
    ],
)
def test_trouble_is_tried_again_until_it_is_over(trouble: Callable[[AlterPartitionRequest], Message | None]) -> None:
    scene = Scene(trouble, trouble, success)

    async def act() -> None:
        scene.manager.submit(change(0))
        await until(lambda: bool(scene.settled))

    scene.play(act())
    assert scene.settled == [(0, "NONE")]
    assert len(scene.requests) == 3


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(lambda _: AlterPartitionResponse(error_code=Errors.NOT_CONTROLLER), id="for the whole"),
        pytest.param(lambda request: success(request, Errors.NOT_CONTROLLER), id="for a partition"),
    ],
)
def test_whoever_is_not_controller_is_forgotten_and_the_cache_asked_again(
    refusal: Callable[[AlterPartitionRequest], Message | None],
) -> None:
    scene = Scene(success, refusal, success)

    async def act() -> None:
        scene.manager.submit(change(0))
        await until(lambda: len(scene.settled) == 1)
        scene.controller = "controller-2"
        scene.manager.submit(change(1))
        await until(lambda: len(scene.settled) == 2)

    scene.play(act())
    addresses = [address for address, _ in scene.requests]
    assert addresses == ["controller-1:9092", "controller-1:9092", "controller-2:9092"], (
        "only the refusal made it look again"
    )


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize(("named", "looked_up_again"), [("controller-1", False), ("controller-2", True), (None, False)])
def test_connection_is_closed_where_the_metadata_cache_names_another_controller(
    named: str | None, looked_up_again: bool
) -> None:
    scene = Scene(success, success)

    async def act() -> None:
        scene.manager.submit(change(0))
        await until(lambda: len(scene.settled) == 1)
        scene.controller = named
        scene.channel.forget_former_controller()
        scene.manager.submit(change(1))
        await until(lambda: len(scene.settled) == 2)

    scene.play(act())
    assert scene.peer.connections == (2 if looked_up_again else 1)
    assert scene.requests[1][0] == ("controller-2:9092" if looked_up_again else "controller-1:9092")
