"""The offsets that `understudy groups --reset-offsets` sets, by scope and target, and their CSV files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from understudy.brokers.config.config_def import java_int
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java import java_hash
from understudy.foundation.cluster.java_order import in_order
from understudy.foundation.cluster.java_order import partitions as in_java_order
from understudy.foundation.wire.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, read_text
from understudy.kafka_tools.errors import (
    RUNTIME,
    ToolError,
    UsageError,
    because_of,
    error_of,
    executed,
    illegal_argument,
)
from understudy.kafka_tools.offsets import list_offsets
from understudy.kafka_tools.options import Options, java_number

TARGETS = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
UNQUOTED = 24
"""Length of the longest field of a CSV file that is written without quotes."""
LOGGER = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_DURATION = re.compile(
    r"(?P<sign>[+-]?)P(?:(?P<days>[+-]?\d+)D)?"
    r"(?:T(?=.)(?:(?P<hours>[+-]?\d+)H)?(?:(?P<minutes>[+-]?\d+)M)?(?:(?P<seconds>[+-]?\d+(?:\.\d{0,9})?)S)?)?",
    re.IGNORECASE,
)

Offsets = Mapping[TopicPartition, int]


def wrapped(error: ToolError) -> ToolError:
    """Return the RuntimeException in which the tool wraps what waiting for a future raises."""
    return because_of(executed(error), RUNTIME)


def bracketed(*names: str) -> str:
    """Return flags as Kafka's tool lists a hash set of them."""
    return ", ".join(f"[{name}]" for name in in_order(names, lambda name: 31 + java_hash(name)))


async def new_offsets(options: Options, cluster: KafkaCluster, console: Console, group: str, now_ms: int) -> Offsets:
    """Return the offsets to set for one group, in the order in which Kafka's tool shows them.

    Raises:
        ToolError, UsageError: scope or target are missing or wrong, or the offsets cannot be read.
    """
    partitions = await _scope(options, cluster, group)
    found: Offsets
    if options.has("to-offset"):
        wanted = java_number(options, "to-offset", 0, is_long=True)
        found = await _in_range(cluster, console, dict.fromkeys(partitions, wanted))
    elif options.has("to-earliest"):
        found = await log_offsets(cluster, partitions, EARLIEST_TIMESTAMP)
    elif options.has("to-latest"):
        found = await log_offsets(cluster, partitions, LATEST_TIMESTAMP)
    elif options.has("shift-by"):
        found = await _shifted(options, cluster, console, group, partitions)
    elif options.has("to-datetime"):
        found = await _at_time(cluster, console, partitions, parse_datetime(options.value("to-datetime") or ""))
    elif options.has("by-duration"):
        timestamp = now_ms - parse_duration(options.value("by-duration") or "")
        found = await _at_time(cluster, console, partitions, timestamp)
    elif options.has("from-file"):
        plan = parse_plan(_read_plan(options.value("from-file") or ""), options.values("group"))
        if group not in plan:
            console.print(f"\nError: No reset plan for group {group} found")
        found = await _in_range(cluster, console, plan.get(group, {}))
    elif options.has("to-current"):
        committed = await committed_offsets(cluster, group)
        without = [each for each in partitions if each not in committed]
        found = {each: committed[each] for each in partitions if each in committed}
        found |= await log_offsets(cluster, without, LATEST_TIMESTAMP)
    else:
        raise UsageError(f"Option '[reset-offsets]' requires one of the following scenarios: [{bracketed(*TARGETS)}]")
    return {each: found[each] for each in in_java_order(found)}


def parse_datetime(text: str) -> int:
    """Return the milliseconds of `YYYY-MM-DDThh:mm:ss.sss`, in UTC without an offset. Raises ToolError."""
    if "T" not in text:
        cause = ToolError(
            "java.text.ParseException",
            "Error parsing timestamp. It does not contain a 'T' according to ISO8601 format",
        )
        raise because_of(cause, RUNTIME)
    with_zone = text if re.search(r"T.*[+\-Z]", text) else f"{text}Z"
    match = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d)", with_zone)
    try:
        if match is None:
            raise ValueError
        return round(datetime.fromisoformat(with_zone).timestamp() * 1000)
    except ValueError:
        raise because_of(ToolError("java.text.ParseException", f'Unparseable date: "{with_zone}"'), RUNTIME) from None


def parse_duration(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration such as `PT1H30M`. Raises ToolError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match[name] for name in ("days", "hours", "minutes", "seconds")):
        raise ToolError("java.time.format.DateTimeParseException", "Text cannot be parsed to a Duration")
    lasts = timedelta(
        days=int(match["days"] or 0),
        hours=int(match["hours"] or 0),
        minutes=int(match["minutes"] or 0),
        seconds=float(match["seconds"] or 0),
    )
    return round(lasts.total_seconds() * 1000) * (-1 if match["sign"] == "-" else 1)


