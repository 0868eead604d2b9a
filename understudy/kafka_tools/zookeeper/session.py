"""The ZooKeeper session of a tool, and its errors as Kafka's tools print them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from understudy.foundation.eventlog.fences import Fences
from understudy.foundation.eventlog.log import EventLog
from understudy.foundation.zk.client import Notification, ZooKeeperClient, ZooKeeperUnreachable
from understudy.foundation.zk.kafka_zk_client import KafkaZkClient, SessionLost, ZooKeeperFailure
from understudy.foundation.zk.znodes import MalformedZNode
from understudy.kafka_tools.console import Surroundings
from understudy.kafka_tools.errors import ILLEGAL_ARGUMENT, OPERATION_FAILED, ToolError


class NotConnected(ToolError):
    """No session could be opened; Kafka's tools end with it before they do anything."""


class ZooKeeperSession(NamedTuple):
    """An open session: its client, and Kafka's reads and writes over it."""

    client: ZooKeeperClient
    zk: KafkaZkClient


@asynccontextmanager
async def zookeeper_session(surroundings: Surroundings, connect: str) -> AsyncIterator[ZooKeeperSession]:
    """Open a session for a block of code.

    Args:
        connect: `host:port,host:port/chroot`.

    Raises:
        NotConnected: no server answers in time, or `connect` is no address.
        ToolError: ZooKeeper refuses a request of the block, or does not answer it.
    """
    try:
        client = await surroundings.zookeeper(connect).connect(_ignore)
    except ValueError as error:
        raise NotConnected(ILLEGAL_ARGUMENT, str(error)) from None
    except ZooKeeperUnreachable:
        message = "Timed out waiting for connection while in state: CONNECTING"
        raise NotConnected("kafka.zookeeper.ZooKeeperClientTimeoutException", message) from None
    # The records of a tool are not kept.
    events = EventLog(run="", node="tool", incarnation=1, clock=surroundings.clock, write=len)
    try:
        yield ZooKeeperSession(client, KafkaZkClient(client, events=events, fences=Fences(events)))
    except (MalformedZNode, SessionLost, ZooKeeperFailure) as error:
        raise ToolError(OPERATION_FAILED, str(error)) from None
    finally:
        await client.close()


def _ignore(notification: Notification) -> None:
    """Ignore a notification: no watch is set, and the next request fails if the session has ended."""
