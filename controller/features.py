"""The finalized features of the cluster, `/feature` (KIP-584). Mirrors `setupFeatureVersioning` and `processUpdateFeatures`."""

from __future__ import annotations

from controller.events import UpdateFeatures
from controller.term import Term


async def setup_feature_versioning(term: Term) -> None:
    """FO-1."""
    await term.zk.ensure_feature_node()


async def process_update_features(term: Term, event: UpdateFeatures) -> None:
    """A broker in ZooKeeper mode supports no feature, so nothing can be finalized."""
