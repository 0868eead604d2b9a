"""Makes `StateRecord`s from lines of event logs. The payload of a large line is decoded again when it is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from understudy.foundation.eventlog.records import FORMER_TYPE_NAMES
from understudy.history.reading.lines import HEADER_DECODER, MAX_LINE_BYTES
from understudy.history.reading.run_records import STATE_TYPES, Key, StatePayload, StateRecord

LARGE_BYTES = 64 * 1024
"""A larger payload is not kept: those of a run with 100,000 partitions are gigabytes of objects."""

_TYPES = {kind.__name__: kind for kind in STATE_TYPES}
_DECODERS: dict[str, msgspec.json.Decoder[StatePayload]] = {
    name: msgspec.json.Decoder(kind) for name, kind in _TYPES.items()
}


def state_record(
    type_name: str, key: Key, controller_epoch: int, data: msgspec.Raw | str, size: int, *, file: str, offset: int
) -> StateRecord | None:
    """Return the record of a line whose type is one of `STATE_TYPES`, or None if it is not.

    Args:
        type_name: the type as in the line, which may be a former name.
        data: the payload as JSON.
        size: the size of the line or of its payload. One above `LARGE_BYTES` is decoded only when it is read.
        file: where the line is, and `offset` where it begins, in bytes.

    Raises:
        msgspec.MsgspecError: the payload does not fit its type.
    """
    name = FORMER_TYPE_NAMES.get(type_name, type_name)
    if name not in _TYPES:
        return None
    read: Callable[[], StatePayload]
    if size > LARGE_BYTES:
        read = partial(_read_again, name, file, offset)
    else:
        read = partial(_same, _DECODERS[name].decode(data))
    return StateRecord(_TYPES[name], key, controller_epoch, read)


def _same(payload: StatePayload) -> StatePayload:
    return payload


def _read_again(name: str, file: str, offset: int) -> StatePayload:
    with Path(file).open("rb") as stream:
        stream.seek(offset)
        header = HEADER_DECODER.decode(stream.readline(MAX_LINE_BYTES + 2))
    return _DECODERS[name].decode(header.data)
