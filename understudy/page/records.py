"""Encodes records of the event log as the page gets them: one JSON array each (docs/decisions/0011-page.md)."""

from __future__ import annotations

from typing import Final

import msgspec

from foundation.eventlog.fold_state import exact, exact_micros
from foundation.eventlog.narrator import describe
from foundation.eventlog.order import Identity, RemoteCauses
from foundation.eventlog.records import Envelope
from understudy.page.payloads import page_data

_ENCODER: Final = msgspec.json.Encoder()
_SESSION_ID: Final = b'"session_id"'
_LONG_NUMBER: Final = b"0" * 16
_DIGITS: Final = bytes(ord("0") if ord("0") <= byte <= ord("9") else ord(" ") for byte in range(256))
"""Translates every digit to 0 and anything else to a space: the fastest way to find a long number in a text."""


def encode(record: Envelope, link: Identity | None) -> bytes:
    """Return the JSON array of a record. It has no newline.

    Args:
        link: the record on another node that led to this one.
    """
    return _ENCODER.encode(
        (
            exact_micros(record.mono_ms),
            record.node,
            record.incarnation,
            record.seq,
            record.type,
            None if record.cause is None else exact(record.cause),
            exact(record.zxid),
            exact(record.controller_epoch),
            _data(record),
            describe(record),
            None if link is None else (link.writer[1], link.writer[2], link.seq),
        )
    )


class Encoder:
    """Encodes the records of one run, which come in the order of `foundation.eventlog.order`, with their links."""

    def __init__(self) -> None:
        self._causes = RemoteCauses()

    def encode(self, record: Envelope) -> bytes:
        """Return the JSON array of the next record."""
        return encode(record, self._causes.of(record))


def _data(record: Envelope) -> object:
    """The payload as `page_data` returns it, but encoded at once where that is the same, as it is for most records."""
    text = _ENCODER.encode(record.data)
    if _SESSION_ID in text or _LONG_NUMBER in text.translate(_DIGITS):
        return page_data(record)
    return msgspec.Raw(text)
