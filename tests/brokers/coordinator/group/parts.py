"""Groups, members and a coordinator in virtual time, for tests."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from tests.brokers.parts import (
    ME,
    OTHER,
    LogsInMemory,
    StillClock,
    apply_leader_and_isr,
    leader_and_isr,
    replica_manager,
    state,
)
from understudy.brokers.config.reading import read_config
from understudy.brokers.coordinator.group.group_coordinator import GroupCoordinator
from understudy.brokers.coordinator.group.group_events import GroupEvents
from understudy.brokers.coordinator.group.group_metadata import GroupMetadata
from understudy.brokers.coordinator.group.group_offsets import OffsetAndMetadata
from understudy.brokers.coordinator.group.group_state import GroupState
from understudy.brokers.coordinator.group.member_metadata import (
    JoinGroupResult,
    JoiningMember,
    MemberMetadata,
    SyncGroupResult,
)
from understudy.brokers.metadata.topic_names import GROUP_METADATA_TOPIC
from understudy.brokers.replication.partition import Partition
from understudy.brokers.world import at_once
from understudy.clusters.simulated.loop import SimulatedLoop, new_loop
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import batches
from understudy.foundation.records.record import Record, records
from understudy.foundation.wire.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from understudy.foundation.wire.messages.join_group import UNKNOWN_MEMBER_ID
from understudy.foundation.wire.version_prefixed import encode_prefixed

T = TypeVar("T")

GROUP = "readers"
NOW_MS = 1_700_000_000_000
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSETS_0 = TopicPartition(GROUP_METADATA_TOPIC, 0)
SESSION_MS, REBALANCE_MS, INITIAL_DELAY_MS = 10_000, 30_000, 3_000
CONSUMER = "consumer"


def subscription(*topics: str, version: int = 3) -> bytes:
    return encode_prefixed(ConsumerProtocolSubscription(topics=topics), version)


def assignment(*partitions: int, topic: str = "orders") -> bytes:
    assigned = (AssignedTopic(topic=topic, partitions=partitions),)
    return encode_prefixed(ConsumerProtocolAssignment(assigned_partitions=assigned), 3)


def member(
    member_id: str,
    *protocols: str,
    instance: str | None = None,
    topics: Sequence[str] = ("orders",),
    protocol_type: str = CONSUMER,
    rebalance_timeout_ms: int = REBALANCE_MS,
) -> MemberMetadata:
    return MemberMetadata(
        member_id,
        group_instance_id=instance,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=SESSION_MS,
        protocol_type=protocol_type,
        supported_protocols=tuple((name, subscription(*topics)) for name in protocols or ("range",)),
    )


def group(*members: MemberMetadata, in_state: GroupState = GroupState.EMPTY) -> GroupMetadata:
    """A group with these members, none of which waits, in any state."""
    made = GroupMetadata(GROUP, 0, now_ms=NOW_MS, state=in_state)
    for each in members:
        made.add(each)
    return made


class LoopClock(StillClock):
    """The time of a simulated loop."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def monotonic_ms(self) -> float:
        return self._loop.time() * 1000

    def wall_ms(self) -> float:
        return NOW_MS + self._loop.time() * 1000


