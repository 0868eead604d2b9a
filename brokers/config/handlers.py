"""What a broker does when a config has changed, by kind of config (CF-5, CF-6). Mirrors
`kafka.server.ConfigHandler`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import structlog

from brokers.config.dynamic_broker_config import DynamicBrokerConfig
from controller.kafka_controller import KafkaController
from foundation.cluster.identifiers import BrokerId
from foundation.zk.admin_znodes import DEFAULT_ENTITY, desanitized

UNCLEAN_LEADER_ELECTION_ENABLE = "unclean.leader.election.enable"

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ConfigHandler")


class ConfigHandler(Protocol):
    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        """The config of `entity`, named as in ZooKeeper, is now `config`; it may be what it was."""


class TopicConfigHandler:
    """CF-5. The rest of a topic's config is for whoever stores records, and throttled replicas for who has some to hold
    back (RA-17)."""

    def __init__(self, controller: KafkaController) -> None:
        self._controller = controller

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        if config.get(UNCLEAN_LEADER_ELECTION_ENABLE, "").lower() == "true":
            self._controller.topic_unclean_leader_election_enabled(entity)


class BrokerConfigHandler:
    """CF-6: the defaults of all brokers and this broker's own; those of others do not concern it.

    Args:
        apply_listeners: makes the broker listen and register as it is configured now; doing it again is harmless.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        dynamic: DynamicBrokerConfig,
        controller: KafkaController,
        apply_listeners: Callable[[], Awaitable[None]],
    ) -> None:
        self._broker_id = broker_id
        self._dynamic = dynamic
        self._controller = controller
        self._apply_listeners = apply_listeners

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
        await self._apply_listeners()


class QuotaConfigHandler:
    """Quotas of users, clients and addresses are stored by Kafka's tools and enforced by nobody here."""

    def __init__(self, what: str) -> None:
        self._what = what

    async def process_config_changes(self, entity: str, config: Mapping[str, str]) -> None:
        if config:
            log.warning("quotas are not enforced", of=self._what, name=desanitized(entity), keys=tuple(sorted(config)))
