"""Messages after their own version are Kafka's bytes, and come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.foundation.wire.values import QUICK, messages
from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion
from understudy.foundation.wire.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    OwnedTopic,
)
from understudy.foundation.wire.messages.group_metadata import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import LAYOUTS, decode_prefixed, encode_prefixed, version_of

CASES = [
    pytest.param(message, version, id=f"{message.__name__}-v{version}")
    for message, layout in LAYOUTS.items()
    for version in range(layout.min_version, layout.max_version + 1)
]


@pytest.mark.parametrize(("message", "version"), CASES)
def test_what_is_encoded_is_decoded(message: type[Message], version: int) -> None:
    @QUICK
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        value = data.draw(messages(message, version))
        encoded = encode_prefixed(value, version)
        assert version_of(encoded) == version
        assert decode_prefixed(message, encoded) == value

    check()


@pytest.mark.parametrize(
    ("message", "version", "expected"),
    [
        (OffsetCommitKey(group="g", topic="t", partition=3), 1, "0001 000167 000174 00000003"),
        (
            OffsetCommitValue(offset=7, leader_epoch=2, metadata="m", commit_timestamp=5),
            3,
            "0003 0000000000000007 00000002 00016d 0000000000000005",
        ),
        (
            OffsetCommitValue(offset=7, metadata="", commit_timestamp=5, expire_timestamp=9),
            1,
            "0001 0000000000000007 0000 0000000000000005 0000000000000009",
        ),
        (GroupMetadataKey(group="g"), 2, "0002 000167"),
        (
            GroupMetadataValue(
                protocol_type="consumer",
                generation=1,
                protocol="range",
                leader="a",
                current_state_timestamp=5,
                members=(
                    MemberMetadata(
                        member_id="a",
                        client_id="c",
                        client_host="/h",
                        rebalance_timeout=6,
                        session_timeout=7,
                        subscription=b"s",
                        assignment=b"",
                    ),
                ),
            ),
            3,
            "0003 0008636f6e73756d6572 00000001 000572616e6765 000161 0000000000000005 00000001"
            "000161 ffff 000163 00022f68 00000006 00000007 0000000173 00000000",
        ),
        (
            ConsumerProtocolSubscription(
                topics=("t",), owned_partitions=(OwnedTopic(topic="t", partitions=(1,)),), generation_id=4, rack_id="r"
            ),
            3,
            "0003 00000001 000174 ffffffff 00000001 000174 00000001 00000001 00000004 000172",
        ),
        (
            ConsumerProtocolAssignment(assigned_partitions=(AssignedTopic(topic="t", partitions=(0, 1)),)),
            0,
            "0000 00000001 000174 00000002 00000000 00000001 ffffffff",
        ),
    ],
)
def test_bytes_are_those_of_kafkas_schemas(message: Message, version: int, expected: str) -> None:
    assert encode_prefixed(message, version) == bytes.fromhex(expected)


def test_consumers_read_a_newer_version_as_the_newest_they_know() -> None:
    value = ConsumerProtocolSubscription(topics=("t",), rack_id="r")
    newer = (7).to_bytes(2, "big") + encode_prefixed(value, 3)[2:] + b"what a later version adds"
    assert decode_prefixed(ConsumerProtocolSubscription, newer) == value


def test_a_newer_version_of_a_record_is_refused() -> None:
    newer = (5).to_bytes(2, "big") + encode_prefixed(OffsetCommitValue(offset=1), 4)[2:]
    with pytest.raises(UnsupportedVersion, match=r"OffsetCommitValue: version 5 is unknown; expected 0 to 4"):
        decode_prefixed(OffsetCommitValue, newer)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\0", "version at offset 0: 1 bytes are left; a version takes 2"),
        (bytes.fromhex("0001 0005"), "OffsetCommitKey v1"),
    ],
)
def test_bytes_that_are_cut_short_are_refused(data: bytes, problem: str) -> None:
    with pytest.raises(MalformedMessage, match=problem):
        decode_prefixed(OffsetCommitKey, data)
