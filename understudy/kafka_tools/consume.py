"""`understudy consume`: print the records of topics as they come. Mirrors Kafka's `ConsoleConsumer`."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Sequence

from understudy.clusters.clients.connections import Connections, NoLeader
from understudy.clusters.clients.consumer import Consumed, UnreadableRecords
from understudy.clusters.clients.group_consumer import ConsumerSettings, GroupConsumer
from understudy.clusters.clients.group_member import MemberRefused, MemberSettings
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.wire.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from understudy.kafka_tools.client_properties import is_true, key_values, one_of, properties_of, whole_number
from understudy.kafka_tools.console import Console, Surroundings, Tool, addresses, print_uncaught, read_properties
from understudy.kafka_tools.errors import CONFIG, KAFKA_EXCEPTION, TIMEOUT, ToolError, UsageError, unreadable
from understudy.kafka_tools.message_formatters import DEFAULT, Formatter, formatter_of
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, Flag, Options, java_number
from understudy.kafka_tools.topic_filter import include_list

LOGGER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
NO_LIMIT = -1
PLAIN = ""
"""The class of errors of which only the message is printed."""
COMMIT_TIMEOUT_MS = 30_000
POLL_MS = 1_000
"""Milliseconds that one poll waits; between two of them a signal or the time limit ends the tool."""

FLAGS = (
    BOOTSTRAP_SERVER,
    Flag("topic", "The topic.", "TOPIC"),
    Flag("include", "A regular expression of topics.", "PATTERN"),
    Flag("whitelist", "The old name of --include.", "PATTERN"),
    Flag("partition", "Only this partition, without a group; from its end, unless --offset is given.", "PARTITION"),
    Flag("offset", "With --partition: where to begin: an offset, earliest or latest.", "OFFSET"),
    Flag("from-beginning", "Begin with the earliest records if the group has no committed offset."),
    Flag("max-messages", "End after this number of records.", "COUNT"),
    Flag("timeout-ms", "End after this time without a record.", "MS"),
    Flag("group", "The group; one of its own by default.", "GROUP"),
    Flag("isolation-level", "read_committed leaves out the records of open and aborted transactions.", "LEVEL"),
    Flag("consumer-property", "NAME=VALUE for the consumer. May be given several times.", "PROPERTY"),
    Flag("consumer.config", "A file of such properties.", "FILE"),
    Flag("formatter", f"The class that prints records; {DEFAULT} by default.", "CLASS"),
    Flag(
        "property",
        "NAME=VALUE for the formatter: print.timestamp, print.partition, print.offset, print.headers, print.key, "
        "print.value (true or false), key.separator (a tab), line.separator, headers.separator (,), null.literal, "
        "key.deserializer, value.deserializer, headers.deserializer. May be given several times.",
        "PROPERTY",
    ),
    Flag("formatter-config", "A file of such properties.", "FILE"),
    Flag("key-deserializer", "The class of Kafka's that makes text of keys.", "CLASS"),
    Flag("value-deserializer", "The class of Kafka's that makes text of values.", "CLASS"),
    Flag("skip-message-on-error", "Leave out a record that cannot be printed."),
    Flag("new-consumer", "Accepted, as up to Kafka 1.1: there is no other consumer."),
    Flag("enable-systest-events", "Print shutdown_complete when a signal has ended the tool."),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    partition = options.number("partition")
    _check(options, partition)
    properties = properties_of(options.value("consumer.config"), options.values("consumer-property"))
    group = _group(options, partition)
    resets_to_earliest = _resets_to_earliest(options, properties)
    begin = _offset(options)
    timeout_ms = options.number("timeout-ms", is_long=True)
    console = surroundings.console
    formatter = _formatter(options, console)
    printed = _Printed(options, formatter, console)
    try:
        bootstrap = _bootstrap(options)
        level = options.value("isolation-level") or properties.get("isolation.level", "read_uncommitted")
        if group is None:
            properties.setdefault("enable.auto.commit", "false")
            group = f"console-consumer-{random.Random(int(surroundings.clock.wall_ms())).randrange(100_000)}"
        topic = options.value("topic") or ""
        settings = consumer_settings(
            {**properties, "isolation.level": level},
            bootstrap,
            client_id="console-consumer",
            group_id=group,
            topics=() if partition is not None else await _topics(options, surroundings, bootstrap),
            partitions=() if partition is None else ((TopicPartition(topic, partition), begin),),
            resets_to_earliest=resets_to_earliest,
        )
        consumer = GroupConsumer(surroundings.network, surroundings.clock, settings)
        await _consume(consumer, printed, timeout_ms, surroundings)
    except (ToolError, MemberRefused) as error:
        shown = error if isinstance(error, ToolError) else refused(error)
        # Kafka's consumer looks at its configuration before there is anything to report.
        if CONFIG not in (shown.kind, shown.cause and shown.cause.kind):
            printed.report()
        console.log("ERROR", "Unknown error when running consumer: ", LOGGER)
        console.error(shown.trace, end="")
        return 1
    except asyncio.CancelledError:
        printed.report()
        if options.has("enable-systest-events"):
            console.print("shutdown_complete")
        console.flush()
        raise
    printed.report()
    return 0


def _bootstrap(options: Options) -> tuple[str, ...]:
    try:
        return tuple(addresses(options.value("bootstrap-server") or ""))
    except ToolError as error:
        raise ToolError(KAFKA_EXCEPTION, "Failed to construct kafka consumer", cause=error) from None


def _fails(error: ToolError, words: Sequence[str], console: Console) -> None:
    if error.kind == PLAIN:
        console.error(error.shown_message)
    elif error.kind.startswith("joptsimple.") and error.cause is None:
        console.error(f"{error.shown_message}\n{TOOL.usage}", end="")
    else:
        print_uncaught(error, words, console)


TOOL = Tool(
    "consume",
    "This tool helps to read data from Kafka topics and outputs it to standard output.",
    FLAGS,
    run,
    _fails,
)


def consumer_settings(
    properties: dict[str, str],
    bootstrap: tuple[str, ...],
    *,
    client_id: str,
    group_id: str,
    topics: tuple[str, ...],
    resets_to_earliest: bool,
    partitions: tuple[tuple[TopicPartition, int], ...] = (),
) -> ConsumerSettings:
    """Return the settings that a consumer's properties ask for. Raises ToolError."""
    level = one_of(properties, "isolation.level", "read_uncommitted", ISOLATION_LEVELS)
    return ConsumerSettings(
        bootstrap=bootstrap,
        client_id=properties.get("client.id", client_id),
        partitions=partitions,
        resets_to_earliest=resets_to_earliest,
        enable_auto_commit=is_true(properties, "enable.auto.commit", default=True),
        auto_commit_interval_ms=whole_number(properties, "auto.commit.interval.ms", 5_000),
        is_read_committed=level == "read_committed",
        max_poll_records=whole_number(properties, "max.poll.records", 500, least=1),
        max_partition_fetch_bytes=whole_number(properties, "max.partition.fetch.bytes", 1 << 20),
        member=MemberSettings(
            group_id=group_id,
            topics=topics,
            assignors=("range", "cooperative-sticky"),
            instance_id=properties.get("group.instance.id"),
            rebalance_timeout_ms=whole_number(properties, "max.poll.interval.ms", 300_000, least=1),
            session_timeout_ms=whole_number(properties, "session.timeout.ms", 45_000),
            heartbeat_interval_ms=whole_number(properties, "heartbeat.interval.ms", 3_000),
            request_timeout_ms=COMMIT_TIMEOUT_MS,
        ),
    )


