"""Keys of Apache Kafka 3.9's broker configuration that this broker accepts without effect: type, default, range.

A broker starts without warnings with a `server.properties` that was written for Kafka. A value that is not of its key's
type, out of its range or none of its choices is refused as by Kafka; Kafka's checks of several keys together are left
out. The keys that have an effect are in `understudy.brokers.config.kafka_config`. Families of keys with free names
(`listener.name.<listener>.…`) are recognised by their prefix, and their values are not checked.

A row is a key, ` = ` and its default (without, there is none: null), then the range of a number (`1..`, `0..1`) or the
choices (`{a,b}`), and `internal` if Kafka describes the key only if it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from understudy.brokers.config.config_def import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    PASSWORD,
    SHORT,
    STRING,
    ConfigKey,
    ConfigType,
    connections_by_host,
    gzip_level,
)

_ROWS_BY_TYPE: Mapping[ConfigType, str] = {
    BOOLEAN: """
        auto.include.jmx.reporter = true
        eligible.leader.replicas.enable = false
        group.coordinator.new.enable = false  internal
        group.share.enable = false  internal
        log.preallocate = false
        remote.log.storage.system.enable = false
        ssl.allow.dn.changes = false
        ssl.allow.san.changes = false
        transaction.partition.verification.enable = true
        unstable.api.versions.enable = false  internal
        unstable.feature.versions.enable = false  internal
        zookeeper.metadata.migration.enable = false
        zookeeper.ssl.client.enable = false
        zookeeper.ssl.crl.enable = false
        zookeeper.ssl.ocsp.enable = false
    """,
    SHORT: """
        group.share.max.groups = 10  1..100
        group.share.max.size = 200  10..1000
        offsets.commit.required.acks = -1
        sasl.login.refresh.buffer.seconds = 300
        sasl.login.refresh.min.period.seconds = 60
    """,
    INT: """
        alter.log.dirs.replication.quota.window.num = 11  1..
        alter.log.dirs.replication.quota.window.size.seconds = 1  1..
        background.threads = 10  1..
        broker.heartbeat.interval.ms = 2000
        broker.session.timeout.ms = 9000
        compression.gzip.level = -1
        compression.lz4.level = 9  1..17
        compression.zstd.level = 3  -131072..22
        connection.failed.authentication.delay.ms = 100  0..
        controller.quorum.append.linger.ms = 25
        controller.quorum.election.backoff.max.ms = 1000
        controller.quorum.election.timeout.ms = 1000
        controller.quorum.fetch.timeout.ms = 2000
        controller.quorum.request.timeout.ms = 2000
        controller.quorum.retry.backoff.ms = 20
        controller.quota.window.num = 11  1..
        controller.quota.window.size.seconds = 1  1..
        delete.records.purgatory.purge.interval.requests = 1
        fetch.purgatory.purge.interval.requests = 1000
        group.consumer.heartbeat.interval.ms = 5000  1..
        group.consumer.max.heartbeat.interval.ms = 15000  1..
        group.consumer.max.session.timeout.ms = 60000  1..
        group.consumer.max.size = 2147483647  1..
        group.consumer.min.heartbeat.interval.ms = 5000  1..
        group.consumer.min.session.timeout.ms = 45000  1..
        group.consumer.session.timeout.ms = 45000  1..
        group.coordinator.append.linger.ms = 10  0..
        group.coordinator.threads = 1  1..
        group.share.delivery.count.limit = 5  2..10
        group.share.heartbeat.interval.ms = 5000  1..
        group.share.max.heartbeat.interval.ms = 15000  1..
        group.share.max.record.lock.duration.ms = 60000  30000..3600000
        group.share.max.session.timeout.ms = 60000  1..
        group.share.min.heartbeat.interval.ms = 5000  1..
        group.share.min.record.lock.duration.ms = 15000  1000..30000
        group.share.min.session.timeout.ms = 45000  1..
        group.share.partition.max.record.locks = 200  100..10000
        group.share.record.lock.duration.ms = 30000  1000..60000
        group.share.session.timeout.ms = 45000  1..
        initial.broker.registration.timeout.ms = 60000
        kafka.metrics.polling.interval.secs = 10  1..
        max.connection.creation.rate = 2147483647  0..
        max.request.partition.size.limit = 2000  1..
        metadata.log.segment.bytes = 1073741824  12..
        metadata.log.segment.min.bytes = 8388608  12..  internal
        metadata.max.idle.interval.ms = 500  0..
        metrics.num.samples = 2  1..
        node.id = -1
        num.io.threads = 8  1..
        num.network.threads = 3  1..
        num.replica.alter.log.dirs.threads
        num.replica.fetchers = 1
        password.encoder.iterations = 4096  1024..
        password.encoder.key.length = 128  8..
        producer.purgatory.purge.interval.requests = 1000
        queued.max.requests = 500  1..
        quota.window.num = 11  1..
        quota.window.size.seconds = 1  1..
        remote.fetch.max.wait.ms = 500  1..
        remote.log.manager.copier.thread.pool.size = -1
        remote.log.manager.copy.quota.window.num = 11  1..
        remote.log.manager.copy.quota.window.size.seconds = 1  1..
        remote.log.manager.expiration.thread.pool.size = -1
        remote.log.manager.fetch.quota.window.num = 11  1..
        remote.log.manager.fetch.quota.window.size.seconds = 1  1..
        remote.log.manager.thread.pool.size = 10  1..
        remote.log.metadata.custom.metadata.max.bytes = 128  0..
        remote.log.reader.max.pending.tasks = 100  1..
        remote.log.reader.threads = 10  1..
        replica.socket.receive.buffer.bytes = 65536
        replication.quota.window.num = 11  1..
        replication.quota.window.size.seconds = 1  1..
        sasl.login.connect.timeout.ms
        sasl.login.read.timeout.ms
        sasl.oauthbearer.clock.skew.seconds = 30
        sasl.server.max.receive.size = 524288
        socket.listen.backlog.size = 50  1..
        socket.receive.buffer.bytes = 102400
        socket.send.buffer.bytes = 102400
        telemetry.max.bytes = 1048576  1..
        transaction.abort.timed.out.transaction.cleanup.interval.ms = 10000  1..
        transaction.remove.expired.transaction.cleanup.interval.ms = 3600000  1..
        transaction.state.log.load.buffer.size = 5242880  1..
        transactional.id.expiration.ms = 604800000  1..
        zookeeper.metadata.migration.min.batch.size = 200  1..  internal
    """,
    LONG: """
        connections.max.reauth.ms = 0
        delegation.token.expiry.check.interval.ms = 3600000  1..
        delegation.token.expiry.time.ms = 86400000  1..
        delegation.token.max.lifetime.ms = 604800000  1..
        log.dir.failure.timeout.ms = 30000  1..
        log.local.retention.bytes = -2  -2..
        log.local.retention.ms = -2  -2..
        metadata.log.max.record.bytes.between.snapshots = 20971520  1..
        metadata.log.max.snapshot.interval.ms = 3600000  0..
        metadata.log.segment.ms = 604800000
        metadata.max.retention.bytes = 104857600
        metadata.max.retention.ms = 604800000
        metrics.sample.window.ms = 30000  1..
        queued.max.request.bytes = -1
        remote.log.index.file.cache.total.size.bytes = 1073741824  1..
        remote.log.manager.copy.max.bytes.per.second = 9223372036854775807  1..
        remote.log.manager.fetch.max.bytes.per.second = 9223372036854775807  1..
        remote.log.manager.task.interval.ms = 30000  1..
        remote.log.manager.task.retry.backoff.max.ms = 30000  1..  internal
        remote.log.manager.task.retry.backoff.ms = 500  1..  internal
        sasl.kerberos.min.time.before.relogin = 60000
        sasl.login.retry.backoff.max.ms = 10000
        sasl.login.retry.backoff.ms = 100
        sasl.oauthbearer.jwks.endpoint.refresh.ms = 3600000
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms = 10000
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms = 100
        server.max.startup.time.ms = 9223372036854775807  0..  internal
        socket.connection.setup.timeout.max.ms = 30000
        socket.connection.setup.timeout.ms = 10000
        unclean.leader.election.interval.ms = 300000  1..  internal
    """,
    DOUBLE: """
        remote.log.manager.task.retry.jitter = 0.2  0..0.5  internal
        sasl.kerberos.ticket.renew.jitter = 0.05
        sasl.kerberos.ticket.renew.window.factor = 0.8
        sasl.login.refresh.window.factor = 0.8
        sasl.login.refresh.window.jitter = 0.05
    """,
    # Kafka's class names are as long as they are.
    LIST: """
        controller.quorum.bootstrap.servers =
        controller.quorum.voters =
        group.consumer.assignors = org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor
        group.coordinator.rebalance.protocols = classic  {consumer,classic,share,unknown}
        kafka.metrics.reporters =
        metric.reporters =
        sasl.enabled.mechanisms = GSSAPI
        sasl.kerberos.principal.to.local.rules = DEFAULT
        sasl.oauthbearer.expected.audience
        ssl.cipher.suites =
        ssl.enabled.protocols = TLSv1.2,TLSv1.3
        zookeeper.ssl.cipher.suites
        zookeeper.ssl.enabled.protocols
    """,  # noqa: E501
    STRING: """
        authorizer.class.name =
        controller.listener.names
        early.start.listeners
        group.consumer.migration.policy = disabled  internal
        log.message.format.version = 3.0-IV1
        max.connections.per.ip.overrides =
        metadata.log.dir
        metrics.recording.level = INFO
        password.encoder.cipher.algorithm = AES/CBC/PKCS5Padding
        password.encoder.keyfactory.algorithm
        remote.log.metadata.manager.class.name = org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager
        remote.log.metadata.manager.class.path
        remote.log.metadata.manager.impl.prefix = rlmm.config.
        remote.log.metadata.manager.listener.name
        remote.log.storage.manager.class.name
        remote.log.storage.manager.class.path
        remote.log.storage.manager.impl.prefix = rsm.config.
        sasl.kerberos.kinit.cmd = /usr/bin/kinit
        sasl.kerberos.service.name
        sasl.mechanism.controller.protocol = GSSAPI
        sasl.mechanism.inter.broker.protocol = GSSAPI
        sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name = scope
        sasl.oauthbearer.sub.claim.name = sub
        sasl.oauthbearer.token.endpoint.url
        security.providers
        ssl.client.auth = none  {required,requested,none}
        ssl.endpoint.identification.algorithm = https
        ssl.keymanager.algorithm = SunX509
        ssl.keystore.location
        ssl.keystore.type = JKS
        ssl.principal.mapping.rules = DEFAULT
        ssl.protocol = TLSv1.3
        ssl.provider
        ssl.secure.random.implementation
        ssl.trustmanager.algorithm = PKIX
        ssl.truststore.location
        ssl.truststore.type = JKS
        zookeeper.clientCnxnSocket
        zookeeper.ssl.endpoint.identification.algorithm = HTTPS
        zookeeper.ssl.keystore.location
        zookeeper.ssl.keystore.type
        zookeeper.ssl.protocol = TLSv1.2
        zookeeper.ssl.truststore.location
        zookeeper.ssl.truststore.type
    """,  # noqa: E501
    PASSWORD: """
        delegation.token.master.key
        delegation.token.secret.key
        password.encoder.old.secret
        password.encoder.secret
        sasl.jaas.config
        ssl.key.password
        ssl.keystore.certificate.chain
        ssl.keystore.key
        ssl.keystore.password
        ssl.truststore.certificates
        ssl.truststore.password
        zookeeper.ssl.keystore.password
        zookeeper.ssl.truststore.password
    """,
    CLASS: """
        alter.config.policy.class.name
        client.quota.callback.class
        create.topic.policy.class.name
        principal.builder.class = org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder
        sasl.client.callback.handler.class
        sasl.login.callback.handler.class
        sasl.login.class
        sasl.server.callback.handler.class
        ssl.engine.factory.class
    """,
}

_CHECKS = {"compression.gzip.level": gzip_level, "max.connections.per.ip.overrides": connections_by_host}

_ROW = re.compile(
    r"(?P<name>\S+)(?P<has_default> =(?: (?P<default>(?!\S+\.\.|\{|internal)\S+))?)?"
    r"(?:  (?P<least>-?[0-9.]+?)\.\.(?P<most>[0-9.]+)?)?(?:  \{(?P<choices>\S+)\})?(?P<internal>  internal)?"
)


def _keys() -> Iterator[ConfigKey]:
    for kind, rows in _ROWS_BY_TYPE.items():
        for line in rows.strip().splitlines():
            row = _ROW.fullmatch(line.strip())
            assert row is not None, f"this row cannot be read: {line}"
            yield ConfigKey(
                name=row["name"],
                type=kind,
                default=kind.parse(row["name"], row["default"] or "") if row["has_default"] else None,
                doc=None,
                minimum=_bound(row["least"]),
                maximum=_bound(row["most"]),
                choices=tuple(row["choices"].split(",")) if row["choices"] else (),
                check=_CHECKS.get(row["name"]),
                internal=row["internal"] is not None,
            )


def _bound(text: str | None) -> float | None:
    if text is None:
        return None
    return float(text) if "." in text else int(text)


ACCEPTED_KEYS: Mapping[str, ConfigKey] = {key.name: key for key in _keys()}

ACCEPTED_PREFIXES: tuple[str, ...] = ("listener.name.", "rsm.config.", "rlmm.config.", "remote.log.metadata.")

AUTHORIZER_KEYS: tuple[str, ...] = ("allow.everyone.if.no.acl.found", "super.users")
"""Keys that Kafka's authorizers read; `KafkaConfig` has none of them."""

