"""A cache of the finalized features that this broker last read, with a way to wait for an epoch. Mirrors
`ZkFinalizedFeatureCache`.

The broker fills it from `/feature`. Its controller reads it, and waits here until the broker has read what the
controller wrote.
"""

from __future__ import annotations

import asyncio

from understudy.foundation.cluster.features import FinalizedFeatures


class FeatureCacheBehind(Exception):
    """The broker did not read in time what its controller wrote to `/feature`. The message names both epochs."""


class FinalizedFeatureCache:
    """The finalized features as this broker last read them."""

    def __init__(self) -> None:
        self._features: FinalizedFeatures | None = None
        self._changed = asyncio.Event()

    @property
    def features(self) -> FinalizedFeatures | None:
        """None if `/feature` is absent, disabled or unreadable, or has not been read yet."""
        return self._features

    def update(self, features: FinalizedFeatures | None) -> None:
        self._features = features
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until_epoch(self, epoch: int, *, timeout_ms: float) -> None:
        """Wait until the features are at `epoch` or later.

        Raises:
            FeatureCacheBehind: they are not, after `timeout_ms`.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self._features is None or self._features.epoch < epoch:
                    await self._changed.wait()
        except TimeoutError as timeout:
            known = "none" if self._features is None else self._features.epoch
            raise FeatureCacheBehind(
                f"the finalized features were written at epoch {epoch}, "
                f"and after {timeout_ms:.0f} ms this broker has read epoch {known}"
            ) from timeout
