"""Keys of Apache Kafka 3.9's broker configuration that this broker accepts and does not act upon, by the type of their values.

A `server.properties` written for Kafka starts here without warnings: these are known words, not typing errors. A value that is
not of its key's type is refused as by Kafka; Kafka's ranges, choices and cross-checks of these keys are not applied. What is
acted upon is in `brokers.config`. Families of keys with free names (`listener.name.<listener>.…`) are recognised by their
prefix, and their values are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.config_types import BOOLEAN, CLASS, DOUBLE, INT, LIST, LONG, PASSWORD, SHORT, STRING, ConfigType

_KEYS_BY_TYPE: Mapping[ConfigType, str] = {
    BOOLEAN: """
        auto.include.jmx.reporter eligible.leader.replicas.enable group.coordinator.new.enable group.share.enable
        log.cleaner.enable log.message.downconversion.enable log.preallocate remote.log.storage.system.enable
        ssl.allow.dn.changes ssl.allow.san.changes transaction.partition.verification.enable
        unstable.api.versions.enable unstable.feature.versions.enable zookeeper.metadata.migration.enable
        zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.ocsp.enable
    """,
    SHORT: """
        group.share.max.groups group.share.max.size offsets.commit.required.acks offsets.topic.replication.factor
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds transaction.state.log.replication.factor
    """,
    INT: """
        alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
        background.threads broker.heartbeat.interval.ms broker.session.timeout.ms compression.gzip.level
        compression.lz4.level compression.zstd.level connection.failed.authentication.delay.ms
        controller.quorum.append.linger.ms controller.quorum.election.backoff.max.ms
        controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
        controller.quorum.retry.backoff.ms controller.quota.window.num controller.quota.window.size.seconds
        delete.records.purgatory.purge.interval.requests fetch.max.bytes fetch.purgatory.purge.interval.requests
        group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms group.coordinator.append.linger.ms
        group.coordinator.threads group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size
        group.min.session.timeout.ms group.share.delivery.count.limit group.share.heartbeat.interval.ms
        group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
        group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
        initial.broker.registration.timeout.ms kafka.metrics.polling.interval.secs log.cleaner.io.buffer.size
        log.cleaner.threads log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
        log.index.interval.bytes log.index.size.max.bytes log.retention.hours log.retention.minutes log.roll.hours
        log.roll.jitter.hours log.segment.bytes max.connection.creation.rate max.incremental.fetch.session.cache.slots
        max.request.partition.size.limit message.max.bytes metadata.log.segment.bytes metadata.log.segment.min.bytes
        metadata.max.idle.interval.ms metrics.num.samples node.id num.io.threads num.network.threads
        num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads num.replica.fetchers
        offset.metadata.max.bytes offsets.commit.timeout.ms offsets.load.buffer.size offsets.retention.minutes
        offsets.topic.compression.codec offsets.topic.num.partitions offsets.topic.segment.bytes
        password.encoder.iterations password.encoder.key.length producer.id.expiration.check.interval.ms
        producer.id.expiration.ms producer.purgatory.purge.interval.requests queued.max.requests quota.window.num
        quota.window.size.seconds remote.fetch.max.wait.ms remote.log.manager.copier.thread.pool.size
        remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
        remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.quota.window.num
        remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.thread.pool.size
        remote.log.metadata.custom.metadata.max.bytes remote.log.reader.max.pending.tasks remote.log.reader.threads
        replica.socket.receive.buffer.bytes replication.quota.window.num replication.quota.window.size.seconds
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.oauthbearer.clock.skew.seconds
        sasl.server.max.receive.size socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
        telemetry.max.bytes transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.remove.expired.transaction.cleanup.interval.ms transaction.state.log.load.buffer.size
        transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.segment.bytes
        transactional.id.expiration.ms zookeeper.metadata.migration.min.batch.size
    """,
    LONG: """
        connections.max.reauth.ms delegation.token.expiry.check.interval.ms delegation.token.expiry.time.ms
        delegation.token.max.lifetime.ms follower.replication.throttled.rate leader.replication.throttled.rate
        log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
        log.cleaner.max.compaction.lag.ms log.cleaner.min.compaction.lag.ms log.dir.failure.timeout.ms
        log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms log.initial.task.delay.ms
        log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
        log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms log.retention.bytes
        log.retention.check.interval.ms log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.delete.delay.ms
        metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.ms
        metadata.max.retention.bytes metadata.max.retention.ms metrics.sample.window.ms
        offsets.retention.check.interval.ms queued.max.request.bytes remote.log.index.file.cache.total.size.bytes
        remote.log.manager.copy.max.bytes.per.second remote.log.manager.fetch.max.bytes.per.second
        remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
        remote.log.manager.task.retry.backoff.ms replica.alter.log.dirs.io.max.bytes.per.second
        replica.high.watermark.checkpoint.interval.ms sasl.kerberos.min.time.before.relogin
        sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        server.max.startup.time.ms socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
        unclean.leader.election.interval.ms
    """,
    DOUBLE: """
        log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second log.cleaner.min.cleanable.ratio
        remote.log.manager.task.retry.jitter sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
        sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    """,
    LIST: """
        controller.quorum.bootstrap.servers controller.quorum.voters group.consumer.assignors
        group.coordinator.rebalance.protocols kafka.metrics.reporters log.cleanup.policy metric.reporters
        sasl.enabled.mechanisms sasl.kerberos.principal.to.local.rules sasl.oauthbearer.expected.audience
        ssl.cipher.suites ssl.enabled.protocols zookeeper.ssl.cipher.suites zookeeper.ssl.enabled.protocols
    """,
    STRING: """
        authorizer.class.name compression.type controller.listener.names early.start.listeners
        group.consumer.migration.policy log.message.format.version log.message.timestamp.type
        max.connections.per.ip.overrides metadata.log.dir metrics.recording.level password.encoder.cipher.algorithm
        password.encoder.keyfactory.algorithm remote.log.metadata.manager.class.name
        remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
        remote.log.metadata.manager.listener.name remote.log.storage.manager.class.name
        remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix replica.selector.class
        sasl.kerberos.kinit.cmd sasl.kerberos.service.name sasl.mechanism.controller.protocol
        sasl.mechanism.inter.broker.protocol sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url
        security.providers ssl.client.auth ssl.endpoint.identification.algorithm ssl.keymanager.algorithm
        ssl.keystore.location ssl.keystore.type ssl.principal.mapping.rules ssl.protocol ssl.provider
        ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.location ssl.truststore.type
        zookeeper.clientCnxnSocket zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location
        zookeeper.ssl.keystore.type zookeeper.ssl.protocol zookeeper.ssl.truststore.location
        zookeeper.ssl.truststore.type
    """,
    PASSWORD: """
        delegation.token.master.key delegation.token.secret.key password.encoder.old.secret password.encoder.secret
        sasl.jaas.config ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password
        ssl.truststore.certificates ssl.truststore.password zookeeper.ssl.keystore.password
        zookeeper.ssl.truststore.password
    """,
    CLASS: """
        alter.config.policy.class.name client.quota.callback.class create.topic.policy.class.name
        principal.builder.class sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class
        sasl.server.callback.handler.class ssl.engine.factory.class
    """,
}

ACCEPTED_KEYS: Mapping[str, ConfigType] = {key: kind for kind, keys in _KEYS_BY_TYPE.items() for key in keys.split()}

ACCEPTED_PREFIXES: tuple[str, ...] = ("listener.name.", "rsm.config.", "rlmm.config.", "remote.log.metadata.")


def is_accepted(key: str) -> bool:
    """Whether Kafka's broker would know `key`, though we do nothing with it."""
    return key in ACCEPTED_KEYS or key.startswith(ACCEPTED_PREFIXES)


def check_accepted(properties: Mapping[str, str]) -> None:
    """Read the values nothing here acts upon, so that what Kafka cannot read is not started with.

    Raises:
        ConfigError: a value is not of its key's type; the first one in the order of `properties`.
    """
    for key, text in properties.items():
        kind = ACCEPTED_KEYS.get(key)
        if kind is not None:
            kind.parse(key, text.strip())
