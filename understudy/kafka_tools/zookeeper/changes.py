"""Changes the configuration of an entity by its znode. Mirrors `AdminZkClient.changeConfigs`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from understudy.brokers.config.config_def import ConfigError, InvalidConfiguration
from understudy.brokers.config.topic_config import TOPIC_TABLE, validate_topic_config
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient
from understudy.foundation.zk.transactions import MAX_ROUNDS
from understudy.kafka_tools.errors import CONFIG, OPERATION_FAILED, ToolError, invalid_configuration

_DEFAULTS = {name: TOPIC_TABLE[name].default for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")}
"""The values with which the keys of a topic are compared if it has none of its own."""


async def change_config(
    zk: KafkaZkClient,
    entity_type: str,
    name: str,
    added: Mapping[str, str],
    deleted: Collection[str],
    check: Callable[[Mapping[str, str]], None],
    *,
    deletes_only_present: bool = False,
) -> None:
    """Write the configuration of an entity, and the notification from which brokers learn of the change.

    Kafka's tool writes over a change that another one has made meanwhile; this one reads again.

    Args:
        name: as in the path of the znode; `alice/clients/app` for a client of a user.
        check: raises ToolError if the entity cannot have the whole configuration.
        deletes_only_present: refuse to delete a key that is not set.
    """
    for _ in range(MAX_ROUNDS):
        before = await zk.configs.read(entity_type, name)
        missing = [key for key in deleted if key not in before.config]
        if missing and deletes_only_present:
            raise invalid_configuration(f"Invalid config(s): {','.join(missing)}")
        after = {key: value for key, value in (before.config | dict(added)).items() if key not in deleted}
        check(after)
        if await zk.configs.write(entity_type, name, after, before.version, checks_controller=False):
            await zk.configs.announce(f"{entity_type}/{name}")
            return
    raise ToolError(OPERATION_FAILED, f"The configs of {entity_type}/{name} kept changing; nothing was written.")


def check_topic_config(config: Mapping[str, str]) -> None:
    """Raise ToolError if a topic cannot have the configuration."""
    try:
        validate_topic_config(config.items(), _DEFAULTS)
    except InvalidConfiguration as error:
        raise invalid_configuration(str(error)) from None
    except ConfigError as error:
        raise ToolError(CONFIG, str(error)) from None
