"""`understudy consumer-perf`: read a number of records with a group, and print rates. Mirrors `ConsumerPerformance`."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from understudy.clusters.clients.consumer import UnreadableRecords
from understudy.clusters.clients.group_consumer import GroupConsumer
from understudy.clusters.clients.group_member import MemberRefused
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.kafka_tools.console import Console, Surroundings, Tool, addresses, print_trace, read_properties
from understudy.kafka_tools.consume import consumer_settings, refused, stopped
from understudy.kafka_tools.errors import ToolError, UsageError, illegal_argument
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, Flag, Options, java_number

POLL_MS = 100
MB = 1024 * 1024
NEW_FIELDS = ", rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
DEFAULTS = {"timeout": 10_000, "reporting-interval": 5_000, "fetch-size": MB}

FLAGS = (
    BOOTSTRAP_SERVER,
    Flag("broker-list", "The old name of --bootstrap-server.", "HOST:PORT,…"),
    Flag("topic", "The topic.", "TOPIC"),
    Flag("messages", "How many records to read; the last poll may bring more.", "COUNT"),
    Flag("group", "The group; one of its own by default.", "GROUP"),
    Flag("fetch-size", "How many bytes of a partition one answer may have; 1048576 by default.", "BYTES"),
    Flag("from-latest", "Begin with the latest records if the group has no committed offset."),
    Flag("timeout", "Milliseconds without a record after which to give up; 10000 by default.", "MS", is_optional=True),
    Flag("show-detailed-stats", "Print a line for each reporting interval."),
    Flag("reporting-interval", "Milliseconds between two such lines; 5000 by default.", "MS"),
    Flag("date-format", f"How times are shown, in Java's letters; {DATE_FORMAT} by default.", "FORMAT"),
    Flag("hide-header", "Do not print the names of the columns."),
    Flag("consumer.config", "A file of properties for the consumer.", "FILE"),
    Flag("socket-buffer-size", "Ignored.", "BYTES"),
    Flag("threads", "Ignored, as by Kafka.", "COUNT"),
    Flag("num-fetch-threads", "Ignored, as by Kafka.", "COUNT"),
    Flag("new-consumer", "Accepted, as up to Kafka 1.1: there is no other consumer."),
    Flag("print-metrics", "Not supported."),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    console, clock = surroundings.console, surroundings.clock
    if not options.has("bootstrap-server") and not options.has("broker-list"):
        raise UsageError("Missing required option(s) [bootstrap-server]")
    if options.has("threads") or options.has("num-fetch-threads"):
        console.print(
            "WARNING: option [threads] and [num-fetch-threads] have been deprecated and will be ignored by the test"
        )
    options.require("topic", "messages")
    if options.has("print-metrics"):
        raise ToolError("java.lang.UnsupportedOperationException", "--print-metrics is not supported; leave it out")
    is_detailed = options.has("show-detailed-stats")
    if not options.has("hide-header"):
        first = "time, threadId, " if is_detailed else "start.time, end.time, "
        console.print(f"{first}data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec{NEW_FIELDS}")
    measured = _Measurement(
        surroundings,
        limits=_Limits(
            messages=_number(options, "messages"),
            timeout_ms=_number(options, "timeout"),
            reporting_ms=_number(options, "reporting-interval"),
        ),
        shows_progress=is_detailed,
        date_format=strftime_of(options.value("date-format") or DATE_FORMAT),
    )
    properties = read_properties(options.value("consumer.config"))
    properties["max.partition.fetch.bytes"] = str(_number(options, "fetch-size"))
    number = random.Random(int(clock.wall_ms())).randrange(100_000)
    settings = consumer_settings(
        properties,
        tuple(addresses(options.value("bootstrap-server") or options.value("broker-list") or "")),
        client_id="perf-consumer-client",
        group_id=options.value("group") or f"perf-consumer-{number}",
        topics=(options.value("topic") or "",),
        resets_to_earliest=not options.has("from-latest"),
    )
    consumer = GroupConsumer(surroundings.network, clock, settings, measured.on_assigned)
    try:
        await measured.run(consumer)
    except MemberRefused as error:
        raise refused(error) from None
    except UnreadableRecords as error:
        raise stopped(error) from None
    finally:
        await consumer.close()
    if not is_detailed:
        measured.print_total()
    return 0


def _fails(error: ToolError, words: Sequence[str], console: Console) -> None:
    if error.kind.startswith("joptsimple.") and error.cause is None:
        console.error(f"{error.shown_message}\n{TOOL.usage}", end="")
    else:
        print_trace(error, words, console)


TOOL = Tool(
    "consumer-perf",
    "This tool is used to verify the consumer performance.",
    FLAGS,
    run,
    _fails,
)


class _Limits(NamedTuple):
    """When to end, and how often to report."""

    messages: int
    timeout_ms: int
    reporting_ms: int


class _Measurement:
    """Reads records, and counts them, their bytes, and the time that joining the group has taken."""

    def __init__(self, surroundings: Surroundings, *, limits: _Limits, shows_progress: bool, date_format: str) -> None:
        if limits.reporting_ms <= 0:
            raise illegal_argument("Reporting interval must be greater than 0.")
        self._console = surroundings.console
        self._clock = surroundings.clock
        self._limits = limits
        self._shows_progress = shows_progress
        self._date_format = date_format
        self._began_ms = self._ended_ms = self._clock.wall_ms()
        self._join_ms = self._join_ms_of_round = 0
        self._is_assigned = False
        self._messages = self._bytes = 0

    def on_assigned(self, _: tuple[TopicPartition, ...]) -> None:
        if not self._is_assigned:
            self._is_assigned = True
            self._join_ms = self._join_ms_of_round = int(self._clock.wall_ms() - self._began_ms)

    async def run(self, consumer: GroupConsumer) -> None:
        """Read until there are enough records, or none comes in time."""
        limits, now_ms = self._limits, self._clock.wall_ms()
        reported_ms = consumed_ms = now_ms
        reported_messages = reported_bytes = 0
        while self._messages < limits.messages and now_ms - consumed_ms <= limits.timeout_ms:
            found = await consumer.poll(POLL_MS)
            now_ms = self._clock.wall_ms()
            consumed_ms = now_ms if found else consumed_ms
            for each in found:
                self._messages += 1
                self._bytes += len(each.record.key or b"") + len(each.record.value or b"")
                if now_ms - reported_ms >= limits.reporting_ms:
                    if self._shows_progress:
                        self._print_progress(
                            self._bytes - reported_bytes, self._messages - reported_messages, reported_ms, now_ms
                        )
                    self._join_ms_of_round = 0
                    reported_ms, reported_messages, reported_bytes = now_ms, self._messages, self._bytes
        if self._messages < limits.messages:
            self._console.print(
                "WARNING: Exiting before consuming the expected number of messages: timeout "
                f"({limits.timeout_ms} ms) exceeded. You can use the --timeout option to increase the timeout."
            )
        self._ended_ms = self._clock.wall_ms()

    def print_total(self) -> None:
        elapsed_s = (self._ended_ms - self._began_ms) / 1000
        fetch_ms = int(self._ended_ms - self._began_ms) - self._join_ms
        megabytes = self._bytes / MB
        self._console.print(
            f"{self._time(self._began_ms)}, {self._time(self._ended_ms)}, {megabytes:.4f}, "
            f"{_per(megabytes, elapsed_s)}, {self._messages}, {_per(self._messages, elapsed_s)}, {self._join_ms}, "
            f"{fetch_ms}, {_per(megabytes, fetch_ms / 1000)}, {_per(self._messages, fetch_ms / 1000)}"
        )

    def _print_progress(self, new_bytes: int, new_messages: int, since_ms: float, now_ms: float) -> None:
        elapsed_s, megabytes = (now_ms - since_ms) / 1000, new_bytes / MB
        fetch_ms = int(now_ms - since_ms) - self._join_ms_of_round
        fetch_s = max(fetch_ms, 0) / 1000
        rates = (f"{each / fetch_s:.4f}" if fetch_s else "0.0000" for each in (megabytes, new_messages))
        self._console.print(
            f"{self._time(now_ms)}, 0, {self._bytes / MB:.4f}, {_per(megabytes, elapsed_s)}, {self._messages}, "
            f"{_per(new_messages, elapsed_s)}, {self._join_ms_of_round}, {fetch_ms}, {', '.join(rates)}"
        )
        self._console.flush()

    def _time(self, wall_ms: float) -> str:
        """Return a time in the format that was asked for, in the zone of this machine."""
        at = datetime.fromtimestamp(wall_ms / 1000)
        return at.strftime(self._date_format).replace(_MILLISECONDS, f"{at.microsecond // 1000:03}")


_MILLISECONDS = "\0"
_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": _MILLISECONDS,
}


def strftime_of(java: str) -> str:
    """Return a format of Java's `SimpleDateFormat` for `strftime`. Raises ToolError for letters that it cannot show."""
    found = []
    for part in (match[0] for match in re.finditer(r"([A-Za-z])\1*|[^A-Za-z]+", java)):
        if part.isalpha() and part not in _LETTERS:
            raise illegal_argument(
                f"'{part}' in the date format '{java}' is not supported; expected {', '.join(_LETTERS)}"
            )
        found.append(_LETTERS.get(part) or part.replace("%", "%%"))
    return "".join(found)


def _per(amount: float, seconds: float) -> str:
    """Return a rate as Java prints it."""
    if seconds:
        return f"{amount / seconds:.4f}"
    return "Infinity" if amount else "NaN"


def _number(options: Options, name: str) -> int:
    """Return a number as late as Kafka's tool looks at it. Raises ToolError."""
    if name in DEFAULTS and not options.value(name):
        return DEFAULTS[name]
    return java_number(options, name, 0, is_long=name != "fetch-size")
