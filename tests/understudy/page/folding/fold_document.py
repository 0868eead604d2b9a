"""Makes the document of a picture: what the two folds, in Python and in the page's scripts, have to agree on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from tests.understudy.page.folding.fold_state import EventLogPicture
from understudy.foundation.eventlog.records import AssignedMember, Leadership
from understudy.page.recorded.exact import exact


def document(picture: EventLogPicture) -> dict[str, Any]:
    """Return a picture as JSON: objects, lists, texts, integers, booleans and nulls.

    Keys are texts, also for partitions and brokers. An integer that a double cannot hold is a text (`exact`).
    """
    found = _plain(picture)
    assert isinstance(found, dict)
    return found


def canonical(value: object) -> str:
    """Return the JSON text of a document. Equal documents have equal texts: keys are sorted by code points."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            return exact(value)
        case Enum():
            return value.value
        case Mapping():
            return {str(_plain(key)): _plain(each) for key, each in value.items()}
        case tuple():
            return [_plain(each) for each in value]
        case Leadership() | AssignedMember():
            return [_plain(getattr(value, name)) for name in value.__struct_fields__]
        case _:
            return {each.name.rstrip("_"): _plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
