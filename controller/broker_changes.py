"""Compares the brokers in the controller's memory with those registered now: new, dead and bounced ones.

A bounced broker has been registered again between two reads: the list of ids is unchanged, but its registration has a
newer czxid (KIP-380). Pure. Mirrors the beginning of Kafka's `processBrokerChange`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from understudy.foundation.cluster.identifiers import BrokerId


class BrokerChanges(NamedTuple):
    """Broker ids, each sorted."""

    new: tuple[BrokerId, ...]
    dead: tuple[BrokerId, ...]
    bounced: tuple[BrokerId, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.new or self.dead or self.bounced)


def broker_changes(known: Mapping[BrokerId, int], registered: Mapping[BrokerId, int]) -> BrokerChanges:
    """Compare broker epochs by broker id (BR-6). An epoch older than the known one comes from an outdated read and is
    no change."""
    return BrokerChanges(
        new=tuple(sorted(registered.keys() - known.keys())),
        dead=tuple(sorted(known.keys() - registered.keys())),
        bounced=tuple(sorted(both for both in registered.keys() & known.keys() if registered[both] > known[both])),
    )
