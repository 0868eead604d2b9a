"""Arbitrary bytes are either read, or refused with field and offset, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from struct import pack

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.foundation.wire.test_golden_frames import FRAMES
from tests.foundation.wire.values import EVERY_VERSION, QUICK, begins_or_ends_a_layout, messages
from tests.shares import share_of
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.diagnosis import MOST_ELEMENTS
from understudy.foundation.wire.errors import MalformedMessage, UnsupportedVersion, WireError
from understudy.foundation.wire.headers import (
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from understudy.foundation.wire.messages.alter_partition import AlterPartitionResponse
from understudy.foundation.wire.messages.fetch import FetchRequest, FetchResponse
from understudy.foundation.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from understudy.foundation.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataResponse
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import ArrayOf, FixedInt, Message, Plain, StructOf, fields_of

ONE_PARTITION = b"\0" * 6 + b"\2\1\2" + b"\0" * 14
FETCHED = b"\0" * 10 + b"\1"

CASES: list[tuple[str, type[Message], int, bytes, str, int]] = [
    # name, message, version, bytes, part of the error message, offset in the error
    ("nothing at all", LeaderAndIsrRequest, 7, b"", r"controller_id at offset 0: needs 4 bytes, 0 are left", 0),
    ("cut inside an integer", StopReplicaResponse, 0, b"\0\0\0\0",
     r"partition_errors at .* needs 4 bytes, 2 are left", 2),
    ("bytes left over", UpdateMetadataResponse, 0, b"\0\0\0", r"message at offset 2: 1 bytes follow the end", 2),
    ("a count beyond the data", StopReplicaResponse, 0, pack(">hi", 0, 1 << 30), r"elements need 8589934592 bytes", 2),
    ("a negative count", StopReplicaResponse, 0, pack(">hi", 0, -2),
     r"partition_errors at offset 2: length -2 is negative", 2),
    ("a null array", StopReplicaResponse, 0, pack(">hi", 0, -1), r"partition_errors at offset 2: null, but", 2),
    ("a null compact array", StopReplicaResponse, 4, b"\0\0\0\0", r"partition_errors at offset 2: null, but", 2),
    ("a compact count beyond the data", StopReplicaResponse, 4, b"\0\0\xff\xff\xff\xff\x0f\0",
     r"4294967294 elements need", 2),
    ("a varint without end", StopReplicaResponse, 4, b"\0\0" + b"\xff" * 9, r"varint is longer than five bytes", 2),
    ("a varint of 35 bits", StopReplicaResponse, 4, b"\0\0\xff\xff\xff\xff\x7f\0", r"varint exceeds 32 bits", 2),
    ("a varint cut short", StopReplicaResponse, 4, b"\0\0\xff", r"the message ends inside a varint", 2),
    ("ints beyond the data", AlterPartitionResponse, 0, ONE_PARTITION + b"\xff\xff\x03" + b"\0" * 9, r"\[0\]\.isr", 23),
    ("a negative string", MetadataRequest, 0, pack(">ih", 1, -5),
     r"topics\[0\]\.name at offset 4: length -5 is negative", 4),
    ("a null string", MetadataRequest, 0, pack(">ih", 1, -1), r"topics\[0\]\.name at offset 4: null, but", 4),
    ("a string beyond the data", MetadataRequest, 0, pack(">ih", 1, 9) + b"ab", r"needs 9 bytes, 2 are left", 6),
    ("a string that is no text", MetadataRequest, 0, pack(">ih", 1, 3) + b"a\xff\xff",
     r"name at offset 7: not UTF-8", 7),
    ("a compact string too long", StopReplicaResponse, 4, b"\0\0\2\x82\x80\x02" + b"x" * 40000,
     r"string of 32769 bytes", 3),
    ("more tagged fields than bytes", UpdateMetadataResponse, 8, b"\0\0\x7f", r"tagged fields at .* 127 need 254", 2),
    ("a tagged field beyond the data", UpdateMetadataResponse, 8, b"\0\0\1\5\x09ab",
     r"tag 5 at offset 5: needs 9 bytes", 5),
    ("a known tag of another size", FetchResponse, 17, FETCHED + b"\1\0\3\1\0\0", r"endpoints .* announced 3", 14),
    ("a null that may not be, in a tag", FetchResponse, 17, FETCHED + b"\1\0\1\0",
     r"node_endpoints at offset 14: null", 14),
    ("records beyond the data", FetchResponse, 0, pack(">ihiihqi", 1, 0, 1, 0, 0, 0, 99),
     r"partitions\[0\]\.records", 28),
    ("negative records", FetchResponse, 0, pack(">ihiihqi", 1, 0, 1, 0, 0, 0, -7), r"records at .* length -7", 24),
]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "version", "data", "text", "offset"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_malformed_bytes_are_refused_with_field_and_offset(
    message: type[Message], version: int, data: bytes, text: str, offset: int
) -> None:
    with pytest.raises(MalformedMessage, match=text) as refused:
        decode(message, version, data)
    assert refused.value.offset == offset
    assert f"{message.__name__} v{version}" in str(refused.value)


def test_unknown_tagged_fields_are_skipped_at_any_level() -> None:
    unknown = b"\2\x05\1a\xac\x02\3bcd"  # two of them: tag 5 and tag 300
    assert decode(UpdateMetadataResponse, 8, b"\0\7" + unknown) == UpdateMetadataResponse(error_code=7)
    topic = b"\1" + unknown
    assert decode(LeaderAndIsrResponse, 7, b"\0\0\2" + b"\0" * 16 + topic + b"\0").topics[0].partition_errors == ()


# ------------------------------------------------------------------ bounds of time and memory


def peak_of(decoding: Callable[[], object]) -> int:
    """The peak of bytes allocated by `decoding`."""
    decoding()  # the codec is made on first use, and kept
    tracemalloc.start()
    try:
        decoding()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("announced", [50_001, 0x7FFFFFFF])
def test_an_array_count_is_checked_before_elements_are_built(announced: int) -> None:
    """The message has room for 50,000 names: a count of one more is refused before any element is built."""
    data = pack(">i", announced) + b"\0\0" * 50_000

    def refuse() -> None:
        with pytest.raises(MalformedMessage, match=f"topics at offset 0: {announced} elements need"):
            decode(MetadataRequest, 0, data)

    assert peak_of(refuse) < 50_000


def test_a_tagged_array_count_is_checked_before_elements_are_built() -> None:
    with pytest.raises(MalformedMessage, match="4294967295 need 8589934590 bytes at least"):
        decode(FetchRequest, 17, encode(FetchRequest(), 17)[:-1] + b"\xff\xff\xff\xff\x0f")


LAYOUTS = [
    pytest.param(message, version, id=f"{message.__name__}-v{version}")
    for api, message, version in EVERY_VERSION
    if begins_or_ends_a_layout(api, version)
]


@pytest.mark.parametrize(("message", "version"), LAYOUTS)
def test_a_decoded_message_takes_at_most_32_times_its_bytes(message: type[Message], version: int) -> None:
    """The worst case is millions of minimal elements; `socket.request.max.bytes` bounds their bytes."""
    for path in arrays(message, version):
        for text in ("", "€"):
            data = encode(crowded(message, version, path, text), version)
            assert peak_of(partial(decode, message, version, data)) < 32 * len(data), (path, text)


def arrays(message: type[Message], version: int) -> Iterator[tuple[str, ...]]:
    """The paths of arrays of structs or strings, as field names from the message inwards."""
    for field in fields_of(message):
        if version in field.versions and isinstance(field.type, ArrayOf):
            element = field.type.element
            if not isinstance(element, FixedInt):
                yield (field.name,)
            if isinstance(element, StructOf):
                yield from ((field.name, *deeper) for deeper in arrays(element.message, version))


def crowded(message: type[Message], version: int, path: tuple[str, ...], text: str) -> Message:
    """A minimal message, but with 500 elements in the array at `path`, whose strings are all `text`."""
    values: dict[str, object] = {}
    for field in fields_of(message):
        if version not in field.versions or (field.tag is not None and field.name not in path):
            continue
        if not path and field.type is Plain.STRING:
            values[field.name] = text
        elif path[:1] == (field.name,) and isinstance(field.type, ArrayOf):
            element, inner = field.type.element, path[1:]
            item = crowded(element.message, version, inner, text) if isinstance(element, StructOf) else text
            values[field.name] = (item,) * (1 if inner else 500)
        elif field.default is None:
            values[field.name] = "" if field.type is Plain.STRING else b"" if field.type is Plain.BYTES else ()
    return message(**values)


@pytest.mark.parametrize("malformed", ["an element", "a tagged field"])
def test_the_time_to_explain_a_refusal_is_bounded(malformed: str) -> None:
    """A message can be malformed at its very end, and finding the reason takes far longer than failing."""
    if malformed == "an element":
        data = pack(">hi", 0, 200_000) + b"\0" * 8 * 199_999 + b"\xff" * 8
        message, version = StopReplicaResponse, 0
    else:
        data = b"\0\0\1" + b"\xc0\x9a\x0c" + b"\1\0" * 199_999 + b"\1\x7f"
        message, version = StopReplicaResponse, 4
    with pytest.raises(MalformedMessage, match=rf"unreadable here or further on; {MOST_ELEMENTS} elements") as refused:
        decode(message, version, data)
    assert refused.value.offset < 10 * MOST_ELEMENTS


def test_a_request_of_an_unknown_api_is_refused_by_its_key() -> None:
    with pytest.raises(UnsupportedVersion, match="api key 99"):
        decode_request_header(pack(">hhi", 99, 0, 1))


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (b"", "v0: api_key at offset 0"),
        (b"\0\3\0", "v0: api_key at offset 0"),
        (pack(">hhih", 3, 0, 1, 5), "v1: client_id at offset 8: client id of 5 bytes, 0 are left"),
        (pack(">hhih", 3, 0, 1, -2), "v1: client_id at offset 8: client id of -2 bytes"),
        (pack(">hhih", 3, 9, 1, 1) + b"\xff", "v2: client_id at offset 8: 'utf-8' codec"),
        (pack(">hhih", 3, 9, 1, 0), "v2: tagged fields at offset 10"),
        (pack(">hhih", 3, 9, 1, 0) + b"\1\5\x7f", "v2: tagged fields at offset 10"),
    ],
)
def test_a_broken_request_header_is_refused(frame: bytes, text: str) -> None:
    with pytest.raises(MalformedMessage, match=f"RequestHeader {text}"):
        decode_request_header(frame)


# ------------------------------------------------------------------ 100,000 mutations

MUTATIONS = share_of("mutated-frames")
NO_REASON = "though every field by itself"
"""The text of `diagnosis` when it finds no flaw in bytes that the generated reader refused."""
EDGES = (
    b"\0",
    b"\1",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
)


def corpus() -> list[tuple[bytes, type[Message] | None, int]]:
    """Request frames (message None) and response bodies: one or two of every version, and recorded ones of Kafka."""
    frames: list[tuple[bytes, type[Message] | None, int]] = [(frame.raw, None, 0) for frame in FRAMES]

    def add_two(api: Api, message: type[Message], version: int) -> None:
        @settings(QUICK, max_examples=2, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(value=messages(message, version))
        def add(value: Message) -> None:
            is_request = message is api.request
            raw = encode_request(value, version, 1, "fuzz")[4:] if is_request else encode(value, version)
            frames.append((raw[:600], None if is_request else message, version))

        add()

    for api, message, version in EVERY_VERSION:
        add_two(api, message, version)
    return frames


def mutated(raw: bytes, other: bytes, source: random.Random) -> bytes:
    """`raw` with one to three mutations: a flipped bit, an extreme value, a cut, repeated bytes, another's end."""
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(raw) + 1)
        match source.randrange(6):
            case 0 if raw:
                at %= len(raw)
                raw = raw[:at] + bytes([raw[at] ^ 1 << source.randrange(8)]) + raw[at + 1 :]
            case 1:
                edge = source.choice(EDGES)
                raw = raw[:at] + edge + raw[at + len(edge) :]
            case 2:
                raw = raw[:at]
            case 3:
                raw = raw[:at] + raw[at - 4 : at] + raw[at:]
            case 4:
                raw = raw[:at] + other[at:]
            case _:
                raw = raw[:at] + source.randbytes(2) + raw[at:]
    return raw


