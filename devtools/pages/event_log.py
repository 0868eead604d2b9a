"""Generates docs/reference/event-log.md: every record type with its fields.

They are read from the structs that foundation/eventlog/records.py lists, and from the docstrings of these.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import groupby

import msgspec
from msgspec import inspect

from devtools.pages.source import classes, docstring, in_one_line, parse, path_of
from devtools.pages.text import paragraph
from understudy.foundation.eventlog.fences import Fence
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE, ControllerElected, Envelope, EventStarted, Payload
from understudy.foundation.eventlog.rules import Fix, Rules
from understudy.history.lake.comments import attribute_docstrings, documented_statements

NAME = "reference/event-log.md"

HEAD = """\
# The event log

Each broker, test bed and simulated node writes what it does as lines of JSON, each line before its effect leaves the
node: so the log of a broker that was killed still explains what the others have seen. Checkers, reports, status views
and Spark read nothing else. `python -m devtools.pages` writes this page from the structs that
`foundation/eventlog/records.py` lists; a test compares the two.

## Files

A file is named `<node>-<incarnation>-<file>.jsonl`, both numbers with four digits: `broker-1-0002-0001.jsonl` is the
first file of the second start of `broker-1`. The writer takes the next free incarnation by creating its first file
exclusively, so two processes never write to one file. A new file begins when the next line would make the old one
larger than 64 MiB; the sequence numbers run on (`foundation/eventlog/files.py`).

A broker writes to the folder `events` in its log directory, or to `understudy.events.dir`. `understudy up` puts them
under the run folder: `broker-N/events/` for brokers, `testbed/events/` for the faults it injects, and `NAME/events/`
for each client of a load, for example `producer-1`. `understudy simulate --seed N --dir DIR` leaves the files of a
simulated run in one folder.

A line has been handed to the operating system when the write returns: it survives the death of the process, not a loss
of power. A broker that cannot write its event log stops. The reader (`understudy/history/reading/reader.py`) takes what
can be read and names everything else as a finding: torn lines, gaps and repeats in the sequence, clocks that went back.
Lines out of order, as a tool that sorts lines leaves them, are a finding too, and are used in the order of `seq`.

## The first and the last record

