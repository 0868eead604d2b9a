"""Keeps what this broker knows of the cluster's finalized features as `/feature` has it (KIP-584).

A finalized feature that this broker does not support ends it: whoever finalized it counts on every broker. A broker in
ZooKeeper mode supports none. Mirrors `kafka.server.FinalizedFeatureChangeListener`.

An epoch that goes back is no error here: a znode that was deleted and made anew begins at 0. Kafka's brokers end
themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from controller.feature_cache import FinalizedFeatureCache
from foundation.cluster.features import FinalizedFeatures, SupportedFeature, incompatibilities
from foundation.zk.admin_znodes import FeatureZNode
from foundation.zk.client import WatchFired
from foundation.zk.kafka_zk_client import KafkaZkClient
from foundation.zk.rereading import Rereading
from foundation.zk.znodes import MalformedZNode

SUPPORTED_FEATURES: tuple[SupportedFeature, ...] = ()

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.FinalizedFeatureChangeListener")


class IncompatibleFeatures(Exception):
    """The cluster has finalized features this broker does not support. The message names them, and what can be done."""


class FinalizedFeatureChangeListener:
    """
    Args:
        zk: the store over the session of now.
    """

    def __init__(self, cache: FinalizedFeatureCache, zk: Callable[[], KafkaZkClient]) -> None:
        self._cache = cache
        self._zk = zk
        self._reading = Rereading("finalized features", lambda: self.refresh(self._zk()), log, complain=log.warning)

    def notified(self, notification: WatchFired) -> None:
        if notification.path == FeatureZNode.path:
            self._reading.due()

    def session_opened(self) -> None:
        """The watch has ended with the session before."""
        self._reading.due()

    async def run(self) -> None:
        """Follow the znode, for as long as the broker lives.

        Raises:
            IncompatibleFeatures: the broker must not go on.
        """
        await self._reading.run()

    async def refresh(self, zk: KafkaZkClient) -> None:
        """Read the znode, with its watch, into the cache. One that is absent, disabled or unreadable finalizes nothing.

        Raises:
            IncompatibleFeatures: and the cache stays what it was.
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
                f"{FeatureZNode.path} at version {read.version} is more than this broker can work with: {'; '.join(wrong)}; "
                "brokers in ZooKeeper mode support no feature, so remove them from the znode"
            )
        self._cache.update(FinalizedFeatures(read.features.features, read.version))
