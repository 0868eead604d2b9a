"""`understudy groups --describe` of a group with members, from a scripted coordinator; in the forms of Kafka's tool."""

from __future__ import annotations

import asyncio
import io

from tests.brokers.parts import StillClock
from tests.brokers.peers import ScriptedPeer
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.consumer_protocol import AssignedTopic, ConsumerProtocolAssignment
from understudy.foundation.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from understudy.foundation.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from understudy.foundation.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from understudy.foundation.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from understudy.foundation.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from understudy.foundation.wire.registry import APIS
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import encode_prefixed
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.groups import TOOL

ASSIGNMENT = ConsumerProtocolAssignment(assigned_partitions=(AssignedTopic(topic="a", partitions=(0, 1)),))
MEMBERS = (
    DescribedGroupMember(member_id="idle", client_id="c-1", client_host="/10.0.0.1"),
    DescribedGroupMember(
        member_id="a-member-with-a-long-name",
        client_id="c-2",
        client_host="/10.0.0.2",
        member_assignment=encode_prefixed(ASSIGNMENT, 0),
    ),
)


def coordinator(_: RequestHeader, request: Message) -> Message:
    """Answer as the only broker, which coordinates a group of two members, one of which has both partitions."""
    match request:
        case ApiVersionsRequest():
            served = (ApiVersion(api_key=api.key, max_version=api.max_version) for api in APIS)
            return ApiVersionsResponse(api_keys=tuple(served))
        case MetadataRequest():
            partitions = tuple(MetadataResponsePartition(partition_index=number, leader_id=1) for number in (0, 1))
            return MetadataResponse(
                brokers=(MetadataResponseBroker(node_id=1, host="h1", port=9092),),
                controller_id=1,
                topics=(MetadataResponseTopic(name="a", partitions=partitions),),
            )
        case FindCoordinatorRequest():
            return FindCoordinatorResponse(node_id=1, host="h1", port=9092)
        case DescribeGroupsRequest():
            group = DescribedGroup(
                group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=MEMBERS
            )
            return DescribeGroupsResponse(groups=(group,))
        case OffsetFetchRequest():
            committed = OffsetFetchResponsePartition(partition_index=0, committed_offset=7)
            return OffsetFetchResponse(topics=(OffsetFetchResponseTopic(name="a", partitions=(committed,)),))
        case ListOffsetsRequest():
            ends = tuple(ListOffsetsPartitionResponse(partition_index=number, offset=10) for number in (0, 1))
            return ListOffsetsResponse(topics=(ListOffsetsTopicResponse(name="a", partitions=ends),))
    raise AssertionError(f"not expected: {request}")


def described(*words: str) -> list[str]:
    """The lines printed for the group, without blanks at their ends."""
    out = io.StringIO()
    surroundings = Surroundings(Console(out, io.StringIO(), str), ScriptedPeer(coordinator), StillClock(), "1")
    line = ("--describe", "--bootstrap-server", "h1:9092", "--group", "g", *words)
    assert asyncio.run(TOOL.main(line, surroundings)) == 0
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_offsets_are_shown_with_their_consumers() -> None:
    assert described() == [
        "",
        "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID"
        "               HOST            CLIENT-ID",
        "g               a               1          -               10              -               "
        "a-member-with-a-long-name /10.0.0.2       c-2",
        "g               a               0          7               10              3               "
        "a-member-with-a-long-name /10.0.0.2       c-2",
    ]


def test_members_are_shown_with_their_assignment() -> None:
    assert described("--members", "--verbose") == [
        "",
        "GROUP           CONSUMER-ID               HOST            CLIENT-ID       #PARTITIONS     ASSIGNMENT",
        "g               idle                      /10.0.0.1       c-1             0               -",
        "g               a-member-with-a-long-name /10.0.0.2       c-2             2               (0,1)",
    ]


def test_the_state_is_shown_with_the_coordinator() -> None:
    assert described("--state") == [
        "",
        "GROUP                     COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE           #MEMBERS",
        "g                         h1:9092  (1)              range                Stable          2",
    ]
