"""Records of `__cluster_metadata` are decoded in all their versions, and unknown ones are named."""

from __future__ import annotations

import pytest

from tests.understudy.history.kraft_logs.metadata_logs import AUDIT, ORDERS, control_record, metadata_value
from understudy.foundation.wire.messages.cluster_metadata import (
    BrokerRegistrationChangeRecord,
    LeaderChangeMessage,
    MetadataEndpoint,
    MetadataFeature,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuorumVoter,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from understudy.foundation.wire.schema import Message
from understudy.history.kraft_logs.metadata_records import (
    KINDS,
    NotDecoded,
    WithoutRecord,
    decode_control,
    decode_metadata,
)

VERSIONS = [(kind.message, version) for kind in KINDS.values() for version in range(kind.max_version + 1)]


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=lambda value: getattr(value, "__name__", value))
def test_every_record_is_decoded_in_every_version(message: type[Message], version: int) -> None:
    assert decode_metadata(metadata_value(message(), version)) == message()


def test_a_partition_change_as_kafka_writes_it() -> None:
    """The bytes of a fencing in a log of Kafka 3.9.1: `orders-0` gets another leader, and the ISR loses a member."""
    value = bytes.fromhex("01050100000000260cabeb562a40278ca846846af48ac7020009030000000200000003010400000002")
    decoded = decode_metadata(value)
    assert isinstance(decoded, PartitionChangeRecord)
    assert (decoded.partition_id, decoded.isr, decoded.leader, decoded.replicas) == (0, (2, 3), 2, None)


def test_values_of_every_kind() -> None:
    endpoints = (MetadataEndpoint(name="PLAINTEXT", host="127.0.0.1", port=65535, security_protocol=0),)
    features = (MetadataFeature(name="metadata.version", min_supported_version=1, max_supported_version=29),)
    for message in (
        RegisterBrokerRecord(
            broker_id=7, incarnation_id=AUDIT, broker_epoch=2**40, end_points=endpoints, features=features, rack="a",
            fenced=False, in_controlled_shutdown=True, log_dirs=(ORDERS,),
        ),
        RegisterControllerRecord(controller_id=8, incarnation_id=ORDERS, end_points=endpoints, features=features),
        BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=3, fenced=-1, in_controlled_shutdown=1),
        PartitionRecord(
            partition_id=3, topic_id=ORDERS, replicas=(1, 2), isr=(2,), adding_replicas=(2,), leader=2, leader_epoch=5,
            partition_epoch=9, leader_recovery_state=1, directories=(AUDIT, AUDIT), eligible_leader_replicas=(1,),
            last_known_elr=(3,),
        ),
        TopicRecord(name="orders", topic_id=ORDERS),
    ):  # fmt: skip
        assert decode_metadata(metadata_value(message)) == message


def test_a_change_of_the_leader_in_both_versions() -> None:
    message = LeaderChangeMessage(leader_id=3, voters=(QuorumVoter(voter_id=1), QuorumVoter(voter_id=3)))
    for version in (0, 1):
        expected = LeaderChangeMessage(version=version, leader_id=3, voters=message.voters)
        assert decode_control(*control_record(expected, version)) == expected


def test_a_type_that_adds_nothing_has_its_name() -> None:
    assert decode_metadata(b"\1\4\0\2\1a\1a\1a\0") == WithoutRecord("ConfigRecord")
    assert decode_control(b"\0\0\0\5", b"\0\0\0\0\1\0") == WithoutRecord("KRaftVersionRecord")


@pytest.mark.parametrize(
    ("value", "name", "why"),
    [
        (b"\1\x63\0\0", "record type 99", "the type is unknown"),
        (b"\1\5\7\0", "PartitionChangeRecord, version 7", "versions 0 to 2 are known"),
        (b"\0\5\2\0", "frame version 0", "only frame version 1 is known"),
        (b"", "record without a type", "0 bytes end in the frame"),
        (metadata_value(NoOpRecord()) + b"\0", "NoOpRecord, version 0", "its 5 bytes are malformed: ValueError()"),
    ],
)
def test_a_record_that_cannot_be_decoded_is_named(value: bytes, name: str, why: str) -> None:
    assert decode_metadata(value) == NotDecoded(name, why)


def test_a_control_record_that_cannot_be_decoded_is_named() -> None:
    key, value = control_record(LeaderChangeMessage(version=1))
    assert decode_control(b"\0\0\0\x2a", value) == NotDecoded("control record type 42", "the type is unknown")
    assert decode_control(b"", value) == NotDecoded("control record without a type", "its key has 0 bytes, its value 9")
    newer = decode_control(key, b"\0\2" + value[2:])
    assert newer == NotDecoded("LeaderChangeMessage, version 2", "versions 0 to 1 are known")
