"""This broker's own registration, `/brokers/ids/N`: at the start, and again after a session was lost (BR-2 to BR-4)."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from foundation.cluster.broker import Broker, EndPoint
from foundation.eventlog.clock import Clock
from foundation.eventlog.log import EventLog
from foundation.eventlog.records import BrokerRegistered
from foundation.zk.client import Failure
from foundation.zk.kafka_zk_client import KafkaZkClient, ZooKeeperFailure
from foundation.zk.znodes import BrokerIdZNode

NO_BROKER_EPOCH = -1

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.zk.KafkaZkClient")


class RegistrationRefused(Exception):
    """Another broker has this id, or advertises the same address. The message says which, and what to do."""


class Registration:
    """Registers `broker`, and knows the epoch it has since.

    The old epoch stays in force until a new registration is done: control requests meant for the old one are still
    accepted meanwhile (BK-1).

    Args:
        znode_version: how it is written (ZN-4).
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
        """Refuse to start where another broker has registered one of the `advertised` addresses (BR-2).

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
        """BR-3: create the ephemeral znode over the session of `zk`; the broker epoch.

        Raises:
            RegistrationRefused: the id is taken by a living session of somebody else.
            SessionLost: the session ended meanwhile.
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
                f"/brokers/ids/{self.broker.id} belongs to another session: a broker with id {self.broker.id} is running, "
                "or has just died and its session has not expired yet; stop it, or wait for zookeeper.session.timeout.ms"
            ) from failure
        self.broker_epoch = epoch
        self._previous_session_id = zk.session_id
        self._events.append(BrokerRegistered(broker_id=self.broker.id, broker_epoch=epoch, session_id=zk.session_id))
        at = {"path": BrokerIdZNode.path(broker.id), "addresses": _addresses(broker)}
        log.info("registered broker", broker_id=broker.id, **at, czxid=epoch)
        self._is_written = broker == self.broker
        if not self._is_written:
            # Its addresses have changed meanwhile, and whoever changed them may have met the registration before this
            # one.
            await self.change(self.broker, zk)
        return epoch

    async def change(self, broker: Broker, zk: KafkaZkClient) -> None:
        """BR-5: register `broker`, the same one at other addresses, where it is not yet. Its epoch stays what it is.

        Whatever comes in between, the next registration is for the new addresses.
        """
        if broker == self.broker and self._is_written:
            return
        self.broker, self._is_written = broker, False
        await zk.brokers.update(broker, timestamp_ms=int(self._clock.wall_ms()), znode_version=self._znode_version)
        self._is_written = True
        log.info("registration changed", broker_id=broker.id, addresses=_addresses(broker))


def _addresses(broker: Broker) -> str:
    return ",".join(f"{at.listener}://{at.host}:{at.port}" for at in broker.endpoints)
