"""Holds the configuration of one topic's logs: the topic's own values over the broker's. Mirrors `LogConfig`.

Of Kafka's values those for tiered storage are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import structlog

from understudy.brokers.config.config_def import ConfigError, ConfigValue
from understudy.brokers.config.description import topic_defaults
from understudy.brokers.config.kafka_config import MAX_LONG, KafkaConfig, field_name
from understudy.brokers.config.topic_config import TOPIC_TABLE
from understudy.foundation.records.compression import Compression

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.log.LogConfig")


class LogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one topic's logs. Times are in milliseconds, sizes in bytes.

    Attributes:
        segment_bytes: the size that a segment must not exceed.
        segment_ms: the age of its first record after which a segment is closed.
        segment_jitter_ms: the most by which `segment_ms` is shortened at random.
        segment_index_bytes: the size of an index at which its segment is closed.
        index_interval_bytes: bytes of records between two entries of the offset index.
        retention_bytes: the size of a log above which its oldest segments are deleted; -1 for no limit.
        retention_ms: the age after which segments are deleted; -1 for never.
        max_message_bytes: the size of the largest batch that a producer may send.
        file_delete_delay_ms: how long the files of a deleted segment stay.
        delete_retention_ms: how long compaction keeps tombstones.
        min_cleanable_dirty_ratio: the share of a log's bytes that is not compacted, above which it is.
        min_compaction_lag_ms: the age that a segment's records must have to be compacted.
        max_compaction_lag_ms: the age of a record at which its log is compacted in any case.
        compression_type: the name of a codec, `uncompressed`, or `producer` for each producer's own.
        log_append_time: whether records get the leader's time instead of having the producer's.
        message_timestamp_before_max_ms: how far before the leader's time a producer's timestamp may be.
        message_timestamp_after_max_ms: how far after the leader's time it may be.
        min_insync_replicas: the in-sync replicas that a write with acks=all needs.
        is_compacted: whether `cleanup.policy` has `compact`: every record needs a key, and the newest of a key stays.
        is_deleted: whether `cleanup.policy` has `delete`: retention applies.
        flush_messages: the appended records after which a log is flushed.
        flush_ms: the time after which a log is flushed.
        message_downconversion_enable: whether batches are converted for old consumers.
        unclean_leader_election_enable: whether a replica outside the ISR may lead.
    """

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    file_delete_delay_ms: int
    delete_retention_ms: int
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    compression_type: str
    log_append_time: bool
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    min_insync_replicas: int
    is_compacted: bool
    is_deleted: bool
    flush_messages: int
    flush_ms: int
    message_downconversion_enable: bool
    unclean_leader_election_enable: bool

    def compression_of(self, producers: Compression) -> Compression:
        """Return the codec in which a batch is stored that a producer sent in the codec `producers`."""
        match self.compression_type:
            case "producer":
                return producers
            case "uncompressed":
                return Compression.NONE
            case name:
                return Compression[name.upper()]


def log_config(topic: str, overrides: Mapping[str, str], broker: KafkaConfig) -> LogConfig:
    """Return the configuration of a topic's logs.

    Args:
        overrides: the topic's own config as it is in ZooKeeper. A value that cannot be used, which must have been
            written there by hand, is ignored with a warning; Kafka's broker fails. Unknown names are ignored.
        broker: the broker's configuration as it is now, the dynamic part included.
    """
    values = topic_defaults(broker)
    for name in sorted(overrides.keys() & TOPIC_TABLE.keys()):
        try:
            values[name] = TOPIC_TABLE[name].parse(overrides[name])
        except ConfigError as error:
            log.warning("topic config ignored", topic=topic, key=name, value=overrides[name], why=str(error))
    policy = values["cleanup.policy"]
    assert isinstance(policy, tuple), "cleanup.policy is a list"
    # Parsed by the types of their keys, which are the types of the fields; keys without a field are ignored.
    return msgspec.convert(
        {
            **{field_name(name): value for name, value in values.items()},
            "log_append_time": values["message.timestamp.type"] == "LogAppendTime",
            "message_timestamp_before_max_ms": _timestamp_limit(values, "message.timestamp.before.max.ms"),
            "message_timestamp_after_max_ms": _timestamp_limit(values, "message.timestamp.after.max.ms"),
            "is_compacted": "compact" in policy,
            "is_deleted": "delete" in policy,
        },
        LogConfig,
    )


def _timestamp_limit(values: Mapping[str, ConfigValue], name: str) -> ConfigValue:
    """Return a limit of timestamps; if it is at its default, the limit of the deprecated key is in force."""
    return values["message.timestamp.difference.max.ms"] if values[name] == MAX_LONG else values[name]
