"""Admin requests about consumer groups, which their coordinators answer. Mirrors `KafkaAdminClient`'s for groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from understudy.clusters.clients.cluster_requests import NO_COORDINATOR, ClusterRequests
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from understudy.foundation.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from understudy.foundation.wire.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorResponse
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
from understudy.foundation.wire.nested_topics import by_partition, nested

ONE_GROUP_OF_OFFSETS: Final = 7
"""The last version of OffsetFetch that asks about one group."""
CONSUMER_TYPES: Final = ("", CONSUMER_PROTOCOL_TYPE)
"""The protocol types of consumer groups; without members a group may have none."""


class GroupRequests(ClusterRequests):
    """Reads, changes and deletes groups and their committed offsets.

    All methods raise the errors of `AdminClient.create_topic`.
    """

    async def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> dict[str, ListedGroup]:
        """Return the consumer groups of all brokers by name; only those of `states` and `types` if these name any."""
        request = ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        found = {}
        for broker in (await self.metadata((), call="findAllBrokers")).brokers:
            answer = await self.ask_broker(broker.node_id, request, ListGroupsResponse, again_after=NO_COORDINATOR)
            self._check(answer.error_code, None, f"the list of broker {broker.node_id}")
            found.update({group.group_id: group for group in answer.groups if group.protocol_type in CONSUMER_TYPES})
        return found

    async def describe_group(self, group: str) -> tuple[FindCoordinatorResponse, DescribedGroup]:
        """Return the coordinator of a group and its description of it; a group that does not exist is Dead."""
        coordinator, answer = await self.ask_coordinator(
            group, DescribeGroupsRequest(groups=(group,)), DescribeGroupsResponse
        )
        [described] = answer.groups
        if described.error_code != Errors.GROUP_ID_NOT_FOUND:
            self._check(described.error_code, None, group)
        return coordinator, described

    async def delete_group(self, group: str) -> None:
        """Delete a group without members."""
        request = DeleteGroupsRequest(groups_names=(group,))
        _, answer = await self.ask_coordinator(group, request, DeleteGroupsResponse)
        for result in answer.results:
            self._check(result.error_code, None, group)

    async def committed_offsets(self, group: str) -> dict[TopicPartition, int]:
        """Return all committed offsets of a group."""
        request = OffsetFetchRequest(group_id=group, topics=None)
        _, answer = await self.ask_coordinator(group, request, OffsetFetchResponse, max_version=ONE_GROUP_OF_OFFSETS)
        self._check(answer.error_code, None, group)
        return {
            each: found.committed_offset
            for each, found in by_partition(answer.topics).items()
            if not found.error_code and found.committed_offset >= 0
        }

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets of a group without members."""
        request = offset_commit_request(group, dict(sorted(offsets.items())))
        _, answer = await self.ask_coordinator(group, request, OffsetCommitResponse)
        for each, result in by_partition(answer.topics).items():
            self._check(result.error_code, None, str(each))

    async def delete_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> tuple[int, dict[TopicPartition, int]]:
        """Delete committed offsets, and return the error codes of the request and of each partition."""
        asked = {each: OffsetDeleteRequestPartition(partition_index=each.partition) for each in sorted(partitions)}
        request = OffsetDeleteRequest(group_id=group, topics=nested(OffsetDeleteRequestTopic, asked))
        _, answer = await self.ask_coordinator(group, request, OffsetDeleteResponse)
        return answer.error_code, {each: got.error_code for each, got in by_partition(answer.topics).items()}


def offset_commit_request(
    group: str,
    offsets: Mapping[TopicPartition, int],
    *,
    generation: int = -1,
    member_id: str = "",
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """Return the request to commit offsets, by default without being a member of the group."""
    partitions = {
        each: OffsetCommitRequestPartition(
            partition_index=each.partition, committed_offset=offset, committed_metadata=""
        )
        for each, offset in offsets.items()
    }
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=nested(OffsetCommitRequestTopic, partitions),
    )
