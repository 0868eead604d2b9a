"""Applies changed configs, by kind of config (CF-5, CF-6). Mirrors `kafka.server.ConfigHandler`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog

from understudy.brokers.config.dynamic_broker_config import DynamicBrokerConfig
from understudy.controller.kafka_controller import KafkaController
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.zk.admin_znodes import DEFAULT_ENTITY, desanitized

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ConfigHandler")


class ConfigHandler(Protocol):
    """Applies configs of one kind."""

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        """Apply `config`, the config of `entity` (named as in ZooKeeper), which may be unchanged."""


class TopicConfigHandler:
    """Applies a topic's config to its logs; lets the controller elect a leader if unclean elections are allowed now.

    Replication is not throttled, whichever replicas the config names (CF-5, RA-17).

    Args:
        apply_to_logs: called with the topic and its config.
    """

    def __init__(self, controller: KafkaController, apply_to_logs: Callable[[str, Mapping[str, str]], None]) -> None:
        self._controller = controller
        self._apply_to_logs = apply_to_logs

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        self._apply_to_logs(entity, config)
        if config.get(UNCLEAN_LEADER_ELECTION_ENABLE, "").lower() == "true":
            self._controller.topic_unclean_leader_election_enabled(entity)


class BrokerConfigHandler:
    """Applies the dynamic default of all brokers, and this broker's own config; other brokers' are ignored (CF-6).

    Args:
        apply_listeners: binds and registers the listeners as they are configured now; harmless when repeated.
        apply_to_logs: applies the broker's configuration to all logs; harmless when repeated.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        dynamic: DynamicBrokerConfig,
        controller: KafkaController,
        apply_listeners: Callable[[], Awaitable[None]],
        apply_to_logs: Callable[[], None],
    ) -> None:
        self._broker_id = broker_id
        self._dynamic = dynamic
        self._controller = controller
        self._apply_listeners = apply_listeners
        self._apply_to_logs = apply_to_logs

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        unclean_before = self._dynamic.current.unclean_leader_election_enable
        if entity == DEFAULT_ENTITY:
            self._dynamic.update_default(config)
        elif entity.strip() == str(self._broker_id):
            self._dynamic.update_broker(config)
        else:
            return
        if self._dynamic.current.unclean_leader_election_enable and not unclean_before:
            self._controller.unclean_leader_election_enabled()
        self._apply_to_logs()
        await self._apply_listeners()


class QuotaConfigHandler:
    """Warns about quotas of users, clients and addresses: Kafka's tools store them, our brokers do not enforce them."""

    def __init__(self, what: str) -> None:
        self._what = what

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        if config:
            log.warning(
                "quotas are not enforced", entity_path=f"{self._what}/{desanitized(entity)}", keys=tuple(sorted(config))
            )