Each log begins with [`ProcessStarted`](#processstarted). Its `boot` says which monotonic clock the log has, its
`after_seq` how far the log of the incarnation before came, and `has_testbed` that the run's faults are on record: the
broker's key `understudy.run.testbed`, which `understudy up`, experiments and docker-compose.yml set.

A process that ends by itself writes [`ProcessExiting`](#processexiting) last. One that is killed leaves no last record,
so its log alone cannot show whether its end is missing. The testbed attests it: before its own `ProcessExiting` it
writes a [`LogSeen`](#logseen) for each node whose log it can read. A verb on the containers of docker-compose.yml, and
the service that describes their run, are testbeds of their own, with an incarnation each.

Brokers that are started by a `server.properties` without that key have no testbed. Then a log that has lost its end
shows only if the broker was started again, or if another log has what the lost records describe, such as a request that
was answered. The end of the last log of a broker that was killed cannot be verified, and faults are not on record.

## Records that are missing

`understudy/history/reading/missing.py` finds out for each run which records are missing, and names the node, the
stretch of time and the record that is the evidence. A log that others have no evidence against is complete.

{missing}

- A record that cannot be read, or is of an unknown type, is in its log; it is a finding of its own.
- The logs of a run that has not ended are read one after the other while they grow. What only the records of its last
  five seconds show is therefore not said.
- Logs of older versions have no `after_seq`, `LogSeen` and `has_testbed`. The other evidence holds for them as well.
- Logs that `understudy import-kafka` writes have no requests with numbers on both sides. The stretches that they have
  lost are in `RunDescribed.lost_stretches`, as far as [the logs of others show
  it](../guides/import-kafka.md#what-the-logs-lack).

## A line

A line is an envelope with one record in `data`. This one, which is a single line in the file, says that broker 1 became
controller:

```json
"""

MISSING = (
    (
        "no log",
        "A node that other records name has no record: the testbed saw its log, it was live or registered, a "
        "request was sent to it, it won an election, it had a fault. If no testbed saw the logs, "
        "`RunDescribed.brokers` is more than the brokers that records name. If brokers were started beside a "
        "testbed, there is none of the testbed.",
    ),
    (
        "no incarnation",
        "The numbers of a node's incarnations have a gap, the testbed saw a later one, or a controller "
        "received an answer from a registration of the node that its logs do not have.",
    ),
    (
        "no end",
        "The next incarnation or the testbed has found more records. A controller received the answer to a "
        "later control request than the broker's log has, or a broker received a later one than the "
        "controller's log has; the numbers of the requests show it without any clock. A broker that was "
        "stopped, and not killed, has no `ProcessExiting`.",
    ),
    (
        "no records",
        "Sequence numbers are missing before the last record.",
    ),
    (
        "no election",
        "A broker has received a controller epoch, or two elections have one between them, that no record has "
        "the election of. A broker that is killed between its write to ZooKeeper and its record also leaves "
        "such an epoch; its `ZkWrite` explains it.",
    ),
    (
        "not ended",
        "The newest log of the testbed has no `ProcessExiting`: the run has not ended, or the end of that log "
        "is missing.",
    ),
)
"""The kinds of missing records, each with its evidence."""

ORDER = """\
**Order.** Within an incarnation `seq` is the order. Between logs with the same `boot` it is `mono_ms`, corrected so
that no `RequestReceived` comes before its `RequestSent` and no `ResponseReceived` before its `ResponseSent`
(`understudy/history/reading/order.py`). The clocks of different boots are aligned first, by the messages between them
(`understudy/history/reading/clocks.py`).

**Causes.** `cause` names a record of the same node and incarnation. A cause on another node is found by matching
`RequestReceived` with `RequestSent`: same `api`, `client_id` and `correlation_id`, and `to` is the node that received
it.

**Versions.** `version` is the version of the record format. A released record type never changes its meaning: fields
are only added, with a default, so older logs stay readable. In the tables below a field with a default may be absent. A
record type that was renamed is read under its former name too (`FORMER_TYPE_NAMES` in
`foundation/eventlog/records.py`).

**On demand.** Everything is written by default but `RequestDetail`, which needs `understudy.events.detail=true`, and
the [records of logs](#records-of-the-logs-of-partitions), which need `understudy.events.logs=true`.

**Clients.** The clients of experiments, lessons, seeds and `understudy demo` have logs of their own; those that only
observe for a check have none. A client writes two records for each Produce, of one batch and any number of records, one
for each Fetch that brings records, and two for each connection and each Metadata. An attempt that repeats one of the
same second, and ends as it did, is left out. A log of a load without records of clients is of an older version: the
picture of its run has no row of clients.
"""


COMPLETENESS = """\
## Missing records

`understudy replay`, `check`, `page` and `collect` report records that are missing
(`understudy/history/reading/missing.py`). The evidence is always another record:

| missing records | evidence |
|---|---|
| the log of a node | `RunDescribed` counts brokers; requests, epochs, faults and `LogSeen` name nodes |
| an incarnation | the numbers have a gap, or `LogSeen` names a later one |
| the end of a log | `after_seq` of the next incarnation or `LogSeen` exceeds its last `seq` |
| | another log has a later message of the incarnation, or a request that it received later |
| records in the middle | `seq` has a gap |
| the log of a controller, whichever broker it was | its epoch is in other records, and no `ControllerElected` has it |

Other records cannot be evidence of everything. These are missing without notice:

- the end of the last log of a broker that was killed, if no other log has a later message of it and no testbed has
  written `LogSeen`. Once the broker has started again, its next log attests the end;
- all records of a broker that exchanged nothing with the nodes whose logs are there, if no `RunDescribed` counts it;
- faults, if the run has no testbed: a broker that was killed and one that lost its power leave the same log.

A node that keeps no event log, such as a broker of Apache Kafka, is in `RunDescribed.without_log`, and is not missing.

## Several machines

A monotonic clock is of one boot of one machine. A run on one clock is exact to the microsecond. Between two clocks each
message is a bound, because nothing is received before it was sent; messages in both directions bound the offset from
both sides, and its middle is used. The uncertainty is half the distance of the bounds: half of the shortest round trip
between the two brokers, and more at times without messages, because clocks may drift apart by 2.5 ms in a second.
Brokers that exchange nothing are bounded by ZooKeeper's zxids, which also order their writes. The wall clock is used
only if there is no other bound.

So these are known: the order of a message's ends and of transactions, exactly; times between records of one clock,
exactly; times across clocks, within their uncertainty. Nothing shorter than the uncertainty can be measured, and the
order of two records that no message connects is not known if they are closer than that.

The wall clocks of imported logs are aligned by `understudy import-kafka`, whose records have the aligned times; the
uncertainty is in `RunDescribed.aligned_clocks`.

[Brokers on several machines](../guides/several-machines.md) has the commands.
"""


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
    missing = "\n".join(f"| `{kind}` | {evidence} |" for kind, evidence in MISSING)
    head = HEAD.replace("{missing}", f"| kind | evidence |\n|---|---|\n{missing}")
    lines = [head.rstrip("\n"), example(), "```", "", *_table(Envelope), "", ORDER, COMPLETENESS]
    lines += ["## Values inside records", "", "They are written as arrays, their fields in this order.", ""]
    for struct in _arrays():
        lines += section(struct.__name__, struct)
    for module, types in groupby(PAYLOAD_BY_TYPE.items(), key=lambda item: item[1].__module__):
        lines += [f"## {docstring(parse(path_of(module))).partition('.')[0]}", ""]
        for name, payload in types:
            lines += section(name, payload)
    return "\n".join([*lines, *_fences()])


def _fences() -> Iterator[str]:
    """The values of the field `fence` of `FenceHit`."""
    switches = classes(parse(path_of(Fence.__module__)))
    documented = attribute_docstrings(switches[Fence.__name__])
    yield "## Fences\n"
    yield "The values of `fence` in [FenceHit](#fencehit), and what each refuses.\n"
    yield "| fence | what it refuses |"
    yield "|---|---|"
    yield from (f"| `{fence.value}` | {documented[fence.name]} |" for fence in Fence)
    yield ""
    yield "## Fixes\n"
    yield "The fixes of historic bugs that an experiment can switch off. One that is on is never in `FenceHit`.\n"
    yield "| fix | rule in the code | what holds since then |"
    yield "|---|---|---|"
    yield from (f"| `{fix}` | `{field}` | {text} |" for fix, field, text in _rules())
    yield ""


def _rules() -> Iterator[tuple[str, str, str]]:
    """The name of each fix, its field in `Rules`, and that field's docstring."""
    owner = classes(parse(path_of(Rules.__module__)))[Rules.__name__]
    (init,) = (node for node in owner.body if isinstance(node, ast.FunctionDef))
    for node, text in documented_statements(init):
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=field)], value=ast.Call(args=[ast.Attribute(attr=fix)])):
                yield Fix[fix].value, field, in_one_line(text or "")


def _arrays() -> list[type[msgspec.Struct]]:
    """The structs that records hold arrays of, in the order in which records name them."""
    kinds = [
        field.type
        for payload in PAYLOAD_BY_TYPE.values()
        for field in inspect.type_info(payload).fields  # type: ignore[attr-defined]  # payloads are structs
    ]
    items = [kind.item_type for kind in kinds if isinstance(kind, inspect.VarTupleType)]
    return list(dict.fromkeys(item.cls for item in items if isinstance(item, inspect.StructType)))


def _class(struct: type[msgspec.Struct]) -> ast.ClassDef:
    return classes(parse(path_of(struct.__module__)))[struct.__name__]


def _documented(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstrings of the fields of a struct, those of its base classes included."""
    documented: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if base is not msgspec.Struct and issubclass(base, msgspec.Struct):
            documented |= attribute_docstrings(_class(base))
    return documented


def without_description() -> list[str]:
    """The record types and fields that their source does not describe."""
    structs = [Envelope, *_arrays(), *PAYLOAD_BY_TYPE.values()]
    return [
        *(struct.__name__ for struct in structs if not docstring(_class(struct))),
        *(
            f"{struct.__name__}.{field.name}"
            for struct in structs
            for field in msgspec.structs.fields(struct)
            if field.name not in _documented(struct)
        ),
    ]


def section(name: str, struct: type[msgspec.Struct]) -> Iterator[str]:
    yield f"### {name}\n"
    if text := docstring(_class(struct)):
        yield paragraph(text) + "\n"
    yield from _table(struct)
    yield ""


def _table(struct: type[msgspec.Struct]) -> Iterator[str]:
    documented = _documented(struct)
    yield "| field | type | meaning |"
    yield "|---|---|---|"
    for field in msgspec.structs.fields(struct):
        unit = ", ms" if field.name.endswith("_ms") else ""
        default = "" if field.required else f"; default {_shown(field.default)}"
        meaning = documented.get(field.name, "")
        yield f"| `{field.encode_name}` | {_described(field.type)}{unit}{default} | {meaning} |"


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
            return "array of integers" if isinstance(item, inspect.IntType) else f"array of {_type(item)}"
        case inspect.TupleType(item_types=items):
            return f"[{', '.join(map(_type, items))}]"
        case inspect.StructType(cls=struct):
            return f"[{struct.__name__}](#{struct.__name__.lower()})"
        case inspect.DictType():
            return "object"
    raise AssertionError(f"a type this page has no word for: {kind}")
