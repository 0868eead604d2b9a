"""Alters the configs of topics and brokers, on any broker (TC-1). Mirrors Kafka's `ConfigAdminManager`, and the part of
`ZkAdminManager` about configs.

The resources of a request are independent: each is checked, written and announced, or refused. If another client
changes the same config between read and write, the change is made again on top of the other one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

import structlog

from understudy.brokers.apis.services import BrokerServices
from understudy.brokers.config.config_def import ConfigError, InvalidConfiguration, java_int
from understudy.brokers.config.description import topic_defaults
from understudy.brokers.config.dynamic_broker_config import usable
from understudy.brokers.config.dynamic_keys import BROKER_KEYS, REPLICATION_QUOTAS, is_password
from understudy.brokers.config.operations import AlterConfigOperation, RequestedConfig, altered, check_changes
from understudy.brokers.config.topic_config import TOPIC_TABLE, validate_topic_config
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.wire.messages.alter_configs import AlterConfigsResourceResponse
from understudy.foundation.zk.admin_znodes import DEFAULT_ENTITY
from understudy.foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

MAX_CONFLICTS = 20
"""Maximum number of times that a change is made again after a conflict, before the request fails."""


log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.ConfigAdminManager")


class ResourceType(IntEnum):
    """A type of resource, with its number in requests. Mirrors `ConfigResource.Type`."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class Alteration(NamedTuple):
    """The changes of one resource.

    Attributes:
        replaces: whether the changes, all of them SET, are the whole config (AlterConfigs); else they are applied to
            the stored one.
    """

    resource_type: int
    resource_name: str
    changes: tuple[RequestedConfig, ...]
    replaces: bool

    def __str__(self) -> str:
        return f"ConfigResource(type={ResourceType(self.resource_type).name}, name='{self.resource_name}')"


async def alter_configs(
    services: BrokerServices, alterations: Sequence[Alteration], *, validate_only: bool
) -> tuple[AlterConfigsResourceResponse, ...]:
    """Make each alteration; return the response for each, in order."""
    times = Counter((alteration.resource_type, alteration.resource_name) for alteration in alterations)
    responses = []
    for alteration in alterations:
        await asyncio.sleep(0)  # refusals await nothing, and there may be many: let other requests proceed
        refused = None
        try:
            if times[alteration.resource_type, alteration.resource_name] > 1:
                raise ApiError(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
            check_changes(alteration.changes)
            await _alter(services, alteration, validate_only=validate_only)
        except ApiError as error:
            refused = error
        except InvalidConfiguration as error:
            refused = ApiError(Errors.INVALID_CONFIG, str(error))
        except ConfigError as error:
            refused = ApiError(Errors.INVALID_CONFIG, f"Invalid config value for resource {alteration}: {error}")
        except ControllerMoved as moved:
            refused = ApiError(Errors.STALE_CONTROLLER_EPOCH, str(moved))
        except (SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
            refused = ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure))
        response = AlterConfigsResourceResponse(
            error_code=Errors.NONE if refused is None else refused.error,
            error_message=None if refused is None else refused.message or None,
            resource_type=alteration.resource_type,
            resource_name=alteration.resource_name,
        )
        responses.append(response)
    return tuple(responses)


async def _alter(services: BrokerServices, alteration: Alteration, *, validate_only: bool) -> None:
    match alteration.resource_type:
        case ResourceType.TOPIC:
            await _alter_topic(services, alteration, validate_only=validate_only)
        case ResourceType.BROKER:
            await _alter_broker(services, alteration, validate_only=validate_only)
        case ResourceType.BROKER_LOGGER if not alteration.replaces:
            _alter_loggers(services, alteration, validate_only=validate_only)
        case ResourceType.CLIENT_METRICS:
            raise ApiError(
                Errors.INVALID_REQUEST,
                "AlterConfigs is only supported for topics and brokers, but resource type is CLIENT_METRICS",
            )
        case other:
            raise ApiError(Errors.INVALID_REQUEST, f"Unknown resource type {other}")


