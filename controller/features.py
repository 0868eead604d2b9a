"""The finalized features of the cluster, `/feature` (KIP-584). Mirrors `maybeSetupFeatureVersioning`
and `processFeatureUpdates`.

A broker in ZooKeeper mode supports no feature. So the controller enables feature versioning (or disables it, if
`inter.broker.protocol.version` is too old), finalizes no feature, ignores brokers that are incompatible with features
that are finalized all the same, and refuses every update.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from understudy.controller.events import FeatureUpdate, UpdateFeatures
from understudy.controller.term import Term
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.features import incompatibilities
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.cluster.metadata_version import MetadataVersion
from understudy.foundation.zk.admin_znodes import Features, FeatureZNode
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def setup_feature_versioning(term: Term) -> None:
    """Enable or disable `/feature`; after enabling it, wait until this broker's own cache has read the write (FO-1).

    Raises:
        FeatureCacheBehind: it has not, within `zookeeper.connection.timeout.ms`.
        ZooKeeperFailure: BAD_VERSION, if the znode changed before each write.
    """
    protocol = term.settings.inter_broker_protocol_version
    for _ in range(term.settings.conflict_rounds):
        read = await term.zk.features.read()
        wanted = versioned(None if read is None else read.features, protocol)
        if read is not None and read.features == wanted:
            return
        await term.points.reach("features.before_write")
        epoch = await term.zk.features.write(wanted, read)
        await term.points.reach("features.after_write")
        if epoch is not None:
            if not protocol.is_feature_versioning_supported:
                return  # The caches of such brokers do not read the znode.
            await term.features.wait_until_epoch(epoch, timeout_ms=term.settings.zookeeper_connection_timeout_ms)
            return
    raise ZooKeeperFailure(Failure.BAD_VERSION, FeatureZNode.path)


def versioned(current: Features | None, protocol: MetadataVersion) -> Features:
    """Return the new content of `/feature`: finalized features are kept, except those from before it was disabled."""
    if not protocol.is_feature_versioning_supported:
        return Features(protocol.feature_node_version, False, {})
    kept = current.features if current is not None and current.enabled else {}
    return Features(protocol.feature_node_version, True, kept)


def compatible_brokers(term: Term, registered: Mapping[BrokerId, BrokerAndEpoch]) -> dict[BrokerId, BrokerAndEpoch]:
    """Return `registered` without new registrations of brokers that are incompatible with the finalized features (BR-8,
    FO-5a).

    Such a broker is treated as not registered until it registers again. Kafka leaves it out of its context, but runs
    its startup callback with every change of any broker (BUG-22). A registration that the context holds already is
    kept.
    """
    finalized = term.features.features
    if finalized is None or not finalized.levels:
        return dict(registered)
    compatible = {}
    for broker, found in registered.items():
        wrong = incompatibilities(found.broker.features, finalized.levels)
        if wrong and term.context.broker_epoch(broker) != found.epoch:
            log.warning(
                "ignoring registration of a broker incompatible with finalized features",
                broker=broker,
                why="; ".join(wrong),
            )
        else:
            compatible[broker] = found
    return compatible


def process_update_features(term: Term, event: UpdateFeatures) -> None:
    """Refuse every update, so that it makes no difference whether it is only to be validated.

    Of two updates of one feature the first counts, as in Kafka's collection.
    """
    if not term.settings.inter_broker_protocol_version.is_feature_versioning_supported:
        event.reply.resolve(ApiError(Errors.INVALID_REQUEST, "Feature versioning system is disabled."))
        return
    results: dict[str, ApiError] = {}
    for update in event.updates:
        results.setdefault(update.feature, refusal(update))
    log.info("refused to update features", features=list(results))
    event.reply.resolve(results)


def refusal(update: FeatureUpdate) -> ApiError:
    """Return why an update is impossible if no feature is finalized or supported. Pure; the order of checks is
    Kafka's."""
    if not update.feature:
        why = "Feature name can not be empty."
    elif update.upgrade_type is None:
        why = "Received unknown upgrade type."
    elif update.is_deletion:
        why = "Can not delete non-existing finalized feature."
    elif update.level < 1:
        why = (
            f"Can not provide versionLevel: {update.level} less than 1 "
            "without setting the SAFE downgradeType in the request."
        )
    else:
        why = "Could not apply finalized feature update because the provided feature is not supported."
    return ApiError(Errors.INVALID_REQUEST, why)
