"""What coordinators say of consumer groups, as the tools show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from understudy.clusters.clients.assignors.protocol import BAD_BYTES, decode_assignment
from understudy.clusters.clients.group_requests import CONSUMER_TYPES
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import ToolError, illegal_argument


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


async def describe_groups(cluster: KafkaCluster, names: Iterable[str]) -> dict[str, Group]:
    """Return groups by name; a group that does not exist is Dead. Raises ToolError."""
    found = {}
    for name in dict.fromkeys(names):
        coordinator, group = await cluster.describe_group(name)
        if group.protocol_type not in CONSUMER_TYPES:
            raise illegal_argument(f"GroupId {name} is not a consumer group ({group.protocol_type}).")
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
        shown = f"{coordinator.host}:{coordinator.port}  ({coordinator.node_id})"
        found[name] = Group(name, group.group_state, group.protocol_data, shown, members)
    return found


def _assigned(assignment: bytes) -> tuple[TopicPartition, ...]:
    try:
        return decode_assignment(assignment)
    except BAD_BYTES as error:
        raise ToolError("org.apache.kafka.common.protocol.types.SchemaException", str(error)) from None