def refused(error: MemberRefused) -> ToolError:
    """Return the exception with which Kafka's consumer ends if a group refuses it."""
    return ToolError(KAFKA_EXCEPTION, f"Unexpected error in join group response: {error}")


def stopped(error: UnreadableRecords) -> ToolError:
    """Return the exception with which Kafka's consumer stops at records that it cannot read."""
    cause = error.__cause__
    return ToolError(KAFKA_EXCEPTION, str(error), cause=unreadable(cause) if isinstance(cause, ValueError) else None)


# ---------------------------------------------------------------------- records


class _Printed:
    """Prints records, and counts them."""

    def __init__(self, options: Options, formatter: Formatter, console: Console) -> None:
        self._options = options
        self._formatter = formatter
        self._console = console
        self._limit = NO_LIMIT
        self.count = 0

    def read_limit(self) -> None:
        """Look at `--max-messages`, as late as Kafka's tool does. Raises ToolError if it is no number."""
        self._limit = java_number(self._options, "max-messages", NO_LIMIT)

    def has_enough(self) -> bool:
        return self._limit != NO_LIMIT and self.count >= self._limit

    def print(self, consumed: Consumed) -> None:
        """Print a record. Raises ToolError if its formatter cannot, unless such records are left out."""
        self.count += 1
        try:
            self._console.write(self._formatter(consumed))
        except ToolError as error:
            if not self._options.has("skip-message-on-error"):
                raise
            self._console.log("ERROR", "Error processing message, skipping this message: ", LOGGER)
            self._console.error(error.trace, end="")

    def report(self) -> None:
        self._console.flush()
        self._console.error(f"Processed a total of {self.count} messages")


