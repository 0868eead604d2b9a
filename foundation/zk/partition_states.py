"""Reads and writes the states of partitions, `/brokers/topics/T/partitions/P/state`, thousands at a time.

They are read in few requests and written in few transactions. While ZooKeeper works on the first, the next are encoded,
and the caller receives the outcomes of those that are done. Mirrors `getTopicPartitionStates`,
`createTopicPartitionStatesRaw` and `updateLeaderAndIsr` of `KafkaZkClient`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import structlog
from msgspec.structs import replace

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from understudy.foundation.zk.client import Create, Failure, OpResult, SetData, Updated, ZNodeData
from understudy.foundation.zk.transactions import Fenced, Part
from understudy.foundation.zk.znodes import (
    MalformedZNode,
    TopicPartitionStateZNode,
    TopicPartitionsZNode,
    TopicPartitionZNode,
)

READ_AT_ONCE = 2_000
"""Maximum number of states read by one request: with more there are fewer requests, with fewer decoding begins
sooner."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


OnWritten: TypeAlias = Callable[[Mapping[TopicPartition, LeaderAndIsr | Failure]], None]
"""Receives the outcome of some of the writes: the state that ZooKeeper now holds, or why it was not written."""


def _ignore(outcomes: Mapping[TopicPartition, LeaderAndIsr | Failure]) -> None:
    pass


class PartitionStates(Part):
    """Reads and writes partition states. The part `states` of `KafkaZkClient`, and raises what it does."""

    async def read(
        self, partitions: Sequence[TopicPartition], *, watch: bool = False
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch | Failure]:
        """Read the state of each partition: a Failure without one, BAD_ARGUMENTS if it cannot be decoded."""
        states: dict[TopicPartition, LeaderIsrAndControllerEpoch | Failure] = dict.fromkeys(partitions, Failure.UNKNOWN)

        async def read_part(some: Sequence[TopicPartition]) -> None:
            nodes = await self._transactions.get_many(
                [TopicPartitionStateZNode.path(partition) for partition in some], watch=watch
            )
            states.update((partition, _state(partition, node)) for partition, node in zip(some, nodes, strict=True))

        # The states of one request are decoded while ZooKeeper serves the next.
        await asyncio.gather(
            *[read_part(partitions[at : at + READ_AT_ONCE]) for at in range(0, len(partitions), READ_AT_ONCE)]
        )
        return states

    async def create(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
        on_written: OnWritten = _ignore,
    ) -> None:
        """Create `/partitions`, `/partitions/P` and `state` of each partition, fenced (PSM-5).

        Folders that exist already count as created; a state that cannot be created fails alone.

        Args:
            on_written: as in `update`; NODE_EXISTS for a state that exists already.
        """
        fence = Fenced(epoch_zk_version)
        # The folder of a partition and its state share a transaction.
        in_order = tuple(states.items())
        topics = dict.fromkeys(partition.topic for partition in states)
        await self._transactions.fenced(
            [Create(TopicPartitionsZNode.path(topic)) for topic in topics], "create-partitions", fence
        )

        def creates() -> Iterator[Create]:
            for partition, state in states.items():
                yield Create(TopicPartitionZNode.path(partition))
                data = TopicPartitionStateZNode.encode(state, controller_epoch)
                yield Create(TopicPartitionStateZNode.path(partition), data)

        def sort_out(first: int, results: Sequence[OpResult | Failure]) -> None:
            part = in_order[first // 2 : (first + len(results)) // 2]
            on_written(
                {
                    partition: result if isinstance(result, Failure) else replace(state, partition_epoch=0)
                    for (partition, state), result in zip(part, results[1::2], strict=True)
                }
            )

        await self._transactions.fenced(creates(), "create-partitions", fence, together=2, finished=sort_out)

    async def update(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        controller_epoch: int,
        epoch_zk_version: int,
        on_written: OnWritten = _ignore,
    ) -> tuple[TopicPartition, ...]:
        """Set each state at the version in its `partition_epoch`, fenced; a version conflict fails alone.

        Args:
            on_written: receives for each partition the state ZooKeeper now holds, with its new partition epoch, or why
                it was not written; in parts, while ZooKeeper works on the next.

        Returns:
            The partitions whose state was at another version. They are not passed to `on_written`.
        """
        fence = Fenced(epoch_zk_version)
        in_order = tuple(states.items())
        conflicts: list[TopicPartition] = []

        def sort_out(first: int, results: Sequence[OpResult | Failure]) -> None:
            part: dict[TopicPartition, LeaderAndIsr | Failure] = {}
            for (partition, state), result in zip(in_order[first : first + len(results)], results, strict=True):
                if isinstance(result, Updated):
                    part[partition] = LeaderAndIsr(
                        state.leader, state.leader_epoch, state.isr, state.leader_recovery_state, result.stat.version
                    )
                elif result is Failure.BAD_VERSION:
                    conflicts.append(partition)
                elif isinstance(result, Failure):
                    part[partition] = result
            on_written(part)

        writes = (
            SetData(
                TopicPartitionStateZNode.path(partition),
                TopicPartitionStateZNode.encode(state, controller_epoch),
                state.partition_epoch,
            )
            for partition, state in in_order
        )
        await self._transactions.fenced(writes, "leader-and-isr", fence, finished=sort_out)
        return tuple(conflicts)


def _state(partition: TopicPartition, node: ZNodeData | Failure) -> LeaderIsrAndControllerEpoch | Failure:
    if isinstance(node, Failure):
        return node
    try:
        return TopicPartitionStateZNode.decode(partition, node.data, node.stat.version)
    except MalformedZNode as error:
        _log.error("partition state cannot be decoded", partition=str(partition), why=str(error))
        return Failure.BAD_ARGUMENTS
