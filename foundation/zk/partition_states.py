"""The states of partitions: `/brokers/topics/T/partitions/P/state`, thousands at a time. Mirrors
`getTopicPartitionStates`, `createTopicPartitionStates` and `updateLeaderAndIsr` of `KafkaZkClient`.

They are read in few requests and written in few transactions. While ZooKeeper works on the first, the next are encoded,
and whoever asked already hears what became of those that are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import structlog
from msgspec.structs import replace

from foundation.cluster.identifiers import TopicPartition
from foundation.cluster.leadership import LeaderAndIsr, LeaderIsrAndControllerEpoch
from foundation.zk.client import Create, Failure, Node, OpResult, SetData, Updated
from foundation.zk.transactions import Fenced, Transactions
from foundation.zk.znodes import MalformedZNode, TopicPartitionStateZNode, TopicPartitionsZNode, TopicPartitionZNode

READ_AT_ONCE = 2_000
"""States asked for, and decoded, together: with more there are fewer requests, with fewer decoding begins sooner."""

_log = structlog.get_logger(__name__)


Heard: TypeAlias = Callable[[Mapping[TopicPartition, LeaderAndIsr | Failure]], None]
"""Who is told what became of some of the writes."""


async def read_partition_states(
    transactions: Transactions, partitions: Sequence[TopicPartition], *, watch: bool
) -> dict[TopicPartition, LeaderIsrAndControllerEpoch | Failure]:
    """Failure where there is none or it cannot be decoded (BAD_ARGUMENTS)."""
    states: dict[TopicPartition, LeaderIsrAndControllerEpoch | Failure] = dict.fromkeys(partitions, Failure.UNKNOWN)

    async def read(some: Sequence[TopicPartition]) -> None:
        nodes = await transactions.get_many(
            [TopicPartitionStateZNode.path(partition) for partition in some], watch=watch
        )
        states.update((partition, _state(partition, node)) for partition, node in zip(some, nodes, strict=True))

    # Those that have come are decoded while ZooKeeper reads the next.
    await asyncio.gather(*[read(partitions[at : at + READ_AT_ONCE]) for at in range(0, len(partitions), READ_AT_ONCE)])
    return states


async def create_partition_states(
    transactions: Transactions,
    states: Mapping[TopicPartition, LeaderAndIsr],
    controller_epoch: int,
    fence: Fenced,
    heard: Heard,
) -> None:
    """See `KafkaZkClient.create_partition_states`. A folder and its state share a transaction."""
    in_order = tuple(states.items())
    topics = dict.fromkeys(partition.topic for partition in states)
    await transactions.fenced(
        [Create(TopicPartitionsZNode.path(topic)) for topic in topics], "create-partitions", fence
    )

    def creates() -> Iterator[Create]:
        for partition, state in states.items():
            yield Create(TopicPartitionZNode.path(partition))
            data = TopicPartitionStateZNode.encode(state, controller_epoch)
            yield Create(TopicPartitionStateZNode.path(partition), data)

    def sort_out(first: int, results: Sequence[OpResult | Failure]) -> None:
        part = in_order[first // 2 : (first + len(results)) // 2]
        heard(
            {
                partition: result if isinstance(result, Failure) else replace(state, partition_epoch=0)
                for (partition, state), result in zip(part, results[1::2], strict=True)
            }
        )

    await transactions.fenced(creates(), "create-partitions", fence, together=2, finished=sort_out)


async def update_leader_and_isr(
    transactions: Transactions,
    states: Mapping[TopicPartition, LeaderAndIsr],
    controller_epoch: int,
    fence: Fenced,
    heard: Heard,
) -> tuple[TopicPartition, ...]:
    """See `KafkaZkClient.update_leader_and_isr`."""
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
        heard(part)

    writes = (
        SetData(
            TopicPartitionStateZNode.path(partition),
            TopicPartitionStateZNode.encode(state, controller_epoch),
            state.partition_epoch,
        )
        for partition, state in in_order
    )
    await transactions.fenced(writes, "leader-and-isr", fence, finished=sort_out)
    return tuple(conflicts)


def _state(partition: TopicPartition, node: Node | Failure) -> LeaderIsrAndControllerEpoch | Failure:
    if isinstance(node, Failure):
        return node
    try:
        return TopicPartitionStateZNode.decode(partition, node.data, node.stat.version)
    except MalformedZNode as error:
        _log.error("partition state cannot be decoded", partition=str(partition), why=str(error))
        return Failure.BAD_ARGUMENTS
