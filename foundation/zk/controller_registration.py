"""Reads and writes the znodes of the controller election, `/controller` and `/controller_epoch`.

`/controller` is created and `/controller_epoch` raised in one transaction; a conflict may be with the success of a
transaction whose answer was lost. Mirrors `KafkaZkClient.registerControllerAndIncrementControllerEpoch`.
"""

from __future__ import annotations

from typing import NamedTuple

from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.zk.client import Create, Delete, Failure, MultiFailed, MultiOk, SetData, Updated
from understudy.foundation.zk.transactions import ControllerMoved, Fenced, Part, ZooKeeperFailure, tolerate
from understudy.foundation.zk.znodes import ControllerEpochZNode, ControllerZNode

INITIAL_CONTROLLER_EPOCH = 0


class Elected(NamedTuple):
    """The controller epoch that was won, and the version of `/controller_epoch` that holds it."""

    epoch: int
    epoch_zk_version: int


class ControllerRegistration(Part):
    """Reads, wins and gives back `/controller`. The part `controller` of `KafkaZkClient`, and raises what it does."""

    async def id(self, *, watch: bool = False) -> BrokerId | None:
        """Read the id of the controller, None without one; `watch` also watches an absent znode."""
        node = await self._transactions.get_optional(ControllerZNode.path, watch=watch)
        return None if node is None else ControllerZNode.decode(node.data).broker_id

    async def register_and_increment_epoch(self, broker_id: BrokerId, *, timestamp_ms: int) -> Elected:
        """Create `/controller` and raise `/controller_epoch` in one transaction (EL-3, EL-4, EL-6).

        Raises:
            ControllerMoved: another broker won.
        """
        epoch, version = await self._controller_epoch()
        outcome = await self._transactions.multi(
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
                return await self._elected_before_lost_answer(broker_id, epoch + 1)
            case other:
                failure = other.failure if isinstance(other, MultiFailed) else Failure.BAD_ARGUMENTS
                raise ZooKeeperFailure(failure, f"election of broker {broker_id}")

    async def delete(self, epoch_zk_version: int) -> None:
        """Delete `/controller`, fenced; it may be absent already."""
        await self._transactions.delete_all([ControllerZNode.path], "resignation", Fenced(epoch_zk_version))

    async def delete_left_over(self) -> None:
        """Delete a `/controller` of this session whose term is over, fenced by the epoch as it is now.

        A `/controller` of another session is left alone.

        Raises:
            ControllerMoved: another broker was elected meanwhile.
        """
        # The epoch is read first: a controller elected after that has raised it, and is not deleted.
        _, version = await self._controller_epoch()
        node = await self._transactions.get(ControllerZNode.path)
        if node is not None and node.stat.ephemeral_owner == self._transactions.client.session_id:
            delete = Delete(ControllerZNode.path, node.stat.version)
            deleted = (await self._transactions.fenced([delete], "resignation", Fenced(version)))[0]
            tolerate(deleted, ControllerZNode.path, Failure.NO_NODE)

    async def _controller_epoch(self) -> tuple[int, int]:
        """Read the epoch and version of `/controller_epoch`; create it if it is missing."""
        node = await self._transactions.get(ControllerEpochZNode.path)
        if node is None:
            data = ControllerEpochZNode.encode(INITIAL_CONTROLLER_EPOCH)
            created = await self._transactions.write(Create(ControllerEpochZNode.path, data), "election")
            tolerate(created, ControllerEpochZNode.path, Failure.NODE_EXISTS)
            node = await self._transactions.must_get(ControllerEpochZNode.path)
        return ControllerEpochZNode.decode(node.data), node.stat.version

    async def _elected_before_lost_answer(self, broker_id: BrokerId, epoch: int) -> Elected:
        """Return the election that a transaction whose answer was lost has won.

        Kafka compares broker id and epoch. Here the session must also be this one: a broker that was killed and
        restarted may find the `/controller` of its previous session, which is about to expire.

        Raises:
            ControllerMoved: the conflict was with another broker's election.
        """
        node = await self._transactions.get(ControllerZNode.path)
        if node is None:
            raise ControllerMoved(
                f"{ControllerZNode.path} was deleted while the election of broker {broker_id} was verified"
            )
        winner = ControllerZNode.decode(node.data).broker_id
        if winner == broker_id and node.stat.ephemeral_owner == self._transactions.client.session_id:
            current, version = await self._controller_epoch()
            if current == epoch:
                return Elected(epoch, version)
        raise ControllerMoved(f"broker {winner} is controller; broker {broker_id} lost the election for epoch {epoch}")
