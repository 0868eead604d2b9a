"""Registers this broker in `/brokers/ids/N`: at the start, and again after its session has expired (BR-2 to BR-4)."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from understudy.foundation.cluster.broker import Broker, EndPoint
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.eventlog.records import BrokerRegistered
from understudy.foundation.zk.client import Failure
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, ZooKeeperFailure
from understudy.foundation.zk.znodes import BrokerIdZNode

NO_BROKER_EPOCH = -1

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.zk.KafkaZkClient")


class RegistrationRefused(Exception):
    """Another broker has this id, or advertises the same address. The message says which, and what to do."""


class Registration:
    """Registers `broker`, and keeps its broker epoch.

    The old epoch is valid until the broker has registered again: control requests for it are accepted meanwhile (BK-1).

    Args:
        znode_version: the version of the registration's JSON (ZN-4).
    """

    def __init__(self, broker: Broker, *, znode_version: int, clock: Clock, events: EventLog) -> None:
        self.broker = broker
        self._znode_version = znode_version
        self.broker_epoch = NO_BROKER_EPOCH
        self._is_written = False
        self._previous_session_id: int | None = None
        self._clock = clock
        self._events = events

    async def check_endpoints(self, zk: KafkaZkClient, advertised: Iterable[EndPoint]) -> None:
        """Refuse to start if another broker has registered one of the `advertised` addresses (BR-2).

        Port 0 equals no port that is registered, as in Kafka: the kernel has just given this broker a free one.

        Raises:
            RegistrationRefused: an address is taken.
        """
        ours = {(endpoint.host, endpoint.port) for endpoint in advertised}
        for other, registered in (await zk.brokers.all()).items():
            theirs = [(endpoint.host, endpoint.port) for endpoint in registered.broker.endpoints]
            taken = ",".join(f"{host}:{port}" for host, port in theirs if (host, port) in ours)
            if other != self.broker.id and taken:
                raise RegistrationRefused(
                    f"Configured end points {taken} in advertised listeners are already registered by broker {other}; "
                    f"give broker {self.broker.id} another port"
                )

    async def register(self, zk: KafkaZkClient) -> int:
        """Create the ephemeral znode in the session of `zk`, and return the broker epoch (BR-3).

        Raises:
            RegistrationRefused: the znode of this id belongs to another session.
            SessionLost: the session has expired meanwhile.
        """
        timestamp_ms, broker = int(self._clock.wall_ms()), self.broker
        try:
            epoch = await zk.brokers.register(
                broker,
                timestamp_ms=timestamp_ms,
                previous_session_id=self._previous_session_id,
                znode_version=self._znode_version,
            )
        except ZooKeeperFailure as failure:
            if failure.failure is not Failure.NODE_EXISTS:
                raise
            raise RegistrationRefused(
                f"/brokers/ids/{self.broker.id} belongs to another session: a broker with id {self.broker.id} is "
                "running, or has just died and its session has not expired yet; stop it, or wait for "
                "zookeeper.session.timeout.ms"
            ) from failure
        self.broker_epoch = epoch
        self._previous_session_id = zk.session_id
        self._events.append(BrokerRegistered(broker_id=self.broker.id, broker_epoch=epoch, session_id=zk.session_id))
        at = {"path": BrokerIdZNode.path(broker.id), "addresses": broker.addresses}
        log.info("registered broker", broker=broker.id, **at, czxid=epoch)
        self._is_written = broker == self.broker
        if not self._is_written:
            # Its addresses have changed meanwhile, perhaps in the znode that this one has replaced.
            await self.change(self.broker, zk)
        return epoch

    async def change(self, broker: Broker, zk: KafkaZkClient) -> None:
        """Write `broker`, this broker with other addresses, into its registration (BR-5). The epoch stays the same.

        If that fails, the next registration has the new addresses.
        """
        if broker == self.broker and self._is_written:
            return
        self.broker, self._is_written = broker, False
        await zk.brokers.update(broker, timestamp_ms=int(self._clock.wall_ms()), znode_version=self._znode_version)
        self._is_written = True
        log.info("registration changed", broker=broker.id, addresses=broker.addresses)
