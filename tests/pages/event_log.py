"""docs/event-log.md: every record type with its fields, from the structs in foundation/eventlog/records.py and what their
source says about them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby

import msgspec
from msgspec import inspect

from foundation.eventlog import records
from foundation.eventlog.log import EventLog
from foundation.eventlog.records import PAYLOAD_BY_TYPE, ControllerElected, Envelope, EventStarted, Payload
from tests.pages.source import ROOT, attribute_docstrings, classes, docstring, parse
from tests.pages.text import paragraph

NAME = "event-log.md"
SOURCE = "foundation/eventlog/records.py"

HEAD = f"""\
# The event log

Each broker, test bed and simulated node writes what it does as lines of JSON, each line before its effect leaves the
node: so the log of a broker that was killed still explains what the others have seen. Checkers, reports, status views
and Spark read nothing else. `python -m tests.pages` writes this page from `{SOURCE}`; a test
compares the two.

## Files

A file is named `<node>-<incarnation>-<file>.jsonl`, both numbers with four digits: `broker-1-0002-0001.jsonl` is the
first file of the second start of `broker-1`. The writer takes the next free incarnation by creating its first file
exclusively, so two processes never write to one file. A new file begins when the next line would make the old one
larger than 64 MiB; the sequence numbers run on (`foundation/eventlog/files.py`).

A broker writes to the folder `events` in its log directory, or to `understudy.events.dir`. `understudy up` puts them
under the run folder: `broker-N/events/` for brokers, `testbed/events/` for the faults it injects. `understudy simulate
--seed N --events DIR` leaves those of a simulated run in one folder.

A line has been handed to the operating system when the write returns: it survives the death of the process, not a loss
of power. A broker that cannot write its event log stops. The reader (`foundation/eventlog/reader.py`) takes what can be
read and names everything else as a finding: torn lines, gaps and repeats in the sequence, clocks that went back.

## A line

A line is an envelope with one record in `data`. This one, which is a single line in the file, says that broker 1 became
controller:

```json
"""

ORDER = """\
**Order.** Within an incarnation `seq` is the order. Between nodes of one machine it is `mono_ms`, corrected so that no
`RequestReceived` comes before its `RequestSent` and no `ResponseReceived` before its `ResponseSent`
(`foundation/eventlog/order.py`).

**Causes.** `cause` names a record of the same node and incarnation. A cause on another node is found by matching
`RequestReceived` with `RequestSent`: same `api`, `client_id` and `correlation_id`, and `to` is the node that received
it.

**Versions.** `version` is that of the record format. A released record type never changes its meaning: fields are only
added, with a default, so older logs stay readable. In the tables below a field with a default may be absent.

**Two levels.** Everything is written by default but `RequestDetail`, which needs `understudy.events.detail=true`.
"""

ENVELOPE = {
    "version": "Version of the record format.",
    "run": "Id that all nodes of one run share; `understudy.run.id` of a broker.",
    "node": "Who wrote it: `broker-1`, `testbed` …",
    "incarnation": "Which start of that node in this run, from 1.",
    "seq": "Number of the record within the incarnation, from 1 without gaps.",
    "mono_ms": "Monotonic clock when it was written; comparable between processes of one machine.",
    "wall_ms": "Wall clock when it was written, since 1970-01-01 UTC; may jump.",
    "type": "Record type: the heading of one of the tables below.",
    "cause": "`seq` of the record of this node that led to this one; null where there is none.",
    "zxid": "Newest ZooKeeper transaction of which this node had had an answer; 0 before the first.",
    "controller_epoch": "Newest controller epoch this node had received or won; 0 before the first.",
    "data": "The fields of the record type.",
}

COMMON = {
    "api": "Request type, by Kafka's name: `LEADER_AND_ISR` …",
    "api_version": "Version of the request on the wire.",
    "broker_epoch": "Epoch of the broker's registration: the zxid that created `/brokers/ids/N`. −1: unknown.",
    "broker_id": "Id of the broker.",
    "client_id": "Client id in the request's header.",
    "controller_epoch": "Controller epoch in the request; −1 where it has none.",
    "controller_id": "Broker id of the controller that sent the request.",
    "correlation_id": "Correlation id in the request's header.",
    "epoch": "Controller epoch.",
    "epoch_zk_version": "Version of the znode `/controller_epoch`, which every fenced write checks.",
    "error": "Kafka's name of the error; `NONE` where there is none.",
    "event": "Name of the controller event.",
    "event_id": "Number of the event in the controller's queue, from 1.",
    "isr": "In-sync replicas, by broker id.",
    "leader": "Broker id of the leader; −1 without one.",
    "leader_epoch": "Leader epoch of the partition.",
    "live_brokers": "Ids of the brokers that are alive.",
    "partition": "Number of the partition.",
    "partition_epoch": "Version of the partition's state znode.",
    "replica": "Broker id of the replica.",
    "request_broker_epoch": "Broker epoch in the request.",
    "request_controller_epoch": "Controller epoch in the request.",
    "session_id": "Id of the ZooKeeper session.",
    "target": "State that was entered, or was to be.",
    "source": "State that was left, or was to be.",
    "to": "Id of the broker the request goes to.",
    "took_ms": "How long it took.",
    "topic": "Name of the topic.",
    "why": "The reason, in words.",
    "zxid": "ZooKeeper transaction id.",
}
"""What a field means in every record that has it; where the source documents the field, that counts."""


class _ExampleClock:
    def monotonic_ms(self) -> float:
        return 86_400_512.043

    def wall_ms(self) -> float:
        return 1_767_225_600_250.5


def example() -> str:
    """A line as the product writes it, indented."""
    lines: list[bytes] = []
    events = EventLog(run="kill-1", node="broker-1", incarnation=1, clock=_ExampleClock(), write=lines.append)
    events.saw_zxid(412)
    events.saw_controller_epoch(7)
    started = events.append(EventStarted(event_id=1, event="Startup", queued_ms=0.215))
    events.append(
        ControllerElected(broker_id=1, epoch=7, epoch_zk_version=6, session_id=72_057_594_037_927_938), cause=started
    )
    return msgspec.json.format(lines[-1], indent=2).decode().rstrip()


def page() -> str:
    arrays = [name for name in classes(parse(SOURCE)) if _is_array(name)]
    lines = [HEAD.rstrip("\n"), example(), "```", ""]
    lines += _table(Envelope, ENVELOPE)
    lines += ["", ORDER]
    lines += ["## Values inside records", "", "They are written as arrays, their fields in this order.", ""]
    for name in arrays:
        lines += _section(name, getattr(records, name))
    for heading, types in groupby(PAYLOAD_BY_TYPE.items(), key=lambda item: _group_of(item[1])):
        lines += [f"## {heading}", ""]
        for name, payload in types:
            lines += _section(name, payload)
    return "\n".join(lines)