def parse_plan(text: str, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets by group of a CSV file, `topic,partition,offset` for one group, else with the group first.

    Raises ToolError.
    """
    plan: dict[str, dict[TopicPartition, int]] = {}
    for row in csv.reader(io.StringIO(text)):
        if not row:
            continue
        try:
            *group, topic, partition, offset = row
            name = group[0] if len(row) == 4 else groups[0] if len(groups) == 1 and len(row) == 3 else None
            if name is None:
                raise ValueError
            plan.setdefault(name, {})[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise ToolError(
                RUNTIME,
                f"{','.join(row)!r} is no line of a reset plan; expected GROUP,TOPIC,PARTITION,OFFSET, or without the "
                "group if one --group is given",
            ) from None
    return plan


def as_csv(offsets: Mapping[str, Offsets], *, with_group: bool) -> str:
    """Return the offsets as `parse_plan` reads them, one line for each partition."""
    return "".join(
        ",".join([*([_csv_field(group)] if with_group else []), _csv_field(each.topic), f"{each.partition},{offset}\n"])
        for group, found in offsets.items()
        for each, offset in found.items()
    )


def _csv_field(text: str) -> str:
    """Return a field as Jackson writes it: Jackson also quotes every long field, without looking at it."""
    if len(text) <= UNQUOTED and all(character > "," for character in text):
        return text
    return '"' + text.replace('"', '""') + '"'


def parse_partitions(topic: str) -> list[TopicPartition]:
    """Return the partitions of `TOPIC:0,1,2`. Raises ToolError."""
    name, *rest = topic.split(":")
    if len(rest) != 1:
        raise illegal_argument(f"Invalid topic arg '{topic}', expected topic name and partitions")
    found = []
    for number in rest[0].split(","):
        partition = java_int(number)
        if partition is None:
            raise illegal_argument(f"Invalid partition '{number}' specified in topic arg '{topic}''")
        found.append(TopicPartition(name, partition))
    return found


async def partitions_of(
    cluster: KafkaCluster, topics: Sequence[str]
) -> tuple[list[TopicPartition], dict[str, ToolError]]:
    """Return the partitions that `--topic` names, all those of a `TOPIC` without numbers, and the errors of topics.

    Raises ToolError.
    """
    found = [each for topic in topics if ":" in topic for each in parse_partitions(topic)]
    whole = [topic for topic in topics if ":" not in topic]
    errors = {}
    for topic in (await cluster.metadata(whole, call="describeTopics")).topics if whole else ():
        if topic.error_code and topic.error_code != Errors.LEADER_NOT_AVAILABLE:
            errors[topic.name or ""] = error_of(topic.error_code)
        else:
            found += (TopicPartition(topic.name or "", state.partition_index) for state in topic.partitions)
    return found, errors


async def _scope(options: Options, cluster: KafkaCluster, group: str) -> list[TopicPartition]:
    """Return the partitions that `--all-topics` or `--topic` name."""
    if options.has("all-topics"):
        return list(await committed_offsets(cluster, group))
    if not options.has("topic"):
        if options.has("from-file"):
            return []
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    found, errors = await partitions_of(cluster, options.values("topic"))
    for error in errors.values():
        raise wrapped(error)
    return list(dict.fromkeys(found))


async def committed_offsets(cluster: KafkaCluster, group: str) -> dict[TopicPartition, int]:
    """Return all committed offsets of a group. Raises ToolError."""
    try:
        return await cluster.committed_offsets(group)
    except ToolError as error:
        raise wrapped(error) from None


async def log_offsets(
    cluster: KafkaCluster, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return the offsets at a timestamp, -1 for none. Raises ToolError if a partition cannot be asked."""
    wanted = dict.fromkeys(partitions, timestamp)
    results = await list_offsets(cluster, wanted)
    found = {}
    # The order of `partitions` decides the order of those that a hash map has in one bucket.
    for each in wanted:
        result = results[each]
        if isinstance(result, ToolError):
            raise wrapped(result)
        found[each] = result
    return found


async def _at_time(
    cluster: KafkaCluster, console: Console, partitions: Iterable[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    """Return the offsets of the first records at or after a time; the log's end if there is none."""
    found = await log_offsets(cluster, partitions, timestamp)
    without = [each for each in in_java_order(found) if found[each] < 0]
    for each in without:
        console.print(
            f"\nWarn: Partition {each.partition} from topic {each.topic} is empty. Falling back to latest known offset."
        )
    return found | await log_offsets(cluster, without, LATEST_TIMESTAMP)


async def _shifted(
    options: Options, cluster: KafkaCluster, console: Console, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    shift = java_number(options, "shift-by", 0, is_long=True)
    committed = await committed_offsets(cluster, group)
    for each in partitions:
        if each not in committed:
            raise illegal_argument(
                f"Cannot shift offset for partition {each} since there is no current committed offset"
            )
    return await _in_range(cluster, console, {each: committed[each] + shift for each in partitions})


async def _in_range(cluster: KafkaCluster, console: Console, wanted: Offsets) -> dict[TopicPartition, int]:
    """Return the offsets, each at least the log's start and at most its end, with a warning if that changes one."""
    starts = await log_offsets(cluster, wanted, EARLIEST_TIMESTAMP)
    ends = await log_offsets(cluster, wanted, LATEST_TIMESTAMP)
    found = {}
    for each in in_java_order(wanted):
        offset = found[each] = min(max(wanted[each], starts[each]), ends[each])
        if offset != wanted[each]:
            how = "higher than latest" if offset < wanted[each] else "lower than earliest"
            console.log(
                "WARN",
                f"New offset ({wanted[each]}) is {how} offset for topic partition {each}. "
                f"Value will be set to {offset}",
                LOGGER,
            )
    return found


def _read_plan(path: str) -> str:
    try:
        return read_text(path)
    except ToolError as error:
        raise because_of(error, RUNTIME) from None
