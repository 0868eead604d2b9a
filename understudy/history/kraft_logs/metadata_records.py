"""Decodes the records of `__cluster_metadata`. Mirrors `MetadataRecordSerde` and `ControlRecordUtils`.

A record of the controller has a frame version, a type and a version before its message, each as an unsigned varint. A
record of the quorum has a version and its type in its key, two bytes each, and the message in its value. A type or
version that is not known here is named and left out, because the records of another type can still be used.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from understudy.foundation.wire.codec import ERRORS, Codec, compile_codec
from understudy.foundation.wire.messages.cluster_metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    LeaderChangeMessage,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    SnapshotHeaderRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from understudy.foundation.wire.primitives import read_uvarint
from understudy.foundation.wire.schema import Message

FRAME_VERSION: Final = 1


class RecordKind(NamedTuple):
    message: type[Message]
    max_version: int


KINDS: Final[dict[int, RecordKind]] = {
    0: RecordKind(RegisterBrokerRecord, 3),
    1: RecordKind(UnregisterBrokerRecord, 0),
    2: RecordKind(TopicRecord, 0),
    3: RecordKind(PartitionRecord, 2),
    5: RecordKind(PartitionChangeRecord, 2),
    7: RecordKind(FenceBrokerRecord, 0),
    8: RecordKind(UnfenceBrokerRecord, 0),
    9: RecordKind(RemoveTopicRecord, 0),
    12: RecordKind(FeatureLevelRecord, 0),
    17: RecordKind(BrokerRegistrationChangeRecord, 2),
    20: RecordKind(NoOpRecord, 0),
    23: RecordKind(BeginTransactionRecord, 0),
    24: RecordKind(EndTransactionRecord, 0),
    25: RecordKind(AbortTransactionRecord, 0),
    27: RecordKind(RegisterControllerRecord, 0),
}
"""The records of the controller that say something about brokers, partitions and reigns, by type."""

_WITHOUT_RECORD: Final = {
    4: "ConfigRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    26: "RemoveDelegationTokenRecord",
    28: "ClearElrRecord",
}
"""The names of the types whose records change neither a broker nor a partition state nor a reign."""

CONTROL_KINDS: Final[dict[int, RecordKind]] = {
    2: RecordKind(LeaderChangeMessage, 1),
    3: RecordKind(SnapshotHeaderRecord, 0),
}
_CONTROL_WITHOUT_RECORD: Final = {4: "SnapshotFooterRecord", 5: "KRaftVersionRecord", 6: "VotersRecord"}

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")


class WithoutRecord(NamedTuple):
    """A record of a type that adds nothing to an event log."""

    name: str


class NotDecoded(NamedTuple):
    """A record that cannot be decoded, for example because a newer Kafka has written it.

    Attributes:
        name: its type, with the version if only that is unknown.
        why: the reason, in words.
    """

    name: str
    why: str


Decoded: TypeAlias = Message | WithoutRecord | NotDecoded


def decode_metadata(value: bytes) -> Decoded:
    """Decode the value of a record of the controller."""
    try:
        frame, position = read_uvarint(value, 0)
        if frame != FRAME_VERSION:
            return NotDecoded(f"frame version {frame}", f"only frame version {FRAME_VERSION} is known")
        kind, position = read_uvarint(value, position)
        version, position = read_uvarint(value, position)
    except ERRORS:
        return NotDecoded("record without a type", f"{len(value)} bytes end in the frame")
    if kind in _WITHOUT_RECORD:
        return WithoutRecord(_WITHOUT_RECORD[kind])
    return _decode(KINDS.get(kind), f"record type {kind}", version, value, position)


def decode_control(key: bytes, value: bytes) -> Decoded:
    """Decode the key and value of a record of the quorum."""
    try:
        _, kind = _KEY.unpack_from(key)
        version = _VERSION.unpack_from(value)[0]
    except struct.error:
        return NotDecoded("control record without a type", f"its key has {len(key)} bytes, its value {len(value)}")
    if kind in _CONTROL_WITHOUT_RECORD:
        return WithoutRecord(_CONTROL_WITHOUT_RECORD[kind])
    return _decode(CONTROL_KINDS.get(kind), f"control record type {kind}", version, value, 0)


def _decode(kind: RecordKind | None, title: str, version: int, value: bytes, position: int) -> Decoded:
    if kind is None:
        return NotDecoded(title, "the type is unknown")
    name = kind.message.__name__
    if version > kind.max_version:
        return NotDecoded(f"{name}, version {version}", f"versions 0 to {kind.max_version} are known")
    try:
        message: Message = _codec(kind.message, version).read(value, position)
    except ERRORS as error:
        return NotDecoded(f"{name}, version {version}", f"its {len(value)} bytes are malformed: {error!r}")
    return message


@cache
def _codec(message: type[Message], version: int) -> Codec:
    return compile_codec(message, version, flexible=True)
