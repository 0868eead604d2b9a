"""`understudy configs --zookeeper`: configurations by their znodes, as `kafka-configs.sh` up to 2.8 had it.

A broker is notified of a change of its own configuration or a topic's; quotas and users have a meaning for brokers of
Apache Kafka only. Mirrors `ConfigCommand.alterConfigWithZk` and `describeConfigWithZk`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from understudy.brokers.config.config_def import DOUBLE, INT, LONG, STRING, ConfigError, ConfigKey
from understudy.brokers.config.dynamic_broker_config import check_dynamic
from understudy.brokers.config.dynamic_keys import REPLICATION_QUOTAS, is_password
from understudy.brokers.metadata.topic_names import why_invalid
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.cluster.java_order import strings
from understudy.foundation.cluster.scala import scala_set
from understudy.foundation.zk.admin_znodes import DEFAULT_ENTITY, desanitized, sanitized
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.kafka_tools.console import Console
from understudy.kafka_tools.errors import CONFIG, ToolError, error_of, illegal_argument
from understudy.kafka_tools.zookeeper.changes import change_config, check_topic_config
from understudy.kafka_tools.zookeeper.scram import MECHANISMS, credential

ENTITY_TYPES: Final = ("topics", "clients", "users", "brokers", "ips")
"""The types of entities that have configurations in ZooKeeper."""

_SHOWN_TYPES: Final = {"users": "user-principal", "clients": "client-id", "topics": "topic"}
_QUOTAS: Final = {
    name: ConfigKey(name, kind, None, None)
    for name, kind in (
        ("producer_byte_rate", LONG),
        ("consumer_byte_rate", LONG),
        ("request_percentage", DOUBLE),
        ("controller_mutation_rate", DOUBLE),
    )
}
_USER_KEYS: Final = _QUOTAS | {name: ConfigKey(name, STRING, None, None) for name in MECHANISMS}
_IP_KEYS: Final = {"connection_creation_rate": ConfigKey("connection_creation_rate", INT, None, None, minimum=0)}


class Entity(NamedTuple):
    """An entity, or all of a type.

    Attributes:
        name: as in the path of its znode; None for all.
    """

    type: str
    name: str | None

    def __str__(self) -> str:
        shown = _SHOWN_TYPES.get(self.type, self.type)
        if self.name is None:
            return self.type
        if self.name == DEFAULT_ENTITY:
            return f"default {shown}"
        return f"{shown} '{desanitized(self.name) if self.type in ('users', 'clients') else self.name}'"


class ConfigEntity(NamedTuple):
    """An entity with a configuration: a child is the client of a user."""

    root: Entity
    child: Entity | None = None

    @property
    def name(self) -> str:
        """The name below the folder of the root's type: `alice/clients/app`."""
        child = "" if self.child is None else f"/{self.child.type}/{self.child.name or ''}".rstrip("/")
        return (self.root.name or "") + child

    def __str__(self) -> str:
        return ", ".join(str(entity) for entity in self if entity is not None)


def entity_of(types: Sequence[str], names: Sequence[str], *, alters: bool) -> ConfigEntity:
    """Return the entity that the flags name.

    Args:
        names: empty for the default of a type.

    Raises:
        ToolError: a user or client has no name, and is to be changed.
    """
    if types[0] not in ("users", "clients"):
        return ConfigEntity(Entity(types[0], (names[0] or DEFAULT_ENTITY) if names else None))
    if alters and len(names) != len(types):
        raise illegal_argument(
            "--entity-name or --entity-default must be specified with each --entity-type for --alter"
        )
    if len(types) == 2 and types[0] == "clients":
        types = types[::-1]
        names = names[::-1] if len(names) == 2 else names
    padded = [*names, None, None]
    entities = [
        Entity(kind, None if name is None else sanitized(name) if name else DEFAULT_ENTITY)
        for kind, name in zip(types, padded, strict=False)
    ]
    return ConfigEntity(*entities)


