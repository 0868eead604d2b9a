"""Encodes records of the event log as the page gets them: one JSON array each (docs/inside/decisions/0011-page.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.foundation.times import micros
from understudy.history.narrator import Narrator
from understudy.history.reading.order import Identity, RemoteCauses
from understudy.page.recorded.exact import exact, exact_micros
from understudy.page.recorded.payloads import page_data

_ENCODER: Final = msgspec.json.Encoder()
_SESSION_ID: Final = b'"session_id"'
_LONG_NUMBER: Final = b"0" * 16
_DIGITS: Final = bytes(ord("0") if ord("0") <= byte <= ord("9") else ord(" ") for byte in range(256))
"""Table that translates every digit to 0 and anything else to a space: the fastest way to find a long number."""


class Encoder:
    """Encodes the records of one run, which come in the order of `understudy.history.reading.order`, with their
    links.
    """

    def __init__(self) -> None:
        self._causes = RemoteCauses()
        self._narrator = Narrator()

    def encode(self, records: Sequence[Envelope]) -> list[bytes]:
        """Return the JSON array of each of the next records, without newlines."""
        links = [self._causes.of(record) for record in records]
        words = [self._narrator.describe(record) for record in records]
        text = _ENCODER.encode_lines(list(map(_row, records, words, links)))
        lines = text.split(b"\n")
        lines.pop()
        for number in _inexact(text, lines):
            lines[number] = _exact_line(records[number], words[number], links[number])
        return lines


def _row(record: Envelope, words: str | None, link: Identity | None) -> tuple[object, ...]:
    return (
        micros(record.mono_ms),
        record.node,
        record.incarnation,
        record.seq,
        record.type,
        record.cause,
        record.zxid,
        record.controller_epoch,
        record.data,
        words,
        None if link is None else (link.writer[1], link.writer[2], link.seq),
    )


def _inexact(text: bytes, lines: Sequence[bytes]) -> Iterator[int]:
    """Yield the numbers of lines that may have a session id, or an integer that a browser would round."""
    if _SESSION_ID in text:
        yield from (number for number, line in enumerate(lines) if _SESSION_ID in line)
        text = b"\n".join(line for line in lines if _SESSION_ID not in line)
    if _has_long_number(text):
        yield from (number for number, line in enumerate(lines) if _has_long_number(line))


def _has_long_number(text: bytes) -> bool:
    return _LONG_NUMBER in text.translate(_DIGITS)


def _exact_line(record: Envelope, words: str | None, link: Identity | None) -> bytes:
    """Return the JSON array of a record that may have a session id, or an integer that a browser would round."""
    _, node, _, _, name, _, _, _, _, _, origin = _row(record, words, link)
    cause = None if record.cause is None else exact(record.cause)
    numbers = exact(record.zxid), exact(record.controller_epoch)
    moment = exact_micros(record.mono_ms)
    return _ENCODER.encode(
        (moment, node, record.incarnation, record.seq, name, cause, *numbers, page_data(record), words, origin)
    )
