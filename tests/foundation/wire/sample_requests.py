"""A request of each API in each version that names two of everything, with values that follow from their place."""

from __future__ import annotations

from understudy.foundation.cluster.identifiers import TopicId, topic_id_from_bytes
from understudy.foundation.wire.armed_answers import CLIENT_APIS
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import BOOL, ArrayOf, Field, FixedInt, Message, Plain, StructOf, fields_of

_FIXED = {
    "key_type": 0,
    "election_type": 0,
    "resource_type": 2,
    "acks": -1,
    "replica_id": -1,
    "session_id": 0,
    "session_epoch": -1,
}
"""Values with a meaning of their own: consumers without a session, kinds that exist."""

EVERY_VERSION: list[tuple[Api, int]] = [
    (api, version) for api in CLIENT_APIS for version in range(api.min_version, api.max_version + 1)
]
IDS = [f"{api.name}-v{version}" for api, version in EVERY_VERSION]


def sample_request(api: Api, version: int) -> Message:
    """Return the request: topics `name-0` and `name-1`, each with two partitions, members, groups and so on."""
    return _sample(api.request, version, 0)


def sample_topic_id(number: int) -> TopicId:
    return topic_id_from_bytes(bytes([9] * 15 + [number]))


def _sample(kind: type[Message], version: int, number: int) -> Message:
    present = (field for field in fields_of(kind) if version in field.versions and field.tag is None)
    return kind(**{field.name: _value(field, version, number) for field in present})


def _value(field: Field, version: int, number: int) -> object:
    match field.type:
        case ArrayOf(StructOf(kind)):
            return tuple(_sample(kind, version, 2 * number + each) for each in (0, 1))
        case ArrayOf(FixedInt()):
            return (2 * number + 3, 2 * number + 4)
        case ArrayOf(Plain.STRING):
            return (f"{field.name}-{2 * number}", f"{field.name}-{2 * number + 1}")
        case StructOf(kind):
            return _sample(kind, version, number)
        case Plain.STRING:
            return f"{field.name}-{number}"
        case Plain.BYTES:
            return b""
        case Plain.UUID:
            return sample_topic_id(number)
        case FixedInt() as integer:
            return True if integer == BOOL else _FIXED.get(field.name, number + 1)
    raise AssertionError(f"{field.name}: there is no sample of {field.type}")