PROTECTIONS = re.compile(
    r"(zookeeper\.)?(sasl|ssl)\..*|listener\.name\..*\.(sasl|ssl)\..*|listener\.name\..*\.principal\.builder\.class"
    r"|authorizer\..*|principal\.builder\.class|security\.providers|password\.encoder\..*|delegation\.token\..*"
    r"|connection\.failed\.authentication\.delay\.ms|connections\.max\.reauth\.ms"
    r"|(.*\.)?quota\..*|max\.connection\.creation\.rate|max\.connections\.per\.ip\.overrides"
    r"|(create\.topic|alter\.config)\.policy\.class\.name"
)
"""Names of accepted keys that promise to authenticate, authorize, encrypt or limit."""


def protections_without_effect(properties: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys, sorted, that have a value and promise a protection that this broker does not have."""
    return tuple(
        sorted(
            key
            for key, value in properties.items()
            if value.strip() and (key in AUTHORIZER_KEYS or PROTECTIONS.fullmatch(key) is not None)
        )
    )


def check_accepted(properties: Mapping[str, str]) -> None:
    """Read the values nothing here acts upon, so that what Kafka cannot read is not started with.

    Raises:
        ConfigError: a value is not of its key's type, range or choices; the first one in the order of `properties`.
    """
    for name, text in properties.items():
        key = ACCEPTED_KEYS.get(name)
        if key is not None:
            key.parse(text)
