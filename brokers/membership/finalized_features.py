"""Follows the cluster's finalized features in `/feature` (KIP-584). Mirrors `FinalizedFeatureChangeListener`.

A finalized feature that this broker does not support stops it, because every broker has to support it. A broker in
ZooKeeper mode supports none. An epoch that goes back is no error here: a znode that was deleted and created again
begins at 0. Kafka's brokers exit.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from understudy.controller.feature_cache import FinalizedFeatureCache
from understudy.foundation.cluster.features import FinalizedFeatures, SupportedFeature, incompatibilities
from understudy.foundation.zk.admin_znodes import FeatureZNode
from understudy.foundation.zk.client import WatchFired
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.foundation.zk.rereading import Rereading
from understudy.foundation.zk.znodes import MalformedZNode

SUPPORTED_FEATURES: tuple[SupportedFeature, ...] = ()

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.FinalizedFeatureChangeListener")


class IncompatibleFeatures(Exception):
    """The cluster has finalized features that this broker does not support. The message names them and the remedy."""


class FinalizedFeatureChangeListener:
    """Reads `/feature` into a cache whenever it changes.

    Args:
        zk: returns the client of the newest session.
    """

    def __init__(self, cache: FinalizedFeatureCache, zk: Callable[[], KafkaZkClient]) -> None:
        self._cache = cache
        self._zk = zk
        self._reading = Rereading("finalized features", lambda: self.refresh(self._zk()), log)

    def notified(self, notification: WatchFired) -> None:
        if notification.path == FeatureZNode.path:
            self._reading.due()

    def session_opened(self) -> None:
        """Read again: the watch is gone with the expired session."""
        self._reading.due()

    async def run(self) -> None:
        """Follow the znode until the broker stops.

        Raises:
            IncompatibleFeatures: the broker has to stop.
        """
        await self._reading.run()

    async def refresh(self, zk: KafkaZkClient) -> None:
        """Read the znode into the cache, and arm its watch. An absent, disabled or unreadable znode means no features.

        Raises:
            IncompatibleFeatures: the cache stays as it was.
        """
        try:
            read = await zk.features.read(watch=True)
        except MalformedZNode as malformed:
            log.error("unable to deserialize finalized features", why=str(malformed))
            read = None
        if read is None or not read.features.enabled:
            log.info("no finalized features", path=FeatureZNode.path)
            self._cache.update(None)
            return
        wrong = incompatibilities(SUPPORTED_FEATURES, read.features.features)
        if wrong:
            raise IncompatibleFeatures(
                f"{FeatureZNode.path} at version {read.version} is more than this broker can work with: "
                f"{'; '.join(wrong)}; brokers in ZooKeeper mode support no feature, so remove them from the znode"
            )
        self._cache.update(FinalizedFeatures(read.features.features, read.version))
