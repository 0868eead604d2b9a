"""Reads and writes broker registrations, `/brokers/ids/N`, and generates broker ids.

A conflict over a registration may be with the success of a transaction whose answer was lost. Mirrors
`KafkaZkClient.registerBroker` with its `CheckedEphemeral`, `getAllBrokerAndEpochsInCluster` and
`generateBrokerSequenceId`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import structlog

from understudy.foundation.cluster.broker import Broker, BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.zk.client import Create, Delete, Failure, MultiFailed, MultiOk, SetData, Updated
from understudy.foundation.zk.transactions import MAX_ROUNDS, Part, ZooKeeperFailure, tolerate
from understudy.foundation.zk.znodes import BrokerIdsZNode, BrokerIdZNode, BrokerSequenceIdZNode

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class BrokerRegistrations(Part):
    """Reads and writes broker registrations. The part `brokers` of `KafkaZkClient`, and raises what it does."""

    async def all(self, *, watch: bool = False) -> dict[BrokerId, BrokerAndEpoch]:
        """Read all registered brokers, in order of id.

        A broker that is gone between list and read is left out, and so is a name that is no broker id, which would
        make every failover fail.

        Raises:
            MalformedZNode: a registration cannot be read.
        """
        listed = await self._transactions.children(BrokerIdsZNode.path, watch=watch)
        names = listed.names if listed else ()
        if no_ids := sorted(name for name in names if not name.isdecimal()):
            _log.error("not a broker id", names=no_ids, path=BrokerIdsZNode.path)
        broker_ids = sorted(BrokerId(int(name)) for name in names if name.isdecimal())
        nodes = await self._transactions.get_many([BrokerIdZNode.path(broker_id) for broker_id in broker_ids])
        return {
            broker_id: BrokerAndEpoch(BrokerIdZNode.decode(broker_id, node.data), node.stat.czxid)
            for broker_id, node in zip(broker_ids, nodes, strict=True)
            if not isinstance(node, Failure)
        }

    async def get(self, broker_id: BrokerId, *, watch: bool = False) -> BrokerAndEpoch | None:
        """Read one registered broker; None if the id is not registered."""
        node = await self._transactions.get(BrokerIdZNode.path(broker_id), watch=watch)
        return None if node is None else BrokerAndEpoch(BrokerIdZNode.decode(broker_id, node.data), node.stat.czxid)

    async def watch(self, broker_ids: Iterable[BrokerId]) -> None:
        """Arm the data watch of each registration (Kafka's BrokerModificationsHandler)."""
        paths = [BrokerIdZNode.path(broker_id) for broker_id in broker_ids]
        await asyncio.gather(*[self._transactions.exists(path, watch=True) for path in paths])

    async def register(
        self,
        broker: Broker,
        *,
        timestamp_ms: int,
        previous_session_id: int | None,
        znode_version: int = BrokerIdZNode.VERSION,
    ) -> int:
        """Register `broker` and return its epoch, the czxid of the registration (BR-3).

        The znode is created empty and set at once, because only the answer to a set holds the czxid. A registration of
        this process's previous session that ZooKeeper has not removed (ZOOKEEPER-2985) is deleted and created again
        (KAFKA-7165); one of this session is a success whose answer was lost.

        Args:
            previous_session_id: the session of this process's last registration.
            znode_version: the version of the registration's JSON (ZN-4).

        Raises:
            ZooKeeperFailure: NODE_EXISTS if another session owns the id, or the znode keeps being created and deleted.
        """
        path = BrokerIdZNode.path(broker.id)
        ops = (
            Create(path, None, ephemeral=True),
            SetData(path, BrokerIdZNode.encode(broker, timestamp_ms=timestamp_ms, version=znode_version), version=0),
        )
        session_id = self._transactions.client.session_id
        for _ in range(MAX_ROUNDS):
            match await self._transactions.multi(ops, "registration"):
                case MultiOk((_, Updated(stat))):
                    return stat.czxid
                case MultiFailed(_, Failure.NODE_EXISTS):
                    present = await self._transactions.get(path)
                case other:
                    failure = other.failure if isinstance(other, MultiFailed) else Failure.BAD_ARGUMENTS
                    raise ZooKeeperFailure(failure, f"registration of broker {broker.id} at {path}")
            if present is None:
                continue
            owner = present.stat.ephemeral_owner
            rules = self._transactions.fences.rules
            if owner == session_id and rules.own_registration_counts_as_success.holds_for(path):
                return present.stat.czxid
            is_previous = owner == previous_session_id and owner != session_id
            if not is_previous or not rules.own_old_registration_is_replaced.holds_for(path):
                raise ZooKeeperFailure(
                    Failure.NODE_EXISTS, f"broker id {broker.id} is taken: {path} is owned by session 0x{owner:x}"
                )
            _log.info(
                "deleting the registration of this broker's previous session", path=path, session_id=f"0x{owner:x}"
            )
            # At the version read: a registration changed since then belongs to another session. One that another
            # session has just created has the same version and is deleted too, as in Kafka, which deletes any version.
            removal = await self._transactions.write(Delete(path, present.stat.version), "registration")
            tolerate(removal, path, Failure.NO_NODE, Failure.BAD_VERSION)
        raise ZooKeeperFailure(
            Failure.NODE_EXISTS, f"{path} keeps being created and deleted; gave up after {MAX_ROUNDS} attempts"
        )

    async def update(self, broker: Broker, *, timestamp_ms: int, znode_version: int = BrokerIdZNode.VERSION) -> None:
        """Rewrite a registration of this session, at any version (BR-5)."""
        path = BrokerIdZNode.path(broker.id)
        data = BrokerIdZNode.encode(broker, timestamp_ms=timestamp_ms, version=znode_version)
        tolerate(await self._transactions.write(SetData(path, data), "registration"), path)

    async def generate_id(self, reserved_max_id: int) -> BrokerId:
        """Return the next broker id above `reserved_max_id`. After a lost answer an id is skipped."""
        path = BrokerSequenceIdZNode.path
        for _ in range(MAX_ROUNDS):
            match await self._transactions.write(SetData(path, b""), "broker-id"):
                case Updated(stat):
                    return BrokerId(reserved_max_id + stat.version)
                case Failure.NO_NODE:
                    refused = await self._transactions.create_recursive(path, None, "broker-id")
                    tolerate(refused, path, Failure.NODE_EXISTS)
                case other:
                    tolerate(other, path)
        raise ZooKeeperFailure(Failure.NO_NODE, path)
