"""Opens a `KafkaZkClient` with a session of its own, for a benchmark's changes by hand; its event log is discarded."""

from __future__ import annotations

from brokers.machine.real_world import MachineClock
from foundation.eventlog.fences import Fences
from foundation.eventlog.log import EventLog
from foundation.zk.client import ZooKeeperClient
from foundation.zk.kafka_zk_client import KafkaZkClient
from foundation.zk.kazoo_client import KazooZooKeeper


async def open_store(zookeeper: str) -> tuple[KafkaZkClient, ZooKeeperClient]:
    """The typed client and the ZooKeeper client under it. Closing the former closes both."""
    session = await KazooZooKeeper(zookeeper, session_timeout_ms=30_000).connect(lambda _: None)
    events = EventLog(run="", node="bench", incarnation=1, clock=MachineClock(), write=len)
    return KafkaZkClient(session, events=events, fences=Fences(events)), session
