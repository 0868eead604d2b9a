"""Decodes lines of event logs, each in two steps: the envelope first, then the payload by its type.

With two steps a record of an unknown type or version still has its place in the sequence of its incarnation, and
a reader that needs the payloads of few types decodes no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec

from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES, PAYLOAD_BY_TYPE, RECORD_VERSION, Envelope, Payload
from understudy.history.reading.findings import LINE_TOO_LONG, NOT_A_RECORD, UNKNOWN_TYPE, UNKNOWN_VERSION

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Maximum length of a line that is read. A failover of 200,000 partitions writes the longest known one, about 12 MB."""

MAX_CLOCK_MS = float(2**43)
"""Largest valid clock of a line, 278 years. The bound keeps microseconds exact in a double."""

MAX_SEQ = 2**53

_BLOCK_BYTES = 64 * 1024
_TYPE_KEY = b'"type":"'


class EnvelopeHeader(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class LogRow(NamedTuple):
    """One line of an event log, as the data source `understudy` returns it."""

    file: str
    """Absolute path."""
    offset: int
    """Offset of the line in bytes."""
    flaws: Sequence[str]
    """The flaws of the line; the fields after this one may be None if there are any."""
    run: str
    node: str
    incarnation: int
    seq: int
    mono_ms: float
    wall_ms: float
    type: str
    cause: int | None
    controller_epoch: int
    data: str


HEADER_DECODER = msgspec.json.Decoder(EnvelopeHeader)
PAYLOAD_DECODERS: dict[str, msgspec.json.Decoder[Payload]] = {
    name: msgspec.json.Decoder(payload) for name, payload in PAYLOAD_BY_TYPE.items()
}

# ------------------------------------------------------------------ one line, judged


class EventLine(NamedTuple):
    """The content of a line.

    Attributes:
        envelope: an `Envelope`; an `EnvelopeHeader` if its payload is not wanted or has a flaw; None if the line is
            neither.
        type: the current name of the record type; empty without an envelope.
        flaw: the flaw of the line, one of the constants of `understudy.history.reading.findings`; empty if there is
            none. A line that is no envelope is `NOT_A_RECORD`, also if it is the last of its file.
        what: as in `LogFinding`.
    """

    envelope: Any
    type: str
    flaw: str
    what: str = ""


_NO_ENVELOPE = EventLine(None, "", NOT_A_RECORD)


class LineDecoder:
    """Decodes lines one by one, and names the flaw of each.

    Args:
        types: the record types whose payloads are decoded, by their current names.
    """

    def __init__(self, types: Iterable[str] = PAYLOAD_BY_TYPE) -> None:
        self._wanted = frozenset(types)

    def decode(self, line: bytes) -> EventLine:
        """Decode one line, with its newline or without."""
        if len(line) > MAX_LINE_BYTES and len(line.removesuffix(b"\n")) > MAX_LINE_BYTES:
            return EventLine(None, "", LINE_TOO_LONG, f"more than {MAX_LINE_BYTES} bytes")
        try:
            header = decode_header(line)
        except msgspec.MsgspecError:
            return _NO_ENVELOPE
        name = header.type
        if header.version != RECORD_VERSION:
            return EventLine(header, name, UNKNOWN_VERSION, f"version {header.version}")
        if name not in PAYLOAD_BY_TYPE:
            return EventLine(header, name, UNKNOWN_TYPE, name)
        if name not in self._wanted:
            return EventLine(header, name, "")
        try:
            return EventLine(with_payload(header), name, "")
        except msgspec.MsgspecError:
            return EventLine(header, name, NOT_A_RECORD, name)


# ------------------------------------------------------------------ the two steps


def decode_record(line: bytes) -> Envelope:
    """Decode one line as a record. Programs that follow a growing log use it; they need no findings.

    Raises:
        msgspec.MsgspecError: the line is not a whole record of a known version and type.
    """
    header = decode_header(line)
    if header.version != RECORD_VERSION:
        raise msgspec.ValidationError(f"version {header.version} is not known")
    return with_payload(header)


def decode_header(line: bytes) -> EnvelopeHeader:
    """Decode the envelope of a line, of any version and type. A former name of a type becomes its current name.

    Raises:
        msgspec.MsgspecError: the line is no envelope, or a number is out of its range.
    """
    try:
        header = HEADER_DECODER.decode(line)
    except (RecursionError, UnicodeDecodeError) as error:  # nested too deep, or not UTF-8
        raise msgspec.DecodeError(str(error)) from None
    clocks_are_valid = 0 <= header.mono_ms <= MAX_CLOCK_MS and 0 <= header.wall_ms <= MAX_CLOCK_MS
    if not (clocks_are_valid and 1 <= header.seq <= MAX_SEQ and 1 <= header.incarnation <= MAX_SEQ):
        raise msgspec.ValidationError("a number of the envelope is out of its range")
    if header.type in FORMER_TYPE_NAMES:
        return msgspec.structs.replace(header, type=FORMER_TYPE_NAMES[header.type])
    return header


def with_payload(header: EnvelopeHeader) -> Envelope:
    """Decode the payload of an envelope.

    Raises:
        msgspec.MsgspecError: the type is not known, or `data` does not fit it.
    """
    decoder = PAYLOAD_DECODERS.get(header.type)
    if decoder is None:
        raise msgspec.ValidationError(f"record type {header.type!r} is not known")
    try:
        data = decoder.decode(header.data)
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(str(error)) from None
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


# ------------------------------------------------------------------ many lines


def bounded_lines(stream: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Yield the lines that follow, with their newlines, and the size of each in the file.

    A line that is too long is cut, but remains longer than the maximum.
    """
    limit = MAX_LINE_BYTES + 2
    for line in iter(partial(stream.readline, limit), b""):
        size = len(line)
        if size == limit and not line.endswith(b"\n"):
            size += rest_of_line(stream)
        yield line, size


def rest_of_line(stream: BinaryIO) -> int:
    """Read to the end of the current line in blocks, and return how many bytes that was."""
    size = 0
    while block := stream.readline(_BLOCK_BYTES):
        size += len(block)
        if block.endswith(b"\n"):
            break
    return size


def type_in(line: bytes) -> bytes:
    """Return the type of a record whose fields are in the order in which this software writes them."""
    begin = line.find(_TYPE_KEY) + len(_TYPE_KEY)
    return line[begin : line.find(b'"', begin)]


@cache
def decoder_of_many(name: str) -> msgspec.json.Decoder[list[Any]]:
    """Return a decoder of arrays of records of one type and of this version. It does not check clocks and numbers."""
    fields = [("type", Literal[name]), ("version", Literal[RECORD_VERSION]), ("data", PAYLOAD_BY_TYPE[name])]
    record = msgspec.defstruct(f"{name}Envelope", fields, bases=(EnvelopeHeader,), frozen=True, kw_only=True, gc=False)
    return msgspec.json.Decoder(list[record])  # type: ignore[valid-type]  # a value
