"""The two ephemeral znodes a broker may own, and what a conflict over them means: its registration, and `/controller`.

Both are created together with a second write in one transaction, and for both a conflict may be with the success of a
transaction whose answer was lost. Mirrors `KafkaZkClient.registerBroker` with its `CheckedEphemeral`, and
`registerControllerAndIncrementControllerEpoch`.
"""

from __future__ import annotations

from typing import NamedTuple

import structlog

from foundation.cluster.broker import Broker
from foundation.cluster.identifiers import BrokerId
from foundation.zk.client import Create, Delete, Failure, MultiFailed, MultiOk, SetData, Updated
from foundation.zk.transactions import MAX_ROUNDS, ControllerMoved, Fenced, Transactions, ZooKeeperFailure, tolerate
from foundation.zk.znodes import BrokerIdZNode, ControllerEpochZNode, ControllerZNode

INITIAL_CONTROLLER_EPOCH = 0

_log = structlog.get_logger(__name__)


class Elected(NamedTuple):
    epoch: int
    epoch_zk_version: int


async def register_broker(
    transactions: Transactions, broker: Broker, timestamp_ms: int, previous_session_id: int | None, znode_version: int
) -> int:
    """BR-3. The broker epoch: the czxid of the registration.

    Created empty and set at once, because only the answer to a set holds the czxid. A registration of our own previous
    session that ZooKeeper has not removed (ZOOKEEPER-2985) is deleted and made anew (KAFKA-7165); one of this session
    is a success whose answer was lost.

    Raises:
        ZooKeeperFailure: NODE_EXISTS where another session owns the id, or where the znode comes and goes all the time.
    """
    path = BrokerIdZNode.path(broker.id)
    ops = (
        Create(path, None, ephemeral=True),
        SetData(path, BrokerIdZNode.encode(broker, timestamp_ms=timestamp_ms, version=znode_version), version=0),
    )
    session_id = transactions.client.session_id
    for _ in range(MAX_ROUNDS):
        match await transactions.multi(ops, "registration"):
            case MultiOk((_, Updated(stat))):
                return stat.czxid
            case MultiFailed(_, Failure.NODE_EXISTS):
                present = await transactions.get(path)
            case other:
                failure = other.failure if isinstance(other, MultiFailed) else Failure.BAD_ARGUMENTS
                raise ZooKeeperFailure(failure, f"registration of broker {broker.id} at {path}")
        if present is None:
            continue
        owner = present.stat.ephemeral_owner
        if owner == session_id:
            return present.stat.czxid
        if owner != previous_session_id:
            raise ZooKeeperFailure(
                Failure.NODE_EXISTS, f"broker id {broker.id} is taken: {path} is owned by session 0x{owner:x}"
            )
        _log.info("deleting the registration of this broker's previous session", path=path, session=f"0x{owner:x}")
        # At its version: one whose listeners were changed since is not ours to delete. One that another session has
        # only just made has the same version, and would go too, as in Kafka, which deletes at any version.
        removal = await transactions.write(Delete(path, present.stat.version), "registration")
        tolerate(removal, path, Failure.NO_NODE, Failure.BAD_VERSION)
    raise ZooKeeperFailure(Failure.NODE_EXISTS, f"{path} comes and goes; gave up after {MAX_ROUNDS} attempts")


async def register_controller(transactions: Transactions, broker_id: BrokerId, timestamp_ms: int) -> Elected:
    """EL-3, EL-4, EL-6: win the race for `/controller` and raise the epoch, both or neither.

    Raises:
        ControllerMoved: another won.
    """
    epoch, version = await _controller_epoch(transactions)
    outcome = await transactions.multi(
        (
            Create(ControllerZNode.path, ControllerZNode.encode(broker_id, timestamp_ms), ephemeral=True),
            SetData(ControllerEpochZNode.path, ControllerEpochZNode.encode(epoch + 1), version),
        ),
        "election",
    )
    match outcome:
        case MultiOk((_, Updated(stat))):
            return Elected(epoch + 1, stat.version)
        case MultiFailed(_, Failure.NODE_EXISTS | Failure.BAD_VERSION):
            return await _won_after_all(transactions, broker_id, epoch + 1)
        case other:
            failure = other.failure if isinstance(other, MultiFailed) else Failure.BAD_ARGUMENTS
            raise ZooKeeperFailure(failure, f"election of broker {broker_id}")


async def delete_left_over_controller(transactions: Transactions) -> None:
    """Delete a `/controller` that this session owns, whatever became of its term; leave any other alone.

    Raises:
        ControllerMoved: it was elected away meanwhile.
    """
    # The epoch first: whoever is elected after it was read has raised it, and cannot be hit.
    _, version = await _controller_epoch(transactions)
    node = await transactions.get(ControllerZNode.path)
    if node is not None and node.stat.ephemeral_owner == transactions.client.session_id:
        delete = Delete(ControllerZNode.path, node.stat.version)
        deleted = (await transactions.fenced([delete], "resignation", Fenced(version)))[0]
        tolerate(deleted, ControllerZNode.path, Failure.NO_NODE)


async def _controller_epoch(transactions: Transactions) -> tuple[int, int]:
    """Epoch and version of `/controller_epoch`, which is created where it is missing."""
    node = await transactions.get(ControllerEpochZNode.path)
    if node is None:
        data = ControllerEpochZNode.encode(INITIAL_CONTROLLER_EPOCH)
        created = await transactions.write(Create(ControllerEpochZNode.path, data), "election")
        tolerate(created, ControllerEpochZNode.path, Failure.NODE_EXISTS)
        node = await transactions.must_get(ControllerEpochZNode.path)
    return ControllerEpochZNode.decode(node.data), node.stat.version


async def _won_after_all(transactions: Transactions, broker_id: BrokerId, epoch: int) -> Elected:
    """Whether the conflict was with our own success whose answer was lost.

    Kafka compares id and epoch. Here the session must be ours too: a broker that was killed and came back may find the
    `/controller` of its previous life, and that one will vanish.
    """
    node = await transactions.get(ControllerZNode.path)
    if node is None:
        raise ControllerMoved(f"{ControllerZNode.path} went away while the election of broker {broker_id} was verified")
    winner = ControllerZNode.decode(node.data).broker_id
    if winner == broker_id and node.stat.ephemeral_owner == transactions.client.session_id:
        current, version = await _controller_epoch(transactions)
        if current == epoch:
            return Elected(epoch, version)
    raise ControllerMoved(f"broker {winner} is controller; broker {broker_id} lost the election for epoch {epoch}")
