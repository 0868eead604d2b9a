"""The features that brokers support and the cluster has finalized (KIP-584). Mirrors `kafka.server.BrokerFeatures`.

A broker in ZooKeeper mode supports no feature, and every broker must support every finalized feature. So `/feature` is
empty in a healthy cluster, and every broker in ZooKeeper mode stops if it is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class SupportedFeature(NamedTuple):
    """The versions of one feature that a broker supports."""

    name: str
    min_version: int
    max_version: int


class FinalizedFeatures(NamedTuple):
    """The finalized version level of each feature, and the epoch of these levels."""

    levels: Mapping[str, int]
    epoch: int
    """The data version of `/feature`."""


def incompatibilities(supported: Iterable[SupportedFeature], finalized: Mapping[str, int]) -> tuple[str, ...]:
    """Describe each finalized feature that is not among the `supported` ones; sorted by feature."""
    ranges = {feature.name: feature for feature in supported}
    found = []
    for name, level in sorted(finalized.items()):
        known = ranges.get(name)
        if known is None:
            found.append(f"{name} is finalized at {level} and not supported")
        elif not known.min_version <= level <= known.max_version:
            found.append(
                f"{name} is finalized at {level} and supported from {known.min_version} to {known.max_version}"
            )
    return tuple(found)
