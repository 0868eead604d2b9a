"""Checks a configuration as a whole: values that contradict each other, or are not supported. Mirrors
`kafka.server.KafkaConfig.validateValues`.
"""

from __future__ import annotations

from collections.abc import Mapping

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.foundation.cluster.metadata_version import MetadataVersion, UnknownMetadataVersion

RACK_AWARE_REPLICA_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

MESSAGE_FORMAT_VERSION = "3.0-IV1"
"""Kafka's default of `log.message.format.version`. Records are stored in message format 2 only; Kafka refuses some
versions with older protocols, and so does this broker."""

MIN_DEDUPE_BUFFER_BYTES = 1024 * 1024
"""Number of bytes that the buffer of each cleaner must exceed."""


def check_config(config: KafkaConfig, properties: Mapping[str, str]) -> None:
    """Check a configuration that was read from `properties`.

    Raises:
        ConfigError: a value contradicts another, or is not supported.
    """
    if config.process_roles:
        raise ConfigError.invalid(
            "process.roles", ",".join(config.process_roles), "this broker runs in ZooKeeper mode only; remove it"
        )
    if not config.zookeeper_connect:
        raise ConfigError("Missing required configuration `zookeeper.connect` which has no default value.")
    if config.broker_id_generation_enable and not -1 <= config.broker_id <= config.reserved_broker_max_id:
        raise ConfigError(
            f"broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id "
            f"({config.reserved_broker_max_id}), or broker.id.generation.enable must be false; it is {config.broker_id}"
        )
    if not config.broker_id_generation_enable and config.broker_id < 0:
        raise ConfigError(f"broker.id must be greater than or equal to 0; it is {config.broker_id}")
    if config.inter_broker_listener_name is not None and "security.inter.broker.protocol" in properties:
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
    if "," in config.log_directory or not config.log_directory:
        raise ConfigError.invalid("log.dirs", config.log_directory, "exactly one directory is supported")
    if config.zookeeper_set_acl:
        raise ConfigError.invalid("zookeeper.set.acl", properties["zookeeper.set.acl"], "not supported yet; remove it")
    if config.replica_selector_class not in (None, "", RACK_AWARE_REPLICA_SELECTOR):
        raise ConfigError.invalid(
            "replica.selector.class",
            config.replica_selector_class,
            f"no class can be loaded; only {RACK_AWARE_REPLICA_SELECTOR} is supported",
        )
    _check_versions(config, properties.get("log.message.format.version", MESSAGE_FORMAT_VERSION).strip())
    _check_logs(config)
    _check_replication(config)
    config.bound_endpoints()


def _check_versions(config: KafkaConfig, message_format: str) -> None:
    """Raise ConfigError if `log.message.format.version` is too new for the protocol, as its default is for old ones.

    From 3.0-IV1 on Kafka ignores it.
    """
    protocol = _version("inter.broker.protocol.version", config.inter_broker_protocol_version)
    stored = _version("log.message.format.version", message_format).highest_supported_record_version
    if protocol < MetadataVersion.IBP_3_0_IV1 and protocol.highest_supported_record_version < stored:
        needed = next(version for version in MetadataVersion if version.highest_supported_record_version == stored)
        raise ConfigError(
            f"log.message.format.version {message_format} can only be used when inter.broker.protocol.version is set "
            f"to version {needed.release} or higher; it is {config.inter_broker_protocol_version}: "
            "lower the former, too"
        )


def _version(key: str, text: str) -> MetadataVersion:
    try:
        return MetadataVersion.parse(text)
    except UnknownMetadataVersion as unknown:
        raise ConfigError.invalid(key, text, str(unknown)) from unknown


def _check_logs(config: KafkaConfig) -> None:
    retentions = (config.log_retention_ms, config.log_retention_minutes, config.log_retention_hours)
    for holds, requirement in (
        (config.log_roll_ms is None or config.log_roll_ms >= 1, "log.roll.ms must be greater than or equal to 1"),
        (
            config.log_roll_jitter_ms is None or config.log_roll_jitter_ms >= 0,
            "log.roll.jitter.ms must be greater than or equal to 0",
        ),
        (
            next(time for time in retentions if time is not None) != 0,
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
        ),
        (
            not config.log_cleaner_enable
            or config.log_cleaner_dedupe_buffer_size // max(config.log_cleaner_threads, 1) > MIN_DEDUPE_BUFFER_BYTES,
            "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
        ),
    ):
        if not holds:
            raise ConfigError(f"requirement failed: {requirement}")


def _check_replication(config: KafkaConfig) -> None:
    if config.replica_fetch_wait_max_ms > config.replica_socket_timeout_ms:
        raise ConfigError(
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms "
            "to prevent unnecessary socket timeouts"
        )
    if config.replica_fetch_wait_max_ms > config.replica_lag_time_max_ms:
        raise ConfigError(
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
            "to prevent frequent changes in ISR"
        )
