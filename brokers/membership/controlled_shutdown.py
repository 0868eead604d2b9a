"""Requests a controlled shutdown: the controller moves this broker's leaderships before it stops (CS-1 to CS-3).

The address of the controller comes from the metadata cache. The request uses a connection of its own, without a
handshake. The last broker of a cluster sends none: no other broker could lead, and there may be no controller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection

import structlog

from understudy.brokers.config.kafka_config import KafkaConfig
from understudy.brokers.membership.registration import Registration
from understudy.brokers.membership.session import BrokerSession
from understudy.brokers.metadata.metadata_cache import MetadataCache
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost, Network
from understudy.foundation.wire.request_channel import RequestChannel, RequestTimedOut
from understudy.foundation.zk.kafka_zk_client import SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode

log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kafka.server.KafkaServer")


async def move_leaderships_away(
    registration: Registration,
    session: BrokerSession,
    *,
    config: KafkaConfig,
    metadata: MetadataCache,
    network: Network,
) -> None:
    """Request a controlled shutdown of a registered broker, unless ZooKeeper cannot say which others there are."""
    broker_id = registration.broker.id

    async def others() -> tuple[BrokerId, ...]:
        # When ZooKeeper is silent for longer than this, the session has expired, and with it the leaderships.
        async with asyncio.timeout(config.zookeeper_session_timeout_ms / 1000):
            return tuple(broker for broker in await session.zk.brokers.all() if broker != broker_id)

    try:
        await controlled_shutdown(
            broker_id, registration.broker_epoch, config=config, metadata=metadata, network=network, others=others
        )
    except (SessionLost, ZooKeeperFailure, TimeoutError) as error:
        log.warning("skipping controlled shutdown: no answer from ZooKeeper", why=repr(error))
    except MalformedZNode as malformed:
        log.warning("skipping controlled shutdown: a registration cannot be read", why=str(malformed))


async def controlled_shutdown(
    broker_id: BrokerId,
    broker_epoch: int,
    *,
    config: KafkaConfig,
    metadata: MetadataCache,
    network: Network,
    others: Callable[[], Awaitable[Collection[BrokerId]]],
) -> bool:
    """Return whether the controller has moved everything it could, within `controlled.shutdown.max.retries` attempts.

    Args:
        others: reads the other registered brokers; called before every attempt.
    """
    request = ControlledShutdownRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    for attempt in range(1, config.controlled_shutdown_max_retries + 1):
        if not await others():
            log.info("skipping controlled shutdown: this is the last broker", broker=broker_id)
            return True
        why = await _attempt(request, config=config, metadata=metadata, network=network)
        if why is None:
            log.info("controlled shutdown request returned successfully", broker=broker_id)
            return True
        log.warning("controlled shutdown attempt failed", broker=broker_id, attempt=attempt, why=why)
        if attempt < config.controlled_shutdown_max_retries:
            await asyncio.sleep(config.controlled_shutdown_retry_backoff_ms / 1000)
    log.warning("proceeding to do an unclean shutdown as all the controlled shutdown attempts failed", broker=broker_id)
    return False


async def _attempt(
    request: ControlledShutdownRequest, *, config: KafkaConfig, metadata: MetadataCache, network: Network
) -> str | None:
    """Send the request once; return why it failed, None if it succeeded."""
    snapshot = metadata.snapshot
    if snapshot.controller_id is None:
        return "no controller is known"
    endpoint = snapshot.endpoint(snapshot.controller_id, config.inter_broker_listener)
    if endpoint is None:
        return f"controller {snapshot.controller_id} is not alive on listener {config.inter_broker_listener}"
    try:
        connection = await network.connect(endpoint.host, endpoint.port, timeout_ms=config.controller_socket_timeout_ms)
        channel = RequestChannel(connection, client_id=str(request.broker_id))
        version = config.metadata_version.controlled_shutdown_version
        response = await channel.request(request, version, timeout_ms=config.request_timeout_ms)
        channel.close()
    except (ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage) as error:
        return str(error)
    assert isinstance(response, ControlledShutdownResponse)
    if response.error_code != Errors.NONE:
        return f"controller {snapshot.controller_id} answered {error_name(response.error_code)}"
    if response.remaining_partitions:
        return f"{len(response.remaining_partitions)} partitions still have this broker as leader"
    return None
