"""Writes a run as a trace for the Perfetto viewer: a process for each node, with tracks for what it was and did.

The format is the JSON of Chrome's Trace Event Format, which ui.perfetto.dev and `chrome://tracing` open. Times in it
are microseconds since the first record of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from understudy.foundation.eventlog.records import (
    Envelope,
    EventEnded,
    EventQueued,
    EventStarted,
    RequestDetail,
    RequestFailed,
    RequestReceived,
    RequestSent,
    ResponseReceived,
    ResponseSent,
)
from understudy.history.reading.order import Identity, identity_of
from understudy.trials.experiments.report.timeline import Timeline, TimelineGap, TimelineSpan

TraceEvent: TypeAlias = dict[str, Any]


class _Track(IntEnum):
    """The tracks of a node in the order in which they are shown. The tracks of requests to each broker follow."""

    STATE = 1
    CONTROLLER = 2
    EVENTS = 3
    RECORDS = 4
    MISSING = 6
    REQUESTS_HANDLED = 5
    REQUESTS_SENT = 10


_TITLES: Final = {
    _Track.STATE: "state",
    _Track.CONTROLLER: "controller",
    _Track.EVENTS: "events of the controller",
    _Track.RECORDS: "event log",
    _Track.MISSING: "missing records",
    _Track.REQUESTS_HANDLED: "requests handled",
}

_UNKNOWN: Final = "a controller"
"""The process of a controller whose node is not known, as it has no record."""


class _Sent(NamedTuple):
    """A request, identified as in the records of both its ends. A client's numbers begin anew on each channel."""

    receiver: str
    client_id: str
    correlation_id: int


_Arrows: TypeAlias = Mapping[Identity, int]
"""The number of an arrow by the records at its two ends."""


def trace_json(timeline: Timeline, records: Sequence[Envelope]) -> bytes:
    """Return the trace of a run as JSON.

    Args:
        timeline: the timeline of the run.
        records: the records of all nodes, in the order of `in_order`.
    """
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": list(_events(timeline, records))})


def _events(timeline: Timeline, records: Sequence[Envelope]) -> Iterator[TraceEvent]:
    origin_ms = min((record.mono_ms for record in records), default=0.0)
    arrows = _arrows(records)
    for process, node in enumerate(sorted({record.node for record in records}.union(timeline.missing)), start=1):
        own = [record for record in records if record.node == node]
        shown = [
            *_spans(_Track.STATE, timeline.states.get(node, ())),
            *_spans(_Track.CONTROLLER, timeline.reigns.get(node, ())),
            *_gaps(timeline.missing.get(node, ())),
            *_of_records(sorted(own, key=lambda record: record.mono_ms), origin_ms, arrows),
        ]
        yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": node or _UNKNOWN}}
        for track in sorted({event["tid"] for event in shown}):
            title = _TITLES.get(track) or f"requests to broker {track - _Track.REQUESTS_SENT}"
            yield {"ph": "M", "pid": process, "tid": track, "name": "thread_name", "args": {"name": title}}
            yield {"ph": "M", "pid": process, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track}}
        yield from ({**event, "pid": process} for event in shown)


def _spans(track: _Track, spans: Iterable[TimelineSpan]) -> Iterator[TraceEvent]:
    for span in spans:
        yield _slice(track, span.state, span.from_ms, span.to_ms - span.from_ms, {})


def _gaps(gaps: Iterable[TimelineGap]) -> Iterator[TraceEvent]:
    for gap in gaps:
        fields = {"evidence": gap.evidence, "record": gap.witness}
        yield _slice(_Track.MISSING, "records are missing", gap.from_ms, gap.to_ms - gap.from_ms, fields)


def _arrows(records: Iterable[Envelope]) -> dict[Identity, int]:
    """Number the requests of which both the sending and the receipt are on record."""
    found: dict[Identity, int] = {}
    sent: dict[_Sent, Envelope] = {}
    for record in records:
        match record.data:
            case RequestSent(to=to, client_id=client_id, correlation_id=number):
                sent[_Sent(f"broker-{to}", client_id, number)] = record
            case RequestReceived(client_id=client_id, correlation_id=number):
                begin = sent.pop(_Sent(record.node, client_id, number), None)
                if begin is not None:
                    found[identity_of(begin)] = found[identity_of(record)] = len(found)
    return found


def _of_records(records: Iterable[Envelope], origin_ms: float, arrows: _Arrows) -> Iterator[TraceEvent]:
    """Yield the slices of one node's records, the ends of arrows from sent to received requests, and moments."""
    received: dict[tuple[str, int], float] = {}
    for record in records:
        at_ms, data = record.mono_ms - origin_ms, record.data
        fields = {"record": f"{record.node}/{record.incarnation}#{record.seq}", **msgspec.to_builtins(data)}
        match data:
            case EventEnded(event=event, took_ms=took_ms):
                yield _slice(_Track.EVENTS, event, at_ms - took_ms, took_ms, fields)
            case RequestSent(to=to):
                if (arrow := arrows.get(identity_of(record))) is not None:
                    yield _arrow("s", _Track.REQUESTS_SENT + to, at_ms, arrow)
            case ResponseReceived(sender=to, api=api, took_ms=took_ms):
                yield _slice(_Track.REQUESTS_SENT + to, api, at_ms - took_ms, took_ms, fields)
            case RequestFailed(to=to, api=api, why=why):
                yield _moment(_Track.REQUESTS_SENT + to, f"{api} failed: {why}", at_ms, fields)
            case RequestReceived(client_id=client_id, correlation_id=number):
                received[client_id, number] = at_ms
                if (arrow := arrows.get(identity_of(record))) is not None:
                    yield _arrow("f", _Track.REQUESTS_HANDLED, at_ms, arrow)
            case ResponseSent(api=api, client_id=client_id, correlation_id=number):
                from_ms = received.pop((client_id, number), at_ms)
                yield _slice(_Track.REQUESTS_HANDLED, api, from_ms, at_ms - from_ms, fields)
            case EventQueued() | EventStarted() | RequestDetail():
                pass  # the slice of the event, or of the request, shows it
            case _:
                yield _moment(_Track.RECORDS, record.type, at_ms, fields)


def _slice(track: int, name: str, from_ms: float, lasts_ms: float, fields: Mapping[str, object]) -> TraceEvent:
    return {
        "ph": "X",
        "tid": int(track),
        "name": name,
        "ts": from_ms * 1000,
        "dur": max(0.0, lasts_ms) * 1000,
        "args": fields,
    }


def _moment(track: int, name: str, at_ms: float, fields: Mapping[str, object]) -> TraceEvent:
    return {"ph": "i", "s": "t", "tid": int(track), "name": name, "ts": at_ms * 1000, "args": fields}


def _arrow(end: str, track: int, at_ms: float, number: int) -> TraceEvent:
    """Return one end of an arrow: `s` for the sending of a request, `f` for its receipt."""
    arrow = {"ph": end, "cat": "request", "name": "request", "id": number}
    return {**arrow, "tid": int(track), "ts": at_ms * 1000, **({"bp": "e"} if end == "f" else {})}
