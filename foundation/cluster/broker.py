"""A broker and its endpoints. Mirrors `kafka.cluster.Broker` and `EndPoint`.

A broker's *epoch* is the czxid of its registration znode. It is kept beside the broker, not in it, because the same
broker registers again with a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from understudy.foundation.cluster.features import SupportedFeature
from understudy.foundation.cluster.identifiers import BrokerId


class SecurityProtocol(IntEnum):
    """Kafka's security protocols, by their ids in requests."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3


class EndPoint(NamedTuple):
    """A broker's address on one listener."""

    listener: str
    security_protocol: SecurityProtocol
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A broker as its registration describes it."""

    id: BrokerId
    endpoints: tuple[EndPoint, ...]
    rack: str | None = None
    features: tuple[SupportedFeature, ...] = ()
    """Sorted by name; a broker in ZooKeeper mode supports none."""

    @property
    def addresses(self) -> str:
        """Its endpoints as `advertised.listeners` writes them, for logs."""
        return ",".join(f"{at.listener}://{at.host}:{at.port}" for at in self.endpoints)

    def endpoint(self, listener: str) -> EndPoint | None:
        """Return this broker's address on `listener`; None if it has no such listener."""
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


class BrokerAndEpoch(NamedTuple):
    """A registered broker and its broker epoch."""

    broker: Broker
    epoch: int
