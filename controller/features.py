"""The finalized features of the cluster, `/feature` (KIP-584). Mirrors `setupFeatureVersioning` and
`processUpdateFeatures`.

A broker in ZooKeeper mode supports no feature. So the controller of such a cluster switches the versioning of features
on (or off, where `inter.broker.protocol.version` is older than it), finalizes none, keeps out brokers that could not
live with what somebody else has finalized, and refuses every wish for more.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from controller.events import FeatureUpdate, UpdateFeatures
from controller.term import Term
from foundation.cluster.broker import BrokerAndEpoch
from foundation.cluster.errors import ApiError, Errors
from foundation.cluster.features import incompatibilities
from foundation.cluster.identifiers import BrokerId
from foundation.cluster.metadata_version import MetadataVersion
from foundation.zk.admin_znodes import Features, FeatureZNode
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import ZooKeeperFailure

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.controller.KafkaController")


async def setup_feature_versioning(term: Term) -> None:
    """FO-1: enable or disable `/feature`; where enabling took a write, wait until this broker's own cache has heard of
    it.

    Raises:
        FeatureCacheBehind: it has not, within `zookeeper.connection.timeout.ms`.
        ZooKeeperFailure: BAD_VERSION, where the znode changes each time before it can be written.
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
                return  # and no cache of such a broker follows the znode
            await term.features.wait_until_epoch(epoch, timeout_ms=term.settings.zookeeper_connection_timeout_ms)
            return
    raise ZooKeeperFailure(Failure.BAD_VERSION, FeatureZNode.path)


def versioned(current: Features | None, protocol: MetadataVersion) -> Features:
    """What `/feature` becomes: what was in force stays so, what was finalized before it was disabled does not."""
    if not protocol.is_feature_versioning_supported:
        return Features(protocol.feature_node_version, False, {})
    kept = current.features if current is not None and current.enabled else {}
    return Features(protocol.feature_node_version, True, kept)


def compatible_brokers(term: Term, registered: Mapping[BrokerId, BrokerAndEpoch]) -> dict[BrokerId, BrokerAndEpoch]:
    """BR-8, FO-5a: `registered` without those that have come, in this life, and cannot work with what is finalized.

    They are as good as not registered until they come again. Kafka leaves them out of what it knows, but starts them up
    with every change of any broker (BUG-22). One that was there before stays: only its next life is judged.
    """
    finalized = term.features.features
    if finalized is None or not finalized.levels:
        return dict(registered)
    compatible = {}
    for broker, found in registered.items():
        wrong = incompatibilities(found.broker.features, finalized.levels)
        if wrong and term.context.broker_epoch(broker) != found.epoch:
            log.warning(
                "ignoring registration of a broker incompatible with finalized features", broker=broker, why=wrong
            )
        else:
            compatible[broker] = found
    return compatible


def process_update_features(term: Term, event: UpdateFeatures) -> None:
    """Every update is refused, so that it makes no difference whether it shall only be validated. Of two for one
    feature the first counts, as in Kafka's collection."""
    if not term.settings.inter_broker_protocol_version.is_feature_versioning_supported:
        event.reply.resolve(ApiError(Errors.INVALID_REQUEST, "Feature versioning system is disabled."))
        return
    results: dict[str, ApiError] = {}
    for update in event.updates:
        results.setdefault(update.feature, refusal(update))
    log.info("refused to update features", features=list(results))
    event.reply.resolve(results)


def refusal(update: FeatureUpdate) -> ApiError:
    """Why a cluster in which nothing is finalized or supported cannot do this. Pure; the order of checks is Kafka's."""
    if not update.feature:
        why = "Feature name can not be empty."
    elif update.upgrade_type is None:
        why = "Received unknown upgrade type."
    elif update.is_deletion:
        why = "Can not delete non-existing finalized feature."
    elif update.level < 1:
        why = f"Can not provide versionLevel: {update.level} less than 1 without setting the SAFE downgradeType in the request."
    else:
        why = "Could not apply finalized feature update because the provided feature is not supported."
    return ApiError(Errors.INVALID_REQUEST, why)