async def _consume(
    consumer: GroupConsumer, printed: _Printed, timeout_ms: int | None, surroundings: Surroundings
) -> None:
    """Print records until there are enough, none comes in time, or nothing more can be printed."""
    console, clock = surroundings.console, surroundings.clock
    limit_ms = float("inf") if timeout_ms is None or timeout_ms < 0 else float(timeout_ms)
    try:
        printed.read_limit()
        since_ms = clock.monotonic_ms()
        while not printed.has_enough():
            left_ms = limit_ms - (clock.monotonic_ms() - since_ms)
            found = await consumer.poll(max(0.0, min(POLL_MS, left_ms)))
            for place, each in enumerate(found):
                if printed.has_enough():
                    for unread in reversed(found[place:]):
                        consumer.rewind(unread.partition, unread.offset)
                    break
                printed.print(each)
            console.flush()
            if found:
                since_ms = clock.monotonic_ms()
            elif clock.monotonic_ms() - since_ms >= limit_ms:
                console.log("ERROR", "Error processing message, terminating consumer process: ", LOGGER)
                console.error(TIMEOUT)
                return
    except UnreadableRecords as error:
        console.log("ERROR", "Error processing message, terminating consumer process: ", LOGGER)
        console.error(stopped(error).trace, end="")
    except BrokenPipeError:
        console.error("Unable to write to standard out, closing consumer.")
    finally:
        await consumer.close()


# ---------------------------------------------------------------------- the command line


def _check(options: Options, partition: int | None) -> None:
    """Raise UsageError if flags are missing or contradict each other."""
    if options.has("topic") == (options.has("include") or options.has("whitelist")):
        old = "--whitelist is DEPRECATED use --include instead; ignored if --include specified."
        raise UsageError("Exactly one of --include/--topic is required. " + (old if options.has("whitelist") else ""))
    if partition is not None:
        if not options.has("topic"):
            raise UsageError("The topic is required when partition is specified.")
        if options.has("from-beginning") and options.has("offset"):
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    elif options.has("offset"):
        raise UsageError("The partition is required when offset is specified.")
    options.require("bootstrap-server")


def _group(options: Options, partition: int | None) -> str | None:
    """Return the group that was given, None without one. Raises UsageError."""
    in_file = properties_of(options.value("consumer.config"), ())
    given = [options.value("group"), in_file.get("group.id")]
    given.append(key_values(options.values("consumer-property")).get("group.id"))
    groups = list(dict.fromkeys(group for group in given if group is not None))
    if len(groups) > 1:
        listed = ", ".join(f"'{group}'" for group in groups)
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via "
            f"'--consumer.config') do not match. Detected group ids: {listed}"
        )
    if groups and partition is not None:
        raise UsageError("Options group and partition cannot be specified together.")
    return groups[0] if groups else None


def _resets_to_earliest(options: Options, properties: dict[str, str]) -> bool:
    wanted = properties.get("auto.offset.reset")
    if wanted is None:
        return options.has("from-beginning")
    if options.has("from-beginning") and wanted != "earliest":
        raise ToolError(
            PLAIN,
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={wanted}', please remove one option",
        )
    return one_of(properties, "auto.offset.reset", "latest", ("latest", "earliest", "none")) == "earliest"


def _offset(options: Options) -> int:
    """Return the offset or the named timestamp at which `--partition` begins. Raises UsageError."""
    text = options.value("offset")
    if text is None:
        return EARLIEST_TIMESTAMP if options.has("from-beginning") else LATEST_TIMESTAMP
    named = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}.get(text.lower())
    if named is not None:
        return named
    if not re.fullmatch(r"\+?\d+", text):
        raise UsageError(
            f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a "
            "non-negative long."
        )
    return int(text)


def _formatter(options: Options, console: Console) -> Formatter:
    """Return the formatter; raises UsageError with its name if there is none of that name."""
    properties = read_properties(options.value("formatter-config"))
    for part in ("key", "value"):
        name = options.value(f"{part}-deserializer")
        if name:
            properties[f"{part}.deserializer"] = name
    properties |= key_values(options.values("property"))
    try:
        return formatter_of(options.value("formatter") or DEFAULT, properties, console)
    except ToolError as error:
        raise UsageError(error.shown_message) from None


async def _topics(options: Options, surroundings: Surroundings, bootstrap: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics to subscribe to. Raises ToolError if no broker answers."""
    topic = options.value("topic")
    if topic is not None:
        return (topic,)
    pattern = include_list(options.value("include") or options.value("whitelist") or "")
    with contextlib.closing(Connections(surroundings.network, bootstrap, client_id="console-consumer")) as connections:
        try:
            return tuple(filter(pattern.fullmatch, await connections.topic_names()))
        except NoLeader as error:
            raise ToolError(TIMEOUT, str(error)) from None
