"""`page_data`: the payload of a record as the page gets it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from understudy.foundation.eventlog.records import Envelope
from understudy.page.recorded.exact import exact, session_text

_SESSION_ID: Final = "session_id"


def page_data(record: Envelope) -> Any:
    """Return the payload of a record as JSON values, including the fields that have their defaults.

    Integers that a double cannot hold are texts in hexadecimal, and session ids always are.
    """
    data = msgspec.to_builtins(record.data)
    if _SESSION_ID in data:
        data[_SESSION_ID] = session_text(data[_SESSION_ID])
    return _exact(data)


def _exact(value: Any) -> Any:
    match value:
        case bool():
            return value
        case int():
            return exact(value)
        case list() | tuple():
            return [_exact(each) for each in value]
        case dict():
            return {key: _exact(each) for key, each in value.items()}
        case _:
            return value
