"""Finds what a problem of a run names: the record that shows it, the partition, and the link to the page.

A problem is a line of a report. A violated invariant is one, `R6 violated at broker-1/1#435: orders-0: …`; other
problems name no record.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Final

from understudy.foundation.eventlog.records import Envelope
from understudy.history.picture_parts import link_to

_PLACE: Final = re.compile(r"violated at (?:(?P<node>[\w-]+)/(?P<incarnation>\d+)#(?P<seq>\d+)|zxid (?P<zxid>\d+)):")
_PARTITION: Final = re.compile(r"(?P<topic>[\w.-]+)-(?P<partition>\d+)")


def until_witness(records: Iterable[Envelope], problem: str) -> Iterator[Envelope]:
    """Yield the records up to the record or transaction that a problem names; all if it names none.

    Args:
        records: the records of the run, in order of time.
    """
    place = _PLACE.search(problem)
    if place is None:
        yield from records
        return
    if place["zxid"] is not None:
        yield from takewhile(lambda record: record.zxid <= int(place["zxid"]), records)
        return
    witness = (place["node"], int(place["incarnation"]), int(place["seq"]))
    for record in records:
        yield record
        if (record.node, record.incarnation, record.seq) == witness:
            return


def partition_of(problem: str, records: Iterable[Envelope]) -> tuple[str, int] | None:
    """Return the topic and the number of the first partition of a run that a problem names; None if it names none."""
    names = [(found["topic"], int(found["partition"])) for found in _PARTITION.finditer(problem)]
    known: set[object] = {
        (getattr(each.data, "topic", None), getattr(each.data, "partition", None)) for each in records
    }
    return next((name for name in names if name in known), None)


def link_to_problem(problem: str, records: Sequence[Envelope]) -> str:
    """Return the fragment of the page's address that shows what a problem names; empty for a run without records.

    It shows the record or transaction and what that proves. A problem that names neither is shown at the end of the
    run, with the partition that it names.

    Args:
        records: the records of the run, in order of time.
    """
    last = deque(until_witness(records, problem), maxlen=1)
    if not last:
        return ""
    if _PLACE.search(problem) is not None:
        return link_to(last[0])
    partition = partition_of(problem, records)
    return link_to(last[0], () if partition is None else (f"isr:{partition[0]}-{partition[1]}",))
