"""The configs of topics, brokers, users … and the notifications that tell every broker of a change (ZN-9, ZN-10, CF-1, CF-2).

Mirrors the config half of `KafkaZkClient` and `AdminZkClient.changeEntityConfig`. Kafka writes whatever it made of a config it
has read a moment ago, and so loses one of two changes made at the same time; here a writer may name the version it has read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from foundation.zk.admin_znodes import ConfigEntityChangeNotificationZNode, ConfigEntityZNode
from foundation.zk.client import MATCH_ANY_VERSION, Check, Create, Failure, MultiFailed, MultiOk, SetData
from foundation.zk.transactions import MAX_ROUNDS, ControllerMoved, Transactions, ZooKeeperFailure, tolerate
from foundation.zk.znodes import ControllerZNode

ABSENT = -2
"""The version of a znode that is not there. No znode ever has it, and ZooKeeper refuses a write that expects it."""


class EntityConfig(NamedTuple):
    """A config as it was read: empty and `ABSENT` where there is none."""

    config: dict[str, str]
    version: int


async def read_entity_config(transactions: Transactions, entity_type: str, name: str) -> EntityConfig:
    path = ConfigEntityZNode.path(entity_type, name)
    node = await transactions.get(path)
    return (
        EntityConfig({}, ABSENT) if node is None else EntityConfig(ConfigEntityZNode.decode(path, node.data), node.stat.version)
    )


async def write_entity_config(
    transactions: Transactions, entity_type: str, name: str, config: Mapping[str, str], version: int = MATCH_ANY_VERSION
) -> bool:
    """ZN-9: behind a check of `/controller`; a znode that is not there is created without one, as Kafka does.

    Args:
        version: what the znode has to be at; `ABSENT` for a new one.

    Returns:
        False where it is at another version, perhaps by our own write whose answer was lost.

    Raises:
        ControllerMoved: `/controller` is absent, or changes underneath.
    """
    path = ConfigEntityZNode.path(entity_type, name)
    data = ConfigEntityZNode.encode(config)
    controller = await transactions.get(ControllerZNode.path)
    if controller is None:
        raise ControllerMoved(f"{path} cannot be written while there is no controller")
    if ControllerZNode.decode(controller.data).kraft_epoch > 0:
        raise ControllerMoved(f"{path} cannot be written while a KRaft controller is in charge")
    ops = (Check(ControllerZNode.path, controller.stat.version), SetData(path, data, version))
    for _ in range(MAX_ROUNDS):
        match await transactions.multi(ops, "config"):
            case MultiOk():
                return True
            case MultiFailed(0, _):
                raise ControllerMoved(f"{path} was not written: {ControllerZNode.path} changed meanwhile")
            case MultiFailed(_, Failure.BAD_VERSION):
                return False
            case MultiFailed(_, Failure.NO_NODE):
                refused = await transactions.create_recursive(path, data, "config")
                if refused is None:
                    return True
                tolerate(refused, path, Failure.NODE_EXISTS)
                if version != MATCH_ANY_VERSION:
                    return False
            case MultiFailed(_, failure):
                raise ZooKeeperFailure(failure, path)
    raise ZooKeeperFailure(Failure.NO_NODE, path)


async def create_change_notification(transactions: Transactions, entity_path: str) -> None:
    """CF-1: unfenced. One whose answer was lost may be there twice, which costs the brokers a read."""
    path = ConfigEntityChangeNotificationZNode.sequence_path
    create = Create(path, ConfigEntityChangeNotificationZNode.encode(entity_path), sequential=True)
    written = await transactions.write(create, "config")
    if written is Failure.NO_NODE:
        folder = ConfigEntityChangeNotificationZNode.path
        tolerate(await transactions.create_recursive(folder, None, "config"), folder, Failure.NODE_EXISTS)
        written = await transactions.write(create, "config")
    tolerate(written, path)