class CoordinatorHarness:
    """The group coordinator of broker 1, which leads all partitions of `__consumer_offsets`: one, unless configured.

    Replication is at once, unless the partitions have a second replica: then `replicate` does it.
    """

    def __init__(self, properties: Mapping[str, str] | None = None, *, replicas: tuple[int, ...] = (ME,)) -> None:
        configured = {"zookeeper.connect": "z", "offsets.topic.num.partitions": "1", **(properties or {})}
        self.config = read_config(configured)
        self.loop = new_loop()
        self.clock = LoopClock(self.loop)
        self.logs = LogsInMemory()
        self.replicas, _, self.recorder = replica_manager(logs=self.logs, clock=self.clock)
        self.failures: list[BaseException] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._members = replicas
        self.groups = self.run(self._made())
        self.lead(leader_epoch=0)
        self.settle()

    async def _made(self) -> GroupCoordinator:
        made = GroupCoordinator(
            partitions=self.config.offsets_topic_num_partitions,
            config=lambda: self.config,
            replicas=self.replicas,
            clock=self.clock,
            random=random.Random(1),
            events=GroupEvents(self.recorder.log, has_offsets=True),
            spawn=self._spawn,
            offload=at_once,
        )
        self._running = self._spawn(made.run(), "group-coordinator")
        return made

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    def close(self) -> None:
        self.loop.close()
        assert not self.failures

    def shut_down(self) -> None:
        self._running.cancel()
        self.settle()

    # ------------------------------------------------------------------ time

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run until `work` is done."""
        result: T = self.loop.run_until_complete(self.loop.create_task(work))
        return result

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start `work`, and let everything run that needs no time."""
        task: asyncio.Task[T] = self.loop.create_task(work)
        self.settle()
        return task

    def settle(self) -> None:
        self.advance(0)

    def advance(self, milliseconds: float) -> None:
        """Let time pass, and a microsecond more for the actions that are due at the end."""
        self.loop.run_for(milliseconds / 1000)
        self.loop.run_for(0.000_001)

    # ------------------------------------------------------------------ the partitions

    @property
    def manager_groups(self) -> Mapping[str, GroupMetadata]:
        return self.groups.manager.groups

    def partition(self, number: int = 0) -> Partition:
        return self.replicas.partitions[TopicPartition(GROUP_METADATA_TOPIC, number)]

    def lead(self, *, leader_epoch: int, numbers: Sequence[int] | None = None) -> None:
        """Become the leader, and load; the loading runs with the next step."""
        for number in range(self.config.offsets_topic_num_partitions) if numbers is None else numbers:
            made = state(number, leader_epoch=leader_epoch, isr=self._members, replicas=self._members)
            apply_leader_and_isr(self.replicas, leader_and_isr(made, topic=GROUP_METADATA_TOPIC))
            self.run(self._called(partial(self.groups.elected, number, leader_epoch)))

    def follow(self, *, leader_epoch: int, number: int = 0) -> None:
        made = state(number, leader=OTHER, leader_epoch=leader_epoch, replicas=(ME, OTHER))
        apply_leader_and_isr(self.replicas, leader_and_isr(made, topic=GROUP_METADATA_TOPIC))
        self.run(self._called(lambda: self.groups.resigned(number, leader_epoch)))
        self.settle()

    async def _called(self, action: Any) -> None:
        action()

    def replicate(self, number: int = 0) -> None:
        """Let the other replica have everything."""
        partition = self.partition(number)
        partition.log.update_high_watermark(partition.log.log_end_offset)
        self.replicas.delayed_produces.check_and_complete((partition.topic_partition,))
        self.settle()

    def append(self, data: bytes, number: int = 0) -> None:
        """Append a batch to the log, as a former leader has."""
        partition = self.partition(number)
        partition.log.append_as_leader(data, 0, now_ms=self.clock.wall_ms(), from_client=False)
        partition.log.update_high_watermark(partition.log.log_end_offset)

    def stored(self, number: int = 0) -> list[Record]:
        """The records of a partition."""
        log = self.partition(number).log
        found: list[Record] = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            for batch in batches(log.read(offset, 1 << 30, end_offset=log.log_end_offset, min_one=True)):
                found += records(batch)
                offset = batch.header.next_offset
        return found

    # ------------------------------------------------------------------ requests

    def joining(
        self,
        member_id: str = UNKNOWN_MEMBER_ID,
        *,
        instance: str | None = None,
        protocols: Sequence[str] = ("range",),
        topics: Sequence[str] = ("orders",),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        needs_id: bool = False,
        can_skip: bool = False,
        protocol_type: str = CONSUMER,
    ) -> JoiningMember:
        return JoiningMember(
            member_id=member_id,
            group_instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            rebalance_timeout_ms=rebalance_ms,
            session_timeout_ms=session_ms,
            protocol_type=protocol_type,
            protocols=tuple((name, subscription(*topics)) for name in protocols),
            reason="a test",
            requires_known_id=needs_id,
            can_skip_assignment=can_skip,
        )

    def join(
        self, member_id: str = UNKNOWN_MEMBER_ID, *, group: str = GROUP, **how: Any
    ) -> asyncio.Task[JoinGroupResult]:
        return self.begin(self.groups.join_group(group, self.joining(member_id, **how)))

    def sync(
        self,
        member_id: str,
        generation: int,
        assigned: Mapping[str, bytes] | None = None,
        *,
        group: str = GROUP,
        instance: str | None = None,
        protocol_type: str | None = CONSUMER,
        protocol_name: str | None = "range",
    ) -> asyncio.Task[SyncGroupResult]:
        return self.begin(
            self.groups.sync_group(
                group,
                member_id=member_id,
                group_instance_id=instance,
                generation_id=generation,
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignment=assigned or {},
            )
        )

    def heartbeat(self, member_id: str, generation: int, *, group: str = GROUP, instance: str | None = None) -> str:
        return self.groups.heartbeat(group, member_id, instance, generation).name

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        group: str = GROUP,
        partition: TopicPartition = ORDERS_0,
        metadata: str = "",
        expire_timestamp: int | None = None,
    ) -> asyncio.Task[dict[TopicPartition, Errors]]:
        value = OffsetAndMetadata(offset, 2, metadata, int(self.clock.wall_ms()), expire_timestamp)
        return self.begin(
            self.groups.commit_offsets(
                group,
                member_id=member_id,
                group_instance_id=instance,
                generation_id=generation,
                offsets={partition: value},
            )
        )

    def fetched(self, partition: TopicPartition = ORDERS_0, *, group: str = GROUP, stable: bool = False) -> int | str:
        """The committed offset of a partition, -1 without one, or the error's name."""
        error, offsets = self.groups.fetch_offsets(group, [partition], require_stable=stable)
        if error is not Errors.NONE:
            return error.name
        found = offsets[partition]
        if found.error is not Errors.NONE:
            return found.error.name
        return -1 if found.value is None else found.value.offset

    # ------------------------------------------------------------------ whole rebalances

    def stable(self, count: int = 1, *, instances: Sequence[str] = (), **how: Any) -> list[str]:
        """Bring `GROUP` with new members to Stable, in its first generation; return their ids, the leader's first."""
        kinds: Sequence[str | None] = instances or [None] * count
        joins = [self.join(instance=instance, **how) for instance in kinds]
        self.advance(2 * INITIAL_DELAY_MS + 1)
        ids = [join.result().member_id for join in joins]
        ids.sort(key=lambda each: joins[0].result().leader_id != each)
        self.complete(ids, joins[0].result().generation_id, instances=dict(zip(ids, kinds, strict=True)))
        return ids

    def complete(
        self, ids: Sequence[str], generation: int, *, instances: Mapping[str, str | None] | None = None
    ) -> None:
        """Have all members sync; the leader is the first, and assigns to each one partition."""
        assigned = {member_id: assignment(number) for number, member_id in enumerate(ids)}
        found = instances or {}
        waiting = [self.sync(each, generation, instance=found.get(each)) for each in ids[1:]]
        waiting.append(self.sync(ids[0], generation, assigned, instance=found.get(ids[0])))
        assert [task.result().error for task in waiting] == [Errors.NONE] * len(ids)

    @property
    def state(self) -> str:
        return self.manager_groups[GROUP].state.value
