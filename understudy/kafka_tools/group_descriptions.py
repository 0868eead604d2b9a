"""Descriptions of consumer groups by their coordinators, as the tools show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from understudy.clusters.clients.assignors.protocol import BAD_BYTES, decode_assignment
from understudy.clusters.clients.group_requests import CONSUMER_TYPES
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.describe_groups import DescribedGroupMember
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import ToolError, illegal_argument


class GroupDescription(NamedTuple):
    """A group as its coordinator describes it.

    Attributes:
        coordinator: `host:port` and id, as Kafka's tool shows them.
        members: each with the partitions that are assigned to it.
    """

    name: str
    state: str
    assignor: str
    coordinator: str
    members: Mapping[DescribedGroupMember, tuple[TopicPartition, ...]]


async def describe_groups(cluster: KafkaCluster, names: Iterable[str]) -> dict[str, GroupDescription]:
    """Return groups by name; a group that does not exist is Dead. Raises ToolError."""
    found = {}
    for name in dict.fromkeys(names):
        coordinator, group = await cluster.describe_group(name)
        if group.protocol_type not in CONSUMER_TYPES:
            raise illegal_argument(f"GroupId {name} is not a consumer group ({group.protocol_type}).")
        try:
            members = {member: decode_assignment(member.member_assignment) for member in group.members}
        except BAD_BYTES as error:
            raise ToolError("org.apache.kafka.common.protocol.types.SchemaException", str(error)) from None
        shown = f"{coordinator.host}:{coordinator.port}  ({coordinator.node_id})"
        found[name] = GroupDescription(name, group.group_state, group.protocol_data, shown, members)
    return found
