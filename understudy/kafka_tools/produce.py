"""`understudy produce`: send the lines of the standard input to a topic. Mirrors Kafka's `ConsoleProducer`."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from understudy.clusters.clients.batching_producer import BatchingProducer, NoSuchTopic, ProducerSettings
from understudy.clusters.clients.producer import Delivery, DeliveryOutcome
from understudy.kafka_tools.client_properties import (
    acks_of,
    compression_of,
    is_true,
    key_values,
    properties_of,
    whole_number,
)
from understudy.kafka_tools.console import Console, Surroundings, Tool, addresses, read_properties
from understudy.kafka_tools.errors import JOPTSIMPLE, TIMEOUT, ToolError, UsageError, error_named, executed
from understudy.kafka_tools.line_reader import LineReader, Said
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, Flag, Options

READER = "LineMessageReader"
LOGGER = "org.apache.kafka.clients.producer.internals.ErrorLoggingCallback"

NUMBERS = {
    "batch-size": ("batch.size", 16_384),
    "max-partition-memory-bytes": ("batch.size", 16_384),
    "message-send-max-retries": ("retries", 3),
    "retry-backoff-ms": ("retry.backoff.ms", 100),
    "timeout": ("linger.ms", 1_000),
    "request-timeout-ms": ("request.timeout.ms", 1_500),
    "max-block-ms": ("max.block.ms", 60_000),
    "metadata-expiry-ms": ("metadata.max.age.ms", 300_000),
    "max-memory-bytes": ("buffer.memory", 33_554_432),
    "socket-buffer-size": ("send.buffer.bytes", 102_400),
}
"""Flags that set a property of the producer, with its default. A given flag overrides a given property."""
LONG_NUMBERS = frozenset({"retry-backoff-ms", "timeout", "max-block-ms", "metadata-expiry-ms", "max-memory-bytes"})
"""Flags whose numbers have 64 bits instead of 32."""

FLAGS = (
    BOOTSTRAP_SERVER,
    Flag("broker-list", "The old name of --bootstrap-server.", "HOST:PORT,…"),
    Flag("topic", "The topic.", "TOPIC"),
    Flag("sync", "Wait for each record's acknowledgement before the next one is sent."),
    Flag("compression-codec", "none, gzip, snappy, lz4 or zstd; gzip without a value.", "CODEC", is_optional=True),
    Flag("request-required-acks", "1, or -1 for all in-sync replicas; -1 by default.", "ACKS"),
    Flag("line-reader", f"What makes records of lines; only {READER}.", "CLASS"),
    Flag(
        "property",
        "NAME=VALUE for the reader of lines: parse.key, parse.headers, ignore.error (true or false), key.separator (a "
        "tab), headers.delimiter (a tab), headers.separator (,), headers.key.separator (:), null.marker. A line is "
        "H1:V1,H2:V2<tab>KEY<tab>VALUE with both keys and headers. May be given several times.",
        "PROPERTY",
    ),
    Flag("reader-config", "A file of such properties.", "FILE"),
    Flag("producer-property", "NAME=VALUE for the producer. May be given several times.", "PROPERTY"),
    Flag("producer.config", "A file of such properties.", "FILE"),
    *(
        Flag(flag, f"The producer's {name}; {default} by default.", "NUMBER")
        for flag, (name, default) in NUMBERS.items()
    ),
)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    options.require("topic")
    topic = options.value("topic") or ""
    bootstrap = options.value("bootstrap-server") or options.value("broker-list")
    if bootstrap is None:
        raise UsageError("Missing required option(s) [bootstrap-server]")
    _check_addresses(bootstrap)
    properties = _producer_properties(options)
    settings = producer_settings(properties, addresses(bootstrap), client_id="console-producer")
    reader = _reader(options, read_properties(options.value("reader-config")))
    producer = BatchingProducer(
        surroundings.network, surroundings.clock, topic, settings, random.Random(int(surroundings.clock.wall_ms()))
    )
    try:
        while (line := await surroundings.read_line()) is not None:
            await _send(producer, topic, reader.read(line), surroundings.console, is_sync=options.has("sync"))
        await producer.flush()
    except ToolError:
        # What was read before the wrong line is still sent, as Kafka's producer does when it is closed.
        await producer.flush()
        raise
    finally:
        await producer.abort()
    return 0


def _fails(error: ToolError, words: Sequence[str], console: Console) -> None:
    if error.kind == f"{JOPTSIMPLE}UnrecognizedOptionException":
        console.error(f"{error.shown_message}\n{TOOL.usage}", end="")
    elif error.kind.startswith(JOPTSIMPLE):
        console.error(error.shown_message)
    else:
        console.error(error.trace, end="")


TOOL = Tool(
    "produce",
    "This tool helps to read data from standard input and publish it to Kafka.",
    FLAGS,
    run,
    _fails,
)


def producer_settings(properties: Mapping[str, str], bootstrap: Sequence[str], *, client_id: str) -> ProducerSettings:
    """Return the settings that a producer's properties ask for. Raises ToolError."""
    acks = acks_of(properties)
    request_timeout_ms = whole_number(properties, "request.timeout.ms", 30_000)
    backoff_ms = whole_number(properties, "retry.backoff.ms", 100)
    delivery_timeout_ms = whole_number(properties, "delivery.timeout.ms", 120_000)
    if properties.get("retries"):
        attempts = whole_number(properties, "retries", 0) + 1
        delivery_timeout_ms = min(delivery_timeout_ms, attempts * (request_timeout_ms + backoff_ms))
    return ProducerSettings(
        bootstrap=bootstrap,
        client_id=properties.get("client.id", client_id),
        acks=acks,
        batch_size=whole_number(properties, "batch.size", 16_384),
        linger_ms=whole_number(properties, "linger.ms", 0),
        compression=compression_of(properties),
        is_idempotent=is_true(properties, "enable.idempotence", default=acks == -1),
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=delivery_timeout_ms,
        retry_backoff_ms=backoff_ms,
        max_block_ms=whole_number(properties, "max.block.ms", 60_000),
    )


