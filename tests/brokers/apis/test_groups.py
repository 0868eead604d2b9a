"""Tests of the requests of groups: what each version asks and answers, and how control requests move groups."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.brokers.coordinator.group.parts import assignment, subscription
from tests.brokers.harness import BROKER_EPOCH, BrokerHarness
from tests.brokers.parts import ME, ORDERS, OTHER, state
from tests.brokers.parts import leader_and_isr as leader_and_isr_request
from understudy.brokers.apis import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leader_and_isr,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    stop_replica,
    sync_group,
    update_metadata,
)
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.config.reading import read_config
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.leadership import LEADER_DURING_DELETE
from understudy.foundation.wire.messages.delete_groups import DeleteGroupsRequest
from understudy.foundation.wire.messages.describe_groups import AUTHORIZED_OPERATIONS_OMITTED, DescribeGroupsRequest
from understudy.foundation.wire.messages.heartbeat import HeartbeatRequest
from understudy.foundation.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from understudy.foundation.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from understudy.foundation.wire.messages.list_groups import ListGroupsRequest
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from understudy.foundation.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from understudy.foundation.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from understudy.foundation.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from understudy.foundation.wire.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

GROUP, TOPIC = "readers", "__consumer_offsets"


def config(**properties: str) -> KafkaConfig:
    configured = {
        "zookeeper.connect": "z",
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    return read_config(configured | {name.replace("_", "."): text for name, text in properties.items()})


def run(scenario: Callable[[BrokerHarness], Awaitable[None]], configured: KafkaConfig | None = None) -> None:
    """Run a scenario at the coordinator of every group; `orders` has the partitions 0 and 1."""

    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            harness = BrokerHarness(configured or config())
            expirations = asyncio.create_task(harness.services.groups.run())
            await lead(harness)
            harness.update_metadata({"orders": {0: ME, 1: ME}, TOPIC: {0: ME}})
            await scenario(harness)
            expirations.cancel()
            await harness.supervisor.close()

    asyncio.run(within_a_minute())


async def lead(harness: BrokerHarness, *, leader: int = ME, leader_epoch: int = 0) -> None:
    """Apply a LeaderAndIsr for the partition that stores the groups."""
    made = state(
        0, leader=leader, leader_epoch=leader_epoch, isr=(ME,), replicas=(ME,) if leader == ME else (ME, OTHER)
    )
    asked = leader_and_isr_request(made, topic=TOPIC, broker_epoch=BROKER_EPOCH)
    await leader_and_isr.handle(harness.services, asked, harness.context(7))
    while harness.services.groups.manager.is_loading:
        await asyncio.sleep(0)


async def join(harness: BrokerHarness, version: int = 9, **fields: object) -> JoinGroupResponse:
    asked = {
        "group_id": GROUP,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=subscription("orders")),),
    }
    request = JoinGroupRequest(**(asked | fields))  # type: ignore[arg-type]  # fields of the request
    return await join_group.handle(harness.services, request, harness.context(version))


async def stable(harness: BrokerHarness) -> str:
    """A group with one member; return its id."""
    member_id = (await join(harness)).member_id
    joined = await join(harness, member_id=member_id)
    assert (joined.error_code, joined.generation_id) == (Errors.NONE, 1)
    synced = await sync(harness, member_id)
    assert synced == (Errors.NONE, "consumer", "range", assignment(0))
    return member_id


async def sync(harness: BrokerHarness, member_id: str, version: int = 5, **fields: object) -> tuple[object, ...]:
    asked = {
        "group_id": GROUP,
        "generation_id": 1,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (SyncGroupRequestAssignment(member_id=member_id, assignment=assignment(0)),),
    }
    request = SyncGroupRequest(**(asked | fields))  # type: ignore[arg-type]  # fields of the request
    answer = await sync_group.handle(harness.services, request, harness.context(version))
    return answer.error_code, answer.protocol_type, answer.protocol_name, answer.assignment


def commit_request(
    *partitions: tuple[str, int, int], metadata: str | None = None, **fields: object
) -> OffsetCommitRequest:
    topics = tuple(
        OffsetCommitRequestTopic(
            name=topic,
            partitions=(
                OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offset, committed_metadata=metadata
                ),
            ),
        )
        for topic, index, offset in partitions
    )
    asked: dict[str, object] = {"group_id": GROUP, "topics": topics}
    return OffsetCommitRequest(**(asked | fields))  # type: ignore[arg-type]  # fields of the request


async def commit(
    harness: BrokerHarness, *partitions: tuple[str, int, int], version: int = 9, **fields: object
) -> list[str]:
    request = commit_request(*partitions, **fields)  # type: ignore[arg-type]  # fields of the request
    answer = await offset_commit.handle(harness.services, request, harness.context(version))
    return [Errors(each.error_code).name for topic in answer.topics for each in topic.partitions]


async def fetch(harness: BrokerHarness, version: int, *indexes: int) -> tuple[str, list[tuple[int, int, str]]]:
    """The error of the request, and offset, leader epoch and error of each partition of `orders`."""
    if version >= 8:
        topics = (OffsetFetchRequestTopics(name="orders", partition_indexes=indexes),) if indexes else None
        groups = (OffsetFetchRequestGroup(group_id=GROUP, topics=topics),)
        answer = await offset_fetch.handle(
            harness.services, OffsetFetchRequest(groups=groups), harness.context(version)
        )
        [group] = answer.groups
        found = [each for topic in group.topics for each in topic.partitions]
        error = group.error_code
    else:
        older = (OffsetFetchRequestTopic(name="orders", partition_indexes=indexes),) if indexes else None
        request = OffsetFetchRequest(group_id=GROUP, topics=older)
        answer = await offset_fetch.handle(harness.services, request, harness.context(version))
        found = [each for topic in answer.topics for each in topic.partitions]  # type: ignore[misc]  # of the old kind
        error = answer.error_code
    return Errors(error).name, [
        (each.committed_offset, each.committed_leader_epoch, Errors(each.error_code).name) for each in found
    ]


# ------------------------------------------------------------------ members


def test_a_member_joins_syncs_beats_and_leaves() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        member_id = await stable(harness)
        beat = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
        assert (await heartbeat.handle(harness.services, beat, harness.context(4))).error_code == Errors.NONE
        leaving = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id=member_id), MemberIdentity()))
        left = await leave_group.handle(harness.services, leaving, harness.context(5))
        assert left.error_code == Errors.NONE
        assert [each.error_code for each in left.members] == [Errors.NONE, Errors.UNKNOWN_MEMBER_ID]
        assert [each.member_id for each in left.members] == [member_id, ""]
        assert (
            await heartbeat.handle(harness.services, beat, harness.context(4))
        ).error_code == Errors.UNKNOWN_MEMBER_ID

    run(scenario)


@pytest.mark.parametrize("version", range(10))
def test_a_new_member_of_every_version_joins(version: int) -> None:
    async def scenario(harness: BrokerHarness) -> None:
        first = await join(harness, version)
        if version >= 4:
            assert (first.error_code, first.generation_id) == (Errors.MEMBER_ID_REQUIRED, -1)
            assert first.protocol_name == (None if version >= 7 else "")
            first = await join(harness, version, member_id=first.member_id)
        assert (first.error_code, first.leader, first.protocol_name) == (Errors.NONE, first.member_id, "range")
        group = harness.services.groups.manager.groups[GROUP]
        member = group.members[first.member_id]
        assert member.rebalance_timeout_ms == (20_000 if version >= 1 else 10_000)
        assert (member.client_id, member.client_host) == ("test", "/p")

    run(scenario)


def test_of_two_protocols_with_one_name_the_first_counts() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        named = [
            JoinGroupRequestProtocol(name=name, metadata=data) for name, data in (("b", b"1"), ("a", b"2"), ("b", b"3"))
        ]
        joined = await join(harness, 3, protocols=tuple(named), protocol_type="other")
        group = harness.services.groups.manager.groups[GROUP]
        assert group.members[joined.member_id].supported_protocols == (("b", b"1"), ("a", b"2"))

    run(scenario)


def test_an_old_member_leaves_alone_and_is_answered_its_own_error() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        member_id = await stable(harness)
        for asked, error in ((member_id, Errors.NONE), (member_id, Errors.UNKNOWN_MEMBER_ID)):
            leaving = LeaveGroupRequest(group_id=GROUP, member_id=asked)
            left = await leave_group.handle(harness.services, leaving, harness.context(2))
            assert (left.error_code, left.members) == (error, ())

    run(scenario)


def test_newer_members_name_the_protocol_when_they_sync() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        member_id = await stable(harness)
        assert (await sync(harness, member_id, protocol_name=None))[0] == Errors.INCONSISTENT_GROUP_PROTOCOL
        assert (await sync(harness, member_id, version=4, protocol_name=None, protocol_type=None))[0] == Errors.NONE

    run(scenario)


def test_static_members_are_refused_where_older_brokers_may_take_over() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        assert (await join(harness, group_instance_id="i")).error_code == Errors.UNSUPPORTED_VERSION
        assert (await sync(harness, "m", group_instance_id="i"))[0] == Errors.UNSUPPORTED_VERSION
        beat = HeartbeatRequest(group_id=GROUP, group_instance_id="i")
        answer = await heartbeat.handle(harness.services, beat, harness.context(4))
        assert answer.error_code == Errors.UNSUPPORTED_VERSION
        assert await commit(harness, ("orders", 0, 5), group_instance_id="i") == ["UNSUPPORTED_VERSION"]

    old = {"inter_broker_protocol_version": "2.2", "log_message_format_version": "2.2"}
    run(scenario, config(**old))


# ------------------------------------------------------------------ offsets


@pytest.mark.parametrize("version", range(1, 10))
def test_offsets_are_fetched_by_every_version(version: int) -> None:
    async def scenario(harness: BrokerHarness) -> None:
        assert await commit(harness, ("orders", 0, 5), ("orders", 7, 1), ("bills", 0, 1), version=version) == [
            "NONE",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        assert await fetch(harness, version, 0, 1) == ("NONE", [(5, -1, "NONE"), (-1, -1, "NONE")])
        if version >= 2:
            assert await fetch(harness, version) == ("NONE", [(5, -1, "NONE")])

    run(scenario)


@pytest.mark.parametrize("version", [1, 2, 7, 8])
def test_a_refused_fetch_has_no_partitions_and_in_version_1_no_error_as_in_kafka(version: int) -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await lead(harness, leader=OTHER, leader_epoch=1)
        assert await fetch(harness, version, 0) == ("NONE" if version == 1 else "NOT_COORDINATOR", [])

    run(scenario)


def test_old_clients_say_how_long_an_offset_is_kept_and_when_it_was_reached() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await commit(harness, ("orders", 0, 5), version=4, retention_time_ms=500)
        offset = harness.services.groups.manager.groups[GROUP].offsets.get(at)
        assert offset is not None
        assert (offset.commit_timestamp, offset.expire_timestamp) == (1_000, 1_500)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=6, commit_timestamp=77)
        topics = (OffsetCommitRequestTopic(name="orders", partitions=(partition,)),)
        request = OffsetCommitRequest(group_id=GROUP, topics=topics)
        await offset_commit.handle(harness.services, request, harness.context(1))
        offset = harness.services.groups.manager.groups[GROUP].offsets.get(at)
        assert offset is not None
        assert (offset.offset, offset.commit_timestamp, offset.expire_timestamp) == (6, 77, None)

    at = TopicPartition("orders", 0)
    run(scenario)


def test_operators_delete_offsets_and_groups() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await commit(harness, ("orders", 0, 5), ("orders", 1, 6))
        topics = tuple(
            OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(partition_index=0),))
            for name in ("orders", "bills")
        )
        request = OffsetDeleteRequest(group_id=GROUP, topics=topics)
        answer = await offset_delete.handle(harness.services, request, harness.context())
        assert [each.error_code for topic in answer.topics for each in topic.partitions] == [
            Errors.NONE,
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        other = OffsetDeleteRequest(group_id="other", topics=topics)
        answer = await offset_delete.handle(harness.services, other, harness.context())
        assert (answer.error_code, answer.topics) == (Errors.GROUP_ID_NOT_FOUND, ())
        deleting = DeleteGroupsRequest(groups_names=(GROUP, "other", GROUP))
        deleted = await delete_groups.handle(harness.services, deleting, harness.context(2))
        assert [(each.group_id, each.error_code) for each in deleted.results] == [
            (GROUP, Errors.NONE),
            ("other", Errors.GROUP_ID_NOT_FOUND),
        ]

    run(scenario)


def test_operators_list_and_describe_groups() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        member_id = await stable(harness)
        listed = await list_groups.handle(harness.services, ListGroupsRequest(), harness.context(5))
        assert [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in listed.groups] == [
            (GROUP, "consumer", "Stable", "classic")
        ]
        for version, operations in ((2, AUTHORIZED_OPERATIONS_OMITTED), (5, 0b1_0100_1000)):
            asked = DescribeGroupsRequest(groups=(GROUP, "other"), include_authorized_operations=True)
            answer = await describe_groups.handle(harness.services, asked, harness.context(version))
            found, other = answer.groups
            assert (found.group_state, found.protocol_data, found.authorized_operations) == (
                "Stable",
                "range",
                operations,
            )
            assert [(each.member_id, each.member_assignment) for each in found.members] == [(member_id, assignment(0))]
            assert (other.error_code, other.group_state, other.members) == (Errors.NONE, "Dead", ())

    run(scenario)


# ------------------------------------------------------------------ control requests


@pytest.mark.spec("BK-11", "CO-4")
def test_groups_move_with_leader_and_isr() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await commit(harness, ("orders", 0, 5))
        await lead(harness, leader=OTHER, leader_epoch=1)
        assert await commit(harness, ("orders", 0, 6)) == ["NOT_COORDINATOR"]
        await lead(harness, leader_epoch=2)
        assert await fetch(harness, 9, 0) == ("NONE", [(5, -1, "NONE")])
        assert [each["leader_epoch"] for each in harness.recorder.of("GroupsLoaded")] == [0, 2]

    run(scenario)


@pytest.mark.spec("BK-16", "CO-4")
@pytest.mark.parametrize(
    ("deletes", "leader_epoch", "error"),
    [(True, 3, "NOT_COORDINATOR"), (True, -2, "NOT_COORDINATOR"), (False, 3, "NONE")],
)
def test_stop_replica_with_deletion_forgets_the_groups(deletes: bool, leader_epoch: int, error: str) -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await commit(harness, ("orders", 0, 5))
        stopped = StopReplicaPartitionState(partition_index=0, leader_epoch=leader_epoch, delete_partition=deletes)
        request = StopReplicaRequest(
            controller_id=9,
            controller_epoch=1,
            broker_epoch=BROKER_EPOCH,
            topic_states=(StopReplicaTopicState(topic_name=TOPIC, partition_states=(stopped,)),),
        )
        await stop_replica.handle(harness.services, request, harness.context(4))
        assert (await fetch(harness, 9, 0))[0] == error

    run(scenario)


@pytest.mark.spec("CO-5")
def test_offsets_of_a_topic_that_update_metadata_deletes_are_removed() -> None:
    async def scenario(harness: BrokerHarness) -> None:
        await commit(harness, ("orders", 0, 5))
        gone = UpdateMetadataPartitionState(partition_index=0, leader=LEADER_DURING_DELETE)
        request = UpdateMetadataRequest(
            controller_id=9,
            controller_epoch=1,
            broker_epoch=BROKER_EPOCH,
            topic_states=(UpdateMetadataTopicState(topic_name="orders", topic_id=ORDERS, partition_states=(gone,)),),
        )
        await update_metadata.handle(harness.services, request, harness.context(8))
        assert await fetch(harness, 9, 0) == ("NONE", [(-1, -1, "NONE")])

    run(scenario)
