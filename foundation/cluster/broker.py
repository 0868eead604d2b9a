"""A broker and where it can be reached. Mirrors `kafka.cluster.Broker` and `EndPoint`.

A broker's *epoch* is the czxid of its registration znode; it is kept beside the broker, never in it, because the same
broker registers again under a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from foundation.cluster.features import SupportedFeature
from foundation.cluster.identifiers import BrokerId


class SecurityProtocol(IntEnum):
    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class EndPoint(NamedTuple):
    listener: str
    security_protocol: SecurityProtocol
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    id: BrokerId
    endpoints: tuple[EndPoint, ...]
    rack: str | None = None
    features: tuple[SupportedFeature, ...] = ()
    """Sorted by name; a broker in ZooKeeper mode supports none."""

    def endpoint(self, listener: str) -> EndPoint | None:
        """This broker's address on `listener`, or None where it does not offer that listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class BrokerAndEpoch(NamedTuple):
    broker: Broker
    epoch: int
