"""Facts of the message classes that equal bytes do not prove: defaults, nullable fields and ignorable fields."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, get_args, get_type_hints

import pytest
from kio.static.primitive import TZAware

from tests.foundation.wire.kio_oracle import from_kio_value, kio_class
from tests.foundation.wire.values import EVERY_MESSAGE, versions
from understudy.foundation.wire.__main__ import main
from understudy.foundation.wire.codegen import minimum_size
from understudy.foundation.wire.registry import APIS, Api
from understudy.foundation.wire.schema import (
    ArrayOf,
    Field,
    FixedInt,
    Message,
    Plain,
    StructOf,
    fields_of,
    int16,
    since,
    tag,
)

NOT_IGNORABLE = """
AclCreation: resource_pattern_type
AddPartitionsToTxnRequest: transactions v3_and_below_producer_epoch v3_and_below_producer_id
AddPartitionsToTxnRequest: v3_and_below_topics v3_and_below_transactional_id
AddPartitionsToTxnResponse: results_by_topic_v3_and_below results_by_transaction
AddPartitionsToTxnResult: topic_results transactional_id
AddPartitionsToTxnTransaction: producer_epoch producer_id topics transactional_id verify_only
AlterPartitionRequestPartitionData: leader_recovery_state new_isr new_isr_with_epochs
Coordinator: error_code host key node_id port
CreateDelegationTokenRequest: owner_principal_name owner_principal_type
CreateDelegationTokenResponse: token_requester_principal_name token_requester_principal_type
CreateTopicsRequest: validate_only
DeleteAclsFilter: pattern_type_filter
DeleteAclsMatchingAcl: pattern_type
DeleteTopicsRequest: topics
DescribeAclsRequest: pattern_type_filter
DescribeAclsResource: pattern_type
DescribeClusterRequest: endpoint_type
DescribeClusterResponse: endpoint_type
DescribeConfigsRequest: include_documentation include_synonyms
DescribeConfigsResourceResult: is_default
DescribeGroupsRequest: include_authorized_operations
DescribedDelegationToken: token_requester_principal_name token_requester_principal_type
DescribedGroup: authorized_operations
ElectLeadersRequest: election_type
ElectLeadersResponse: error_code
FeatureUpdateKey: allow_downgrade upgrade_type
FetchPartition: last_fetched_epoch
FetchRequest: forgotten_topics_data replica_id replica_state
FetchResponse: node_endpoints session_id
FindCoordinatorRequest: coordinator_keys key key_type
FindCoordinatorResponse: coordinators error_code host node_id port
HeartbeatRequest: group_instance_id
InitProducerIdRequest: producer_epoch producer_id
JoinGroupRequest: group_instance_id
JoinGroupResponse: skip_assignment
LeaderAndIsrPartitionState: leader_recovery_state
LeaderAndIsrRequest: is_kraft_controller topic_states type ungrouped_partition_states
LeaderAndIsrResponse: partition_errors topics
LeaveGroupRequest: member_id members
LeaveGroupResponse: members
ListGroupsRequest: states_filter types_filter
ListOffsetsPartition: max_num_offsets
ListOffsetsPartitionResponse: leader_epoch offset old_style_offsets timestamp
ListOffsetsRequest: isolation_level
ListTransactionsRequest: duration_filter
MemberIdentity: group_instance_id member_id
MemberResponse: error_code group_instance_id member_id
MetadataRequest: allow_auto_topic_creation include_cluster_authorized_operations include_topic_authorized_operations
MetadataResponse: cluster_authorized_operations
MetadataResponseTopic: topic_authorized_operations
OffsetCommitRequest: group_instance_id
OffsetCommitRequestPartition: commit_timestamp
OffsetFetchRequest: group_id groups require_stable topics
OffsetFetchRequestGroup: group_id topics
OffsetFetchRequestTopic: name partition_indexes
OffsetFetchRequestTopics: name partition_indexes
OffsetFetchResponse: groups topics
OffsetFetchResponseGroup: error_code group_id topics
OffsetFetchResponsePartition: committed_offset error_code metadata partition_index
OffsetFetchResponsePartitions: committed_offset error_code metadata partition_index
OffsetFetchResponseTopic: name partitions
OffsetFetchResponseTopics: name partitions
PartitionData: current_leader diverging_epoch preferred_read_replica snapshot_id
PartitionProduceResponse: current_leader
ProduceRequest: transactional_id
ProduceResponse: node_endpoints
StopReplicaRequest: delete_partitions is_kraft_controller topic_states topics ungrouped_partitions
SyncGroupRequest: group_instance_id
TxnOffsetCommitRequest: generation_id group_instance_id member_id
UpdateFeaturesRequest: validate_only
UpdateMetadataRequest: is_kraft_controller topic_states type ungrouped_partition_states
"""
"""Fields that some versions lack and that are not ignorable in Kafka: a value cannot be dropped there."""


def structs(message: type[Message]) -> list[type[Message]]:
    """A message and all structs inside it."""
    found = [message]
    for field in fields_of(message):
        wire_type = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(wire_type, StructOf):
            found += structs(wire_type.message)
    return found


def test_fields_that_are_not_ignorable_are_those_of_kafka() -> None:
    ours = {
        f"{struct.__name__}.{field.name}"
        for api in APIS
        for message in (api.request, api.response)
        for struct in structs(message)
        for field in fields_of(struct)
        if not field.ignorable and any(version not in field.versions for version in range(api.max_version + 1))
    }
    kafkas = {
        f"{struct}.{field}"
        for struct, _, names in (line.partition(": ") for line in NOT_IGNORABLE.strip().splitlines())
        for field in names.split()
    }
    assert ours == kafkas


@pytest.mark.parametrize(("api", "message"), EVERY_MESSAGE)
def test_defaults_and_nullable_fields_are_kios(api: Api, message: type[Message]) -> None:
    for version in versions(api):
        compare_with_kios(api, message, version)


def compare_with_kios(api: Api, message: type[Message], version: int) -> None:
    compared = 0
    for struct, kind in zip(structs_at(message, version), kio_structs(kio_class(api, message, version)), strict=True):
        hints = get_type_hints(kind)
        for ours, theirs in zip(present(struct, version), dataclasses.fields(kind), strict=True):
            where = f"{struct.__name__}.{ours.name} v{version}"
            compared += 1
            left_open = ours.default is None and theirs.default == ()  # Kafka's schema names no default; see `schema`
            if theirs.default is not dataclasses.MISSING and not left_open:
                assert ours.default == from_kio_value(theirs.default, ours.type, version), where
            # kio reads a zero id and the timestamp -1 as None.
            if ours.type is not Plain.UUID and TZAware not in get_args(hints[theirs.name]):
                assert ours.may_be_null(version) == (type(None) in get_args(hints[theirs.name])), where
    assert compared == sum(len(present(struct, version)) for struct in structs_at(message, version))


def present(struct: type[Message], version: int) -> list[Field]:
    return [field for field in fields_of(struct) if version in field.versions]


def structs_at(message: type[Message], version: int) -> list[type[Message]]:
    found = [message]
    for field in present(message, version):
        wire_type = field.type.element if isinstance(field.type, ArrayOf) else field.type
        if isinstance(wire_type, StructOf):
            found += structs_at(wire_type.message, version)
    return found


def kio_structs(kind: Any) -> list[Any]:
    found, hints = [kind], get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        inner = [hint, *get_args(hint), *(deeper for option in get_args(hint) for deeper in get_args(option))]
        found += [s for option in inner if dataclasses.is_dataclass(option) for s in kio_structs(option)]
    return found


# ------------------------------------------------------------------ the vocabulary itself


class Example(Message, frozen=True, kw_only=True):
    codes: Annotated[tuple[int16, ...] | None, since(2), tag(3)] = None


class Unannotated(Message, frozen=True, kw_only=True):
    number: int = 0


def test_a_field_is_read_back_from_its_annotation() -> None:
    (field,) = fields_of(Example)
    assert (field.name, field.type, field.tag, field.ignorable) == ("codes", ArrayOf(FixedInt("h")), 3, False)
    assert [version in field.versions for version in (0, 1, 2, 9)] == [False, False, True, True]
    assert field.may_be_null(0)


def test_an_annotation_without_wire_type_is_named() -> None:
    with pytest.raises(TypeError, match=r"Unannotated\.number: .* has no wire type"):
        fields_of(Unannotated)


@pytest.mark.parametrize(("api", "message"), EVERY_MESSAGE)
def test_every_array_element_takes_a_byte_or_more(api: Api, message: type[Message]) -> None:
    """So the count of an array can be checked against the remaining bytes."""
    for version in versions(api):
        for struct in structs_at(message, version)[1:]:
            assert minimum_size(StructOf(struct), version, api.is_flexible(version)) >= 1, (version, struct)


def test_the_generated_code_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["UpdateMetadataResponse", "8"]) == 0
    shown = capsys.readouterr().out
    assert "def read(data, pos=0):" in shown
    assert "append(pack_hx(message.error_code))" in shown
    assert "if pos != size:" in shown
    assert main(["UpdateMetadataResponse", "9"]) == 2
    assert "UpdateMetadataResponse 0-8" in capsys.readouterr().err


def test_the_printed_code_is_the_code_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """A request's reader is printed without the check for bytes after its end, which only responses have."""
    assert main(["UpdateMetadataRequest", "8"]) == 0
    assert "pos != size" not in capsys.readouterr().out
