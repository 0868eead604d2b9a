"""Asks the coordinators of consumer groups: lists, describes and deletes groups, reads and writes their offsets.

A coordinator that moves is looked for again until the time for the call is over. Mirrors the handlers of
`KafkaAdminClient` for groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from understudy.clusters.clients.cluster_requests import TryAgain
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion
from understudy.foundation.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE, ConsumerProtocolAssignment
from understudy.foundation.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from understudy.foundation.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from understudy.foundation.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from understudy.foundation.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from understudy.foundation.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from understudy.foundation.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import decode_prefixed
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import ToolError, error_of
from understudy.kafka_tools.java_order import partitions as in_java_order
from understudy.kafka_tools.java_order import strings
from understudy.kafka_tools.offsets import by_topic

R = TypeVar("R", bound=Message)

ONE_COORDINATOR, ONE_GROUP_OF_OFFSETS = 3, 7
"""The last versions of FindCoordinator and OffsetFetch that ask about one group each."""
_MOVED = frozenset({Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR})


class Member(NamedTuple):
    """A member of a group with the partitions that are assigned to it."""

    member_id: str
    instance_id: str
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


class Group(NamedTuple):
    """A group as its coordinator describes it.

    Attributes:
        coordinator: `host:port` and id, as Kafka's tool shows them.
    """

    name: str
    state: str
    assignor: str
    coordinator: str
    members: tuple[Member, ...]


async def list_groups(cluster: KafkaCluster, states: Iterable[str], types: Iterable[str]) -> list[ListedGroup]:
    """Return the consumer groups of all brokers, in the order of Kafka's client. Raises ToolError."""
    metadata = await cluster.metadata((), call="findAllBrokers")
    states, types = tuple(states), tuple(types)
    found: dict[str, ListedGroup] = {}
    for broker in metadata.brokers:

        async def attempt(broker: int = broker.node_id) -> ListGroupsResponse:
            request = ListGroupsRequest(states_filter=states, types_filter=types)
            answer = await cluster.ask_broker(broker, request, ListGroupsResponse, call="listConsumerGroups")
            if answer.error_code in _MOVED:
                raise TryAgain(f"broker {broker} loads its groups")
            return answer

        answer = await cluster.retried(attempt, call="listConsumerGroups")
        if answer.error_code:
            raise error_of(answer.error_code)
        for group in answer.groups:
            if group.protocol_type in ("", CONSUMER_PROTOCOL_TYPE):
                found[group.group_id] = group
    return [found[name] for name in strings(found)]


async def describe_groups(cluster: KafkaCluster, names: Iterable[str]) -> dict[str, Group]:
    """Return groups by name; a group that does not exist is Dead. Raises ToolError."""
    found = {}
    for name in dict.fromkeys(names):
        coordinator, answer = await _ask(
            cluster,
            name,
            DescribeGroupsRequest(groups=(name,)),
            DescribeGroupsResponse,
            lambda answer: [group.error_code for group in answer.groups],
            "describeConsumerGroups",
        )
        [group] = answer.groups
        if group.error_code and group.error_code != Errors.GROUP_ID_NOT_FOUND:
            raise error_of(group.error_code)
        if group.protocol_type not in ("", CONSUMER_PROTOCOL_TYPE):
            raise ToolError(
                "java.lang.IllegalArgumentException",
                f"GroupId {name} is not a consumer group ({group.protocol_type}).",
            )
        found[name] = _group(name, coordinator, group)
    return found


async def committed_offsets(cluster: KafkaCluster, group: str) -> dict[TopicPartition, int]:
    """Return all committed offsets of a group. Raises ToolError."""
    _, answer = await _ask(
        cluster,
        group,
        OffsetFetchRequest(group_id=group, topics=None),
        OffsetFetchResponse,
        lambda answer: [answer.error_code],
        "offsetFetch",
        max_version=ONE_GROUP_OF_OFFSETS,
    )
    if answer.error_code:
        raise error_of(answer.error_code)
    return {
        TopicPartition(topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


async def commit_offsets(cluster: KafkaCluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets of a group without members. Raises ToolError."""
    topics = tuple(
        OffsetCommitRequestTopic(
            name=topic,
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(topic, number)],
                    committed_metadata="",
                )
                for number in numbers
            ),
        )
        for topic, numbers in by_topic(offsets).items()
    )
    _, answer = await _ask(
        cluster,
        group,
        OffsetCommitRequest(group_id=group, topics=topics),
        OffsetCommitResponse,
        lambda answer: [each.error_code for topic in answer.topics for each in topic.partitions],
        "offsetCommit",
    )
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                raise error_of(each.error_code)


async def delete_group(cluster: KafkaCluster, name: str) -> ToolError | None:
    """Delete a group, and return why it could not be deleted."""
    try:
        _, answer = await _ask(
            cluster,
            name,
            DeleteGroupsRequest(groups_names=(name,)),
            DeleteGroupsResponse,
            lambda answer: [result.error_code for result in answer.results],
            "deleteConsumerGroups",
        )
    except ToolError as error:
        return error
    [result] = answer.results
    return error_of(result.error_code) if result.error_code else None


async def delete_offsets(
    cluster: KafkaCluster, group: str, partitions: Sequence[TopicPartition]
) -> tuple[int, dict[TopicPartition, int]]:
    """Delete committed offsets, and return the error code of the request and that of each partition."""
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=number) for number in numbers),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    _, answer = await _ask(
        cluster,
        group,
        OffsetDeleteRequest(group_id=group, topics=topics),
        OffsetDeleteResponse,
        lambda answer: [answer.error_code],
        "offsetDelete",
    )
    return answer.error_code, {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


async def _ask(
    cluster: KafkaCluster,
    group: str,
    request: Message,
    response: type[R],
    errors: Callable[[R], Iterable[int]],
    call: str,
    *,
    max_version: int | None = None,
) -> tuple[str, R]:
    """Send a request to a group's coordinator; return the coordinator and its answer. Raises ToolError."""
    shown = ""

    async def attempt() -> R:
        nonlocal shown
        found = await cluster.ask(
            FindCoordinatorRequest(key=group), FindCoordinatorResponse, call=call, max_version=ONE_COORDINATOR
        )
        if found.error_code in _MOVED:
            raise TryAgain("there is no coordinator yet")
        if found.error_code:
            raise error_of(found.error_code, found.error_message)
        shown = f"{found.host}:{found.port}  ({found.node_id})"
        answer = await cluster.ask_broker(found.node_id, request, response, call=call, max_version=max_version)
        if _MOVED & set(errors(answer)):
            raise TryAgain("the coordinator has moved or loads its groups")
        return answer

    answer = await cluster.retried(attempt, call=call)
    return shown, answer


def _group(name: str, coordinator: str, group: DescribedGroup) -> Group:
    members = tuple(
        Member(
            member.member_id,
            member.group_instance_id or "",
            member.client_id,
            member.client_host,
            _assigned(member.member_assignment),
        )
        for member in group.members
    )
    return Group(name, group.group_state, group.protocol_data, coordinator, members)


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    if not assignment:
        return ()
    try:
        decoded = decode_prefixed(ConsumerProtocolAssignment, assignment)
    except (MalformedMessage, UnsupportedVersion) as error:
        raise ToolError("org.apache.kafka.common.protocol.types.SchemaException", str(error)) from None
    found = (TopicPartition(each.topic, number) for each in decoded.assigned_partitions for number in each.partitions)
    return tuple(in_java_order(found))
