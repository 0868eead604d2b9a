"""`understudy producer-perf`: send records at a given rate, and print rates and latencies.

Mirrors Kafka's `ProducerPerformance`, payloads included.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from understudy.clusters.clients.batching_producer import BatchingProducer, NoSuchTopic
from understudy.clusters.clients.producer import Delivery, DeliveryOutcome
from understudy.foundation.eventlog.clock import Clock
from understudy.kafka_tools.argparse4j import ARGPARSE, wrapped
from understudy.kafka_tools.console import (
    Console,
    Surroundings,
    Tool,
    addresses,
    print_uncaught,
    read_file,
    read_properties,
)
from understudy.kafka_tools.errors import CONFIG, TIMEOUT, ToolError, illegal_argument
from understudy.kafka_tools.java_random import SplittableRandom
from understudy.kafka_tools.latencies import Latencies
from understudy.kafka_tools.options import Options
from understudy.kafka_tools.produce import error_of_delivery, producer_settings
from understudy.kafka_tools.producer_perf_arguments import FLAGS, USAGE, parse

DISTINCT_BYTES = 1 << 20
"""Number of bytes after which the payloads repeat, because drawing Kafka's random numbers takes longer than sending."""
FIRST_LETTER, LETTERS = 65, 26


class _ProducerPerf(Tool):
    """The tool whose command line is not joptsimple's."""

    __slots__ = ()

    async def main(self, words: Sequence[str], surroundings: Surroundings) -> int:
        console = surroundings.console
        if list(words) in ([], ["--help"], ["-h"]):
            console.print(self.usage, end="")
            return 0
        if list(words) == ["--version"]:
            console.print(surroundings.version)
            return 0
        try:
            return await self.run(parse(words), surroundings)
        except ToolError as error:
            self.fails(error, words, console)
        return 1


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    console, clock = surroundings.console, surroundings.clock
    topic, count = options.value("topic") or "", int(options.value("num-records") or 0)
    for name in ("print-metrics", "transaction-duration-ms"):
        if options.has(name) and options.value(name) != "0":
            raise ToolError("java.lang.UnsupportedOperationException", f"--{name} is not supported; leave it out")
    payloads = payloads_of(options, console)
    properties = read_properties(options.value("producer.config"))
    for word in options.values("producer-props"):
        name, equals, value = word.partition("=")
        if not equals or not value or "=" in value:
            raise illegal_argument(f"Invalid property: {word}")
        properties[name] = value
    if not properties.get("bootstrap.servers"):
        raise ToolError(CONFIG, "No bootstrap urls given in bootstrap.servers")
    settings = producer_settings(
        properties, addresses(properties["bootstrap.servers"]), client_id="perf-producer-client"
    )
    producer = BatchingProducer(surroundings.network, clock, topic, settings, random.Random(int(clock.wall_ms())))
    latencies = Latencies(console, count, clock.monotonic_ms())
    try:
        await _send(producer, payloads, count, float(options.value("throughput") or -1), latencies, console, clock)
    except NoSuchTopic as missing:
        console.error(ToolError(TIMEOUT, str(missing)).trace, end="")
    finally:
        await producer.abort()
    latencies.print_total(clock.monotonic_ms())
    return 0


def _fails(error: ToolError, words: Sequence[str], console: Console) -> None:
    if error.kind == ARGPARSE:
        console.error(USAGE + wrapped(f"producer-performance: error: {error.shown_message}"))
    else:
        console.flush()
        print_uncaught(error, words, console)


TOOL = _ProducerPerf(
    "producer-perf",
    "This tool is used to verify the producer performance.",
    FLAGS,
    run,
    _fails,
)


async def _send(
    producer: BatchingProducer,
    payloads: Iterator[bytes],
    count: int,
    throughput: float,
    latencies: Latencies,
    console: Console,
    clock: Clock,
) -> None:
    """Send `count` records, and count each when its batch has ended."""
    began_ms = clock.monotonic_ms()

    def done(sent_ms: float, size: int, delivery: Delivery) -> None:
        now_ms = clock.monotonic_ms()
        if delivery.outcome is DeliveryOutcome.ACKNOWLEDGED:
            latencies.record(int(now_ms - sent_ms), size, now_ms)
        else:
            console.error(error_of_delivery(delivery).trace, end="")

    for number in range(count):
        payload = next(payloads)
        sent_ms, size = clock.monotonic_ms(), len(payload)
        await producer.send(None, payload, done=partial(done, sent_ms, size))
        if throughput > 0:
            ahead_ms = (number + 1) / throughput * 1000 - (clock.monotonic_ms() - began_ms)
            if ahead_ms > 1:
                await asyncio.sleep(ahead_ms / 1000)
        elif number % 100 == 99:
            await asyncio.sleep(0)  # so that full batches are sent while others fill
    await producer.flush()


def payloads_of(options: Options, console: Console) -> Iterator[bytes]:
    """Return endless payloads of the kind that was asked for. Raises ToolError if the file has none."""
    if options.has("payload-file"):
        return _drawn(_parts_of_file(options, console))
    if options.has("record-size"):
        return _letters(int(options.value("record-size") or 0))
    return (str(number).encode() for number in itertools.count())


def _parts_of_file(options: Options, console: Console) -> list[bytes]:
    path = Path(options.value("payload-file") or "").absolute()
    console.print(f"Reading payloads from: {path}")
    if not path.exists() or not path.stat().st_size:
        raise illegal_argument("File does not exist or empty file provided.")
    given = options.value("payload-delimiter") or "\\n"
    parts = java_split("\n" if given == "\\n" else given, read_file(str(path)))
    console.print(f"Number of messages read: {len(parts)}")
    return [part.encode() for part in parts]


def java_split(pattern: str, text: str) -> list[str]:
    """Return the parts between the matches of a pattern as Java's `String.split` does."""
    parts = re.split(pattern, text)
    first = re.match(pattern, text)
    if first is not None and not first.end() and len(parts) > 1:
        parts.pop(0)  # an empty match at the beginning makes no part
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def _drawn(parts: Sequence[bytes]) -> Iterator[bytes]:
    source = SplittableRandom(0)
    while True:
        yield parts[source.next_int(len(parts))]


def _letters(size: int) -> Iterator[bytes]:
    source = SplittableRandom(0)
    made: list[bytes] = []
    while not made or (len(made) * size < DISTINCT_BYTES and size):
        made.append(bytes(FIRST_LETTER + source.next_int(LETTERS) for _ in range(size)))
        yield made[-1]
    yield from itertools.cycle(made)
