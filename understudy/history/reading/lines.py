"""Decodes one line of an event log, in two steps: the envelope first, then the payload by its type.

With two steps a record of an unknown type or version still has its place in the sequence of its incarnation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE, RECORD_VERSION, Envelope, Payload

MAX_LINE_BYTES = 32 * 1024 * 1024
"""A longer line is not read. A failover of 200,000 partitions writes the longest known one, about 12 MB."""

MAX_CLOCK_MS = float(2**43)
"""A line with a larger clock, beyond 278 years, is malformed. The bound keeps microseconds exact in a double."""

MAX_SEQ = 2**53

_T = TypeVar("_T")


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An `Envelope` whose payload is still bytes."""

    version: int
    run: str
    node: str
    incarnation: int
    seq: int
    mono_ms: float
    wall_ms: float
    type: str
    cause: int | None = None
    zxid: int = 0
    controller_epoch: int = 0
    data: msgspec.Raw


HEADER_DECODER = msgspec.json.Decoder(Header)
PAYLOAD_DECODERS: dict[str, msgspec.json.Decoder[Payload]] = {
    name: msgspec.json.Decoder(payload) for name, payload in PAYLOAD_BY_TYPE.items()
}


def decode_record(line: bytes) -> Envelope:
    """Decode one line as a record. Programs that follow a growing log use it; they need no findings.

    Raises:
        msgspec.MsgspecError: the line is not a whole record of a known version and type.
    """
    header = decode_header(line)
    if header.version != RECORD_VERSION or header.type not in PAYLOAD_BY_TYPE:
        raise msgspec.ValidationError(f"record type {header.type!r} of version {header.version} is not known")
    return with_payload(header)


def decode_records(lines: Sequence[bytes]) -> list[Envelope]:
    """Decode lines without their newlines as `decode_record` does each, all together in two thirds of the time.

    Raises:
        msgspec.MsgspecError: not every line is a whole record of a known version and type. `decode_record` says which.
    """
    text = b"\n".join(lines)
    # Between `}` and `{` no value goes on, so each of these lines is one value, or there are more values than lines.
    if not (text.startswith(b"{") and text.endswith(b"}") and text.count(b"}\n{") == len(lines) - 1):
        raise msgspec.DecodeError("a line is not an object")
    try:
        headers = HEADER_DECODER.decode_lines(text)
        if len(headers) != len(lines):
            raise msgspec.DecodeError("a line has several objects")
        return [_known(header) for header in headers]
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None


def _known(header: Header) -> Envelope:
    """Return the record of an envelope that was decoded with others."""
    decoder = PAYLOAD_DECODERS.get(header.type)
    if decoder is None or header.version != RECORD_VERSION:
        raise msgspec.ValidationError(f"record type {header.type!r} of version {header.version} is not known")
    if not is_in_range(header.mono_ms, header.wall_ms, header.seq, header.incarnation):
        raise msgspec.ValidationError("a number of the envelope is out of its range")
    return _with_data(header, decoder.decode(header.data))


def decode_header(line: bytes) -> Header:
    """Decode the envelope of a line, of any version and type. A former name of a type becomes its name of today.

    Raises:
        msgspec.MsgspecError: the line is no envelope, or a number is out of its range.
    """
    header = _decode(HEADER_DECODER, line)
    if not is_in_range(header.mono_ms, header.wall_ms, header.seq, header.incarnation):
        raise msgspec.ValidationError("a number of the envelope is out of its range")
    if header.type in FORMER_TYPE_NAMES:
        return msgspec.structs.replace(header, type=FORMER_TYPE_NAMES[header.type])
    return header


def is_in_range(mono_ms: float, wall_ms: float, seq: int, incarnation: int) -> bool:
    """Return whether the numbers of an envelope are in their ranges."""
    clocks_are_valid = 0 <= mono_ms <= MAX_CLOCK_MS and 0 <= wall_ms <= MAX_CLOCK_MS
    return clocks_are_valid and 1 <= seq <= MAX_SEQ and 1 <= incarnation <= MAX_SEQ


def with_payload(header: Header) -> Envelope:
    """Decode the payload of an envelope of a known type.

    Raises:
        msgspec.MsgspecError: `data` does not fit the type.
    """
    return _with_data(header, _decode(PAYLOAD_DECODERS[header.type], header.data))


def _with_data(header: Header, data: Payload) -> Envelope:
    return Envelope(
        version=header.version,
        run=header.run,
        node=header.node,
        incarnation=header.incarnation,
        seq=header.seq,
        mono_ms=header.mono_ms,
        wall_ms=header.wall_ms,
        type=header.type,
        cause=header.cause,
        zxid=header.zxid,
        controller_epoch=header.controller_epoch,
        data=data,
    )


def _decode(decoder: msgspec.json.Decoder[_T], text: bytes | msgspec.Raw) -> _T:
    """Decode `text`; raise `msgspec.DecodeError` also if it is nested too deep or is not UTF-8."""
    try:
        return decoder.decode(text)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None
