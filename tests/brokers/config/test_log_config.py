"""Tests of `LogConfig`: the topic's values over the broker's, Kafka's synonyms and deprecated keys, unusable values."""

from __future__ import annotations

import msgspec
import pytest

from tests.operators_log import operators_log
from understudy.brokers.config.dynamic_broker_config import overridden
from understudy.brokers.config.kafka_config import MAX_LONG, KafkaConfig
from understudy.brokers.config.log_config import LogConfig, log_config
from understudy.brokers.config.reading import read_config
from understudy.brokers.config.topic_config import TOPIC_TABLE
from understudy.foundation.records.compression import Compression

HOUR_MS = 3_600_000


def broker(**properties: str) -> KafkaConfig:
    configured = {key.replace("_", "."): value for key, value in properties.items()}
    return read_config({"zookeeper.connect": "z"} | configured)


def read(overrides: dict[str, str], **properties: str) -> LogConfig:
    return log_config("orders", overrides, broker(**properties))


def test_without_any_config_values_are_kafkas_defaults() -> None:
    assert msgspec.structs.asdict(read({})) == {
        "segment_bytes": 1024**3,
        "segment_ms": 168 * HOUR_MS,
        "segment_jitter_ms": 0,
        "segment_index_bytes": 10 * 1024**2,
        "index_interval_bytes": 4096,
        "retention_bytes": -1,
        "retention_ms": 168 * HOUR_MS,
        "max_message_bytes": 1_048_588,
        "file_delete_delay_ms": 60_000,
        "delete_retention_ms": 24 * HOUR_MS,
        "min_cleanable_dirty_ratio": 0.5,
        "min_compaction_lag_ms": 0,
        "max_compaction_lag_ms": MAX_LONG,
        "compression_type": "producer",
        "log_append_time": False,
        "message_timestamp_before_max_ms": MAX_LONG,
        "message_timestamp_after_max_ms": MAX_LONG,
        "min_insync_replicas": 1,
        "is_compacted": False,
        "is_deleted": True,
        "flush_messages": MAX_LONG,
        "flush_ms": MAX_LONG,
        "message_downconversion_enable": True,
        "unclean_leader_election_enable": False,
    }


def test_values_of_the_topic_come_before_those_of_the_broker() -> None:
    properties = {"log_segment_bytes": "100", "log_roll_hours": "2", "log_message_timestamp_type": "LogAppendTime"}
    assert read({}, **properties).segment_bytes == 100
    assert read({}, **properties).segment_ms == 2 * HOUR_MS
    assert read({}, **properties).log_append_time
    overrides = {"segment.bytes": "200", "segment.ms": " 7 ", "message.timestamp.type": "CreateTime"}
    config = read(overrides, **properties)
    assert (config.segment_bytes, config.segment_ms, config.log_append_time) == (200, 7, False)


@pytest.mark.parametrize(
    ("properties", "field", "value"),
    [
        ({"log_roll_ms": "9", "log_roll_hours": "1"}, "segment_ms", 9),
        ({"log_roll_jitter_hours": "1"}, "segment_jitter_ms", HOUR_MS),
        ({"log_retention_minutes": "3", "log_retention_hours": "1"}, "retention_ms", 180_000),
        ({"log_retention_ms": "-1", "log_retention_minutes": "3"}, "retention_ms", -1),
        ({"log_retention_hours": "-5"}, "retention_ms", -1),
        ({"log_flush_scheduler_interval_ms": "8"}, "flush_ms", 8),
        ({"log_flush_interval_ms": "9", "log_flush_scheduler_interval_ms": "8"}, "flush_ms", 9),
        ({"log_segment_delete_delay_ms": "1"}, "file_delete_delay_ms", 1),
        ({"log_cleaner_delete_retention_ms": "2"}, "delete_retention_ms", 2),
        ({"log_cleaner_min_cleanable_ratio": "0.1"}, "min_cleanable_dirty_ratio", 0.1),
        ({"log_cleaner_min_compaction_lag_ms": "3"}, "min_compaction_lag_ms", 3),
        ({"log_cleaner_max_compaction_lag_ms": "4"}, "max_compaction_lag_ms", 4),
        ({"message_max_bytes": "3"}, "max_message_bytes", 3),
        ({"log_index_size_max_bytes": "44"}, "segment_index_bytes", 44),
        ({"log_message_downconversion_enable": "false"}, "message_downconversion_enable", False),
    ],
)
def test_defaults_are_the_brokers_values(properties: dict[str, str], field: str, value: object) -> None:
    assert getattr(read({}, **properties), field) == value


def test_a_dynamic_config_of_the_broker_is_a_default() -> None:
    changed = overridden(broker(log_retention_hours="1"), {"log.retention.ms": "5", "min.insync.replicas": "2"})
    config = log_config("orders", {}, changed)
    assert (config.retention_ms, config.min_insync_replicas) == (5, 2)


@pytest.mark.parametrize(
    ("policy", "compacted", "deleted"),
    [("compact", True, False), ("delete", False, True), ("compact,delete", True, True), ("", False, False)],
)
def test_cleanup_policy(policy: str, compacted: bool, deleted: bool) -> None:
    config = read({"cleanup.policy": policy})
    assert (config.is_compacted, config.is_deleted) == (compacted, deleted)


@pytest.mark.parametrize(
    ("overrides", "properties", "before", "after"),
    [
        ({"message.timestamp.difference.max.ms": "7"}, {}, 7, 7),
        ({"message.timestamp.difference.max.ms": "7", "message.timestamp.before.max.ms": "8"}, {}, 8, 7),
        ({"message.timestamp.after.max.ms": "9"}, {}, MAX_LONG, 9),
        ({}, {"log_message_timestamp_difference_max_ms": "5"}, 5, 5),
        # The broker's deprecated key has already become its limits, which the topic's deprecated key does not change.
        ({"message.timestamp.difference.max.ms": "7"}, {"log_message_timestamp_difference_max_ms": "5"}, 5, 5),
        ({}, {"log_message_timestamp_before_max_ms": "4"}, 4, MAX_LONG),
    ],
)
def test_limits_of_timestamps_with_the_deprecated_key(
    overrides: dict[str, str], properties: dict[str, str], before: int, after: int
) -> None:
    config = read(overrides, **properties)
    assert (config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms) == (before, after)


def test_an_unusable_value_is_ignored_with_a_warning() -> None:
    overrides = {"segment.bytes": "13", "retention.ms": "soon", "segment.ms": "5", "no.such.key": "x"}
    with operators_log() as lines:
        config = read(overrides, log_segment_bytes="100")
    assert (config.segment_bytes, config.retention_ms, config.segment_ms) == (100, 168 * HOUR_MS, 5)
    assert [(line.level, line.text) for line in lines] == [("warning", "topic config ignored")] * 2
    assert [(line.fields["topic"], line.fields["key"], line.fields["value"]) for line in lines] == [
        ("orders", "retention.ms", "soon"),
        ("orders", "segment.bytes", "13"),
    ]


def test_a_codec_for_every_compression_type() -> None:
    names = TOPIC_TABLE["compression.type"].choices
    assert {name: read({"compression.type": name}).compression_of(Compression.LZ4) for name in names} == {
        "producer": Compression.LZ4,
        "uncompressed": Compression.NONE,
        "gzip": Compression.GZIP,
        "snappy": Compression.SNAPPY,
        "lz4": Compression.LZ4,
        "zstd": Compression.ZSTD,
    }
