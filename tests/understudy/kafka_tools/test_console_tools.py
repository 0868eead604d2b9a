"""The parts of `understudy produce` and `consume`: what a line says, and how a record is shown."""

from __future__ import annotations

import io

import pytest

from tests.brokers.peers import ScriptedPeer
from tests.foundation.records.compressed import lz4_linked
from tests.understudy.clusters.clients.test_batching_producer import LoopClock
from tests.understudy.clusters.clients.test_group_consumer import broker
from understudy.clusters.clients.consumer import Consumed
from understudy.clusters.simulated.loop import new_loop
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.records.batch import encode_batch
from understudy.foundation.records.compression import Compression
from understudy.foundation.records.record import Header, Record, encode_records
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from understudy.foundation.wire.messages.group_metadata import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from understudy.foundation.wire.schema import Message
from understudy.foundation.wire.version_prefixed import encode_prefixed
from understudy.kafka_tools.client_properties import acks_of, compression_of, key_values, whole_number
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.consume import TOOL as CONSUME
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.line_reader import LineReader, Said
from understudy.kafka_tools.message_formatters import DEFAULT, formatter_of

ALL_PARTS = {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")}


def shown(record: Record, properties: dict[str, str] | None = None, *, name: str = DEFAULT, **consumed: bool) -> bytes:
    formatter = formatter_of(name, properties or {}, Console(io.StringIO(), io.StringIO(), str))
    has_log_append_time = consumed.get("has_log_append_time", False)
    return formatter(Consumed(TopicPartition("a", 3), record.offset, record, has_log_append_time))


def test_a_line_is_a_value_unless_keys_and_headers_are_asked_for() -> None:
    assert LineReader({}).read(b"a\tb") == Said(None, b"a\tb", ())
    reader = LineReader({"parse.key": "true", "parse.headers": " TRUE "})
    assert reader.read(b"h:1,i:\tkey\tva\tlue") == Said(b"key", b"va\tlue", (Header("h", b"1"), Header("i", b"")))
    assert reader.read(b"h:1,\t\t") == Said(b"", b"", (Header("h", b"1"),))


def test_a_null_marker_stands_for_a_null_everywhere_but_in_a_headers_key() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "-"})
    assert reader.read(b"-\t-\t-") == Said(None, None, ())
    assert reader.read(b"h:-\tk\tv") == Said(b"k", b"v", (Header("h", None),))
    with pytest.raises(ToolError, match="Header keys should not be equal to the null marker '-'"):
        reader.read(b"-:v\tk\tv")