def error_of_delivery(delivery: Delivery) -> ToolError:
    """Return the exception with which a record of Kafka's producer fails if its batch ended like this."""
    if delivery.errors and (known := error_named(delivery.errors[-1])) is not None:
        return known
    return ToolError(TIMEOUT, f"Expiring record(s): {delivery.reason}")


async def _send(producer: BatchingProducer, topic: str, said: Said, console: Console, *, is_sync: bool) -> None:
    failed: list[ToolError] = []

    def done(delivery: Delivery) -> None:
        if delivery.outcome is DeliveryOutcome.ACKNOWLEDGED:
            return
        error = error_of_delivery(delivery)
        failed.append(error)
        if not is_sync:
            _log_failure(console, topic, said, error)

    try:
        await producer.send(said.key, said.value, said.headers, done=done)
    except NoSuchTopic as missing:
        error = ToolError(TIMEOUT, str(missing))
        if is_sync:
            raise error from None
        _log_failure(console, topic, said, error)
    if is_sync:
        await producer.flush()
        for error in failed:
            raise executed(error)


def _log_failure(console: Console, topic: str, said: Said, error: ToolError) -> None:
    key, value = ("null" if part is None else f"{len(part)} bytes" for part in (said.key, said.value))
    text = f"Error when sending message to topic {topic} with key: {key}, value: {value} with error:"
    console.log("ERROR", text, LOGGER)
    console.error(error.trace, end="")


def _producer_properties(options: Options) -> dict[str, str]:
    properties = properties_of(options.value("producer.config"), options.values("producer-property"))
    codec = options.value("compression-codec")
    properties["compression.type"] = "none" if codec is None else codec or "gzip"
    if options.has("request-required-acks") or "acks" not in properties:
        properties["acks"] = options.value("request-required-acks") or "-1"
    for flag, (name, default) in NUMBERS.items():
        number = options.number(flag, is_long=flag in LONG_NUMBERS)
        if number is not None or name not in properties:
            properties[name] = str(default if number is None else number)
    return properties


def _reader(options: Options, properties: Mapping[str, str]) -> LineReader:
    name = options.value("line-reader")
    if name is not None and not name.endswith(READER):
        raise ToolError("java.lang.ClassNotFoundException", f"{name}; this tool has only {READER}")
    return LineReader({**properties, **key_values(options.values("property"))})


def _check_addresses(bootstrap: str) -> None:
    if not all(re.fullmatch(r".+:\d+", address.strip()) for address in bootstrap.split(",")):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n ")
