"""Groups across the death of their coordinator: acknowledged offsets survive, and every rebalance ends."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

import pytest

from tests.brokers.coordinator.group.parts import assignment, subscription
from understudy.brokers.coordinator.coordinators import partition_for
from understudy.clusters.simulated.cluster import PORT, SimulatedCluster
from understudy.clusters.simulated.randomness import derived
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.records import GroupAssigned, GroupTransition
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from understudy.foundation.wire.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestTimedOut
from understudy.foundation.wire.schema import Message
from understudy.history.reading.lines import decode_record
from understudy.trials.seeds.faults import draw_schedule, schedule_faults
from understudy.trials.seeds.judgement import judge

GROUP = "readers"
ORDERS_0 = TopicPartition("orders", 0)
OFFSETS_PARTITIONS = 5
SETTINGS = {
    "understudy.events.logs": "true",
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "group.initial.rebalance.delay.ms": "500",
}


class Member:
    """A member that joins again whenever it has to, and commits ascending offsets of `orders-0`.

    Attributes:
        generation: the one it is in; -1 while it is in none.
        acknowledged: the last offset whose commit was acknowledged.
    """

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.generations: list[int] = []
        self.acknowledged = -1
        self.commits = False
        self._next = 0

    async def run(self) -> None:
        while True:
            try:
                await self._live()
            except (ConnectionFailed, ConnectionLost, RequestTimedOut):
                self.generation = -1
                await asyncio.sleep(0.3)

    async def _live(self) -> None:
        joined = await self._ask(
            JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=6_000,
                rebalance_timeout_ms=5_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription("orders")),),
            )
        )
        assert isinstance(joined, JoinGroupResponse)
        if joined.error_code == Errors.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return
        if joined.error_code == Errors.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if joined.error_code != Errors.NONE:
            await asyncio.sleep(0.3)
            return
        self.member_id = joined.member_id
        synced = await self._ask(
            SyncGroupRequest(
                group_id=GROUP,
                generation_id=joined.generation_id,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=tuple(
                    SyncGroupRequestAssignment(member_id=each.member_id, assignment=assignment(number))
                    for number, each in enumerate(joined.members)
                ),
            )
        )
        assert isinstance(synced, SyncGroupResponse)
        if synced.error_code != Errors.NONE:
            return
        self.generation = joined.generation_id
        self.generations.append(self.generation)
        await self._stay()
        self.generation = -1

    async def _stay(self) -> None:
        while True:
            beat = await self._ask(
                HeartbeatRequest(group_id=GROUP, generation_id=self.generation, member_id=self.member_id)
            )
            assert isinstance(beat, HeartbeatResponse)
            if beat.error_code != Errors.NONE:
                return
            if self.commits:
                await self._commit()
            await asyncio.sleep(0.2)

    async def _commit(self) -> None:
        self._next += 1
        offset = self._next
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        answer = await self._ask(
            OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                topics=(OffsetCommitRequestTopic(name="orders", partitions=(partition,)),),
            )
        )
        assert isinstance(answer, OffsetCommitResponse)
        if answer.topics[0].partitions[0].error_code == Errors.NONE:
            self.acknowledged = offset

    async def _ask(self, request: Message) -> Message:
        leader = self.cluster.leader_id("__consumer_offsets", partition_for(GROUP, OFFSETS_PARTITIONS))
        if leader is None:
            raise ConnectionFailed("the group has no coordinator")
        return await self.cluster.admin.ask(f"broker-{leader}", PORT, request)


def running(
    seed: int, *, members: int = 2, more: Mapping[str, str] | None = None
) -> tuple[SimulatedCluster, list[Member]]:
    """A cluster with a group that is stable.

    Args:
        more: further settings of the brokers.
    """
    cluster = SimulatedCluster(seed, brokers=3, settings={**SETTINGS, **(more or {})})
    cluster.start()
    cluster.create_topic("orders", assignment={0: [1, 2, 3], 1: [2, 3, 1]})
    placed = {number: [1 + number % 3, 1 + (number + 1) % 3, 1 + (number + 2) % 3] for number in range(5)}
    cluster.create_topic("__consumer_offsets", assignment=placed)
    cluster.settle()
    found = [Member(cluster, f"member-{number}") for number in range(members)]
    for each in found:
        cluster.begin(each.run())
    cluster.run_for(10_000)
    assert is_stable(found)
    return cluster, found


def is_stable(members: list[Member]) -> bool:
    generations = {each.generation for each in members}
    return len(generations) == 1 and -1 not in generations


def coordinator(cluster: SimulatedCluster) -> int:
    leader = cluster.leader_id("__consumer_offsets", partition_for(GROUP, OFFSETS_PARTITIONS))
    assert leader is not None
    return leader


def fetched(cluster: SimulatedCluster) -> int:
    topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=(0,)),)
    asked = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP, topics=topics),))
    answer = cluster.ask(cluster.admin.ask(f"broker-{coordinator(cluster)}", PORT, asked))
    assert isinstance(answer, OffsetFetchResponse)
    assert answer.groups[0].error_code == Errors.NONE
    return answer.groups[0].topics[0].partitions[0].committed_offset


@pytest.mark.spec("CO-4", "BK-11")
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("how", ["kill", "stop"])
def test_acknowledged_offsets_survive_their_coordinator(seed: int, how: str) -> None:
    cluster, members = running(seed)
    with cluster:
        committing = members[0]
        committing.commits = True
        cluster.run_for(1_000 + random.Random(seed).randrange(400))
        before = committing.acknowledged
        assert before > 0
        victim = cluster.broker(coordinator(cluster))
        if how == "kill":
            victim.kill()
        else:
            victim.begin_stop()
        cluster.run_for(25_000)
        assert committing.acknowledged > before, "the member commits at the next coordinator"
        committing.commits = False
        cluster.run_for(1_000)
        assert fetched(cluster) >= committing.acknowledged
        assert is_stable(members)
        victim.begin_start()
        cluster.settle()
    assert judge(cluster).problems == ()


@pytest.mark.spec("CO-4")
@pytest.mark.parametrize("seed", [4, 5, 6])
def test_a_rebalance_ends_though_its_coordinator_is_killed(seed: int) -> None:
    cluster, members = running(seed)
    with cluster:
        generation = members[0].generation
        third = Member(cluster, "member-3")
        cluster.begin(third.run())
        cluster.run_for(100 * (seed - 3))
        cluster.broker(coordinator(cluster)).kill()
        cluster.run_for(40_000)
        assert is_stable([*members, third])
        assert third.generation > generation
        assert_one_owner_in_each_generation(cluster)


def test_a_member_that_dies_is_replaced_by_the_others() -> None:
    cluster, members = running(7, members=3)
    with cluster:
        generation = members[0].generation
        members[2]._ask = _silent  # type: ignore[method-assign]  # its process is gone, its connections are not
        cluster.run_for(20_000)
        assert is_stable(members[:2])
        assert members[0].generation > generation
        assert_one_owner_in_each_generation(cluster)


async def _silent(request: Message) -> Message:
    await asyncio.sleep(10_000)
    raise ConnectionLost("never")


def assert_one_owner_in_each_generation(cluster: SimulatedCluster) -> None:
    records = [decode_record(line).data for line in cluster.log_lines]
    assigned = [each for each in records if isinstance(each, GroupAssigned)]
    assert assigned
    for each in assigned:
        owned = [partition for member in each.members for partition in member.partitions]
        assert len(owned) == len(set(owned))
    assert any(isinstance(each, GroupTransition) and each.target == "Stable" for each in records)


def test_the_same_seed_gives_the_same_groups() -> None:
    def lines() -> list[bytes]:
        cluster, _ = running(8)
        with cluster:
            cluster.run_for(2_000)
        return list(cluster.log_lines)

    assert lines() == lines()


@pytest.mark.spec("CO-4")
@pytest.mark.parametrize("seed", range(100, 108))
def test_groups_come_through_random_faults(seed: int) -> None:
    """Faults of every kind for 20 s; then no acknowledged offset is lost, and the rebalances end."""
    schedule = draw_schedule(derived(seed, "faults"), brokers=3, duration_ms=30_000)
    cluster, members = running(seed, more={"min.insync.replicas": "2"})
    with cluster:
        members[0].commits = True
        schedule_faults(cluster, schedule)
        cluster.run_for(schedule.healed_at_ms + 1)
        cluster.settle()
        cluster.run_for(40_000)
        members[0].commits = False
        cluster.run_for(1_000)
        assert is_stable(members), [each.generation for each in members]
        assert fetched(cluster) >= members[0].acknowledged > 0
        assert_one_owner_in_each_generation(cluster)
    assert judge(cluster).problems == ()