async def _alter_topic(services: BrokerServices, alteration: Alteration, *, validate_only: bool) -> None:
    topic = alteration.resource_name
    if not topic:
        raise ApiError(Errors.INVALID_REQUEST, "Default topic resources are not allowed.")
    if not alteration.replaces:
        # Operations that a key does not allow are refused before the topic is looked up.
        altered({}, alteration.changes, TOPIC_TABLE)
    if topic not in services.metadata.snapshot.topics:
        raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    if not await services.zk().topics.exists(topic):
        raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")

    def apply(stored: Mapping[str, str]) -> Mapping[str, str]:
        config = altered({} if alteration.replaces else stored, alteration.changes, TOPIC_TABLE)
        return validate_topic_config(config.items(), topic_defaults(services.config))

    await _change(services, "topics", topic, apply, validate_only=validate_only)


async def _alter_broker(services: BrokerServices, alteration: Alteration, *, validate_only: bool) -> None:
    """Alter the config of this broker, or with an empty name the dynamic default of all brokers (CF-6)."""
    per_broker = bool(alteration.resource_name)
    if per_broker:
        require_own_id(services, alteration.resource_name, "Node", "Unexpected broker id, expected {}, but received {}")
    if not validate_only:
        _refuse_passwords(alteration.changes)

    def apply(stored: Mapping[str, str]) -> Mapping[str, str]:
        # Encoded passwords that a broker of Kafka has stored stay as they are.
        known = usable(stored, per_broker=per_broker) | {name: stored[name] for name in stored if is_password(name)}
        config = altered(
            {} if alteration.replaces else known, alteration.changes, {**BROKER_KEYS, **REPLICATION_QUOTAS}
        )
        try:
            services.dynamic.validate(config, per_broker=per_broker)
        except ConfigError as error:
            raise ApiError(Errors.INVALID_REQUEST, str(error)) from error
        return config

    entity = str(services.broker_id) if per_broker else DEFAULT_ENTITY
    await _change(services, "brokers", entity, apply, validate_only=validate_only)


def _alter_loggers(services: BrokerServices, alteration: Alteration, *, validate_only: bool) -> None:
    """Set or delete levels of loggers (KIP-412)."""
    require_own_id(services, alteration.resource_name, "Node", "Unexpected node id. Expected {}, but received {}")
    services.loggers.check(alteration.changes)
    if not validate_only:
        services.loggers.apply(alteration.changes)
        log.warning("updated log levels", changes=tuple((change.name, change.value) for change in alteration.changes))


async def _change(
    services: BrokerServices,
    entity_type: str,
    entity: str,
    apply: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
) -> None:
    """Write the result of `apply` on the stored config, then notify every broker (CF-1).

    Raises:
        ApiError: UNKNOWN_SERVER_ERROR after `MAX_CONFLICTS` conflicts.
    """
    for _ in range(MAX_CONFLICTS):
        configs = services.zk().configs
        stored, version = await configs.read(entity_type, entity)
        config = apply(stored)
        if validate_only:
            return
        if await configs.write(entity_type, entity, config, version):
            log.info("updated config", entity_path=f"{entity_type}/{entity}", keys=tuple(sorted(config)))
            await configs.announce(f"{entity_type}/{entity}")
            return
    raise ApiError(
        Errors.UNKNOWN_SERVER_ERROR,
        f"the config of {entity_type}/{entity} was changed by others {MAX_CONFLICTS} times in the meantime; try again",
    )


def require_own_id(services: BrokerServices, name: str, kind: str, unexpected: str) -> None:
    """Check that `name` is the id of this broker: it handles no other broker's resources.

    Args:
        kind: `Broker` or `Node`, as in Kafka's message.
        unexpected: the message for another id, with placeholders for the expected and the received one.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    number = java_int(name)
    if number is None:
        raise ApiError(Errors.INVALID_REQUEST, f"{kind} id must be an integer, but it is: {name}")
    if number != services.broker_id:
        raise ApiError(Errors.INVALID_REQUEST, unexpected.format(services.broker_id, name))


def _refuse_passwords(changes: Iterable[RequestedConfig]) -> None:
    """Raise ConfigError if passwords are set: without listeners that need them, this broker has no encoder."""
    if any(is_password(change.name) and change.operation != AlterConfigOperation.DELETE for change in changes):
        raise ConfigError("Password encoder secret not configured")
