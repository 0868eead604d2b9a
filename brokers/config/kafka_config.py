"""The broker's configuration: one table of keys, under Kafka's names, typed.

`KafkaConfig` *is* the table: a field `broker_id` is the key `broker.id`, and carries type, default, range and one line
of doc. Parsing, errors, warnings and DescribeConfigs all read it. Mirrors `kafka.server.KafkaConfig` and
`org.apache.kafka.common.config.ConfigDef`; error sentences are those a Kafka operator knows.

Every key of Kafka 3.9 is known; those in `brokers.config.accepted_keys` are read and change nothing here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from brokers.config.accepted_keys import check_accepted, is_accepted
from brokers.config.config_def import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    SHORT,
    STRING,
    ConfigError,
    ConfigKey,
    ConfigType,
    ConfigValue,
)
from brokers.config.listeners import Listeners
from controller.settings import ControllerSettings
from foundation.cluster.broker import EndPoint, SecurityProtocol
from foundation.cluster.metadata_version import LATEST_PRODUCTION, MetadataVersion, UnknownMetadataVersion

T = TypeVar("T")

MESSAGE_FORMAT_VERSION = "3.0-IV1"
"""Kafka's default of `log.message.format.version`. No messages are stored; the key matters for what Kafka refuses with
it."""


def _key(
    kind: ConfigType,
    default: T,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int | None = None,
    choices: tuple[str, ...] = (),
    ours: bool = False,
) -> T:
    about = {"type": kind, "doc": doc, "minimum": at_least, "maximum": at_most, "choices": choices, "internal": ours}
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class KafkaConfig:
    """What this broker has been told. Times are milliseconds unless the name says otherwise, sizes bytes."""

    # -- who it is, and where it can be reached
    broker_id: int = _key(INT, -1, "This broker's id; −1 takes the one it had, or asks ZooKeeper for a new one.")
    broker_id_generation_enable: bool = _key(BOOLEAN, True, "Whether ZooKeeper may hand out an id.")
    reserved_broker_max_id: int = _key(
        INT, 1000, "Ids up to this one are configured, those above are handed out.", at_least=0
    )
    broker_rack: str | None = _key(STRING, None, "The rack it stands in, for placing replicas on different ones.")
    listeners: str = _key(STRING, "PLAINTEXT://:9092", "Where it listens; without a host, on the loopback address.")
    advertised_listeners: str | None = _key(STRING, None, "Where others find it; by default where it listens.")
    listener_security_protocol_map: str = _key(
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener; only PLAINTEXT is spoken.",
    )
    inter_broker_listener_name: str | None = _key(STRING, None, "The listener brokers and the controller use.")
    security_inter_broker_protocol: str = _key(
        STRING,
        "PLAINTEXT",
        "Names the listener between brokers by its protocol.",
        choices=tuple(SecurityProtocol.__members__),
    )
    control_plane_listener_name: str | None = _key(
        STRING, None, "The listener of the controller's requests, if of their own."
    )
    inter_broker_protocol_version: str = _key(STRING, str(LATEST_PRODUCTION), "The version spoken between brokers.")
    process_roles: tuple[str, ...] = _key(LIST, (), "Empty: this is a broker in ZooKeeper mode.")
    # -- ZooKeeper
    zookeeper_connect: str = _key(STRING, "", "host:port pairs, separated by commas, and a chroot at the end.")
    zookeeper_session_timeout_ms: int = _key(
        INT, 18_000, "After this long without contact, ZooKeeper gives the broker up."
    )
    zookeeper_connection_timeout_ms: int | None = _key(
        INT, None, "How long to wait for ZooKeeper; default the session timeout."
    )
    zookeeper_max_in_flight_requests: int = _key(
        INT, 10, "Requests sent to ZooKeeper and not yet answered.", at_least=1
    )
    zookeeper_set_acl: bool = _key(BOOLEAN, False, "Protect znodes by ACLs; not offered yet.")
    # -- what it stores
    log_dir: str = _key(STRING, "/tmp/kafka-logs", "The directory of meta.properties.")
    log_dirs: str | None = _key(STRING, None, "As log.dir, which it overrides; one directory.")
    # -- topics
    num_partitions: int = _key(INT, 1, "Partitions of a topic whose creator named no number.", at_least=1)
    default_replication_factor: int = _key(INT, 1, "Replicas of a partition whose creator named no number.")
    auto_create_topics_enable: bool = _key(BOOLEAN, True, "Create a topic when somebody asks for its metadata.")
    delete_topic_enable: bool = _key(BOOLEAN, True, "Whether topics may be deleted.")
    min_insync_replicas: int = _key(INT, 1, "In-sync replicas a write with acks=all asks for.", at_least=1)
    # -- the coordinators' topics
    offsets_topic_num_partitions: int = _key(
        INT, 50, "Partitions of __consumer_offsets; not to be changed.", at_least=1
    )
    offsets_topic_replication_factor: int = _key(SHORT, 3, "Replicas of a partition of __consumer_offsets.", at_least=1)
    offsets_topic_segment_bytes: int = _key(INT, 104_857_600, "Bytes of a segment of __consumer_offsets.", at_least=1)
    transaction_state_log_num_partitions: int = _key(
        INT, 50, "Partitions of __transaction_state; not to be changed.", at_least=1
    )
    transaction_state_log_replication_factor: int = _key(
        SHORT, 3, "Replicas of a partition of __transaction_state.", at_least=1
    )
    transaction_state_log_min_isr: int = _key(
        INT, 2, "In-sync replicas a write to __transaction_state asks for.", at_least=1
    )
    transaction_state_log_segment_bytes: int = _key(
        INT, 104_857_600, "Bytes of a segment of __transaction_state.", at_least=1
    )
    # -- the controller
    controller_socket_timeout_ms: int = _key(
        INT, 30_000, "How long a connection to or from the controller may take to open."
    )
    request_timeout_ms: int = _key(INT, 30_000, "How long the controller waits for the answer to a request.")
    controlled_shutdown_enable: bool = _key(BOOLEAN, True, "Hand leaderships over before leaving.")
    controlled_shutdown_max_retries: int = _key(INT, 3, "How often handing over is tried.")
    controlled_shutdown_retry_backoff_ms: int = _key(LONG, 5_000, "The pause before trying again.")
    auto_leader_rebalance_enable: bool = _key(
        BOOLEAN, True, "Give leaderships back to preferred replicas from time to time."
    )
    leader_imbalance_check_interval_seconds: int = _key(LONG, 300, "How often that is looked at.", at_least=1)
    leader_imbalance_per_broker_percentage: int = _key(INT, 10, "The share of misplaced leaders a broker may have.")
    unclean_leader_election_enable: bool = _key(
        BOOLEAN, False, "Let a replica outside the ISR lead, and lose data, where nobody else can."
    )
    # -- replication
    replica_lag_time_max_ms: int = _key(LONG, 30_000, "A follower that has not caught up for this long leaves the ISR.")
    replica_fetch_wait_max_ms: int = _key(INT, 500, "How long a leader may hold a follower's Fetch back.")
    replica_fetch_min_bytes: int = _key(INT, 1, "Bytes a follower's Fetch waits for.")
    replica_fetch_max_bytes: int = _key(INT, 1_048_576, "Bytes of one partition in an answer.", at_least=0)
    replica_fetch_response_max_bytes: int = _key(INT, 10_485_760, "Bytes of a whole answer.", at_least=0)
    replica_fetch_backoff_ms: int = _key(INT, 1_000, "The pause after a Fetch that failed.", at_least=0)
    replica_socket_timeout_ms: int = _key(INT, 30_000, "How long a Fetch may take beyond its wait.")
    # -- producers
    transaction_max_timeout_ms: int = _key(
        INT, 900_000, "The longest a producer may let a transaction idle.", at_least=1
    )
    # -- sockets
    socket_request_max_bytes: int = _key(INT, 104_857_600, "A larger request ends its connection.", at_least=1)
    connections_max_idle_ms: int = _key(LONG, 600_000, "A connection without a whole request for this long is closed.")
    max_connections: int = _key(INT, 2**31 - 1, "Connections at one time; more are closed at once.", at_least=0)
    max_connections_per_ip: int = _key(INT, 2**31 - 1, "The same, from one address.", at_least=0)
    # -- of our own
    metrics_port: int | None = _key(
        INT,
        None,
        "Serve metrics to Prometheus on this port; 0 takes any. Default: not at all.",
        at_least=0,
        at_most=65_535,
        ours=True,
    )
    metrics_host: str = _key(STRING, "127.0.0.1", "The address `metrics.port` is bound on.", ours=True)
    understudy_run_id: str = _key(STRING, "local", "Names the run in every record of the event log.", ours=True)
    understudy_events_dir: str | None = _key(
        STRING, None, "The folder of the event log; default `events` in the log directory.", ours=True
    )
    understudy_events_detail: bool = _key(BOOLEAN, False, "Also record every request with its answer.", ours=True)
    understudy_points_file: str | None = _key(
        STRING, None, "JSON of points at which to pause or crash; for experiments.", ours=True
    )

    originals: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What was configured, as text, keys that are not acted upon included."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> KafkaConfig:
        """Read and check a configuration; unknown keys are left to `unknown_keys`.

        Raises:
            ConfigError: a value cannot be read, contradicts another, or asks for what is not offered.
        """
        properties = _with_synonyms(properties)
        values = {key: TABLE[key].parse(text) for key, text in properties.items() if key in TABLE}
        check_accepted(properties)
        config = cls(
            **{_field_name(key): value for key, value in values.items()},  # type: ignore[arg-type]  # checked by the table
            originals=properties,
        )
        _check(config, properties)
        return config

    def reconfigured(self, originals: Mapping[str, str], changed: Iterable[str]) -> KafkaConfig:
        """As this one, with the values that `originals` has for the keys in `changed`.

        Raises:
            ConfigError: as `from_properties`.
        """
        values = {_field_name(key): TABLE[key].parse(originals[key]) for key in changed if key in TABLE}
        check_accepted(originals)
        config = dataclasses.replace(self, originals=originals, **values)  # type: ignore[arg-type]  # checked by the table
        _check(config, originals)
        return config

    def value_of(self, key: str) -> ConfigValue:
        """The value of a key in `TABLE`."""
        value: ConfigValue = getattr(self, _field_name(key))
        return value

    @property
    def log_directory(self) -> str:
        return self.log_dirs if self.log_dirs is not None else self.log_dir

    @property
    def inter_broker_listener(self) -> str:
        """The listener's name, in capitals as in every znode."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @property
    def control_plane_listener(self) -> str | None:
        """The listener of the controller's requests, in capitals; None where they use the inter-broker listener."""
        return None if self.control_plane_listener_name is None else self.control_plane_listener_name.upper()

    @property
    def metadata_version(self) -> MetadataVersion:
        """`inter.broker.protocol.version` as a value."""
        return MetadataVersion.parse(self.inter_broker_protocol_version)

    def bound_endpoints(self) -> tuple[EndPoint, ...]:
        """Where to listen; a host left out is the loopback address."""
        return self._listeners().bound

    def advertised_endpoints(self) -> tuple[EndPoint, ...]:
        """What to register; port 0 stands for the port that was bound."""
        return self._listeners().advertised

    @property
    def zookeeper_connection_timeout(self) -> int:
        """In ms; where it is not configured, that of the session."""
        configured = self.zookeeper_connection_timeout_ms
        return self.zookeeper_session_timeout_ms if configured is None else configured

    def controller_settings(self) -> ControllerSettings:
        return ControllerSettings(
            inter_broker_protocol_version=self.metadata_version,
            inter_broker_listener_name=self.inter_broker_listener,
            control_plane_listener_name=self.control_plane_listener,
            controller_socket_timeout_ms=self.controller_socket_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            unclean_leader_election_enabled=lambda: self.unclean_leader_election_enable,
            auto_leader_rebalance_enable=self.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_seconds=self.leader_imbalance_check_interval_seconds,
            leader_imbalance_per_broker_percentage=self.leader_imbalance_per_broker_percentage,
            zookeeper_connection_timeout_ms=self.zookeeper_connection_timeout,
            delete_topic_enable=self.delete_topic_enable,
        )

    def _listeners(self) -> Listeners:
        return Listeners.read(
            self.listeners,
            self.advertised_listeners,
            self.listener_security_protocol_map,
            self.inter_broker_listener,
            self.control_plane_listener,
        )