def test_mutated_frames_are_read_or_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the codec's own errors are raised; a message that is read is written again in no more bytes, and equal."""
    source = random.Random(1)
    frames = corpus()
    seen = Counter[str]()
    for _ in range(MUTATIONS):
        raw, message, version = source.choice(frames)
        data = mutated(raw, source.choice(frames)[0], source)
        refused: WireError | None = None
        try:
            if message is None:
                header, value = decode_request(data)
                version = header.api_version
            else:
                value = decode(message, version, data)
        except WireError as error:
            refused = error
        if refused:
            assert NO_REASON not in str(refused), (message, version, data.hex())
            seen[type(refused).__name__] += 1
        else:
            again = encode(value, version)
            assert len(again) <= len(data), (message, version, data.hex())
            assert decode(type(value), version, again) == value
            seen["read"] += 1
    with capsys.disabled():
        print(f"\n{MUTATIONS:,} mutated frames of {len(frames)}: {dict(sorted(seen.items()))}")
    assert sum(seen.values()) == MUTATIONS
    assert seen["read"] > MUTATIONS // 100
    assert seen["MalformedMessage"] > MUTATIONS // 4


def test_mutated_responses_are_read_or_refused() -> None:
    source = random.Random(2)
    for api, message, version in EVERY_VERSION:
        frame = encode_response(api, version, 7, message())[4:] if message is api.response else b""
        for _ in range(50 if frame else 0):
            with contextlib.suppress(MalformedMessage):
                decode_response(api, version, mutated(frame, frame, source))


def test_strings_of_every_length_are_read_back() -> None:
    for length in [*range(120, 140), 16382, 16383, 16384, 32767]:
        request = MetadataRequest(topics=(MetadataRequestTopic(name="x" * length),))
        for version in (8, 12):
            assert decode(MetadataRequest, version, encode(request, version)) == request


def test_a_request_cut_at_any_byte_is_refused() -> None:
    frame = next(frame for frame in FRAMES if frame.request == "LeaderAndIsr" and frame.version == 7)
    body = frame.raw[decode_request_header(frame.raw)[1] :]
    for cut in range(len(body)):
        with pytest.raises(MalformedMessage) as refused:
            decode(LeaderAndIsrRequest, 7, body[:cut])
        assert refused.value.offset <= cut
    assert decode(LeaderAndIsrRequest, 7, body)
    with pytest.raises(MalformedMessage):
        decode(StopReplicaRequest, 4, body)
