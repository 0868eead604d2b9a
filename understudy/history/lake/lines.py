"""Decodes lines of event logs for tables: each line once, and each payload only if its type is wanted.

`understudy.history.reading.lines` defines what an envelope and a record are, and
`understudy.history.reading.reader` names the flaws. This module decides the same for each line alone, and a test
compares the two. A record's type is found as text and its line then decoded as a whole by a decoder for that type. Any
other line is decoded in two steps, the envelope first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

import msgspec

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, RECORD_VERSION
from understudy.history.reading.lines import MAX_LINE_BYTES, PAYLOAD_DECODERS, Header, decode_header, is_in_range
from understudy.history.reading.reader import LINE_TOO_LONG, NOT_A_RECORD, UNKNOWN_TYPE, UNKNOWN_VERSION

_TYPE_KEY = b'"type":"'


class Line(NamedTuple):
    """What a line holds.

    Attributes:
        envelope: None if the line is no envelope. Its `data` is a payload if its type is wanted, else
            `msgspec.Raw`.
        type: the current name of the record type; empty without an envelope.
        flaw: what is wrong with the line, one of the constants of `understudy.history.reading.reader`; empty if
        nothing is.
            A line that is no envelope is `NOT_A_RECORD`, also if it is the last of its file.
        what: as in `LogFinding`.
    """

    envelope: Any
    type: str
    flaw: str
    what: str = ""


_NO_ENVELOPE = Line(None, "", NOT_A_RECORD)
_TOO_LONG = Line(None, "", LINE_TOO_LONG, f"more than {MAX_LINE_BYTES} bytes")


class LineDecoder:
    """Decodes lines one by one.

    Args:
        types: the record types whose payloads are decoded, by their current names.
    """

    def __init__(self, types: Iterable[str]) -> None:
        self._wanted = frozenset(types)
        self._whole: Mapping[bytes, tuple[str, msgspec.json.Decoder[Any]]] = {
            name.encode(): (name, msgspec.json.Decoder(_envelope_type(name))) for name in self._wanted
        }

    def decode(self, line: bytes) -> Line:
        """Decode one line without its newline."""
        if len(line) > MAX_LINE_BYTES:
            return _TOO_LONG
        known = self._whole.get(type_in(line))
        if known is not None:
            name, decoder = known
            try:
                envelope = decoder.decode(line)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                pass  # decoded again in two steps, which tell what is wrong
            else:
                if _is_in_range(envelope):
                    return Line(envelope, name, "")
        return self._decode_in_steps(line)

    def _decode_in_steps(self, line: bytes) -> Line:
        try:
            header = decode_header(line)
        except msgspec.MsgspecError:
            return _NO_ENVELOPE
        if header.version != RECORD_VERSION:
            return Line(header, header.type, UNKNOWN_VERSION, f"version {header.version}")
        if header.type not in PAYLOAD_BY_TYPE:
            return Line(header, header.type, UNKNOWN_TYPE, header.type)
        if header.type not in self._wanted:
            return Line(header, header.type, "")
        try:
            payload = PAYLOAD_DECODERS[header.type].decode(header.data)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return Line(header, header.type, NOT_A_RECORD, header.type)
        return Line(_with_payload(header, payload), header.type, "")


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An envelope with its payload, as the decoders of whole lines make them."""

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
    data: Any


def _with_payload(header: Header, payload: object) -> _Envelope:
    values = {name: getattr(header, name) for name in Header.__struct_fields__}
    return _Envelope(**values | {"data": payload})


@cache
def _envelope_type(name: str) -> type[msgspec.Struct]:
    fields = [("type", Literal[name]), ("version", Literal[RECORD_VERSION]), ("data", PAYLOAD_BY_TYPE[name])]
    return msgspec.defstruct(f"{name}Envelope", fields, bases=(_Envelope,), frozen=True, kw_only=True, gc=False)


@cache
def decoder_of_many(name: str) -> msgspec.json.Decoder[list[Any]]:
    """Return a decoder of arrays of records of one type and of this version. It does not check clocks and numbers."""
    return msgspec.json.Decoder(list[_envelope_type(name)])  # type: ignore[misc]  # a value


def type_in(line: bytes) -> bytes:
    """Return the type of a record whose fields are in the order in which this software writes them."""
    begin = line.find(_TYPE_KEY) + len(_TYPE_KEY)
    return line[begin : line.find(b'"', begin)]


def _is_in_range(envelope: _Envelope) -> bool:
    return is_in_range(envelope.mono_ms, envelope.wall_ms, envelope.seq, envelope.incarnation)