def _field_name(key: str) -> str:
    return key.replace(".", "_")


def _with_synonyms(properties: Mapping[str, str]) -> dict[str, str]:
    """`node.id` is another word for `broker.id` (KRaft's)."""
    found = dict(properties)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name not in found and other in found:
            found[name] = found[other]
    return found


def _rows() -> Iterator[ConfigKey]:
    for row in dataclasses.fields(KafkaConfig):
        if row.name == "originals":
            continue
        assert row.default is not dataclasses.MISSING, f"{row.name} has no default"
        yield ConfigKey(name=row.name.replace("_", "."), default=row.default, **row.metadata)


TABLE: Mapping[str, ConfigKey] = {row.name: row for row in _rows()}
"""Every key acted upon, by name."""


def unknown_keys(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Keys neither we nor Kafka 3.9 know, sorted: most likely typing errors."""
    return tuple(sorted(key for key in properties if key not in TABLE and not is_accepted(key)))


def _check(config: KafkaConfig, properties: Mapping[str, str]) -> None:
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
    _check_versions(config, properties.get("log.message.format.version", MESSAGE_FORMAT_VERSION).strip())
    _check_replication(config)
    config.bound_endpoints()


def _check_versions(config: KafkaConfig, message_format: str) -> None:
    """From 3.0-IV1 on Kafka does not heed `log.message.format.version`; with an older protocol its default is too
    new."""
    protocol = _version("inter.broker.protocol.version", config.inter_broker_protocol_version)
    stored = _version("log.message.format.version", message_format).highest_supported_record_version
    if protocol < MetadataVersion.IBP_3_0_IV1 and protocol.highest_supported_record_version < stored:
        needed = next(version for version in MetadataVersion if version.highest_supported_record_version == stored)
        raise ConfigError(
            f"log.message.format.version {message_format} can only be used when inter.broker.protocol.version is set to "
            f"version {needed.release} or higher; it is {config.inter_broker_protocol_version}: lower the former, too"
        )


def _version(key: str, text: str) -> MetadataVersion:
    try:
        return MetadataVersion.parse(text)
    except UnknownMetadataVersion as unknown:
        raise ConfigError.invalid(key, text, str(unknown)) from unknown


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
