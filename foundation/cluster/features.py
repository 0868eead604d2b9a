"""What a broker supports and what the cluster has finalized (KIP-584). Mirrors `kafka.server.BrokerFeatures`.

A broker in ZooKeeper mode supports no feature, and what is finalized must be supported by every broker; so `/feature`
stays empty in a healthy cluster, and one that is not empty is the end of any broker in ZooKeeper mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class SupportedFeature(NamedTuple):
    """The versions of one feature that a broker can work with."""

    name: str
    min_version: int
    max_version: int


class FinalizedFeatures(NamedTuple):
    """By feature the version in force, and how old that is."""

    levels: Mapping[str, int]
    epoch: int
    """The data version of `/feature`."""


def incompatibilities(supported: Iterable[SupportedFeature], finalized: Mapping[str, int]) -> tuple[str, ...]:
    """What of `finalized` a broker that supports `supported` cannot work with, each in a few words; sorted by
    feature."""
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
