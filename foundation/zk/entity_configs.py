"""Reads and writes the configs of topics, brokers and users, and the notifications of their changes.

Mirrors the config methods of `KafkaZkClient` and `AdminZkClient.changeEntityConfig`. Kafka writes over a config that it
has read before, and so loses one of two changes made at the same time; here a writer may name the version it has read
(ZN-9, ZN-10, CF-1, CF-2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from understudy.foundation.zk.admin_znodes import ConfigEntityChangeNotificationZNode, ConfigEntityZNode
from understudy.foundation.zk.client import (
    MATCH_ANY_VERSION,
    Check,
    Create,
    Delete,
    Failure,
    MultiFailed,
    MultiOk,
    SetData,
)
from understudy.foundation.zk.transactions import MAX_ROUNDS, ControllerMoved, Fenced, Part, ZooKeeperFailure, tolerate
from understudy.foundation.zk.znodes import ControllerZNode, MalformedZNode

ABSENT = -2
"""The version of an absent znode. No znode has it, so ZooKeeper refuses a write that expects it."""

_NOTIFICATION = re.compile(r"config_change_[0-9]+")

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(__name__)


class EntityConfig(NamedTuple):
    """A config as it was read: empty, with the version `ABSENT`, if there is no znode."""

    config: dict[str, str]
    version: int


class ConfigChange(NamedTuple):
    """A notification in `/config/changes`.

    Attributes:
        created_ms: when it was created: milliseconds since 1970 by ZooKeeper's wall clock.
        entity_path: the entity whose config has changed, for example `topics/orders`; None if the notification
            cannot be decoded.
    """

    name: str
    created_ms: int
    entity_path: str | None


class EntityConfigs(Part):
    """Reads and writes configs and their change notifications. The part `configs` of `KafkaZkClient`."""

    # ------------------------------------------------------------------ configs

    async def read(self, entity_type: str, name: str) -> EntityConfig:
        """Read the config of one entity."""
        path = ConfigEntityZNode.path(entity_type, name)
        node = await self._transactions.get(path)
        if node is None:
            return EntityConfig({}, ABSENT)
        return EntityConfig(ConfigEntityZNode.decode(path, node.data), node.stat.version)

    async def entities(self, entity_type: str) -> tuple[str, ...]:
        """List the names of the entities of a type that have a config, sorted.

        Args:
            entity_type: as in a path below `/config`: `topics`, or `users/alice/clients`.
        """
        listed = await self._transactions.children(f"/config/{entity_type}")
        return listed.names if listed else ()

    async def of_topics(self, topics: Sequence[str]) -> dict[str, dict[str, str]]:
        """Read the configs of `topics`: empty if a topic has none, left out if it cannot be decoded (PSM-17)."""
        paths = [ConfigEntityZNode.path("topics", topic) for topic in topics]
        configs: dict[str, dict[str, str]] = {}
        for topic, path, node in zip(topics, paths, await self._transactions.get_many(paths), strict=True):
            try:
                configs[topic] = {} if isinstance(node, Failure) else ConfigEntityZNode.decode(path, node.data)
            except MalformedZNode as error:
                _log.error("topic config left out", topic=topic, why=str(error))
        return configs

    async def delete_of_topics(self, topics: Iterable[str], epoch_zk_version: int) -> None:
        """Delete the configs of `topics`, fenced."""
        paths = [ConfigEntityZNode.path("topics", topic) for topic in topics]
        await self._transactions.delete_all(paths, "topic-deletion", Fenced(epoch_zk_version))

    async def write(
        self,
        entity_type: str,
        name: str,
        config: Mapping[str, str],
        version: int = MATCH_ANY_VERSION,
        *,
        checks_controller: bool = True,
    ) -> bool:
        """Write a config in a transaction that checks `/controller`; a new znode is created without the check (ZN-9).

        Args:
            version: the version that the znode must have; `ABSENT` for a new one.
            checks_controller: whether to check it; tools with `--zookeeper` do not.

        Returns:
            False if it has another version, perhaps by this very write after a lost answer.

        Raises:
            ControllerMoved: `/controller` is absent, or changes meanwhile.
        """
        path = ConfigEntityZNode.path(entity_type, name)
        data = ConfigEntityZNode.encode(config)
        checks = (await self._controller_as_it_is(path),) if checks_controller else ()
        ops = (*checks, SetData(path, data, version))
        for _ in range(MAX_ROUNDS):
            match await self._transactions.multi(ops, "config"):
                case MultiOk():
                    return True
                case MultiFailed(position, _) if position < len(checks):
                    raise ControllerMoved(f"{path} was not written: {ControllerZNode.path} changed meanwhile")
                case MultiFailed(_, Failure.BAD_VERSION):
                    return False
                case MultiFailed(_, Failure.NO_NODE):
                    refused = await self._transactions.create_recursive(path, data, "config")
                    if refused is None:
                        return True
                    tolerate(refused, path, Failure.NODE_EXISTS)
                    if version != MATCH_ANY_VERSION:
                        return False
                case MultiFailed(_, failure):
                    raise ZooKeeperFailure(failure, path)
        raise ZooKeeperFailure(Failure.NO_NODE, path)

    async def _controller_as_it_is(self, path: str) -> Check:
        controller = await self._transactions.get(ControllerZNode.path)
        if controller is None:
            raise ControllerMoved(f"{path} cannot be written while there is no controller")
        if ControllerZNode.decode(controller.data).kraft_epoch > 0:
            raise ControllerMoved(f"{path} cannot be written while a KRaft controller is in charge")
        return Check(ControllerZNode.path, controller.stat.version)

    # ------------------------------------------------------------------ notifications

    async def announce(self, entity_path: str) -> None:
        """Create the notification that a config has changed, which every broker reads; unfenced (CF-1).

        After a lost answer there may be two, which costs the brokers a read.
        """
        path = ConfigEntityChangeNotificationZNode.sequence_path
        create = Create(path, ConfigEntityChangeNotificationZNode.encode(entity_path), sequential=True)
        written = await self._transactions.write(create, "config")
        if written is Failure.NO_NODE:
            folder = ConfigEntityChangeNotificationZNode.path
            tolerate(await self._transactions.create_recursive(folder, None, "config"), folder, Failure.NODE_EXISTS)
            written = await self._transactions.write(create, "config")
        tolerate(written, path)

    async def changes(self) -> tuple[str, ...]:
        """List the names of all notifications, in order; other names are left out.

        Arms the child watch, or a watch for its creation if the folder has been deleted.
        """
        path = ConfigEntityChangeNotificationZNode.path
        listed = await self._transactions.children(path, watch=True)
        if listed is None and await self._transactions.exists(path, watch=True) is not None:
            listed = await self._transactions.children(path, watch=True)
        return tuple(name for name in (listed.names if listed else ()) if _NOTIFICATION.fullmatch(name))

    async def read_changes(self, names: Sequence[str]) -> list[ConfigChange]:
        """Read the `names` that still exist, in the same order (CF-2)."""
        paths = [f"{ConfigEntityChangeNotificationZNode.path}/{name}" for name in names]
        changes = []
        for name, path, node in zip(names, paths, await self._transactions.get_many(paths), strict=True):
            if isinstance(node, Failure):
                continue
            try:
                entity_path = ConfigEntityChangeNotificationZNode.decode(path, node.data)
            except MalformedZNode as error:
                _log.error("config change skipped", why=str(error))
                entity_path = None
            changes.append(ConfigChange(name, node.stat.ctime_ms, entity_path))
        return changes

    async def delete_changes(self, names: Iterable[str]) -> None:
        """Delete notifications; one that does not exist counts as deleted."""
        for name in names:
            path = f"{ConfigEntityChangeNotificationZNode.path}/{name}"
            tolerate(await self._transactions.write(Delete(path), "config-purge"), path, Failure.NO_NODE)
