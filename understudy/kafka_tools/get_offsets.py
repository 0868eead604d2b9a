"""`understudy get-offsets`: the offsets of partitions at a time. Mirrors Kafka's `GetOffsetShell`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from understudy.brokers.config.config_def import java_long
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.list_offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from understudy.foundation.wire.nested_topics import by_partition
from understudy.kafka_tools.console import Console, Surroundings, Tool
from understudy.kafka_tools.errors import JOPTSIMPLE, RUNTIME, TERSE, ToolError, UsageError, because_of, executed
from understudy.kafka_tools.offsets import list_offsets
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Flag, Options, parse_int
from understudy.kafka_tools.topic_filter import include_list

RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
NAMED_TIMES = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL_TIMESTAMP,
    "latest-tiered": LATEST_TIERED_TIMESTAMP,
}
_TIMES = "-1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered"

FLAGS = (
    BOOTSTRAP_SERVER,
    COMMAND_CONFIG,
    Flag("broker-list", "The old name of --bootstrap-server.", "HOST:PORT,…"),
    Flag(
        "topic-partitions",
        "Patterns of topics with their partitions: a number, or ranges A-B, A- and -B without the upper bound.",
        "TOPIC:0,TOPIC:1-3,…",
    ),
    Flag("topic", "A regular expression of topics; all topics without it.", "TOPIC"),
    Flag("partitions", "The partitions; all without it.", "0,1,…"),
    Flag("time", f"Milliseconds since 1970, or {_TIMES}. The default is latest.", "TIME"),
    Flag("exclude-internal-topics", "Leave out internal topics."),
    Flag("offsets", "Accepted, as up to Kafka 2.8; there is one offset for each partition.", "COUNT"),
    Flag("max-wait-ms", "Accepted, as up to Kafka 2.8.", "MS"),
)

Filter = Callable[[TopicPartition], bool]


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    if not options.has("bootstrap-server") and not options.has("broker-list"):
        raise ToolError(TERSE, "Missing required option(s) [bootstrap-server]")
    _check_addresses(options.value("bootstrap-server") or options.value("broker-list") or "")
    if options.has("topic-partitions") and (options.has("topic") or options.has("partitions")):
        raise ToolError(TERSE, "--topic-partitions cannot be used with --topic or --partitions")
    timestamp = parse_time(options.value("time") or "latest")
    patterns = options.value("topic-partitions")
    if patterns is not None:
        wanted = by_rules(patterns)
    else:
        wanted = by_topic(options.value("topic"), options.value("partitions"))
    console = surroundings.console
    async with surroundings.connect(options) as cluster:
        topics = await cluster.topics(with_internal=not options.has("exclude-internal-topics"))
        partitions = list(filter(wanted, by_partition(topics.values())))
        if not partitions:
            raise ToolError(TERSE, "Could not match any topic-partitions with the specified filters")
        found = await list_offsets(cluster, dict.fromkeys(partitions, timestamp))
    for partition in sorted(partitions, key=str):
        result = found[partition]
        if isinstance(result, ToolError):
            console.error(
                f"Skip getting offsets for topic-partition {partition} due to error: {executed(result).shown_message}"
            )
        elif result >= 0:
            console.print(f"{partition.topic}:{partition.partition}:{result}")
    return 0


def _fails(error: ToolError, words: Sequence[str], console: Console) -> None:
    console.error(f"Error occurred: {error.shown_message}")
    if error.kind != TERSE and not error.kind.startswith(JOPTSIMPLE):
        console.error(error.trace)


TOOL = Tool(
    "get-offsets",
    "An interactive shell for getting topic-partition offsets.",
    FLAGS,
    run,
    _fails,
)


def parse_time(text: str) -> int:
    """Return the timestamp that `--time` names. Raises ToolError."""
    found = NAMED_TIMES.get(text) or java_long(text)
    if found is None:
        raise ToolError(
            TERSE, f"Malformed time argument {text}. Please use {_TIMES}, or a specified long format timestamp"
        )
    return found


def by_topic(topic: str | None, partitions: str | None) -> Filter:
    """Return a filter by a pattern of topics and a list of partitions. Raises ToolError."""
    pattern = include_list(".*" if topic is None else topic)
    try:
        numbers = {parse_int(number) for number in (partitions or "").split(",") if partitions}
    except ToolError:
        raise ToolError(
            TERSE, f"--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
        ) from None
    return lambda each: pattern.fullmatch(each.topic) is not None and (not numbers or each.partition in numbers)


def by_rules(rules: str) -> Filter:
    """Return a filter by `TOPIC:PARTITIONS` rules, one of which has to match. Raises ToolError."""
    found = [_by_rule(rule) for rule in rules.split(",")]
    return lambda each: any(rule(each) for rule in found)


def _by_rule(rule: str) -> Filter:
    match = RULE.fullmatch(rule)
    if match is None:
        raise because_of(ToolError(TERSE, f"Invalid rule specification: {rule}"), RUNTIME)
    topic, only, lower, upper = match.groups()
    pattern = include_list(topic or ".*")
    if only:
        numbers = range(parse_int(only), parse_int(only) + 1)
    else:
        numbers = range(parse_int(lower or "0"), parse_int(upper or str(2**31 - 1)))
    return lambda each: pattern.fullmatch(each.topic) is not None and each.partition in numbers


def _check_addresses(bootstrap: str) -> None:
    bad = [
        address
        for address in bootstrap.split(",")
        if not (match := re.fullmatch(r".+:(\d+)", address.strip())) or int(match[1]) > 65535
    ]
    if bad:
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n")
