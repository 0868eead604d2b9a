"""Lists the configurations of a broker that can be changed while it runs, with their scopes and synonyms (CF-7).

Mirrors `DynamicBrokerConfig.AllDynamicConfigs` with its scopes, `DynamicConfig.Broker`, `brokerConfigSynonyms` and
`ServerTopicConfigSynonyms`. A change of a dynamic key is accepted, stored and shown, whether or not this broker acts
upon the key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from understudy.brokers.config.accepted_keys import ACCEPTED_KEYS
from understudy.brokers.config.config_def import LONG, ConfigKey
from understudy.brokers.config.kafka_config import TABLE

BROKER_KEYS: Mapping[str, ConfigKey] = {**ACCEPTED_KEYS, **TABLE}
"""Every key of a broker's configuration, acted upon or not."""

_NO_LIMIT = 2**63 - 1


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


REPLICATION_QUOTAS: Mapping[str, ConfigKey] = {
    name: ConfigKey(name, LONG, _NO_LIMIT, doc, minimum=0)
    for name, doc in (
        ("follower.replication.throttled.rate", "Bytes per second that throttled replicas here fetch."),
        ("leader.replication.throttled.rate", "Bytes per second that leaders here hand to throttled replicas."),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "Bytes per second that replicas move between directories."),
    )
}
"""Keys that `server.properties` cannot have (RA-17). Replication is not throttled."""

SECURITY = _names(
    """
    ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """
)
"""Keys that are dynamic for a single listener only, as `listener.name.<listener>.<key>`."""

PER_BROKER = SECURITY | _names(
    """
    advertised.listeners listener.security.protocol.map listeners principal.builder.class sasl.enabled.mechanisms
    sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
    ssl.cipher.suites ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.keymanager.algorithm ssl.protocol ssl.provider ssl.secure.random.implementation
    ssl.trustmanager.algorithm
    """
)
"""Keys that are dynamic, but not as the default of all brokers."""

CLUSTER_WIDE = _names(
    """
    background.threads compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
    log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms
    log.segment.bytes log.segment.delete.delay.ms max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides message.max.bytes metric.reporters min.insync.replicas num.io.threads
    num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers producer.id.expiration.ms
    remote.fetch.max.wait.ms remote.log.index.file.cache.total.size.bytes remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.fetch.max.bytes.per.second transaction.partition.verification.enable
    unclean.leader.election.enable
    """
)
"""Keys that are dynamic for one broker or for all."""

DYNAMIC = PER_BROKER | CLUSTER_WIDE

DYNAMIC_KEYS: Mapping[str, ConfigKey] = {name: BROKER_KEYS[name] for name in sorted(DYNAMIC)} | dict(REPLICATION_QUOTAS)

_PASSWORDS = tuple(name for name, key in DYNAMIC_KEYS.items() if key.is_sensitive)

_CLUSTER_LEVEL_LISTENER_KEYS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_LISTENER_MECHANISM_KEYS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)
_LISTENER_KEY = re.compile(r"listener\.name\.[^.]*\.(.*)")

_SYNONYMS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)

TOPIC_SYNONYMS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    **{
        name: name
        for name in (
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "min.insync.replicas",
            "unclean.leader.election.enable",
        )
    },
    **{
        name: f"log.{name}"
        for name in (
            "index.interval.bytes",
            "local.retention.bytes",
            "local.retention.ms",
            "message.downconversion.enable",
            "message.format.version",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.difference.max.ms",
            "message.timestamp.type",
            "preallocate",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
        )
    },
}
"""The key of a broker that is the default of a topic's key. Other keys of topics have no such default."""


def base_name(name: str) -> str:
    """Return `name` without the prefix of a listener."""
    match = _LISTENER_KEY.fullmatch(name)
    return name if match is None else match[1]


def is_per_broker(name: str) -> bool:
    """Whether `name` cannot be the default of all brokers."""
    match = _LISTENER_KEY.fullmatch(name)
    return name in PER_BROKER if match is None else match[1] not in _CLUSTER_LEVEL_LISTENER_KEYS


def is_password(name: str) -> bool:
    """Whether the value of `name`, for one listener or for all, is stored encoded and never shown."""
    return name.endswith(_PASSWORDS)


def synonyms(name: str, *, for_listeners: bool = True) -> tuple[str, ...]:
    """Return the names under which a value of `name` may be configured, the strongest first.

    Args:
        for_listeners: whether the key for all listeners is a synonym of the key of one listener.
    """
    for names in _SYNONYMS:
        if name in names:
            return names
    if name == "log.flush.interval.ms":
        return (name, "log.flush.scheduler.interval.ms")
    base = base_name(name)
    if for_listeners and base != name:
        return (name, next((key for key in _LISTENER_MECHANISM_KEYS if base.endswith(key)), base))
    return (name,)


def key_of(name: str) -> ConfigKey | None:
    """Return the key called `name`, for one listener or for all; None if Kafka has no such key."""
    return BROKER_KEYS.get(name) or REPLICATION_QUOTAS.get(name) or BROKER_KEYS.get(base_name(name))
