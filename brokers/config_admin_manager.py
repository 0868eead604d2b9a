"""Altering the config of topics and brokers, on whichever broker is asked (TC-1). Mirrors Kafka's `ConfigAdminManager`, and of
`ZkAdminManager` what concerns configs.

Each resource of a request stands for itself: it is checked, written, announced or refused without regard to its neighbours.
A change that is read, made and written while somebody else changes the same config is made again on top of theirs.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from brokers.config_operations import Change, altered, check_changes
from brokers.config_types import ConfigError, InvalidConfiguration
from brokers.services import BrokerServices
from brokers.topic_config import TOPIC_TABLE, validate_topic_config
from foundation.cluster.errors import ApiError, Errors
from foundation.zk.kafka_zk_client import ControllerMoved, SessionLost, ZooKeeperFailure
from foundation.zk.znodes import MalformedZNode

MAX_CONFLICTS = 20
"""Times a change is made again because somebody else was faster; then the client is told to try again itself."""


class ResourceType(IntEnum):
    """Mirrors `ConfigResource.Type`; the number goes over the wire."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16


class Alteration(NamedTuple):
    """What a request wants of one resource.

    Attributes:
        replaces: the changes, all of them SET, are the whole config (AlterConfigs); else they are made to what is stored.
    """

    resource_type: int
    resource_name: str
    changes: tuple[Change, ...]
    replaces: bool

    def __str__(self) -> str:
        return f"ConfigResource(type={ResourceType(self.resource_type).name}, name='{self.resource_name}')"


async def alter_configs(
    services: BrokerServices, alterations: Sequence[Alteration], *, validate_only: bool
) -> list[ApiError | None]:
    """For each alteration, in order, None or why it was refused."""
    times = Counter((alteration.resource_type, alteration.resource_name) for alteration in alterations)
    outcomes: list[ApiError | None] = []
    for alteration in alterations:
        await asyncio.sleep(0)  # what is refused waits for nothing by itself, and there may be many of it
        try:
            if times[alteration.resource_type, alteration.resource_name] > 1:
                raise ApiError(Errors.INVALID_REQUEST, "Each resource must appear at most once.")
            check_changes(alteration.changes)
            await _alter(services, alteration, validate_only=validate_only)
            outcomes.append(None)
        except ApiError as refusal:
            outcomes.append(refusal)
        except InvalidConfiguration as error:
            outcomes.append(ApiError(Errors.INVALID_CONFIG, str(error)))
        except ConfigError as error:
            outcomes.append(ApiError(Errors.INVALID_CONFIG, f"Invalid config value for resource {alteration}: {error}"))
        except ControllerMoved as moved:
            outcomes.append(ApiError(Errors.STALE_CONTROLLER_EPOCH, str(moved)))
        except (SessionLost, ZooKeeperFailure, MalformedZNode) as failure:
            outcomes.append(ApiError(Errors.UNKNOWN_SERVER_ERROR, str(failure)))
    return outcomes


async def _alter(services: BrokerServices, alteration: Alteration, *, validate_only: bool) -> None:
    match alteration.resource_type:
        case ResourceType.TOPIC:
            await _alter_topic(services, alteration, validate_only=validate_only)
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
    if topic not in services.metadata.snapshot.topics:
        raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    for _ in range(MAX_CONFLICTS):
        zk = services.zk()
        stored, version = await zk.configs.read("topics", topic)
        config = altered({} if alteration.replaces else stored, alteration.changes, TOPIC_TABLE)
        if not await zk.topic_exists(topic):
            raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist.")
        validate_topic_config(config.items())
        if validate_only:
            return
        if await zk.configs.write("topics", topic, config, version):
            await zk.configs.announce(f"topics/{topic}")
            return
    raise _too_many_conflicts(alteration)


def _too_many_conflicts(alteration: Alteration) -> ApiError:
    return ApiError(
        Errors.UNKNOWN_SERVER_ERROR,
        f"the config of {alteration} was changed {MAX_CONFLICTS} times by others while this change was made; try again",
    )
