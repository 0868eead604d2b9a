"""Sends the ISR changes of leaders to the controller. Mirrors `kafka.server.DefaultAlterPartitionManager`.

At most one change per partition and one request at a time (IS-4). A request is repeated until every partition in it has
an answer. The controller is looked up in the metadata cache, and again when a broker answers NOT_CONTROLLER (IS-5). The
controller may be older than this broker: the request has the highest version that both know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.brokers.replication.partition import IsrProposal
from understudy.foundation.cluster.errors import Errors, error_for_code
from understudy.foundation.cluster.grouping import grouped
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID, TopicId, TopicPartition
from understudy.foundation.wire.messages.alter_partition import (
    AlterPartitionBrokerState,
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
)

RETRY_BACKOFF_MS = 50
WITH_TOPIC_IDS = 2
WITH_BROKER_EPOCHS = 3
"""First versions that name topics by id, and list the ISR with broker epochs."""


class IsrChange(NamedTuple):
    """A proposal on its way to the controller. Mirrors `AlterPartitionItem`."""

    topic_partition: TopicPartition
    topic_id: TopicId
    proposal: IsrProposal
    controller_epoch: int = 0
    """The epoch of the controller that elected this leader."""


OnAnswer = Callable[[IsrChange, Errors, AlterPartitionResponsePartitionData], None]


def highest_usable_version(changes: tuple[IsrChange, ...], highest: int = WITH_BROKER_EPOCHS) -> int:
    """The highest version for one request with all `changes`: none by topic ids as soon as one topic has no id (IS-4).

    Args:
        highest: the highest version that the protocol of this broker allows.
    """
    all_have_ids = all(change.topic_id != NO_TOPIC_ID for change in changes)
    return highest if all_have_ids else min(highest, WITH_TOPIC_IDS - 1)


def alter_partition_request(
    changes: tuple[IsrChange, ...], version: int, *, broker_id: int, broker_epoch: int
) -> AlterPartitionRequest:
    """One request for all `changes`, for `version`."""
    topics = grouped(
        ((change.topic_partition.topic, change.topic_id), _partition_data(change, version)) for change in changes
    )
    data = tuple(
        AlterPartitionRequestTopicData(topic_name=topic, topic_id=topic_id, partitions=partitions)
        for (topic, topic_id), partitions in topics.items()
    )
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=data)


def _partition_data(change: IsrChange, version: int) -> AlterPartitionRequestPartitionData:
    isr, with_epochs = change.proposal.isr, version >= WITH_BROKER_EPOCHS
    return AlterPartitionRequestPartitionData(
        partition_index=change.topic_partition.partition,
        leader_epoch=change.proposal.leader_epoch,
        new_isr=() if with_epochs else isr,
        new_isr_with_epochs=tuple(AlterPartitionBrokerState(broker_id=member) for member in isr) if with_epochs else (),
        partition_epoch=change.proposal.partition_epoch,
    )


class AlterPartitionManager:
    """A queue of ISR changes, and the task (`run`) that sends them.

    Args:
        broker_epoch: the epoch of this broker's registration now.
        highest_version: the highest version of the request, used if all topics have ids.
        on_answer: called with each change and its answer, in order; it may submit the next change.
    """

    def __init__(
        self,
        broker_id: int,
        *,
        channel: ControllerChannel,
        broker_epoch: Callable[[], int],
        on_answer: OnAnswer,
        highest_version: int = WITH_BROKER_EPOCHS,
    ) -> None:
        self._broker_id = broker_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._on_answer = on_answer
        self._highest_version = highest_version
        self._unsent: dict[TopicPartition, IsrChange] = {}
        self._submitted = asyncio.Event()

    def submit(self, change: IsrChange) -> bool:
        """Queue `change`; False if an earlier one of its partition has no answer yet."""
        if change.topic_partition in self._unsent:
            return False
        self._unsent[change.topic_partition] = change
        self._submitted.set()
        return True

    async def run(self) -> None:
        """Send the queued changes, without end; `maybePropagateIsrChanges`."""
        while True:
            if not self._unsent:
                self._submitted.clear()
                await self._submitted.wait()
            changes = tuple(self._unsent.values())
            build = partial(
                alter_partition_request, changes, broker_id=self._broker_id, broker_epoch=self._broker_epoch()
            )
            versions = (0, highest_usable_version(changes, self._highest_version))
            response = await self._channel.request_latest(
                AlterPartitionRequest, build, versions, AlterPartitionResponse
            )
            if response is None or not self._settle(changes, response):
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)

    def _settle(self, changes: tuple[IsrChange, ...], response: AlterPartitionResponse) -> bool:
        """Pass each change its answer; False if some or all have to be sent again."""
        by_partition = _answers(response)
        codes = {response.error_code, *(answer.error_code for answer in by_partition.values())}
        if Errors.NOT_CONTROLLER in codes:
            self._channel.forget_controller()
            return False
        if response.error_code != Errors.NONE:
            return False
        settled = True
        for change in changes:
            topic, partition = change.topic_partition
            answer = by_partition.get((topic, partition))
            if answer is None:
                answer = by_partition.get((change.topic_id, partition))
            if answer is None:
                settled = False
            elif self._unsent.get(change.topic_partition) is change:
                del self._unsent[change.topic_partition]
                self._on_answer(change, error_for_code(answer.error_code), answer)
        return settled


def _answers(response: AlterPartitionResponse) -> dict[tuple[str, int], AlterPartitionResponsePartitionData]:
    """The answers by topic name and partition or, from version 2 on, by topic id and partition."""
    return {
        (topic.topic_name or topic.topic_id, partition.partition_index): partition
        for topic in response.topics
        for partition in topic.partitions
    }