def test_a_missing_separator_is_an_error_with_its_line_unless_errors_are_ignored() -> None:
    reader = LineReader({"parse.key": "true", "key.separator": ":"})
    reader.read(b"k:v")
    with pytest.raises(ToolError, match="No key separator found on line number 2: 'nothing'"):
        reader.read(b"nothing")
    with pytest.raises(ToolError, match="No header key separator found in pair 'h' on line number 1"):
        LineReader({"parse.headers": "true"}).read(b"h\tv")
    forgiving = LineReader({"parse.key": "true", "parse.headers": "true", "ignore.error": "true"})
    assert forgiving.read(b"nothing") == Said(None, b"nothing", ())
    assert forgiving.read(b"h\tk\tv") == Said(b"k", b"v", (Header("h", None),))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"headers.separator": "\t"}, "headers.delimiter and headers.separator may not be equal"),
        ({"headers.key.separator": ","}, "headers.separator and headers.key.separator may not be equal"),
        ({"null.marker": "\t"}, "null.marker and key.separator may not be equal"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator may not be equal"),
    ],
)
def test_separators_have_to_differ(properties: dict[str, str], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        LineReader(properties)


def test_a_record_is_shown_with_the_parts_that_are_asked_for() -> None:
    record = Record(7, 5, b"k", None, (Header("h", b"1"), Header("i", None)))
    assert shown(record) == b"null\n"
    assert shown(record, ALL_PARTS) == b"CreateTime:5\tPartition:3\tOffset:7\th:1,i:null\tk\tnull\n"
    assert shown(record, {**ALL_PARTS, "print.value": "false", "key.separator": "|"}).endswith(b"|k\n")
    assert shown(record, {"print.value": "no"}) == b""
    assert shown(Record(0, -1, None, b"\xff"), {"print.timestamp": "true"}) == b"NO_TIMESTAMP\t\xff\n"
    assert shown(record, {"print.timestamp": "true"}, has_log_append_time=True) == b"LogAppendTime:5\tnull\n"
    assert shown(Record(0, 1, None, b"v"), {"print.headers": "true"}) == b"NO_HEADERS\tv\n"


def test_deserializers_make_text_of_bytes() -> None:
    package = "org.apache.kafka.common.serialization."
    seven = Record(0, 1, None, b"\0\0\0\7")
    assert shown(seven, {"value.deserializer": f"{package}IntegerDeserializer"}) == b"7\n"
    assert shown(seven, {"value.deserializer": f"{package}BytesDeserializer"}) == rb"\x00\x00\x00\x07" + b"\n"
    with pytest.raises(ToolError, match="Size of data received by LongDeserializer is not 8"):
        shown(seven, {"value.deserializer": f"{package}LongDeserializer"})


def test_records_of_groups_are_shown_as_json_each_by_its_formatter() -> None:
    key = encode_prefixed(OffsetCommitKey(group="g", topic="a", partition=0), 1)
    value = encode_prefixed(OffsetCommitValue(offset=3, commit_timestamp=9), 3)
    offsets, groups = (
        f"org.apache.kafka.tools.consumer.{kind}MessageFormatter" for kind in ("Offsets", "GroupMetadata")
    )
    assert shown(Record(0, 1, key, value), name=offsets) == (
        b'{"key":{"version":1,"data":{"group":"g","topic":"a","partition":0}},'
        b'"value":{"version":3,"data":{"offset":3,"leaderEpoch":-1,"metadata":"","commitTimestamp":9}}}'
    )
    assert shown(Record(0, 1, key, value), name=groups) == b""
    group = encode_prefixed(GroupMetadataKey(group="g"), 2)
    assert shown(Record(0, 1, group, None), name=groups) == b'{"key":{"version":2,"data":{"group":"g"}},"value":null}'


def test_a_wrong_property_is_named() -> None:
    assert key_values(["a=b=c", "d"]) == {"a": "b=c", "d": ""}
    with pytest.raises(ToolError, match="Invalid value soon for configuration"):
        whole_number({"linger.ms": "soon"}, "linger.ms", 0)
    with pytest.raises(ToolError, match="Value must be at least 1"):
        whole_number({"max.poll.records": "0"}, "max.poll.records", 500, least=1)
    with pytest.raises(ToolError, match="this producer has only 1, -1 and all"):
        acks_of({"acks": "0"})
    with pytest.raises(ToolError, match="String must be one of: none, gzip, snappy, lz4, zstd"):
        compression_of({"compression.type": "zip"})


def poisoned(header: RequestHeader, request: Message) -> Message:
    """Answer as a broker of topic `a` with a record, and then a batch that Kafka does not decompress."""
    if not isinstance(request, FetchRequest):
        return broker(header, request)
    bad = encode_batch(lz4_linked(b"abc"), count=1, base_offset=11, compression=Compression.LZ4)
    data = PartitionData(
        partition_index=0, high_watermark=12, records=encode_records([Record(10, 1, None, b"v")]) + bad
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic="a", partitions=(data,)),))


def test_records_that_cannot_be_read_end_the_consumer_as_kafkas() -> None:
    loop = new_loop()
    out, err = io.BytesIO(), io.StringIO()
    console = Console(io.TextIOWrapper(out, write_through=True), err, lambda: "[2026-01-01 00:00:00,000]")
    surroundings = Surroundings(console, ScriptedPeer(poisoned), LoopClock(loop), "1")
    words = ("--bootstrap-server", "h1:9092", "--topic", "a", "--partition", "0", "--offset", "10")
    assert loop.run_until_complete(CONSUME.main(words, surroundings)) == 0
    assert out.getvalue() == b"v\n"
    assert err.getvalue().splitlines() == [
        "[2026-01-01 00:00:00,000] ERROR Error processing message, terminating consumer process:  "
        "(org.apache.kafka.tools.consumer.ConsoleConsumer)",
        "org.apache.kafka.common.KafkaException: Received exception when fetching the next record from a-0. If needed, "
        "please seek past the record to continue consumption.",
        "Caused by: org.apache.kafka.common.KafkaException: records in lz4 have a frame that Kafka refuses: Dependent "
        "block stream is unsupported; the producer has to write independent blocks",
        "Processed a total of 1 messages",
    ]