def fields_without_a_word() -> list[str]:
    """Fields that neither their source nor `COMMON` explains."""
    return [
        f"{struct.__name__}.{field.name}"
        for struct in _documented_structs()
        for field in msgspec.structs.fields(struct)
        if not _meaning(struct, field.name, {})
    ]


def types_without_a_word() -> list[str]:
    return [
        struct.__name__ for struct in _documented_structs() if not docstring(classes(parse(SOURCE))[struct.__name__])
    ]


def _documented_structs() -> Iterator[type[msgspec.Struct]]:
    yield from (getattr(records, name) for name in classes(parse(SOURCE)) if _is_array(name))
    yield from PAYLOAD_BY_TYPE.values()


def _is_array(name: str) -> bool:
    kind = getattr(records, name)
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.array_like


def _group_of(payload: type[msgspec.Struct]) -> str:
    """The heading comment in the source that the record type stands under."""
    line = classes(parse(SOURCE))[payload.__name__].lineno
    above = "\n".join((ROOT / SOURCE).read_text().splitlines()[:line])
    headings = re.findall(r"^# -{10,} (.+)$", above, re.MULTILINE)
    return headings[-1][0].upper() + headings[-1][1:] if headings else "Record types"


def _section(name: str, struct: type[msgspec.Struct]) -> Iterator[str]:
    yield f"### {name}\n"
    if text := docstring(classes(parse(SOURCE))[struct.__name__]):
        yield paragraph(text) + "\n"
    yield from _table(struct, {})
    yield ""


def _table(struct: type[msgspec.Struct], meanings: Mapping[str, str]) -> Iterator[str]:
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for field in msgspec.structs.fields(struct):
        unit = ", ms" if field.name.endswith("_ms") else ""
        default = "" if field.required else f"; default {_shown(field.default)}"
        meaning = _meaning(struct, field.name, meanings)
        yield f"| `{field.encode_name}` | {_described(field.type)}{unit}{default} | {meaning} |"


def _meaning(struct: type[msgspec.Struct], field: str, meanings: Mapping[str, str]) -> str:
    documented = attribute_docstrings(classes(parse(SOURCE))[struct.__name__])
    return documented.get(field) or meanings.get(field) or COMMON.get(field, "")


def _shown(default: object) -> str:
    return msgspec.json.encode(default).decode()


def _described(kind: object) -> str:
    return "object" if kind is Payload else _type(inspect.type_info(kind))


def _type(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType():
            return "integer"
        case inspect.FloatType():
            return "number"
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "boolean"
        case inspect.NoneType():
            return "null"
        case inspect.UnionType(types=types):
            return " or ".join(map(_type, types))
        case inspect.VarTupleType(item_type=item):
            return f"array of {_type(item)}"
        case inspect.TupleType(item_types=items):
            return f"[{', '.join(map(_type, items))}]"
        case inspect.StructType(cls=struct):
            return f"[{struct.__name__}](#{struct.__name__.lower()})"
        case inspect.DictType():
            return "object"
    raise AssertionError(f"a type this page has no word for: {kind}")