class ZooKeeperConfigs:
    """The actions of the tool. All raise ToolError, and what `KafkaZkClient` raises."""

    def __init__(self, zk: KafkaZkClient, console: Console, source: random.Random) -> None:
        self._zk = zk
        self._console = console
        self._random = source

    # ------------------------------------------------------------------ describe

    async def describe(self, entity: ConfigEntity) -> None:
        """Print the configuration of an entity, or of all that have one."""
        is_all_users = entity == ConfigEntity(Entity("users", None))
        for each in await self._entities(entity):
            config = (await self._zk.configs.read(each.root.type, each.name)).config
            if config or not is_all_users:
                shown = ",".join(f"{key}={config[key]}" for key in strings(config))
                self._console.print(f"Configs for {each} are {shown}")

    async def _entities(self, entity: ConfigEntity) -> list[ConfigEntity]:
        root, child = entity
        if root.name is None:
            names = await self._zk.configs.entities(root.type)
            roots = [Entity(root.type, name) for name in names]
            if child is None:
                return [ConfigEntity(each) for each in roots]
            # Also with a name for the child, Kafka's tool shows all children.
            found = [await self._entities(ConfigEntity(each, Entity(child.type, None))) for each in roots]
            return [each for some in found for each in some]
        if child is None or child.name is not None:
            return [entity]
        names = await self._zk.configs.entities(f"{root.type}/{root.name}/{child.type}")
        return [ConfigEntity(root, Entity(child.type, name)) for name in names]

    # ------------------------------------------------------------------ alter

    async def alter(self, entity: ConfigEntity, added: Mapping[str, str], deleted: Sequence[str]) -> None:
        """Change the configuration of an entity."""
        kind = entity.root.type
        if kind == "users":
            added = {
                key: credential(key, value, self._random) if key in MECHANISMS else value
                for key, value in added.items()
            }
        elif kind == "brokers":
            added = await self._of_stopped_broker(entity.name, added)
        elif kind == "topics":
            await self._check_topic(entity.name)
        check = _CHECKS[kind] if entity.child is None else _check_client
        await change_config(self._zk, kind, entity.name, added, deleted, check, deletes_only_present=True)
        self._console.print(f"Completed updating config for entity: {entity}.")

    async def _check_topic(self, topic: str) -> None:
        if why := why_invalid(topic):
            raise error_of(Errors.INVALID_TOPIC_EXCEPTION, why)
        if not await self._zk.topics.exists(topic):
            raise error_of(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")

    async def _of_stopped_broker(self, name: str, added: Mapping[str, str]) -> Mapping[str, str]:
        """Return what a broker's configuration may get. Raises ToolError if the brokers run: they have to be asked."""
        dynamic = [key for key in added if key not in REPLICATION_QUOTAS]
        if not dynamic:
            return added
        refusal = (
            "requirement failed: --bootstrap-server option must be specified to update broker configs "
            f"{scala_set(dynamic)}."
        )
        info = (
            "Broker configuration updates using ZooKeeper are supported for bootstrapping before brokers are started "
            "to enable encrypted password configs to be stored in ZooKeeper."
        )
        brokers, per_broker = await self._zk.brokers.all(), name != DEFAULT_ENTITY
        if per_broker and name in map(str, brokers):
            raise illegal_argument(f"{refusal} when broker {name} is running. {info}")
        if not per_broker and brokers:
            raise illegal_argument(f"{refusal} for default cluster if any broker is running. {info}")
        kept = {key: value for key, value in added.items() if not key.startswith("password.encoder.")}
        if passwords := sorted(filter(is_password, kept)):
            raise illegal_argument(
                f"{passwords[0]} is a password, which this tool cannot encrypt; set it with kafka-configs.sh of Kafka"
            )
        try:
            check_dynamic(kept, per_broker=per_broker)
        except ConfigError as error:
            raise ToolError(CONFIG, str(error)) from None
        return kept


def _check_keys(known: Mapping[str, ConfigKey], config: Mapping[str, str]) -> None:
    """Raise ToolError for a key that an entity cannot have, or a value that the key cannot have."""
    if unknown := [key for key in config if key not in known]:
        raise illegal_argument(f"requirement failed: Unknown Dynamic Configuration: HashSet({', '.join(unknown)}).")
    try:
        for key, value in config.items():
            known[key].parse(value)
    except ConfigError as error:
        raise ToolError(CONFIG, str(error)) from None


def _check_broker(config: Mapping[str, str]) -> None:
    _check_keys(REPLICATION_QUOTAS, {key: value for key, value in config.items() if key in REPLICATION_QUOTAS})


_check_client = partial(_check_keys, _QUOTAS)
_CHECKS: Final[dict[str, Callable[[Mapping[str, str]], None]]] = {
    "topics": check_topic_config,
    "clients": _check_client,
    "users": partial(_check_keys, _USER_KEYS),
    "brokers": _check_broker,
    "ips": partial(_check_keys, _IP_KEYS),
}
