"""Lists the configurations of topics: names, types, bounds, defaults. Mirrors `LogConfig` of Kafka 3.9.

Other names are refused. The control plane acts upon `unclean.leader.election.enable` alone; the others are stored in
ZooKeeper for brokers that store records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from understudy.brokers.config.config_def import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigError,
    ConfigKey,
    ConfigValue,
    InvalidConfiguration,
    gzip_level,
    metadata_version,
)

_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_DAY_MS = 24 * 60 * 60 * 1000
_MAX_LONG = 2**63 - 1


_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def _throttled(name: str) -> Callable[[ConfigValue], str | None]:
    def check(replicas: ConfigValue) -> str | None:
        """Return why a list of throttled replicas is refused: it is not `*` or `partition:broker` pairs (RA-17)."""
        assert isinstance(replicas, tuple), "a list"
        if all(map(_REPLICA.fullmatch, replicas)) or "".join(replicas) == "*":
            return None
        return (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )

    return check


def _throttled_key(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, LIST, (), doc, check=_throttled(name))


_KEYS = (
    ConfigKey("segment.bytes", INT, 1_073_741_824, "Bytes of one segment.", 14),
    ConfigKey("segment.ms", LONG, _WEEK_MS, "Time after which a segment is closed.", 1),
    ConfigKey(
        "segment.jitter.ms", LONG, 0, "A random part of segment.ms, so that segments do not all roll at once.", 0
    ),
    ConfigKey("segment.index.bytes", INT, 10_485_760, "Bytes of one index.", 4),
    ConfigKey("flush.messages", LONG, _MAX_LONG, "Records between two forced writes to disk.", 1),
    ConfigKey("flush.ms", LONG, _MAX_LONG, "Time between two forced writes to disk.", 0),
    ConfigKey("retention.bytes", LONG, -1, "Bytes a partition may grow to; −1 for any."),
    ConfigKey("retention.ms", LONG, _WEEK_MS, "How long records are kept; −1 for ever.", -1),
    ConfigKey("max.message.bytes", INT, 1_048_588, "The largest batch accepted.", 0),
    ConfigKey("index.interval.bytes", INT, 4096, "Bytes between two entries of the offset index.", 0),
    ConfigKey("delete.retention.ms", LONG, _DAY_MS, "How long a tombstone is kept after compaction.", 0),
    ConfigKey("min.compaction.lag.ms", LONG, 0, "How long a record is kept uncompacted at least.", 0),
    ConfigKey("max.compaction.lag.ms", LONG, _MAX_LONG, "How long a record is kept uncompacted at most.", 1),
    ConfigKey("file.delete.delay.ms", LONG, 60_000, "How long a removed file stays on disk.", 0),
    ConfigKey("min.cleanable.dirty.ratio", DOUBLE, 0.5, "The share of uncompacted bytes that starts compaction.", 0, 1),
    ConfigKey(
        "cleanup.policy",
        LIST,
        ("delete",),
        "Whether old segments are deleted or compacted.",
        choices=("compact", "delete"),
    ),
    ConfigKey("unclean.leader.election.enable", BOOLEAN, False, "Let a replica outside the ISR lead, and lose data."),
    ConfigKey("min.insync.replicas", INT, 1, "In-sync replicas that a write with acks=all needs.", 1),
    ConfigKey(
        "compression.type",
        STRING,
        "producer",
        "How batches are stored compressed.",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    ConfigKey("compression.gzip.level", INT, -1, "Level of gzip; −1 is gzip's own default.", check=gzip_level),
    ConfigKey("compression.lz4.level", INT, 9, "Level of lz4.", 1, 17),
    ConfigKey("compression.zstd.level", INT, 3, "Level of zstd.", -131072, 22),
    ConfigKey("preallocate", BOOLEAN, False, "Reserve the space of a segment when it is created."),
    ConfigKey("message.format.version", STRING, "3.0-IV1", "Ignored since Kafka 3.0.", check=metadata_version),
    ConfigKey(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether a record has its producer's or its broker's time.",
        choices=("CreateTime", "LogAppendTime"),
    ),
    ConfigKey(
        "message.timestamp.difference.max.ms", LONG, _MAX_LONG, "How far a timestamp may lie in the past or future.", 0
    ),
    ConfigKey("message.timestamp.before.max.ms", LONG, _MAX_LONG, "How far in the past a timestamp may lie.", 0),
    ConfigKey("message.timestamp.after.max.ms", LONG, _MAX_LONG, "How far in the future a timestamp may lie.", 0),
    _throttled_key("leader.replication.throttled.replicas", "Replicas whose serving is throttled."),
    _throttled_key("follower.replication.throttled.replicas", "Replicas whose fetching is throttled."),
    ConfigKey("message.downconversion.enable", BOOLEAN, True, "Convert batches for old consumers."),
    ConfigKey("remote.storage.enable", BOOLEAN, False, "Use tiered storage."),
    ConfigKey("local.retention.ms", LONG, -2, "Time kept locally with tiered storage.", -2),
    ConfigKey("local.retention.bytes", LONG, -2, "Bytes kept locally with tiered storage.", -2),
    ConfigKey("remote.log.copy.disable", BOOLEAN, False, "Stop copying to tiered storage."),
    ConfigKey(
        "remote.log.delete.on.disable", BOOLEAN, False, "Delete tiered data when tiered storage is switched off."
    ),
)

TOPIC_TABLE: Mapping[str, ConfigKey] = {key.name: key for key in _KEYS}
"""Keys in the order in which Kafka checks values: of several bad ones the client gets the first."""


def validate_topic_config(config: Iterable[tuple[str, str]], defaults: Mapping[str, ConfigValue]) -> dict[str, str]:
    """Check a topic's configuration, and return it as it is stored.

    Args:
        defaults: the values of keys that the topic does not set.

    Raises:
        ConfigError: an unknown name, a value of the wrong type or out of bounds, or two that contradict each other.
    """
    stored = dict(config)
    for name in stored:
        if name not in TOPIC_TABLE:
            raise InvalidConfiguration(f"Unknown topic config name: {name}")
    values = {name: key.parse(stored[name]) for name, key in TOPIC_TABLE.items() if name in stored}
    least, most = (values.get(name, defaults[name]) for name in ("min.compaction.lag.ms", "max.compaction.lag.ms"))
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise InvalidConfiguration(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    if values.get("remote.log.delete.on.disable") is True or values.get("remote.log.copy.disable") is True:
        raise InvalidConfiguration(
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode."
        )
    if values.get("remote.storage.enable") is True:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return stored
