"""Hypothesis strategies for messages: any value that a message can have in a version, derived from its schema."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.shares import share_of
from understudy.foundation.cluster.identifiers import topic_id_from_bytes
from understudy.foundation.wire.registry import APIS, Api
from understudy.foundation.wire.schema import ArrayOf, Field, FixedInt, Message, Plain, StructOf, WireType, fields_of

EVERY_VERSION: list[tuple[Api, type[Message], int]] = [
    (api, message, version)
    for api in APIS
    for message in (api.request, api.response)
    for version in range(api.min_version, api.max_version + 1)
]
IDS = [f"{message.__name__}-v{version}" for _, message, version in EVERY_VERSION]

EVERY_MESSAGE = [
    pytest.param(api, message, id=message.__name__) for api in APIS for message in (api.request, api.response)
]
"""For tests that are over in an instant, and take all versions of a message at once."""


def versions(api: Api) -> range:
    return range(api.min_version, api.max_version + 1)


def begins_or_ends_a_layout(api: Api, version: int) -> bool:
    """Whether a version is the oldest, the first with compact lengths, or the newest."""
    return version in (api.min_version, api.flexible_from, api.max_version)


QUICK = settings(max_examples=min(share_of("codec-values"), settings().max_examples // 8))
"""Examples of a property that is checked for each version of each message."""

INTEGERS = {
    code: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for code, bits in zip("bhiq", (8, 16, 32, 64), strict=True)
}

YEAR_9892 = 250_000_000_000
"""In seconds since 1970."""

TIMESTAMPS_WITHOUT_NULL = (
    *("issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"),
    *("issue_timestamp", "expiry_timestamp", "max_timestamp", "transaction_start_time_ms"),
)
"""Fields that kio reads as a time and never as None, so that it cannot hold -1."""

# A compact length grows a second byte around 127.
TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["é" * 63, "x" * 126, "x" * 127, "x" * 300]))
LONG_ARRAYS = st.sampled_from([tuple(range(126)), tuple(range(127)), tuple(range(300))])


@cache
def messages(
    message: type[Message], version: int, *, error_codes: tuple[int, ...] | None = None
) -> SearchStrategy[Message]:
    """Values that `version` can express. `error_codes` restricts them to values that kio can express: fields of that
    name to these codes, timestamps to whole seconds in the years that `datetime` has, and times to `timedelta`'s."""
    present = [f for f in fields_of(message) if version in f.versions]
    return st.builds(message, **{f.name: _values(f, version, error_codes) for f in present})


def _values(f: Field, version: int, error_codes: tuple[int, ...] | None) -> SearchStrategy[object]:
    if error_codes is not None and f.name.endswith("error_code"):
        return st.sampled_from(error_codes)
    if error_codes is not None and f.name in ("log_append_time_ms", "commit_timestamp"):
        return st.just(-1) | st.integers(0, YEAR_9892).map(lambda seconds: seconds * 1000)
    if error_codes is not None and f.name in TIMESTAMPS_WITHOUT_NULL:
        return st.integers(0, YEAR_9892).map(lambda seconds: seconds * 1000)
    if error_codes is not None and f.name in ("retention_time_ms", "max_lifetime_ms"):
        return st.integers(-1, YEAR_9892 * 1000)
    values = _of_type(f.type, version, error_codes)
    if f.tag is not None:
        values = st.just(f.default) | values
    return st.none() | values if f.may_be_null(version) else values


def _of_type(wire_type: WireType, version: int, error_codes: tuple[int, ...] | None) -> SearchStrategy[object]:
    match wire_type:
        case FixedInt("?"):
            return st.booleans()
        case FixedInt("d"):
            return st.floats(allow_nan=False)
        case FixedInt(code):
            return INTEGERS[code]
        case Plain.STRING:
            return TEXTS
        case Plain.BYTES:
            return st.binary(max_size=200)
        case Plain.UUID:
            return st.binary(min_size=16, max_size=16).map(topic_id_from_bytes)
        case ArrayOf(FixedInt("i")):
            return st.lists(INTEGERS["i"], max_size=3).map(tuple) | LONG_ARRAYS
        case ArrayOf(element):
            return st.lists(_of_type(element, version, error_codes), max_size=2).map(tuple)
        case StructOf(message):
            return messages(message, version, error_codes=error_codes)
